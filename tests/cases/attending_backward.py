"""Gradients of attention of packed texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from cases.attending import (
    KEY,
    MASKS,
    heads_of,
    heads_of_operands,
    largest_score,
    offsets,
    product,
    score_error,
    texts,
)
from cases.bounds import IN_HALF, TINY, U, bounded, summed
from cases.reference import Attributes, Operands, evaluate, reference
from cases.table import OpCase, Values, shape_name


def gradients(operands: Operands, attributes: Attributes, magnitudes: bool) -> tuple[np.ndarray, ...]:
    """Those of queries, keys and values; or sums of the magnitudes of their terms."""
    g, y, *rest = operands
    heads, groups, width = attributes["heads"], attributes["kv_heads"], attributes["head_dim"]
    q, k, v = heads_of_operands(rest, attributes)
    g, y = heads_of(g, 0, heads, width), heads_of(y, 0, heads, width)
    d = (g * y).sum(axis=-1)
    found = texts(rest, attributes)
    if magnitudes:
        g, q, k, v, d = np.abs(g), np.abs(q), np.abs(k), np.abs(v), -(np.abs(g) * np.abs(y)).sum(axis=-1)
    by_q, by_k, by_v = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    scale = abs(attributes["scale"]) if magnitudes else attributes["scale"]
    for text in found:
        rows, keys, keep = text.rows, text.keys, text.keep
        for head, weights in enumerate(text.weights):
            # Where one weight of a query is NaN all are, but for those of hidden keys.
            weights = np.where(keep, weights, 0.0)
            left = text.left[head]
            slopes = (g[head, rows] @ v[head, keys].T * left - d[head, rows, None]) * text.slant[head]
            slopes = np.where(keep, weights * slopes, 0.0)
            by_q[head, rows] = scale * product(slopes, keep, k[head, keys])
            by_k[head, keys] += scale * product(slopes.T, keep.T, q[head, rows])
            by_v[head, keys] += product((weights * left).T, keep.T, g[head, rows])
    results = tuple(np.zeros(x.shape) for x in rest[:3])
    for name, result, gradient, own in zip("qkv", results, (by_q, by_k, by_v), (heads, groups, groups)):
        first = attributes.get(f"{name}_column", 0)
        whole = gradient.reshape(own, heads // own, len(result), width).sum(axis=1).transpose(1, 0, 2)
        result[:, first : first + own * width] = whole.reshape(len(result), own * width)
    # Of one tensor the gradients are one, whose parts are the others.
    return (sum(results),) if attributes.get("packed") else results


@reference
def attention_backward(operands: Operands, attributes: Attributes) -> np.ndarray | tuple[np.ndarray, ...]:
    results = gradients(operands, attributes, magnitudes=False)
    return results[0] if attributes.get("packed") else results


@bounded
def attention_backward_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    """As of attention. The logarithm of the sum of the weights, by which GPUs divide, is rounded as often as a score.

    The gradient of a weight and d have a product per column of the head; the soft cap's derivative has units of its
    own.
    """
    own, found = operands[2:], gradients(operands, attributes | {"packed": False}, magnitudes=True)
    most = max(int(np.diff(bounds).max(initial=0)) for bounds in operands[5:7])
    terms = most * attributes.get("shared_by", 1) * attributes["heads"] // attributes["kv_heads"] + 8
    of_score = score_error(own, attributes)
    error = np.expm1(2 * of_score + 2 * U * 4 * (min(largest_score(own, attributes), 100) + np.log(most + 1)))
    slope = error + summed(attributes["head_dim"] + 8, 1.0)
    if cap := attributes.get("soft_cap", 0):
        slope += 2 * of_score / cap + 16 * U
    bounds = [each * of + summed(terms, each) + TINY for each, of in zip(found, (slope, slope, error), strict=True)]
    return sum(bounds) if attributes.get("packed") else tuple(bounds)


def half_weights(operands: Operands, attributes: Attributes) -> Any:
    """What weights, and gradients of scores, lose as float16: half a unit each, and what is below its smallest step.

    Those of a query are multiples of its largest weight, which is at most 1.
    """
    g, _, q, k, v, *bounds = operands
    found = gradients(operands, attributes | {"packed": False}, magnitudes=True)
    terms = max(int(np.diff(of).max(initial=0)) for of in bounds[:2]) * attributes["heads"] // attributes["kv_heads"]
    scale, most = abs(attributes["scale"]), [np.abs(x[np.isfinite(x)]).max(initial=0) for x in (k, q, g)]
    steps = (scale * most[0], scale * most[1], most[2])
    losses = [2.0**-11 * each + 2.0**-25 * terms * step for each, step in zip(found, steps, strict=True)]
    return sum(losses) if attributes.get("packed") else tuple(losses)


IN_HALF["attention_backward"] = half_weights


def with_result(v: Values, operands: Operands, attributes: Attributes) -> Operands:
    """Gradient and result of attention, before its operands."""
    y = evaluate("attention", operands, attributes)
    return [v.plain(*y.shape), y.astype(operands[0].dtype), *operands]


def case(name: str, given: Attributes, make: Any, dtype: str = "float32") -> OpCase:
    return OpCase("attention_backward", name, lambda v: with_result(v, make(v), given), given, dtype)


#: Around the tile of 64 rows, with a text of none.
LENGTHS = ((1,), (5, 1, 7), (31, 32, 33), (63, 0, 65), (129, 2), (0,), (64, 200))


def cases() -> list[OpCase]:
    found = differences() + hidden()
    sizes = {"heads": 4, "kv_heads": 2, "head_dim": 40, "scale": 40**-0.5}
    for lengths in LENGTHS:
        for causal in (False, True):
            bounds = offsets(*lengths)
            label = f"{'causal-' if causal else ''}{shape_name(*lengths)}"

            def apart(v, t=bounds[-1], bounds=bounds):
                return [v.plain(t, 160), v.plain(t, 80), v.plain(t, 80), bounds, bounds]

            def packed(v, t=bounds[-1], bounds=bounds):
                x = v.plain(t, 320)
                return [x, x, x, bounds, bounds]

            found.append(case(label, {**sizes, "causal": causal}, apart))
            columns = {"q_column": 80, "k_column": 240, "v_column": 0, "packed": True}
            found.append(case(f"packed-{label}", {**sizes, "causal": causal, **columns}, packed))
    one = {"heads": 2, "kv_heads": 2, "head_dim": 40, "scale": 0.2}

    def spread(v: Values) -> Operands:
        x = v.plain(9, 33)
        return [x, x, x, offsets(3, 6), offsets(3, 6)]

    def cross(v: Values) -> Operands:
        return [v.plain(10, 80), v.plain(145, 80), v.plain(145, 80), offsets(3, 7), offsets(133, 12)]

    def none(v: Values) -> Operands:
        return [v.plain(5, 80), v.plain(4, 80), v.plain(4, 80), offsets(3, 2), offsets(0, 4)]

    def outliers(v: Values) -> Operands:
        return [v.outliers(9, 80), v.plain(9, 80), v.plain(9, 80), offsets(9), offsets(9)]

    def plain(v: Values) -> Operands:
        return [v.plain(9, 80), v.plain(9, 80), v.plain(9, 80), offsets(4, 5), offsets(4, 5)]

    return found + [
        case("one-tensor", {**one, "head_dim": 5, "q_column": 1, "k_column": 12, "v_column": 22}, spread),
        case("cross", one, cross),
        case("no-keys", one, none),
        case("outliers", one, outliers),
        case("half", one, plain, "float16"),
        *halves(),
    ]


def halves() -> list[OpCase]:
    """Of heads that matrix cores take: texts of no rows, of several tiles, of parts of blocks; keys not finite."""
    bounds = offsets(63, 0, 97, 5)
    shape = {"heads": 2, "kv_heads": 1, "head_dim": 32, "scale": 0.2, "causal": True}

    def apart(v: Values, make: Any = Values.plain) -> Operands:
        return [v.plain(165, 64), make(v, 165, 32), make(v, 165, 32), bounds, bounds]

    def packed(v: Values) -> Operands:
        x = v.plain(165, 128)
        return [x, x, x, bounds, bounds]

    columns = {"causal": False, "q_column": 32, "k_column": 96, "v_column": 0, "packed": True}
    return [
        case("half-causal", shape, apart, "float16"),
        case("half-packed", {**shape, **columns}, packed, "float16"),
        case("half-not-finite", shape, lambda v: apart(v, wild), "float16"),
    ]


def wild(v: Values, rows: int, columns: int) -> np.ndarray:
    """Numbers that are not finite in the middle of texts: keys that some queries see, others that none does."""
    x = v.plain(rows, columns)
    x[[34, 101, 3 * rows // 4], [0, 7, 9]] = np.inf, np.nan, -np.inf
    return x


def hidden() -> list[OpCase]:
    """Texts of as many keys as queries, of more, of fewer and of none, with keys that are not finite."""
    found = []
    bounds = offsets(5, 200, 65, 0)
    for name, mask in MASKS.items():
        if "distances" in mask:
            continue
        given = {"heads": 2, "kv_heads": 1, "head_dim": 40, "scale": 0.2, **mask}
        keys = offsets(130, 40) if "shared_by" in mask else offsets(5, 66, 200, 7)

        def operands(v, make, keys=keys, mask=mask):
            found = [v.plain(bounds[-1], 80), make(v, keys[-1], 40), make(v, keys[-1], 40), bounds, keys]
            found += [KEY] if "dropout" in mask else []
            return found + ([v.plain(4, 41).astype(np.float32)] if mask.get("bias") else [])

        found.append(case(f"hidden-{name}", given, lambda v, of=operands: of(v, Values.plain)))
        found.append(case(f"hidden-not-finite-{name}", given, lambda v, of=operands: of(v, wild)))
    return found


def differences() -> list[OpCase]:
    """Rows of attention, and of its gradients, that are small enough for differences."""
    found = []
    bounds = offsets(5, 0, 7)
    for name, mask in {"plain": {}, "causal": {"causal": True}, **MASKS}.items():
        if "distances" in mask or "shared_by" in mask:
            continue
        given = {"heads": 4, "kv_heads": 2, "head_dim": 5, "scale": 0.4, **mask}
        keys = offsets(6, 1, 5)

        def operands(v, keys=keys, mask=mask):
            found = [v.plain(12, 20), v.plain(12, 10), v.plain(12, 10), bounds, keys]
            found += [KEY] if "dropout" in mask else []
            return found + ([v.plain(4, 5)] if mask.get("bias") else [])

        found.append(OpCase("attention", f"small-{name}", operands, given))
        found.append(case(f"small-{name}", given, operands))
    return found
