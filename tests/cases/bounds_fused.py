"""How far fused operations may be from the reference: what each step may be off by, carried through those after it."""

from __future__ import annotations

import numpy as np

from cases.bounds_activation import of_activation
from cases.functions import activate
from cases.kinds import Attributes, Operands
from cases.reference_fused import gelu_kind, layer_norm
from cases.units import TINY, Bound, U, summed


def residual_layer_norm(norm: Bound) -> Bound:
    """The norm of a sum, each element of which is off by half a unit of its own."""

    def bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
        total, (weight, bias) = operands[0] + operands[1], operands[2:]
        n = max(total.shape[-1], 1)
        centred = np.abs(total - total.sum(axis=-1, keepdims=True) / n)
        deviation = np.sqrt(np.square(centred).sum(axis=-1, keepdims=True) / n + attributes.get("eps", 1e-5))
        # The element, the mean and the deviation move by at most half a unit of the largest element.
        moved = U * np.abs(total).max(axis=-1, keepdims=True, initial=0) / deviation
        return norm([total, weight, bias], attributes, y) + moved * (2 + centred / deviation) * np.abs(weight)

    return bound


def residual_rms_norm(norm: Bound) -> Bound:
    """As above; here the element and the root of the squares' mean move by half a unit of their own."""

    def bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
        return norm([operands[0] + operands[1], operands[2]], attributes, y) + 2 * U * np.abs(y)

    return bound


def rms_norm_rope(norm: Bound) -> Bound:
    """Both elements of a pair are off as the norm is, and the turn by two roundings of each product."""

    def bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
        x, weight, cos, sin = operands
        whole = x.reshape(-1, len(weight))
        eps = attributes.get("eps", 1e-6)
        mean = np.square(whole).sum(axis=-1, keepdims=True) / max(whole.shape[-1], 1)
        normal = whole / np.sqrt(mean + eps) * weight
        off = norm([whole, weight], attributes, normal).reshape(x.shape) + 4 * U * np.abs(normal).reshape(x.shape)
        cos, sin = np.abs(cos)[..., None, :], np.abs(sin)[..., None, :]
        first, second = np.split(off, 2, axis=-1)
        return np.concatenate([first * cos + second * sin, second * cos + first * sin], axis=-1) + TINY

    return bound


def gated_linear(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """Both factors are off as products are, the gates also as their nonlinearity, whose slope is at most 1.2."""
    x, gate, up = operands
    terms, kind = x.shape[-1], attributes["kind"]
    off_gate = 1.2 * summed(terms, np.abs(x) @ np.abs(gate).T)
    off_up = summed(terms, np.abs(x) @ np.abs(up).T)
    before, other = x @ gate.T, x @ up.T
    opened = activate(before, kind)
    off_gate = off_gate + of_activation(before, opened, kind)
    return np.abs(other) * off_gate + np.abs(opened) * off_up + off_gate * off_up + 2 * U * np.abs(y) + TINY


def layer_norm_linear(norm: Bound) -> Bound:
    """Every term is off as the norm is, the sums as a product's are; the nonlinearity's slope is at most 1.2."""

    def bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
        x, norm_weight, norm_bias, weight, *bias = operands
        normal = layer_norm(x, norm_weight, norm_bias, attributes)
        off, size = norm([x, norm_weight, norm_bias], attributes, normal), np.abs(weight).T
        terms = summed(x.shape[-1], (np.abs(normal) + off) @ size + (np.abs(bias[0]) if bias else 0.0))
        before = normal @ weight.T + (bias[0] if bias else 0.0)
        of_kind = of_activation(before, y, attributes.get("activation") or "identity")
        return 1.2 * (off @ size + terms) + of_kind + TINY

    return bound


def folded_norm(operands: Operands, attributes: Attributes) -> np.ndarray:
    """What `layer_norm_linear` in 16 bits may lose more: it multiplies by g w and takes the mean off afterwards.

    g and g w may be rounded to float16, half a unit each, or half its smallest step; their sum is over the same rounded
    numbers, so that what is multiplied by their errors is x without its mean. Sums in float32 are of x with its mean.
    """
    x, g, _, weight, *_ = operands
    n = max(x.shape[-1], 1)
    mean = x.sum(axis=-1, keepdims=True) / n
    scale = 1 / np.sqrt(np.square(x - mean).sum(axis=-1, keepdims=True) / n + attributes.get("eps", 1e-5))
    product, size = np.abs(g * weight).T, np.abs(weight).T
    of_rounding = scale * (np.abs(x - mean) @ (2.0**-10.9 * product + 2.0**-25 * (1 + size)))
    return 1.2 * (of_rounding + 2 * scale * summed(n, (np.abs(x) + np.abs(mean)) @ product))


def bias_gelu(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """GELU's slope is at most 1.13 in magnitude."""
    kind, total = gelu_kind(attributes), operands[0] + operands[1]
    size = np.where(np.isfinite(total), np.abs(total), 0)
    return of_activation(total, activate(total, kind), kind) + 1.13 * U * size


def softmax_dropout(softmax: Bound, dropout: Bound) -> Bound:
    """What is kept is off as the weight is, divided by 1 - p, and as the division is."""

    def bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
        kept = max(1 - attributes["p"], U)
        return softmax(operands, attributes, y * kept) / kept + dropout(operands, attributes, y)

    return bound
