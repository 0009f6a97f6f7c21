"""Derivatives of the elementwise activations."""

from __future__ import annotations

import math
from typing import Any

from grilly.functional.activations import gelu_kind
from grilly.functional.checks import need_shape, number
from grilly.functional.dispatch import Operand, Result, evaluate, floats

__all__ = [
    "gcu_backward",
    "gelu_backward",
    "leaky_relu_backward",
    "quick_gelu_backward",
    "relu_backward",
    "roswish_backward",
    "sigmoid_backward",
    "silu_backward",
    "softplus_backward",
    "tanh_backward",
]


def _backward(
    activation: str, grad_output: Operand, x: Operand, kind: str | None = None, **attributes: float
) -> Result:
    g, given = floats(grad_output, "grad_output"), floats(x, "x")
    need_shape(f"{activation}_backward", "grad_output", g, given.shape)

    def body(r: Any, g: Any, x: Any) -> Any:
        (gradient,) = r.vjp("activation", g, x, kind=kind or activation, **attributes)
        return r.like(gradient, x)

    return evaluate(f"{activation}_backward", body, g, given, alike=2)


def relu_backward(grad_output: Operand, x: Operand) -> Result:
    """Derivative of `relu`: `grad_output` where `x > 0`, else 0.

    Args:
        grad_output: Gradient of the loss with respect to the result, in `x`'s shape.
        x: Input of the forward function.

    Returns:
        Gradient of the loss with respect to `x`.

    Raises:
        InvalidArgumentError: The shapes differ.

    Source: upstream's `functional.relu`; `torch.nn.functional.relu`.

    Example:
        >>> from grilly import functional
        >>> functional.relu_backward([1.0, 1.0], [-1.0, 2.0]).tolist()
        [0.0, 1.0]
    """
    return _backward("relu", grad_output, x)


def gelu_backward(grad_output: Operand, x: Operand, approximate: str = "tanh") -> Result:
    """Derivative of `gelu`.

    Args:
        grad_output: Gradient of the loss with respect to the result, in `x`'s shape.
        x: Input of the forward function.
        approximate: As in `gelu`; default `"tanh"`.

    Returns:
        Gradient of the loss with respect to `x`.

    Raises:
        InvalidArgumentError: The shapes differ, or an unknown approximation.

    Source: upstream's `Compute.fnn.activation_gelu_backward`.

    Example:
        >>> from grilly import functional
        >>> functional.gelu_backward([2.0], [0.0]).tolist()
        [1.0]
    """
    return _backward("gelu", grad_output, x, gelu_kind("gelu_backward", approximate))


def silu_backward(grad_output: Operand, x: Operand) -> Result:
    """Derivative of `silu`: `grad_output s (1 + x (1 - s))`, `s = sigmoid(x)`.

    Args:
        grad_output: Gradient of the loss with respect to the result, in `x`'s shape.
        x: Input of the forward function.

    Returns:
        Gradient of the loss with respect to `x`.

    Raises:
        InvalidArgumentError: The shapes differ.

    Source: upstream's `functional.silu`; `torch.nn.functional.silu`.

    Example:
        >>> from grilly import functional
        >>> functional.silu_backward([2.0], [0.0]).tolist()
        [1.0]
    """
    return _backward("silu", grad_output, x)


def softplus_backward(grad_output: Operand, x: Operand) -> Result:
    """Derivative of `softplus`: `grad_output sigmoid(x)`.

    Args:
        grad_output: Gradient of the loss with respect to the result, in `x`'s shape.
        x: Input of the forward function.

    Returns:
        Gradient of the loss with respect to `x`.

    Raises:
        InvalidArgumentError: The shapes differ.

    Source: upstream's `functional.softplus`; `torch.nn.functional.softplus`.

    Example:
        >>> from grilly import functional
        >>> functional.softplus_backward([2.0], [0.0]).tolist()
        [1.0]
    """
    return _backward("softplus", grad_output, x)


def sigmoid_backward(grad_output: Operand, x: Operand) -> Result:
    """Derivative of `sigmoid`: `grad_output s (1 - s)`, `s = sigmoid(x)`.

    Args:
        grad_output: Gradient of the loss with respect to the result, in `x`'s shape.
        x: Input of the forward function.

    Returns:
        Gradient of the loss with respect to `x`.

    Raises:
        InvalidArgumentError: The shapes differ.

    Source: `torch.nn.functional.sigmoid`.

    Example:
        >>> from grilly import functional
        >>> functional.sigmoid_backward([4.0], [0.0]).tolist()
        [1.0]
    """
    return _backward("sigmoid", grad_output, x)


