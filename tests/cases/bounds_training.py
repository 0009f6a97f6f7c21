"""How far the results of reference_training.py may be off."""

from __future__ import annotations

import numpy as np

from cases.kinds import Attributes, Operands
from cases.units import TINY, U


def adam(operands: Operands, attributes: Attributes, y: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Two products and a sum each for the means. The change has two divisions, a root of a mean that is off itself, and
    three more roundings. Vulkan allows a division 2.5 units in the last place, a root a division and an inverse root.
    """
    parameter, m, v, g, (rate, c1, c2) = operands
    named = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "decay": 0.0} | attributes
    means = 4 * U * (named["beta1"] * np.abs(m) + (1 - named["beta1"]) * np.abs(g)) + TINY
    squares = 5 * U * y[2] + TINY
    divisor = np.sqrt(y[2] / c2) + named["eps"]
    # What is below the smallest normal number may be taken for zero.
    step = means / c1 / divisor + np.abs(y[1]) / c1 / divisor * (30 * U + TINY / np.maximum(y[2], TINY))
    change = rate * (step + 4 * U * named["decay"] * np.abs(parameter))
    return 2 * U * (np.abs(parameter) + np.abs(y[0])) + change + TINY, means, squares


def quantize_rows(operands: Operands, attributes: Attributes, y: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """A number near the middle between two integers may go to either."""
    x, scale = operands[0], y[1][..., None]
    scaled = np.abs(x * scale)
    near = np.abs(scaled - np.floor(scaled) - 0.5) <= 8 * U * scaled
    return np.where(near, 1.0, 0.0), 6 * U * y[1]


def dequantize_rows(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """A conversion, a product and a division."""
    return 9 * U * np.abs(y) + TINY
