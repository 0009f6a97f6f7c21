"""Gated activations, in which one half of the last axis gates the other, and their derivatives."""

from grilly.functional.activations import gelu_kind
from grilly.functional.checks import need_axes, need_shape, wrong_shape
from grilly.functional.dispatch import Operand, Prepared, Result, evaluate, floats

__all__ = [
    "geglu",
    "geglu_backward",
    "swiglu",
    "swiglu_backward",
]


def swiglu(x: Operand) -> Result:
    """Gated swish: `x1 silu(x2)`, where `x1` and `x2` are the halves of the last axis.

    Args:
        x: `(..., 2 N)`.

    Returns:
        `(..., N)`.

    Raises:
        InvalidArgumentError: The last axis is not even.

    Source: upstream's `Compute.fnn.activation_swiglu`.

    Example:
        >>> from grilly import functional
        >>> functional.swiglu([[3.0, 0.0]]).tolist()
        [[0.0]]
    """
    return _gated("swiglu", x, "silu")


def swiglu_backward(grad_output: Operand, x: Operand) -> Result:
    """Derivative of `swiglu`: the gradients of both halves, concatenated.

    Args:
        grad_output: `(..., N)`.
        x: `(..., 2 N)`, the input of the forward function.

    Returns:
        `(..., 2 N)`.

    Raises:
        InvalidArgumentError: Incompatible shapes.

    Source: upstream's `Compute.fnn.activation_swiglu_backward`.

    Example:
        >>> from grilly import functional
        >>> functional.swiglu_backward([[2.0]], [[3.0, 0.0]]).tolist()
        [[0.0, 3.0]]
    """
    return _gated_backward("swiglu_backward", grad_output, x, "silu")


def geglu(x: Operand, approximate: str = "tanh") -> Result:
    """Gated `gelu`: `x1 gelu(x2)`, where `x1` and `x2` are the halves of the last axis.

    Args:
        x: `(..., 2 N)`.
        approximate: As in `gelu`; default `"tanh"`.

    Returns:
        `(..., N)`.

    Raises:
        InvalidArgumentError: The last axis is not even, or an unknown approximation.

    Source: Shazeer, GLU Variants Improve Transformer (2020), with the gate in the second half as in `swiglu`.

    Example:
        >>> from grilly import functional
        >>> functional.geglu([[2.0, 100.0]]).tolist()
        [[200.0]]
    """
    return _gated("geglu", x, gelu_kind("geglu", approximate))


def geglu_backward(grad_output: Operand, x: Operand, approximate: str = "tanh") -> Result:
    """Derivative of `geglu`: the gradients of both halves, concatenated.

    Args:
        grad_output: `(..., N)`.
        x: `(..., 2 N)`, the input of the forward function.
        approximate: As in `gelu`; default `"tanh"`.

    Returns:
        `(..., 2 N)`.

    Raises:
        InvalidArgumentError: Incompatible shapes, or an unknown approximation.

    Source: the derivative of `geglu`.

    Example:
        >>> from grilly import functional
        >>> functional.geglu_backward([[2.0]], [[3.0, 0.0]]).tolist()
        [[0.0, 3.0]]
    """
    return _gated_backward("geglu_backward", grad_output, x, gelu_kind("geglu_backward", approximate))


def _gated(name: str, x: Operand, kind: str) -> Result:
    prepared = halves(name, x)
    return evaluate(name, lambda r, x: r("gated", x, kind=kind), prepared)


def _gated_backward(name: str, grad_output: Operand, x: Operand, kind: str) -> Result:
    prepared, g = halves(name, x), floats(grad_output, "grad_output")
    *batch, columns = prepared.shape
    need_shape(name, "grad_output", g, (*batch, columns // 2))
    return evaluate(name, lambda r, g, x: r.gradient("gated", g, x, kind=kind), g, prepared, alike=2)


def halves(name: str, x: Operand) -> Prepared:
    """Checks and returns an operand with an even last axis."""
    prepared = floats(x, "x")
    columns = need_axes(name, "x", prepared, 1)[-1]
    if columns % 2:
        raise wrong_shape(name, "x", prepared.shape, "an even last axis")
    return prepared
