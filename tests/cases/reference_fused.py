"""Fused operations in float64 NumPy: written out, not by their definitions in the package."""

from __future__ import annotations

import numpy as np

from cases.functions import activate
from cases.kinds import Attributes, Operands
from cases.reference_attention import rope
from cases.reference_softmax import softmax


def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, attributes: Attributes) -> np.ndarray:
    columns = max(x.shape[-1], 1)
    centred = x - x.sum(axis=-1, keepdims=True) / columns
    deviation = np.sqrt(np.square(centred).sum(axis=-1, keepdims=True) / columns + attributes.get("eps", 1e-5))
    return centred / deviation * weight + bias


def residual_layer_norm(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, residual, weight, bias = operands
    return layer_norm(x + residual, weight, bias, attributes)


def residual_rms_norm(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, residual, weight = operands
    total = x + residual
    return total / np.sqrt(np.square(total).mean(axis=-1, keepdims=True) + attributes.get("eps", 1e-6)) * weight


def rms_norm_rope(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, weight, cos, sin = operands
    axes = (-2, -1) if len(weight) != x.shape[-1] else (-1,)
    mean = np.square(x).mean(axis=axes, keepdims=True)
    heads = weight.reshape(-1, x.shape[-1])
    return rope([x / np.sqrt(mean + attributes.get("eps", 1e-6)) * heads, cos, sin], {})


def gated_linear(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, gate, up = operands
    return activate(x @ gate.T, attributes["kind"]) * (x @ up.T)


def layer_norm_linear(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, norm_weight, norm_bias, weight, *bias = operands
    y = layer_norm(x, norm_weight, norm_bias, attributes) @ weight.T
    return activate(y + bias[0] if bias else y, attributes.get("activation") or "identity")


def bias_gelu(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, bias = operands
    return activate(x + bias, gelu_kind(attributes))


def gelu_kind(attributes: Attributes) -> str:
    return "gelu_erf" if attributes.get("approximate", "tanh") == "none" else "gelu_tanh"


def softmax_dropout(operands: Operands, attributes: Attributes) -> np.ndarray:
    from cases.reference import dropout

    weights = softmax(operands, {"causal": attributes.get("causal", False)})
    return dropout([weights], {key: value for key, value in attributes.items() if key != "causal"})
