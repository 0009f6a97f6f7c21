"""Elementwise activations."""

from __future__ import annotations

from grilly.functional.checks import number, one_of
from grilly.functional.dispatch import Operand, Result, evaluate, floats

__all__ = [
    "gcu",
    "gelu",
    "leaky_relu",
    "quick_gelu",
    "relu",
    "roswish",
    "sigmoid",
    "silu",
    "softplus",
    "tanh",
]

APPROXIMATIONS = {"tanh": "gelu_tanh", "none": "gelu_erf"}


def _forward(name: str, x: Operand, kind: str | None = None, **attributes: float) -> Result:
    return evaluate(name, lambda r, x: r("activation", x, kind=kind or name, **attributes), floats(x, "x"))


def gelu_kind(name: str, approximate: str) -> str:
    """Kernel name of an approximation."""
    return APPROXIMATIONS[one_of(name, "approximate", approximate, tuple(APPROXIMATIONS))]


def relu(x: Operand) -> Result:
    """Rectifier: `max(x, 0)`; NaN stays NaN.

    Args:
        x: Any shape; float16 stays float16, other numbers become float32.

    Returns:
        The same shape.

    Raises:
        InvalidTypeError: Not numbers.

    Source: upstream's `functional.relu`; `torch.nn.functional.relu`.

    Example:
        >>> from grilly import functional
        >>> functional.relu([-1.0, 2.0]).tolist()
        [0.0, 2.0]
    """
    return _forward("relu", x)


def gelu(x: Operand, approximate: str = "tanh") -> Result:
    """Gaussian error linear unit: `x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2`, or `x (1 + erf(x/sqrt 2)) / 2`.

    Args:
        x: Any shape; float16 stays float16, other numbers become float32.
        approximate: `"tanh"`, the first formula, or `"none"`, the second; default `"tanh"`, upstream's.

    Returns:
        The same shape.

    Raises:
        InvalidTypeError: Not numbers.
        InvalidArgumentError: Unknown approximation.

    Source: upstream's `functional.gelu`; `torch.nn.functional.gelu`, whose default is `"none"`.

    Example:
        >>> from grilly import functional
        >>> [round(y, 4) for y in functional.gelu([0.0, 1.0]).tolist()]
        [0.0, 0.8412]
    """
    return _forward("gelu", x, gelu_kind("gelu", approximate))


def silu(x: Operand) -> Result:
    """Sigmoid linear unit, or swish: `x sigmoid(x)`.

    Args:
        x: Any shape; float16 stays float16, other numbers become float32.

    Returns:
        The same shape.

    Raises:
        InvalidTypeError: Not numbers.

    Source: upstream's `functional.silu`; `torch.nn.functional.silu`.

    Example:
        >>> from grilly import functional
        >>> functional.silu([0.0, 100.0]).tolist()
        [0.0, 100.0]
    """
    return _forward("silu", x)


def softplus(x: Operand) -> Result:
    """`log(1 + exp(x))`, without overflow for large `x`.

    Args:
        x: Any shape; float16 stays float16, other numbers become float32.

    Returns:
        The same shape.

    Raises:
        InvalidTypeError: Not numbers.

    Source: upstream's `functional.softplus`; `torch.nn.functional.softplus`.

    Example:
        >>> from grilly import functional
        >>> functional.softplus([100.0]).tolist()
        [100.0]
    """
    return _forward("softplus", x)


def sigmoid(x: Operand) -> Result:
    """Logistic function: `1 / (1 + exp(-x))`.

    Args:
        x: Any shape; float16 stays float16, other numbers become float32.

    Returns:
        The same shape.

    Raises:
        InvalidTypeError: Not numbers.

    Source: `torch.nn.functional.sigmoid`.

    Example:
        >>> from grilly import functional
        >>> functional.sigmoid([0.0]).tolist()
        [0.5]
    """
    return _forward("sigmoid", x)


def tanh(x: Operand) -> Result:
    """Hyperbolic tangent.

    Args:
        x: Any shape; float16 stays float16, other numbers become float32.

    Returns:
        The same shape.

    Raises:
        InvalidTypeError: Not numbers.

    Source: `torch.nn.functional.tanh`.

    Example:
        >>> from grilly import functional
        >>> functional.tanh([0.0]).tolist()
        [0.0]
    """
    return _forward("tanh", x)


def leaky_relu(x: Operand, negative_slope: float = 0.01) -> Result:
    """Leaky rectifier: `x` where `x >= 0`, else `negative_slope x`.

    Args:
        x: Any shape; float16 stays float16, other numbers become float32.
        negative_slope: Factor below 0; default 0.01.

    Returns:
        The same shape.

    Raises:
        InvalidTypeError: Not numbers.
        InvalidArgumentError: A number that is not finite.

    Source: `torch.nn.functional.leaky_relu`.

    Example:
        >>> from grilly import functional
        >>> functional.leaky_relu([-4.0, 2.0], negative_slope=0.25).tolist()
        [-1.0, 2.0]
    """
    return _forward("leaky_relu", x, a=number("leaky_relu", "negative_slope", negative_slope))


def quick_gelu(x: Operand) -> Result:
    """Sigmoid approximation of `gelu`: `x sigmoid(1.702 x)`.

    Args:
        x: Any shape; float16 stays float16, other numbers become float32.

    Returns:
        The same shape.

    Raises:
        InvalidTypeError: Not numbers.

    Source: `quick_gelu` of transformers, which CLIP uses.

    Example:
        >>> from grilly import functional
        >>> functional.quick_gelu([0.0, 100.0]).tolist()
        [0.0, 100.0]
    """
    return _forward("quick_gelu", x)


def gcu(x: Operand) -> Result:
    """Growing cosine unit: `x cos(x)`.

    Args:
        x: Any shape; float16 stays float16, other numbers become float32.

    Returns:
        The same shape.

    Raises:
        InvalidTypeError: Not numbers.

    Source: upstream's `Compute.fnn.activation_gcu`.

    Example:
        >>> from grilly import functional
        >>> functional.gcu([0.0]).tolist()
        [0.0]
    """
    return _forward("gcu", x)


def roswish(x: Operand, alpha: float = 1.0, beta: float = 1.0) -> Result:
    """Rotated swish: `(x + alpha) sigmoid(beta x) - alpha / 2`.

    Args:
        x: Any shape; float16 stays float16, other numbers become float32.
        alpha: Shift; default 1.0.
        beta: Steepness; default 1.0.

    Returns:
        The same shape.

    Raises:
        InvalidTypeError: Not numbers.
        InvalidArgumentError: A number that is not finite.

    Source: upstream's `Compute.fnn.activation_roswish`.

    Example:
        >>> from grilly import functional
        >>> functional.roswish([0.0]).tolist()
        [0.0]
    """
    return _forward("roswish", x, a=number("roswish", "alpha", alpha), b=number("roswish", "beta", beta))