def tanh_backward(grad_output: Operand, x: Operand) -> Result:
    """Derivative of `tanh`: `grad_output (1 - tanh(x)^2)`.

    Args:
        grad_output: Gradient of the loss with respect to the result, in `x`'s shape.
        x: Input of the forward function.

    Returns:
        Gradient of the loss with respect to `x`.

    Raises:
        InvalidArgumentError: The shapes differ.

    Source: `torch.nn.functional.tanh`.

    Example:
        >>> from grilly import functional
        >>> functional.tanh_backward([2.0], [0.0]).tolist()
        [2.0]
    """
    return _backward("tanh", grad_output, x)


def leaky_relu_backward(grad_output: Operand, x: Operand, negative_slope: float = 0.01) -> Result:
    """Derivative of `leaky_relu`: `grad_output` where `x > 0`, else `negative_slope grad_output`.

    Args:
        grad_output: Gradient of the loss with respect to the result, in `x`'s shape.
        x: Input of the forward function.
        negative_slope: Factor below 0; default 0.01.

    Returns:
        Gradient of the loss with respect to `x`.

    Raises:
        InvalidArgumentError: The shapes differ.

    Source: `torch.nn.functional.leaky_relu`.

    Example:
        >>> from grilly import functional
        >>> functional.leaky_relu_backward([1.0, 1.0], [-4.0, 2.0], negative_slope=0.25).tolist()
        [0.25, 1.0]
    """
    slope = number("leaky_relu_backward", "negative_slope", negative_slope)
    return _backward("leaky_relu", grad_output, x, a=slope)


def quick_gelu_backward(grad_output: Operand, x: Operand) -> Result:
    """Derivative of `quick_gelu`.

    Args:
        grad_output: Gradient of the loss with respect to the result, in `x`'s shape.
        x: Input of the forward function.

    Returns:
        Gradient of the loss with respect to `x`.

    Raises:
        InvalidArgumentError: The shapes differ.

    Source: `quick_gelu` of transformers, which CLIP uses.

    Example:
        >>> from grilly import functional
        >>> functional.quick_gelu_backward([2.0], [0.0]).tolist()
        [1.0]
    """
    return _backward("quick_gelu", grad_output, x)


def gcu_backward(grad_output: Operand, x: Operand) -> Result:
    """Derivative of `gcu`: `grad_output (cos(x) - x sin(x))`.

    Args:
        grad_output: Gradient of the loss with respect to the result, in `x`'s shape.
        x: Input of the forward function.

    Returns:
        Gradient of the loss with respect to `x`.

    Raises:
        InvalidArgumentError: The shapes differ.

    Source: upstream's `Compute.fnn.activation_gcu`.

    Example:
        >>> from grilly import functional
        >>> functional.gcu_backward([2.0], [0.0]).tolist()
        [2.0]
    """
    return _backward("gcu", grad_output, x)


def roswish_backward(grad_output: Operand, x: Operand, alpha: float = 1.0, beta: float = 1.0) -> Result:
    """Derivative of `roswish` with respect to `x`.

    Args:
        grad_output: Gradient of the loss with respect to the result, in `x`'s shape.
        x: Input of the forward function.
        alpha: Shift; default 1.0.
        beta: Steepness; default 1.0.

    Returns:
        Gradient of the loss with respect to `x`.

    Raises:
        InvalidArgumentError: The shapes differ.

    Source: upstream's `Compute.fnn.activation_roswish`.

    Example:
        >>> from grilly import functional
        >>> functional.roswish_backward([4.0], [0.0]).tolist()
        [3.0]
    """
    a, b = number("roswish_backward", "alpha", alpha), number("roswish_backward", "beta", beta)
    return _backward("roswish", grad_output, x, a=a, b=b)


def roswish_numbers_backward(grad_output: Operand, x: Operand, alpha: float, beta: float) -> tuple[Result, Result]:
    """The gradients of alpha and beta of `roswish`, `(1,)` each: the sums of `g (s - 1/2)` and of
    `g (x + alpha) x s (1 - s)`, where `s = sigmoid(beta x)`."""
    g, given = floats(grad_output, "grad_output"), floats(x, "x")
    need_shape("roswish_backward", "grad_output", g, given.shape)
    rows = [math.prod(given.shape), 1]

    def body(r: Any, g: Any, x: Any) -> Any:
        g, x = r.wide(g).reshape(rows), r.wide(x).reshape(rows)
        steep = r("binary", x, r.constant(beta), kind="multiply")
        above = r("binary", r("activation", steep, kind="sigmoid"), r.constant(0.5), kind="subtract")
        shifted = r("binary", g, r("binary", x, r.constant(alpha), kind="add"), kind="multiply")
        (slope,) = r.vjp("activation", shifted, steep, kind="sigmoid")
        products = r("binary", g, above, kind="multiply"), r("binary", slope, x, kind="multiply")
        return tuple(r("reduce", product, axis=0, kind="sum") for product in products)

    found: tuple[Result, Result] = evaluate("roswish_backward", body, g, given, alike=2)
    return found
