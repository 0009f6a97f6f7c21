"""Elementwise activations and their derivatives; activations.json has what their docstrings say."""

from __future__ import annotations  # The documentation shows those of functions that the table makes.

import inspect
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from grilly.functional.checks import need_shape, number, one_of
from grilly.functional.dispatch import Operand, Result, evaluate, floats

__all__ = [
    "activation_gelu",
    "gcu",
    "gcu_backward",
    "gelu",
    "gelu_backward",
    "leaky_relu",
    "leaky_relu_backward",
    "quick_gelu",
    "quick_gelu_backward",
    "relu",
    "relu_backward",
    "roswish",
    "roswish_backward",
    "sigmoid",
    "sigmoid_backward",
    "silu",
    "silu_backward",
    "softplus",
    "softplus_backward",
    "tanh",
    "tanh_backward",
]

APPROXIMATIONS = {"tanh": "gelu_tanh", "none": "gelu_erf"}

# The docstring of activations and that of derivatives, what differs between them, and arguments beside the operands.
TEXTS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))

F = TypeVar("F", bound=Callable[..., Any])


class Forward(Protocol):
    """An activation without options."""

    def __call__(self, x: Operand) -> Result: ...


class Backward(Protocol):
    """The derivative of one."""

    def __call__(self, grad_output: Operand, x: Operand) -> Result: ...


def documented(function: F) -> F:
    """Gives a function its docstring."""
    name = function.__name__
    activation = name.removesuffix("_backward")
    row, derivative = TEXTS["rows"][activation], name != activation
    given, found = row["examples"][derivative]
    options = {key: TEXTS["options"][key] for key in inspect.signature(function).parameters if key in TEXTS["options"]}
    values = {
        **row,
        "name": name,
        "activation": activation,
        "given": given,
        "found": found,
        "options": "".join(f"\n    {key}: {option['says']}" for key, option in options.items()),
        "errors": "".join(f"\n    InvalidArgumentError: {text}" for text in {o["error"]: 0 for o in options.values()}),
    }
    function.__doc__ = "\n".join(TEXTS["derivative" if derivative else "activation"]).format(**values)
    return function


def _forward(name: str, x: Operand, kind: str | None = None, **attributes: float) -> Result:
    return evaluate(name, lambda r, x: r("activation", x, kind=kind or name, **attributes), floats(x, "x"))


def _backward(
    activation: str, grad_output: Operand, x: Operand, kind: str | None = None, **attributes: float
) -> Result:
    g, given = floats(grad_output, "grad_output"), floats(x, "x")
    need_shape(f"{activation}_backward", "grad_output", g, given.shape)
    options = {"kind": kind or activation, **attributes}
    name = f"{activation}_backward"
    return evaluate(name, lambda r, g, x: r.gradient("activation", g, x, **options), g, given, alike=2)


def _pair(name: str) -> tuple[Forward, Backward]:
    """An activation without options, and its derivative."""

    def forward(x: Operand) -> Result:
        return _forward(name, x)

    def backward(grad_output: Operand, x: Operand) -> Result:
        return _backward(name, grad_output, x)

    forward.__name__ = forward.__qualname__ = name
    backward.__name__ = backward.__qualname__ = f"{name}_backward"
    return documented(forward), documented(backward)


relu, relu_backward = _pair("relu")
silu, silu_backward = _pair("silu")
softplus, softplus_backward = _pair("softplus")
sigmoid, sigmoid_backward = _pair("sigmoid")
tanh, tanh_backward = _pair("tanh")
quick_gelu, quick_gelu_backward = _pair("quick_gelu")
gcu, gcu_backward = _pair("gcu")


def gelu_kind(name: str, approximate: str) -> str:
    """Kernel name of an approximation."""
    return APPROXIMATIONS[one_of(name, "approximate", approximate, tuple(APPROXIMATIONS))]


@documented
def gelu(x: Operand, approximate: str = "tanh") -> Result:
    return _forward("gelu", x, gelu_kind("gelu", approximate))


#: The name that upstream's functions on a device have.
activation_gelu = gelu


@documented
def gelu_backward(grad_output: Operand, x: Operand, approximate: str = "tanh") -> Result:
    return _backward("gelu", grad_output, x, gelu_kind("gelu_backward", approximate))


@documented
def leaky_relu(x: Operand, negative_slope: float = 0.01) -> Result:
    return _forward("leaky_relu", x, a=number("leaky_relu", "negative_slope", negative_slope))


@documented
def leaky_relu_backward(grad_output: Operand, x: Operand, negative_slope: float = 0.01) -> Result:
    slope = number("leaky_relu_backward", "negative_slope", negative_slope)
    return _backward("leaky_relu", grad_output, x, a=slope)


@documented
def roswish(x: Operand, alpha: float = 1.0, beta: float = 1.0) -> Result:
    return _forward("roswish", x, a=number("roswish", "alpha", alpha), b=number("roswish", "beta", beta))


@documented
def roswish_backward(grad_output: Operand, x: Operand, alpha: float = 1.0, beta: float = 1.0) -> Result:
    a, b = number("roswish_backward", "alpha", alpha), number("roswish_backward", "beta", beta)
    return _backward("roswish", grad_output, x, a=a, b=b)


def roswish_numbers_backward(grad_output: Operand, x: Operand, alpha: float, beta: float) -> tuple[Result, Result]:
    """The gradients of alpha and beta of `roswish`, `(1,)` each: the sums of `g (s - 1/2)` and of
    `g (x + alpha) x s (1 - s)`, where `s = sigmoid(beta x)`."""
    g, given = floats(grad_output, "grad_output"), floats(x, "x")
    need_shape("roswish_backward", "grad_output", g, given.shape)
    rows = [math.prod(given.shape), 1]

    def body(r: Any, g: Any, x: Any) -> tuple[Any, Any]:
        g, x = r.wide(g).reshape(rows), r.wide(x).reshape(rows)
        steep = r("binary", x, r.constant(beta), kind="multiply")
        above = r("binary", r("activation", steep, kind="sigmoid"), r.constant(0.5), kind="subtract")
        shifted = r("binary", g, r("binary", x, r.constant(alpha), kind="add"), kind="multiply")
        (slope,) = r.vjp("activation", shifted, steep, kind="sigmoid")
        products = r("binary", g, above, kind="multiply"), r("binary", slope, x, kind="multiply")
        return tuple(r("reduce", product, axis=0, kind="sum") for product in products)

    return evaluate("roswish_backward", body, g, given, alike=2)
