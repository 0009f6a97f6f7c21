"""Activations and gated halves."""

from __future__ import annotations

import numpy as np

from cases.bounds import TINY, U, bounded
from cases.functions import activate, slope
from cases.reference import Attributes, Operands, reference
from cases.table import HALF_WIDTHS, OpCase, shape_name


@reference
def activation(operands: Operands, attributes: Attributes) -> np.ndarray:
    return activate(operands[0], *kinds(attributes))


@reference
def activation_backward(operands: Operands, attributes: Attributes) -> np.ndarray:
    g, x = operands
    return g * slope(x, *kinds(attributes))


@reference
def gated(operands: Operands, attributes: Attributes) -> np.ndarray:
    first, second = np.split(operands[0], 2, axis=-1)
    return first * activate(second, *kinds(attributes))


@reference
def gated_backward(operands: Operands, attributes: Attributes) -> np.ndarray:
    g, x = operands
    first, second = np.split(x, 2, axis=-1)
    of_first, of_second = activate(second, *kinds(attributes)), first * slope(second, *kinds(attributes))
    return np.concatenate([g * of_first, g * of_second], axis=-1)


def kinds(attributes: Attributes) -> tuple[str, float, float]:
    """An activation's kind and its two numbers."""
    return attributes["kind"], attributes.get("a", 1.0), attributes.get("b", 1.0)


def of_activation(x: np.ndarray, y: np.ndarray, kind: str, a: float = 1.0, b: float = 1.0) -> np.ndarray:
    size = np.minimum(np.abs(x), 1e6)
    if kind in ("identity", "relu"):
        return np.zeros_like(y)
    if kind in ("leaky_relu", "sqrt"):
        return 6 * U * np.abs(y) + TINY
    if kind == "exp":  # Vulkan allows 3 + 2 |x| units
        return 2 * U * (4 + 2 * size) * np.abs(y) + TINY
    if kind == "log":  # and 2^-21 absolute between 0.5 and 2, else 3 units
        return 6 * U * np.abs(y) + np.where((x >= 0.5) & (x <= 2), 2.0**-21, 0)
    if kind == "softplus":
        return 8 * U * np.abs(y) + 2.0**-21
    if kind == "gcu":  # the reduction of x modulo pi is off by a few units of x, and the result by x times that
        return 8 * U * (size + size**2)
    if kind == "roswish":
        return 8 * U * ((size + abs(a)) * (1 + 0.3 * np.minimum(np.abs(b) * size, 4)) + abs(a))
    # The factor that x is multiplied with is near 1 + f, f in -1 .. 1: a few units of 1 times x.
    return 6 * U * np.clip(size, 1e-3, None) + 6 * U * np.abs(y)


def of_slope(x: np.ndarray, kind: str, a: float = 1.0, b: float = 1.0) -> np.ndarray:
    """Slopes are sums of at most three parts of size 1, |b (x + a)| / 4 or, for gcu, |x|; exp as above."""
    size = np.minimum(np.abs(x), 1e6)
    if kind in ("identity", "relu", "leaky_relu"):
        return 2 * U * np.abs(slope(x, kind, a, b))
    if kind in ("exp", "sqrt", "log"):
        return 2 * U * (4 + 2 * np.minimum(size, 100)) * np.abs(slope(x, kind)) + TINY
    if kind == "gcu":
        return 16 * U * (1 + size + size**2)
    if kind == "roswish":
        return 16 * U * (1 + abs(b) * (np.minimum(size, 30) + abs(a)))
    return 16 * U * (1 + np.minimum(size, 30))


@bounded
def activation_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    return of_activation(operands[0], y, *kinds(attributes))


@bounded
def activation_backward_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    g, x = operands
    return np.abs(g) * of_slope(x, *kinds(attributes)) + 2 * U * np.abs(y) + TINY


@bounded
def gated_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    first, second = np.split(operands[0], 2, axis=-1)
    kind, a, b = kinds(attributes)
    return np.abs(first) * of_activation(second, activate(second, kind, a, b), kind, a, b) + 2 * U * np.abs(y) + TINY


@bounded
def gated_backward_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    g, x = operands
    first, second = np.split(x, 2, axis=-1)
    kind, a, b = kinds(attributes)
    left = np.abs(g) * of_activation(second, activate(second, kind, a, b), kind, a, b)
    right = np.abs(g * first) * of_slope(second, kind, a, b)
    return np.concatenate([left, right], axis=-1) + 4 * U * np.abs(y) + TINY


KINDS = (
    "identity",
    "gelu_erf",
    "gelu_tanh",
    "relu",
    "silu",
    "tanh",
    "sigmoid",
    "quick_gelu",
    "softplus",
    "gcu",
    "leaky_relu",
    "roswish",
    "sqrt",
    "exp",
    "log",
)
EXTRA = {"leaky_relu": {"a": 0.01}, "roswish": {"a": 0.7, "b": 1.3}}
SPECIAL = np.array([0.0, -0.0, 1e-30, -1e-30, 0.5, 1, -1, 9, -9, 20, -20, 60, -60, np.inf, -np.inf, np.nan], np.float32)
GATES = ("silu", "gelu_erf", "gelu_tanh", "sigmoid", "relu")


