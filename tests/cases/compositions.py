"""Operations that are other operations alone: softmax over any axis, losses and their means, whitening."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cases.bounds import BOUNDS, TINY, U, bounded, rounded, summed
from cases.reference import Attributes, Operands, reference
from cases.softmaxes import binary_cross_entropy, softmax, softmax_backward, softmax_backward_bound, softmax_bound
from cases.table import OpCase, shape_name


def along(function: Callable[..., np.ndarray], arrays: Operands, attributes: Attributes) -> np.ndarray:
    """`function` of the arrays with the axis of the attributes as the last one."""
    axis = attributes["axis"]
    return np.moveaxis(function(*(np.moveaxis(array, axis, -1) for array in arrays)), -1, axis)


@reference
def softmax_along(operands: Operands, attributes: Attributes) -> np.ndarray:
    return along(lambda x: softmax([x], {}), operands, attributes)


@reference
def softmax_along_backward(operands: Operands, attributes: Attributes) -> np.ndarray:
    return along(lambda g, p: softmax_backward([g, p], {}), operands, attributes)


def losses_of(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, t, *w = operands
    each = (x - t) ** 2 if attributes["kind"] == "squared" else binary_cross_entropy([x, t], {})
    return each * w[0] if w else each


@reference
def loss(operands: Operands, attributes: Attributes) -> np.ndarray:
    each = losses_of(operands, attributes)
    reduction = attributes.get("reduction", "mean")
    return each if reduction == "none" else each.sum() / (each.size if reduction == "mean" else 1)


@reference
def whiten(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, mean, deviation, *eps = operands
    return (x - mean) / (deviation + (eps[0] if eps else np.float32(1e-8)))


@bounded
def softmax_along_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """The same, with a rounding of each step that is stored."""
    return along(lambda y: softmax_bound([], {}, y), [y], attributes) + 8 * U * y


@bounded
def softmax_along_backward_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    return along(lambda g, p, y: softmax_backward_bound([g, p], {}, y), [*operands, y], attributes)


@bounded
def loss_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """A difference, its square and a factor, or two logarithms; then the sum of as many."""
    each = losses_of(operands, attributes)
    allowed = 8 * U * np.abs(each) + TINY
    if attributes["kind"] != "squared":
        allowed = allowed + 2.0**-20 * (np.abs(operands[2]) if len(operands) > 2 else 1.0)
    reduction = attributes.get("reduction", "mean")
    if reduction == "none":
        return allowed
    total = summed(each.size, np.abs(each).sum()) + allowed.sum()
    return total / max(each.size, 1) if reduction == "mean" else total


#: Three steps, of which Vulkan allows the division 2.5 units in the last place.
BOUNDS.update(whiten=rounded(6))


def cases() -> list[OpCase]:
    found = []
    for shape, axis in (((1, 1), 0), ((5, 3), 0), ((2, 65, 3), 1), ((3, 1025, 2), 1), ((2, 3, 4, 5), 1)):
        name, given = f"{shape_name(*shape)}-{axis}", {"axis": axis}
        found += [
            OpCase("softmax_along", name, lambda v, s=shape: [v.plain(*s)], given),
            OpCase("softmax_along_backward", name, lambda v, s=shape: [v.plain(*s), v.positive(*s)], given),
        ]
    for shape in ((0, 3), (4, 0)):
        given, empty = {"axis": 0}, np.zeros(shape, np.float32)
        found += [
            OpCase("softmax_along", f"{shape_name(*shape)}-0", lambda v, x=empty: [x], given),
            OpCase("softmax_along_backward", f"{shape_name(*shape)}-0", lambda v, x=empty: [x, x], given),
        ]
    for op, number in (("softmax_along", 1), ("softmax_along_backward", 2)):
        found.append(OpCase(op, "half", lambda v, n=number: [v.positive(4, 3, 8)] * n, {"axis": 1}, "float16"))
    for kind in ("squared", "binary_cross_entropy"):
        for reduction in ("none", "sum", "mean"):
            given = {"kind": kind, "reduction": reduction}
            for shape in ((0,), (1,), (257,), (3, 1023)):
                make = lambda v, s=shape: [v.rng.random(s).astype(v.dtype), v.bits(*s).astype(v.dtype)]  # noqa: E731
                found.append(OpCase("loss", f"{kind}-{reduction}-{shape_name(*shape)}", make, given))
            weighted = lambda v: [v.positive(5, 7) / 2, v.bits(5, 7).astype(v.dtype), v.positive(7)]  # noqa: E731
            found += [
                OpCase("loss", f"{kind}-{reduction}-weighted", weighted, given),
                OpCase("loss", f"{kind}-{reduction}-half", weighted, given, "float16"),
            ]
    for x, of in (((1, 1), (1,)), ((5, 3), (3,)), ((33, 65), (65,)), ((2, 3, 4), (3, 4)), ((0, 3), (3,))):
        make = lambda v, x=x, of=of: [v.plain(*x), v.plain(*of), v.positive(*of), np.float32(0.5)]  # noqa: E731
        found += [
            OpCase("whiten", f"eps-{shape_name(*x)}", make),
            OpCase("whiten", shape_name(*x), lambda v, make=make: make(v)[:3], smooth=False),
        ]
    half = lambda v: [v.plain(5, 8), v.plain(8), v.positive(8)]  # noqa: E731
    return [*found, OpCase("whiten", "half", half, dtype="float16")]
