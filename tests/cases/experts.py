"""Mixtures of experts: routing, products by the experts of rows, and the sums of their results."""

from __future__ import annotations

import numpy as np

from cases.activations import of_activation
from cases.bounds import TINY, U, bounded, summed
from cases.functions import activate
from cases.reference import Attributes, Operands, evaluate, reference
from cases.table import OpCase, Values, shape_name


def places_of(chosen: np.ndarray, experts: int) -> list[np.ndarray]:
    """The places of `chosen`, sorted stably by expert, and where those of each expert start."""
    flat = chosen.reshape(-1)
    order = np.argsort(flat, kind="stable")
    starts = np.searchsorted(flat[order], np.arange(experts + 1))
    return [order.reshape(chosen.shape).astype(np.int32), starts.astype(np.int32)]


@reference
def route(operands: Operands, attributes: Attributes) -> tuple[np.ndarray, ...]:
    (scores,) = operands
    places, experts = np.arange(scores.shape[1]), scores.shape[1]
    missing = np.isnan(scores)
    # NaN first, then by score, then by number.
    ranked = np.lexsort((np.broadcast_to(places, scores.shape), -np.where(missing, 0, scores), ~missing))
    chosen = ranked[:, : attributes["top_k"]]
    powers = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    own = np.take_along_axis(powers, chosen, axis=1)
    whole = own if attributes.get("normalized", False) else powers
    return own / whole.sum(axis=1, keepdims=True), *places_of(chosen, experts)


