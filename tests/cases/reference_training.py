"""Training's operations and those on 8-bit integers in float64 NumPy; several results are a tuple."""

from __future__ import annotations

import numpy as np

from cases.kinds import Attributes, Operands


def adam(operands: Operands, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """The decays are those of float32."""
    parameter, m, v, g, (rate, c1, c2) = operands
    named = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "decay": 0.0} | attributes
    beta1, beta2, eps, decay = (np.float64(np.float32(named[name])) for name in ("beta1", "beta2", "eps", "decay"))
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    return parameter - rate * (m / c1 / (np.sqrt(v / c2) + eps) + decay * parameter), m, v


def set_rows(operands: Operands, attributes: Attributes) -> np.ndarray:
    table, x, index = operands
    table = table.copy()
    table[index] = x
    return table


def quantize_rows(operands: Operands, attributes: Attributes) -> tuple[np.ndarray, ...]:
    x = operands[0]
    scale = 127 / np.maximum(np.abs(x).max(axis=-1, initial=0), np.float32(1e-5))
    return np.clip(np.rint(x * scale[..., None]), -128, 127), scale


def integer_linear(operands: Operands, attributes: Attributes) -> np.ndarray:
    q, weight = operands
    return (q.astype(np.int64) @ weight.astype(np.int64).T).astype(np.float64)


def dequantize_rows(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, scale, weight_scale = operands
    return x / (scale[..., None] * weight_scale)
