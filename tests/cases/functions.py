"""The nonlinearities and their derivatives in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def activate(x: np.ndarray, kind: str, a: float = 1.0, b: float = 1.0) -> np.ndarray:
    if kind == "identity":
        return x + 0.0
    if kind == "relu":
        return np.maximum(x, 0)
    if kind == "leaky_relu":
        return np.where(x < 0, a * x, x)
    if kind == "gelu_erf":
        return 0.5 * x * (1 + erf(x / math.sqrt(2)))
    if kind == "gelu_tanh":
        return 0.5 * x * (1 + np.tanh(SQRT_2_OVER_PI * (x + 0.044715 * x**3)))
    if kind == "silu":
        return x * sigmoid(x)
    if kind == "quick_gelu":
        return x * sigmoid(1.702 * x)
    if kind == "softplus":
        return np.logaddexp(x, 0)
    if kind == "gcu":
        return x * np.cos(x)
    if kind == "roswish":
        return (x + a) * sigmoid(b * x) - a / 2
    simple = {"tanh": np.tanh, "sigmoid": sigmoid, "sqrt": np.sqrt, "exp": np.exp, "log": np.log}
    return simple[kind](x)


def slope(x: np.ndarray, kind: str, a: float = 1.0, b: float = 1.0) -> np.ndarray:
    """The derivative of `activate`; 0 at relu's corner."""
    if kind == "identity":
        return np.ones_like(x)
    if kind == "relu":
        return np.where(np.isnan(x), x, np.where(x > 0, 1.0, 0.0))
    if kind == "leaky_relu":
        return np.where(np.isnan(x), x, np.where(x > 0, 1.0, a))
    if kind == "gelu_erf":
        return 0.5 * (1 + erf(x / math.sqrt(2))) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    if kind == "gelu_tanh":
        t = np.tanh(SQRT_2_OVER_PI * (x + 0.044715 * x**3))
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * SQRT_2_OVER_PI * (1 + 3 * 0.044715 * x * x)
    if kind in ("silu", "quick_gelu"):
        c = 1.0 if kind == "silu" else 1.702
        s = sigmoid(c * x)
        return s + c * x * s * (1 - s)
    if kind == "gcu":
        return np.cos(x) - x * np.sin(x)
    if kind == "roswish":
        s = sigmoid(b * x)
        return s + b * (x + a) * s * (1 - s)
    if kind == "tanh":
        return 1 - np.tanh(x) ** 2
    if kind == "sigmoid":
        return sigmoid(x) * sigmoid(-x)
    simple: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "softplus": sigmoid,
        "sqrt": lambda v: 0.5 / np.sqrt(v),
        "exp": np.exp,
        "log": lambda v: 1 / v,
    }
    return simple[kind](x)
