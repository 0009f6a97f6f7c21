"""Fused products, as in fused.py."""

from __future__ import annotations

import numpy as np

from cases.activations import of_activation
from cases.bounds import IN_HALF, TINY, U, bounded, summed
from cases.functions import activate
from cases.fused import normed
from cases.products import MATRIX_SIZES, MATRIX_WIDTHS, SIZES
from cases.reference import Attributes, Operands, reference
from cases.rows import layer_norm_bound
from cases.table import OpCase, Values, shape_name


@reference
def gated_linear(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, gate, up = operands
    return activate(x @ gate.T, attributes["kind"]) * (x @ up.T)


@reference
def layer_norm_linear(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, norm_weight, norm_bias, weight, *bias = operands
    y = normed(x, norm_weight, norm_bias, attributes) @ weight.T
    return activate(y + bias[0] if bias else y, attributes.get("activation") or "identity")


@bounded
def gated_linear_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """Both factors are off as products are, the gates also as their nonlinearity, whose slope is at most 1.2."""
    x, gate, up = operands
    terms, kind = x.shape[-1], attributes["kind"]
    off_gate = 1.2 * summed(terms, np.abs(x) @ np.abs(gate).T)
    off_up = summed(terms, np.abs(x) @ np.abs(up).T)
    before, other = x @ gate.T, x @ up.T
    opened = activate(before, kind)
    off_gate = off_gate + of_activation(before, opened, kind)
    return np.abs(other) * off_gate + np.abs(opened) * off_up + off_gate * off_up + 2 * U * np.abs(y) + TINY


@bounded
def layer_norm_linear_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """Every term is off as the norm is, the sums as a product's are; the nonlinearity's slope is at most 1.2."""
    x, norm_weight, norm_bias, weight, *bias = operands
    normal = normed(x, norm_weight, norm_bias, attributes)
    off, size = layer_norm_bound([x, norm_weight, norm_bias], attributes, normal), np.abs(weight).T
    terms = summed(x.shape[-1], (np.abs(normal) + off) @ size + (np.abs(bias[0]) if bias else 0.0))
    before = normal @ weight.T + (bias[0] if bias else 0.0)
    of_kind = of_activation(before, y, attributes.get("activation") or "identity")
    return 1.2 * (off @ size + terms) + of_kind + TINY


def folded_norm(operands: Operands, attributes: Attributes) -> np.ndarray:
    """What `layer_norm_linear` in 16 bits may lose more: it multiplies by g w and takes the mean off afterwards.

    g and g w may be rounded to float16, half a unit each, or half its smallest step; their sum is over the same rounded
    numbers, so that what is multiplied by their errors is x without its mean. Sums in float32 are of x with its mean.
    """
    x, g, _, weight, *_ = operands
    n = max(x.shape[-1], 1)
    mean = x.sum(axis=-1, keepdims=True) / n
    scale = 1 / np.sqrt(np.square(x - mean).sum(axis=-1, keepdims=True) / n + attributes.get("eps", 1e-5))
    product, size = np.abs(g * weight).T, np.abs(weight).T
    of_rounding = scale * (np.abs(x - mean) @ (2.0**-10.9 * product + 2.0**-25 * (1 + size)))
    return 1.2 * (of_rounding + 2 * scale * summed(n, (np.abs(x) + np.abs(mean)) @ product))


IN_HALF["layer_norm_linear"] = folded_norm


def cases() -> list[OpCase]:
    return gates() + products()


def gates() -> list[OpCase]:
    found = []
    for kind in ("silu", "gelu_tanh"):
        given = {"kind": kind}
        for m, n, k in SIZES:
            found.append(
                OpCase(
                    "gated_linear",
                    f"{kind}-{shape_name(m, n, k)}",
                    lambda v, m=m, n=n, k=k: [v.plain(m, k), v.plain(n, k) / 8, v.plain(n, k)],
                    given,
                )
            )
        for m, n, k in MATRIX_SIZES + MATRIX_WIDTHS:
            operands = lambda v, m=m, n=n, k=k: [v.plain(m, k), v.plain(n, k) / 8, v.plain(n, k)]  # noqa: E731
            found.append(OpCase("gated_linear", f"{kind}-half-{shape_name(m, n, k)}", operands, given, "float16"))
        found += [
            OpCase("gated_linear", f"{kind}-vector", lambda v: [v.plain(65), v.plain(33, 65), v.plain(33, 65)], given),
            OpCase(
                "gated_linear", f"{kind}-axes", lambda v: [v.plain(2, 3, 64), v.plain(70, 64), v.plain(70, 64)], given
            ),
            OpCase(
                "gated_linear",
                f"{kind}-outliers",
                lambda v: [v.outliers(33, 129), v.plain(65, 129), v.plain(65, 129)],
                given,
            ),
            OpCase("gated_linear", f"{kind}-not-finite", lambda v: [v.not_finite(5, 33), *twice(v, 7, 33)], given),
            OpCase("gated_linear", f"{kind}-half", lambda v: [v.plain(33, 64), *twice(v, 68, 64)], given, "float16"),
            OpCase(
                "gated_linear", f"{kind}-half-odd", lambda v: [v.plain(33, 65), *twice(v, 31, 65)], given, "float16"
            ),
            OpCase(
                "gated_linear",
                f"{kind}-half-odd-result",
                lambda v: [v.plain(33, 64), *twice(v, 31, 64)],
                given,
                "float16",
            ),
        ]
    return found


def products() -> list[OpCase]:
    op, biased = "layer_norm_linear", {"bias": True}

    def operands(v: Values, x: np.ndarray, n: int, bias: bool = True) -> list[np.ndarray]:
        k = x.shape[-1]
        return [x, v.plain(k), v.plain(k), v.plain(n, k), *([v.plain(n)] if bias else [])]

    found = []
    for m, n, k in SIZES:
        name = shape_name(m, n, k)
        found += [
            OpCase(op, name, lambda v, m=m, n=n, k=k: operands(v, v.plain(m, k), n, bias=False)),
            OpCase(op, f"bias-{name}", lambda v, m=m, n=n, k=k: operands(v, v.plain(m, k), n), biased),
        ]
    for m, n, k in MATRIX_SIZES + MATRIX_WIDTHS:
        of = lambda v, m=m, n=n, k=k: operands(v, v.plain(m, k), n)  # noqa: E731
        found.append(OpCase(op, f"half-{shape_name(m, n, k)}", of, biased, "float16"))
    for kind in ("identity", "gelu_erf", "gelu_tanh", "relu", "silu", "tanh", "sigmoid", "quick_gelu"):
        found.append(OpCase(op, kind, lambda v: operands(v, v.plain(33, 65), 63), {**biased, "activation": kind}))
    return found + [
        OpCase(op, "vector", lambda v: operands(v, v.plain(65), 33), biased),
        OpCase(op, "axes", lambda v: operands(v, v.plain(2, 3, 64), 70), biased),
        OpCase(op, "long", lambda v: operands(v, v.plain(2, 9001), 5), biased),
        OpCase(op, "many-rows", lambda v: operands(v, v.plain(259, 12), 3), biased),
        OpCase(op, "outliers", lambda v: operands(v, v.outliers(33, 129), 65), biased),
        OpCase(op, "not-finite", lambda v: operands(v, v.not_finite(5, 33), 7), biased),
        OpCase(op, "far-from-0", lambda v: operands(v, v.plain(3, 129) + 100, 17), biased),
        OpCase(op, "eps", lambda v: operands(v, v.plain(2, 33), 9), {**biased, "eps": 0.5}),
        OpCase(op, "half", lambda v: operands(v, v.plain(33, 64), 68), biased, "float16"),
        OpCase(op, "half-long", lambda v: operands(v, v.plain(3, 9000), 8), biased, "float16"),
        OpCase(op, "half-tiles", lambda v: operands(v, v.plain(193, 1056), 136), biased, "float16"),
        OpCase(op, "half-far-from-0", lambda v: operands(v, v.plain(65, 128) + 20, 72), biased, "float16"),
        OpCase(op, "half-outliers", lambda v: operands(v, v.outliers(65, 128), 72, bias=False), {}, "float16"),
        OpCase(op, "half-not-finite", lambda v: operands(v, v.not_finite(5, 64), 8), biased, "float16"),
        OpCase(
            op,
            "half-gelu",
            lambda v: operands(v, v.plain(70, 96), 72),
            {**biased, "activation": "gelu_erf", "eps": 0.5},
            "float16",
        ),
        OpCase(op, "half-odd", lambda v: operands(v, v.plain(33, 65), 31), biased, "float16"),
        OpCase(op, "half-odd-result", lambda v: operands(v, v.plain(33, 64), 31), biased, "float16"),
    ]


def twice(v: Values, *shape: int) -> list[np.ndarray]:
    return [v.plain(*shape), v.plain(*shape)]