@reference
def expert_linear(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, weight, order, starts, *bias = operands
    x = np.broadcast_to(x[:, None], (*order.shape, x.shape[1])) if x.ndim == 2 else x
    rows = x.reshape(order.size, x.shape[2])
    y = np.zeros((order.size, weight.shape[1]))
    for expert, (first, end) in enumerate(zip(starts[:-1], starts[1:])):
        own = order.reshape(-1)[first:end]
        y[own] = rows[own] @ weight[expert].T + (bias[0][expert] if bias else 0)
    kind = attributes.get("activation")
    return (activate(y, kind) if kind else y).reshape(*order.shape, weight.shape[1])


@reference
def weighted_sum(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, weight, *bias = operands
    return (x * weight[..., None]).sum(axis=1) + (bias[0] if bias else 0)


@bounded
def route_bound(operands: Operands, attributes: Attributes, y: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """As of softmax; what is chosen is exact."""
    most = -np.log(np.maximum(y[0], 1e-45))
    weights = y[0] * (2 * U * (5 + 3 * most) + summed(operands[0].shape[1], np.ones(1))) + TINY
    return weights, np.zeros_like(y[1]), np.zeros_like(y[2])


@bounded
def expert_linear_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    x, weight, order, starts, *bias = operands
    plain = {**attributes, "activation": None}
    magnitudes = [np.abs(x), np.abs(weight), order, starts, *(np.abs(value) for value in bias)]
    bound = summed(x.shape[-1], evaluate("expert_linear", magnitudes, plain))
    kind = attributes.get("activation")
    if kind:
        before = evaluate("expert_linear", operands, plain)
        bound = 1.2 * bound + of_activation(before, activate(before, kind), kind)
    return bound + TINY


@bounded
def weighted_sum_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    x, weight, *bias = operands
    magnitude = evaluate("weighted_sum", [np.abs(x), np.abs(weight), *(np.abs(value) for value in bias)], attributes)
    return summed(x.shape[1] + 1, magnitude) + TINY


def routed(v: Values, rows: int, top_k: int, experts: int) -> list[np.ndarray]:
    """Places of random experts, of which the last has none unless all are chosen."""
    some = max(top_k, experts - 1)
    return places_of(np.argsort(v.rng.random((rows, some)), axis=1)[:, :top_k], experts)


# Rows, experts of a row, experts, columns of the result, terms.
SIZES = (
    (1, 1, 1, 1, 1),
    (3, 2, 5, 33, 31),
    (65, 2, 3, 31, 65),
    (129, 3, 4, 129, 33),
    (300, 1, 7, 17, 16),
    (40, 4, 4, 64, 64),
    (0, 2, 4, 5, 7),
    (5, 2, 4, 0, 7),
    (5, 2, 4, 7, 0),
)
#: Of float16, on matrix cores around their tiles.
MATRIX_SIZES = (
    (65, 2, 8, 40, 16), (193, 2, 4, 136, 48), (600, 2, 5, 64, 192),
    (9, 2, 4, 1001, 34), (65, 2, 4, 34, 1002), (5, 1, 3, 12, 312),
)  # fmt: skip


def products(v: Values, sizes: tuple[int, ...], shared: bool) -> list[np.ndarray]:
    rows, top_k, experts, n, k = sizes
    x = v.plain(rows, k) if shared else v.plain(rows, top_k, k)
    return [x, v.plain(experts, n, k), *routed(v, rows, top_k, experts), v.plain(experts, n)]


def cases() -> list[OpCase]:
    found = []
    for rows, top_k, experts in (
        (1, 1, 1),
        (3, 2, 5),
        (255, 2, 8),
        (257, 3, 7),
        (700, 2, 64),
        (1300, 8, 129),
        (40, 6, 6),
        (0, 2, 4),
    ):
        name = shape_name(rows, top_k, experts)
        scores = lambda v, r=rows, e=experts: [3 * v.plain(r, e)]  # noqa: E731
        found.append(OpCase("route", name, scores, {"top_k": top_k}))
        found.append(OpCase("route", f"normalized-{name}", scores, {"top_k": top_k, "normalized": True}))
    tied = lambda v: [np.round(v.plain(300, 8))]  # noqa: E731
    found += [
        OpCase("route", "ties", tied, {"top_k": 3}),
        OpCase("route", "not-finite", lambda v: [v.not_finite(9, 12)], {"top_k": 2}),
        OpCase("route", "half", lambda v: [v.plain(65, 8)], {"top_k": 2}, "float16"),
        OpCase("route", "half-odd", lambda v: [v.plain(65, 7)], {"top_k": 2}, "float16"),
        OpCase("route", "half-ties", tied, {"top_k": 3}, "float16"),
    ]
    for sizes in SIZES:
        name = shape_name(*sizes)
        for shared in (True, False):
            form = "" if shared else "apart-"
            make = lambda v, s=sizes, w=shared: products(v, s, w)[:4]  # noqa: E731
            found.append(OpCase("expert_linear", f"{form}{name}", make))
        make = lambda v, s=sizes: products(v, s, True)  # noqa: E731
        found.append(OpCase("expert_linear", f"bias-{name}", make, {"bias": True, "activation": "gelu_erf"}))
    for sizes in MATRIX_SIZES:
        name = shape_name(*sizes)
        for shared in (True, False):
            form = "half" if shared else "half-apart"
            make = lambda v, s=sizes, w=shared: products(v, s, w)[:4]  # noqa: E731
            found.append(OpCase("expert_linear", f"{form}-{name}", make, dtype="float16"))
        make = lambda v, s=sizes: products(v, s, False)  # noqa: E731
        given = {"bias": True, "activation": "gelu_erf"}
        found.append(OpCase("expert_linear", f"half-bias-{name}", make, given, "float16"))
    found += [
        OpCase("expert_linear", "half", lambda v: products(v, (33, 2, 4, 31, 65), True)[:4], dtype="float16"),
        OpCase(
            "expert_linear", "outliers", lambda v: [v.outliers(33, 129), *products(v, (33, 2, 4, 65, 129), True)[1:4]]
        ),
        OpCase(
            "expert_linear", "not-finite", lambda v: [v.not_finite(9, 33), *products(v, (9, 2, 4, 7, 33), True)[1:4]]
        ),
    ]
    for rows, each, columns in ((1, 1, 1), (33, 2, 65), (65, 3, 64), (3, 8, 1025), (257, 2, 31), (0, 2, 5), (5, 2, 0)):
        name = shape_name(rows, each, columns)
        summands = lambda v, r=rows, e=each, c=columns: [v.plain(r, e, c), v.plain(r, e), v.plain(c)]  # noqa: E731
        found.append(OpCase("weighted_sum", name, lambda v, of=summands: of(v)[:2]))
        found.append(OpCase("weighted_sum", f"bias-{name}", summands, {"bias": True}))
    half = lambda v: [v.plain(9, 2, 1000), v.plain(9, 2), v.plain(1000)]  # noqa: E731
    return found + [
        OpCase("weighted_sum", "half", half, {"bias": True}, "float16"),
        OpCase("weighted_sum", "half-odd", lambda v: [v.plain(9, 2, 33), v.plain(9, 2)], dtype="float16"),
        OpCase("weighted_sum", "not-finite", lambda v: [v.not_finite(9, 2, 33), v.plain(9, 2)]),
    ]