def domain(kind: str, x: np.ndarray) -> np.ndarray:
    """Where the function is defined and float32 can hold it."""
    return np.abs(x) + x.dtype.type(0.01) if kind in ("sqrt", "log") else x


def special(kind: str, dtype: str = "float32") -> np.ndarray:
    if kind == "log":
        return np.array([0.0, 0.5, 1, 2, 1e-30, np.finfo(dtype).max, np.inf, np.nan, -1], dtype)
    if kind == "sqrt":
        return np.array([0.0, 1e-30, 4, np.inf, np.nan, -1], dtype)
    return (SPECIAL[np.abs(SPECIAL) < np.inf] if kind in ("gcu", "roswish") else SPECIAL).astype(dtype)


def cases() -> list[OpCase]:
    found = []
    for kind in KINDS:
        given = {"kind": kind, **EXTRA.get(kind, {})}
        for shape in ((0,), (1,), (255,), (257,), (3, 1023), (2, 3, 5, 7), (5, 0, 3)):
            found.append(
                OpCase(
                    "activation",
                    f"{kind}-{shape_name(*shape)}",
                    lambda v, kind=kind, shape=shape: [domain(kind, v.plain(*shape))],
                    given,
                )
            )
        found += [
            OpCase("activation", f"{kind}-special", lambda v, kind=kind: [special(kind)], given),
            OpCase("activation", f"{kind}-half", lambda v, kind=kind: [domain(kind, v.plain(3, 65))], given, "float16"),
            OpCase(
                "activation", f"{kind}-half-quads", lambda v, k=kind: [domain(k, v.plain(3, 1028))], given, "float16"
            ),
            OpCase(
                "activation",
                f"{kind}-half-special",
                lambda v, kind=kind: [special(kind, v.dtype)],
                given,
                "float16",
            ),
            OpCase(
                "activation_backward",
                f"{kind}-half",
                lambda v, kind=kind: [v.plain(3, 65), domain(kind, v.plain(3, 65))],
                given,
                "float16",
            ),
        ]
        for shape in ((0,), (1,), (257,), (3, 1023)):
            found.append(
                OpCase(
                    "activation_backward",
                    f"{kind}-{shape_name(*shape)}",
                    lambda v, kind=kind, shape=shape: [v.plain(*shape), domain(kind, v.plain(*shape))],
                    given,
                )
            )
    found += [
        OpCase("activation", "gelu_tanh-outliers", lambda v: [v.outliers(5, 129)], {"kind": "gelu_tanh"}),
        OpCase("activation", "silu-outliers", lambda v: [v.outliers(5, 129)], {"kind": "silu"}),
        OpCase(
            "activation_backward",
            "relu-at-0",
            lambda v: [np.ones(3, np.float32), np.array([-1, 0, 1], np.float32)],
            {"kind": "relu"},
        ),
    ]
    half = lambda v: [v.plain(3, 1028), v.plain(3, 1028)]  # noqa: E731
    found.append(OpCase("activation_backward", "silu-half-quads", half, {"kind": "silu"}, "float16"))
    for width in HALF_WIDTHS:
        name = f"silu-half-{width}"
        found.append(OpCase("activation", name, lambda v, w=width: [v.plain(3, w)], {"kind": "silu"}, "float16"))
    return found + gates()


def gates() -> list[OpCase]:
    found = []
    for kind in GATES:
        for rows, width in ((3, 2), (1, 64), (3, 66), (2, 2050), (0, 8), (3, 0)):
            name, given = f"{kind}-{rows}x{width}", {"kind": kind}
            found += [
                OpCase("gated", name, lambda v, r=rows, w=width: [v.plain(r, w)], given),
                OpCase("gated_backward", name, lambda v, r=rows, w=width: [v.plain(r, w // 2), v.plain(r, w)], given),
            ]
    for width in (*HALF_WIDTHS, 12):
        name = f"silu-half-{width}"
        found.append(OpCase("gated", name, lambda v, w=width: [v.plain(3, w)], {"kind": "silu"}, "float16"))
    return found + [
        OpCase("gated", "sigmoid-half-not-finite", lambda v: [v.not_finite(4, 64)], {"kind": "sigmoid"}, "float16"),
        OpCase("gated", "silu-half", lambda v: [v.plain(2, 3, 130)], {"kind": "silu"}, "float16"),
        OpCase("gated_backward", "silu-half", lambda v: [v.plain(3, 65), v.plain(3, 130)], {"kind": "silu"}, "float16"),
        OpCase("gated", "sigmoid-not-finite", lambda v: [v.not_finite(4, 66)], {"kind": "sigmoid"}),
    ]
