"""Operations of inference in float64 NumPy, and how far from them a result in float32 may be.

Both follow the table of operation cases, by which the project's tests hold every kernel; a test compares them with it.
A reference takes `(operands, attributes)`, float operands as float64, and gives one array or a tuple; a bound takes the
result, too, and gives what each element may be off by.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BOUNDS", "REFERENCES"]

Array = npt.NDArray[Any]
Operands = list[Any]
Attributes = dict[str, Any]
Reference = Callable[[Operands, Attributes], Any]
Bound = Callable[[Operands, Attributes, Any], Any]

#: Half a unit in the last place of 1, and the smallest normal number: a denormal result may be 0.
U, TINY = 2.0**-24, 2.0**-126
REFERENCES: dict[str, Reference] = {}
BOUNDS: dict[str, Bound] = {}


def reference(function: Reference) -> Reference:
    """That of the operation whose name the function has."""
    REFERENCES[function.__name__] = function
    return function


def bounded(function: Bound) -> Bound:
    """The bound of the operation whose name the function has, without `_bound`."""
    BOUNDS[function.__name__.removesuffix("_bound")] = function
    return function


def summed(terms: int, magnitude: Any) -> Any:
    """What a sum of so many products may be off by, of which `magnitude` is the sum of the magnitudes."""
    return 8.0 * math.sqrt(2.0 * terms + 4.0) * U * magnitude


def magnitude(op: str, operands: Operands, attributes: Attributes) -> Any:
    """An operation of the magnitudes of its float operands."""
    return REFERENCES[op]([np.abs(x) if x.dtype.kind == "f" else x for x in operands], attributes)


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def tanh_gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


#: Of a number and the two of the kind.
ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "identity": lambda x, a, b: x + 0.0,
    "relu": lambda x, a, b: np.maximum(x, 0),
    "leaky_relu": lambda x, a, b: np.where(x < 0, a * x, x),
    "gelu_erf": lambda x, a, b: 0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))),
    "gelu_tanh": lambda x, a, b: tanh_gelu(x),
    "silu": lambda x, a, b: x * sigmoid(x),
    "quick_gelu": lambda x, a, b: x * sigmoid(1.702 * x),
    "softplus": lambda x, a, b: np.logaddexp(x, 0),
    "gcu": lambda x, a, b: x * np.cos(x),
    "roswish": lambda x, a, b: (x + a) * sigmoid(b * x) - a / 2,
    "sigmoid": lambda x, a, b: sigmoid(x),
    "tanh": lambda x, a, b: np.tanh(x),
    "sqrt": lambda x, a, b: np.sqrt(x),
    "exp": lambda x, a, b: np.exp(x),
    "log": lambda x, a, b: np.log(x),
}


def activate(x: Array, kind: str | None, a: float = 1.0, b: float = 1.0) -> Array:
    return np.asarray(ACTIVATIONS[kind or "identity"](x, a, b))


def of_activation(x: Array, y: Array, kind: str | None, a: float = 1.0, b: float = 1.0) -> Any:
    """What an activation itself may be off by."""
    size, result = np.abs(x), np.abs(y)
    if kind in (None, "identity", "relu"):
        return np.zeros_like(y)
    if kind in ("leaky_relu", "sqrt"):
        return 6 * U * result + TINY
    if kind == "exp":
        return 2 * U * (4 + 2 * size) * result + TINY
    if kind == "log":
        return 6 * U * result + np.where((x >= 0.5) & (x <= 2), 2.0**-21, 0)
    if kind == "softplus":
        return 8 * U * result + 2.0**-21
    if kind == "gcu":
        return 8 * U * (size + size**2)
    if kind == "roswish":
        return 8 * U * ((size + abs(a)) * (1 + 0.3 * np.minimum(abs(b) * size, 4)) + abs(a))
    return 6 * U * np.clip(size, 1e-3, None) + 6 * U * result


@reference
def activation(operands: Operands, attributes: Attributes) -> Array:
    return activate(operands[0], **attributes)


@bounded
def activation_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    return of_activation(operands[0], y, **attributes)


@reference
def gated(operands: Operands, attributes: Attributes) -> Any:
    first, second = np.split(operands[0], 2, axis=-1)
    return first * activate(second, **attributes)


@bounded
def gated_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    first, second = np.split(operands[0], 2, axis=-1)
    off = of_activation(second, activate(second, **attributes), **attributes)
    return np.abs(first) * off + 2 * U * np.abs(y) + TINY


@reference
def binary(operands: Operands, attributes: Attributes) -> Any:
    return getattr(np, attributes["kind"])(*operands)


@bounded
def binary_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    return (6 if attributes["kind"] == "divide" else 1) * U * np.abs(y) + TINY


@reference
def cast(operands: Operands, attributes: Attributes) -> Any:
    return operands[0].astype(attributes["to"]).astype(float)


@reference
def bias_gelu(operands: Operands, attributes: Attributes) -> Array:
    return activate(operands[0] + operands[1], "gelu_erf" if attributes["approximate"] == "none" else "gelu_tanh")


@bounded
def bias_gelu_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    total = operands[0] + operands[1]
    return of_activation(total, y, "gelu_erf") + 1.13 * U * np.abs(total)


@reference
def softmax(operands: Operands, attributes: Attributes) -> Any:
    x, *keep = operands
    seen = np.broadcast_to(keep[0] != 0 if keep else True, x.shape)
    if attributes.get("causal"):
        seen = seen & (np.tri(*x.shape[-2:]) > 0)
    most = np.where(seen, x, -np.inf).max(axis=-1, keepdims=True)
    powers = np.where(seen, np.exp(np.minimum(x - np.where(np.isfinite(most), most, 0), 0)), 0)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1, total)


@bounded
def softmax_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    most = -np.log(np.maximum(y, 1e-45))
    return y * (2 * U * (5 + 3 * most) + summed(y.shape[-1], 1.0)) + TINY


@reference
def softmax_along(operands: Operands, attributes: Attributes) -> Any:
    axis = attributes["axis"]
    return np.moveaxis(softmax([np.moveaxis(operands[0], axis, -1)], {}), -1, axis)


@bounded
def softmax_along_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    axis = attributes["axis"]
    return np.moveaxis(softmax_bound([], {}, np.moveaxis(y, axis, -1)), -1, axis) + 8 * U * y


def normed(x: Array, weights: Operands, attributes: Attributes) -> tuple[Any, Any]:
    """A norm of rows, and its bound: of layer norm with a weight and a bias, of RMS norm with a weight alone."""
    centred, n = len(weights) > 1, x.shape[-1]
    eps = attributes.get("eps", 1e-5 if centred else 1e-6)
    rest = x - (x.mean(axis=-1, keepdims=True) if centred else 0.0)
    deviation = np.sqrt(np.square(rest).mean(axis=-1, keepdims=True) + eps)
    shift = summed(n, np.abs(x).mean(axis=-1, keepdims=True)) / deviation if centred else np.zeros_like(deviation)
    unit, weight, bias = rest / deviation, np.abs(weights[0]), np.abs(weights[1]) if centred else 0.0
    off = shift * weight + (summed(n, 1.0) + shift) * np.abs(unit) * weight
    off = off + 2 * U * np.abs(x / deviation) * weight + 4 * U * bias + TINY
    return unit * weights[0] + (weights[1] if centred else 0.0), off


for _name in ("layer_norm", "rms_norm"):
    REFERENCES[_name] = lambda operands, attributes: normed(operands[0], operands[1:], attributes)[0]
    BOUNDS[_name] = lambda operands, attributes, y: normed(operands[0], operands[1:], attributes)[1]
    REFERENCES[f"residual_{_name}"] = lambda operands, attributes: normed(
        operands[0] + operands[1], operands[2:], attributes
    )[0]


@bounded
def residual_layer_norm_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    total, weights = operands[0] + operands[1], operands[2:]
    rest = np.abs(total - total.mean(axis=-1, keepdims=True))
    deviation = np.sqrt(np.square(rest).mean(axis=-1, keepdims=True) + attributes.get("eps", 1e-5))
    moved = U * np.abs(total).max(axis=-1, keepdims=True) / deviation
    return normed(total, weights, attributes)[1] + moved * (2 + rest / deviation) * np.abs(weights[0])


@bounded
def residual_rms_norm_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    return normed(operands[0] + operands[1], operands[2:], attributes)[1] + 2 * U * np.abs(y)


@reference
def normalize(operands: Operands, attributes: Attributes) -> Any:
    return operands[0] / np.sqrt(np.square(operands[0]).sum(axis=-1, keepdims=True))


@bounded
def normalize_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    return summed(y.shape[-1], np.abs(y)) + TINY


def turned(x: Any, angles: Operands, sign: float) -> Any:
    cosine, sine = (table[..., None, :] for table in angles)
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cosine + sign * second * sine, second * cosine + first * sine], axis=-1)


@reference
def rope(operands: Operands, attributes: Attributes) -> Any:
    return turned(operands[0], operands[1:], -1)


@bounded
def rope_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    return 4 * U * turned(np.abs(operands[0]), [*map(np.abs, operands[1:])], 1) + TINY


@reference
def rms_norm_rope(operands: Operands, attributes: Attributes) -> Any:
    x, weight, *angles = operands
    return turned(normed(x, [weight], attributes)[0], angles, -1)


@bounded
def rms_norm_rope_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    x, weight, *angles = operands
    found, off = normed(x, [weight], attributes)
    return turned(off + 4 * U * np.abs(found), [*map(np.abs, angles)], 1) + TINY
