"""How far activations, gates and their derivatives may be from the reference."""

from __future__ import annotations

import numpy as np

from cases.functions import activate, slope
from cases.kinds import Attributes, Operands, kinds
from cases.units import TINY, U


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


def activation(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    return of_activation(operands[0], y, *kinds(attributes))


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


def activation_backward(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    g, x = operands
    return np.abs(g) * of_slope(x, *kinds(attributes)) + 2 * U * np.abs(y) + TINY


def gated(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    first, second = np.split(operands[0], 2, axis=-1)
    kind, a, b = kinds(attributes)
    return np.abs(first) * of_activation(second, activate(second, kind, a, b), kind, a, b) + 2 * U * np.abs(y) + TINY


def gated_backward(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    g, x = operands
    first, second = np.split(x, 2, axis=-1)
    kind, a, b = kinds(attributes)
    left = np.abs(g) * of_activation(second, activate(second, kind, a, b), kind, a, b)
    right = np.abs(g * first) * of_slope(second, kind, a, b)
    return np.concatenate([left, right], axis=-1) + 4 * U * np.abs(y) + TINY
