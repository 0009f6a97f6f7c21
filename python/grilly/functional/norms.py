"""Softmax, layer norm and RMS norm, and their derivatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from grilly.functional.checks import allocated, need_axes, need_shape, number, whole, wrong_shape
from grilly.functional.dispatch import Operand, Prepared, Result, evaluate, floats, optional
from grilly.operands import normal_axis

__all__ = [
    "activation_softmax",
    "layer_norm",
    "layer_norm_backward",
    "rms_norm",
    "rms_norm_backward",
    "softmax",
    "softmax_backward",
]


def softmax(x: Operand, dim: int = -1) -> Result:
    """`exp(x) / sum(exp(x))` along one axis, without overflow.

    Args:
        x: Any shape with at least one axis.
        dim: The axis; default the last.

    Returns:
        The same shape. A row that contains NaN or plus infinity, or only minus infinity, is NaN, as in NumPy.

    Raises:
        IndexOutOfRangeError: There is no axis `dim`.

    Source: upstream's `functional.softmax`; `torch.nn.functional.softmax`.

    Example:
        >>> from grilly import functional
        >>> functional.softmax([[0.0, 0.0], [1000.0, 0.0]]).tolist()
        [[0.5, 0.5], [1.0, 0.0]]
    """
    prepared = floats(x, "x")
    op, attributes = _along("softmax", prepared, dim)
    return evaluate("softmax", lambda r, x: r(op, x, **attributes), prepared)


#: The name that upstream's functions on a device have.
activation_softmax = softmax


def _along(name: str, x: Prepared, dim: int) -> tuple[str, dict[str, int]]:
    """The operation over an axis, and its attributes."""
    axes = len(x.shape)
    axis = normal_axis(dim, axes, "dim")
    return (name, {}) if axis == axes - 1 else (name.replace("softmax", "softmax_along"), {"axis": axis})


def softmax_backward(grad_output: Operand, softmax_output: Operand, dim: int = -1) -> Result:
    """Derivative of `softmax`: `y (g - sum(g y))`.

    Args:
        grad_output: Gradient of the loss with respect to the result.
        softmax_output: The result, in the same shape.
        dim: The axis; default the last.

    Returns:
        The same shape.

    Raises:
        InvalidArgumentError: The shapes differ.
        IndexOutOfRangeError: There is no axis `dim`.

    Source: upstream's `Compute.fnn.softmax_backward`.

    Example:
        >>> from grilly import functional
        >>> functional.softmax_backward([1.0, 0.0], [0.5, 0.5]).tolist()
        [0.25, -0.25]
    """
    g, y = floats(grad_output, "grad_output"), floats(softmax_output, "softmax_output")
    need_shape("softmax_backward", "grad_output", g, y.shape)
    op, attributes = _along("softmax_backward", y, dim)
    return evaluate("softmax_backward", lambda r, g, y: r.like(r(op, g, y, **attributes), y), g, y, alike=2)


def layer_norm(
    input: Operand,
    normalized_shape: int | Sequence[int],
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
) -> Result:
    """Layer norm: `(x - mean) / sqrt(variance + eps) * weight + bias` over the last axes, with two-pass variance.

    Args:
        input: `(..., *normalized_shape)`.
        normalized_shape: Size of the last axis, or sizes of the last axes.
        weight: In that shape; default ones.
        bias: In that shape; default zeros.
        eps: Added to the variance; default 1e-5.

    Returns:
        `input`'s shape; float16 when `input` is.

    Raises:
        InvalidArgumentError: Incompatible shapes.

    Source: upstream's `functional.layer_norm`; `torch.nn.functional.layer_norm`.

    Example:
        >>> from grilly import functional
        >>> functional.layer_norm([[1.0, 3.0]], 2, eps=0.0).tolist()
        [[-1.0, 1.0]]
    """
    return _norm("layer_norm", input, normalized_shape, eps, weight=weight, bias=bias)


def _norm(name: str, input: Operand, sizes: int | Sequence[int], eps: float, **weights: Operand | None) -> Result:
    """A norm of the last axes; of several, as one."""
    x, given = floats(input, "input"), {label: optional(weight, label) for label, weight in weights.items()}
    rows, small = normalized(name, x, sizes, **given), number(name, "eps", eps)

    def body(r: Any, x: Any, *given: Any) -> Any:
        if given[0] is None and given[-1] is not None:
            given = r.constant(np.ones(rows[1])), *given[1:]
        if not isinstance(sizes, Sequence) or len(sizes) == 1:
            return r(name, x, *given, eps=small)
        flat = (None if weight is None else weight.reshape([rows[1]]) for weight in given)
        return r(name, x.reshape(rows), *flat, eps=small).reshape(list(x.shape))

    return evaluate(name, body, x, *given.values())


def sizes_of(name: str, given: int | Sequence[int]) -> tuple[int, ...]:
    """The sizes of the last axes that `normalized_shape` gives."""
    sizes = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    return allocated(name, "weight", [whole(name, "normalized_shape", size, least=0) for size in sizes])


def normalized(name: str, x: Prepared, given: int | Sequence[int], **weights: Prepared | None) -> list[int]:
    """Rows and columns of `x` with its last axes, of sizes `given`, merged into one."""
    last, axes = sizes_of(name, given), x.shape
    if not last or axes[-len(last) :] != last:
        raise wrong_shape(name, "input", axes, f"[..., {', '.join(map(str, last))}]")
    for label, weight in weights.items():
        need_shape(name, label, weight, last)
    return [math.prod(axes[: len(axes) - len(last)]), math.prod(last)]


def layer_norm_backward(
    grad_output: Operand, x: Operand, gamma: Operand, mean: Any = None, var: Any = None, eps: float = 1e-5
) -> tuple[Result, Result, Result]:
    """Derivative of `layer_norm` over the last axes.

    Args:
        grad_output: Gradient of the loss with respect to the result, in `x`'s shape.
        x: Input of the norm.
        gamma: Its weight, in the shape that was normalised.
        mean: Upstream's argument, without effect: the mean is computed from `x`.
        var: Likewise.
        eps: As in `layer_norm`; default 1e-5.

    Returns:
        `(grad_input, grad_gamma, grad_beta)`.

    Raises:
        InvalidArgumentError: Incompatible shapes.

    Source: upstream's `Compute.fnn.layernorm_backward`.

    Example:
        >>> from grilly import functional
        >>> found = functional.layer_norm_backward([[1.0, 2.0]], [[1.0, 3.0]], [1.0, 1.0], eps=0.0)
        >>> found[1].tolist(), found[2].tolist()
        ([-1.0, 2.0], [1.0, 2.0])
    """
    found: tuple[Result, Result, Result] = _norm_backward("layer_norm", grad_output, x, "gamma", gamma, eps)
    return found


def _norm_backward(operation: str, grad_output: Operand, x: Operand, label: str, weight: Operand, eps: float) -> Result:
    """The gradients of the input and of the weights, of which there are one or two."""
    name = f"{operation}_backward"
    g, x, w = floats(grad_output, "grad_output"), floats(x, "x"), floats(weight, label)
    need_axes(name, label, w, 1)
    rows = normalized(name, x, w.shape)
    axes, last, small = list(x.shape), list(w.shape), number(name, "eps", eps)
    need_shape(name, "grad_output", g, axes)

    def body(r: Any, g: Any, x: Any, w: Any) -> Any:
        operands = (value.reshape(shape) for value, shape in ((r.wide(g), rows), (r.wide(x), rows), (w, rows[1:])))
        grad_x, *others = r.vjp(operation, *operands, eps=small)
        return r.like(grad_x.reshape(axes), x), *(r.like(other.reshape(last), w) for other in others)

    return evaluate(name, body, g, x, w, alike=2)


def rms_norm(
    input: Operand, normalized_shape: int | Sequence[int], weight: Operand | None = None, eps: float = 1e-6
) -> Result:
    """RMS norm: `x / sqrt(mean(x^2) + eps) * weight` over the last axis or axes.

    Args:
        input: `(..., *normalized_shape)`.
        normalized_shape: Size of the last axis, or sizes of the last axes.
        weight: In that shape; default ones.
        eps: Added to the mean; default 1e-6.

    Returns:
        `input`'s shape; float16 when `input` is.

    Raises:
        InvalidArgumentError: Incompatible shapes.

    Source: `torch.nn.functional.rms_norm`, with LLaMA's `eps`.

    Example:
        >>> from grilly import functional
        >>> functional.rms_norm([[3.0, 4.0, 0.0, 0.0]], 4, eps=0.0).round(6).tolist()
        [[1.2000000476837158, 1.600000023841858, 0.0, 0.0]]
    """
    return _norm("rms_norm", input, normalized_shape, eps, weight=weight)


def rms_norm_backward(grad_output: Operand, x: Operand, weight: Operand, eps: float = 1e-6) -> tuple[Result, Result]:
    """Derivative of `rms_norm` over the last axes.

    Args:
        grad_output: Gradient of the loss with respect to the result, in `x`'s shape.
        x: Input of the norm.
        weight: Its weight, in the shape that was normalised.
        eps: As in `rms_norm`; default 1e-6.

    Returns:
        `(grad_input, grad_weight)`.

    Raises:
        InvalidArgumentError: Incompatible shapes.

    Source: the derivative of `rms_norm`.

    Example:
        >>> from grilly import functional
        >>> grad_input, grad_weight = functional.rms_norm_backward([[1.0, 2.0]], [[1.0, 1.0]], [1.0, 1.0], eps=0.0)
        >>> grad_input.tolist(), grad_weight.tolist()
        ([[-0.5, 0.5]], [1.0, 2.0])
    """
    found: tuple[Result, Result] = _norm_backward("rms_norm", grad_output, x, "weight", weight, eps)
    return found
