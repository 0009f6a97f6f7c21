"""How far a float32 result may be from the float64 reference: derived from the type and the number of terms.

`U` is half a unit in the last place of 1. A sum of n products may be off by `8 sqrt(2 n + 4) U` times the sum of their
magnitudes: n roundings of at most U each, of either sign, with a factor of 8 on their standard deviation. A function of
one number may be off by some units in the last place of its largest part; what these units are stands at each.
"""

from __future__ import annotations

import numpy as np

from cases.bounds_activation import activation, activation_backward, gated, gated_backward, of_activation
from cases.bounds_fused import (
    bias_gelu,
    folded_norm,
    gated_linear,
    layer_norm_linear,
    residual_layer_norm,
    residual_rms_norm,
    rms_norm_rope,
    softmax_dropout,
)
from cases.bounds_training import adam, dequantize_rows, quantize_rows
from cases.functions import activate
from cases.kinds import Attributes, Operands
from cases.reference import evaluate
from cases.reference_softmax import target_weights
from cases.units import TINY, Bound, U, exact, rounded, summed


def binary(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """Correctly rounded; Vulkan allows a division 2.5 units."""
    return (6 if attributes["kind"] == "divide" else 1) * U * np.abs(y) + TINY


def softmax(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """exp of a difference d that is itself off by a unit of d: 3 + 2 |d| + |d| units; then the sum and a division."""
    most = -np.log(np.maximum(y, 1e-45))  # at least |d|
    return y * (2 * U * (5 + 3 * most) + summed(y.shape[-1], np.ones(1))) + TINY


def softmax_backward(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    g, p = operands
    products = np.abs(g * p).sum(axis=-1, keepdims=True)
    return np.abs(p) * (summed(g.shape[-1], products) + 4 * U * (np.abs(g) + products)) + 4 * U * np.abs(y) + TINY


def moments(x: np.ndarray, eps: float, centred: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The normalised x, its divisor, and the error of its mean in units of the divisor."""
    n = max(x.shape[-1], 1)
    mean = x.sum(axis=-1, keepdims=True) / n if centred else np.zeros(x.shape[:-1] + (1,))
    deviation = np.sqrt(np.square(x - mean).sum(axis=-1, keepdims=True) / n + eps)
    shift = summed(n, np.abs(x).sum(axis=-1, keepdims=True) / n) / deviation if centred else np.zeros_like(deviation)
    return (x - mean) / deviation, deviation, shift


def norm(centred: bool, eps: float) -> Bound:
    def bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
        x, weight = operands[:2]
        bias = np.abs(operands[2]) if len(operands) > 2 else 0.0
        unit, deviation, shift = moments(x, attributes.get("eps", eps), centred)
        relative = summed(x.shape[-1], np.ones(1)) + shift
        return (
            shift * np.abs(weight)
            + relative * np.abs(unit * weight)
            + 2 * U * np.abs(x / deviation * weight)
            + 4 * U * bias
            + TINY
        )

    return bound


def norm_backward(centred: bool, eps: float) -> Bound:
    def bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
        g, x, weight = operands
        n = max(x.shape[-1], 1)
        unit, deviation, shift = moments(x, attributes.get("eps", eps), centred)
        h = np.abs(g * weight)
        parts = h + h.sum(axis=-1, keepdims=True) / n
        dots = (h * np.abs(unit)).sum(axis=-1, keepdims=True) / n
        relative = summed(n, np.ones(1)) + shift + 2 * U * np.abs(x / deviation).max(axis=-1, keepdims=True, initial=0)
        return 2 * relative * (parts + (1 + np.abs(unit)) * (dots + parts * shift)) / deviation + TINY

    return bound


def normalize(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    return summed(y.shape[-1], np.abs(y)) + TINY


def linear(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    plain = {**attributes, "activation": None, "residual": "none"}
    count = 3 if attributes.get("bias") else 2
    magnitude = evaluate("linear", [np.abs(value) for value in operands[:count]], plain)
    bound = summed(operands[0].shape[-1], magnitude)
    kind = attributes.get("activation")
    if kind:
        before = evaluate("linear", operands[:count], plain)
        bound = 1.2 * bound + of_activation(before, activate(before, kind), kind)
    if attributes.get("residual") == "added":
        bound = bound + 4 * U * (np.abs(y) + np.abs(operands[-1]))
    return bound + TINY


def matmul(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    wide = {**attributes, "scale": abs(attributes.get("scale", 1.0))}
    terms = operands[0].shape[-2 if attributes.get("transpose_a") else -1]
    return summed(terms, evaluate("matmul", [np.abs(value) for value in operands], wide)) + TINY


def attention_scores(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    wide = {**attributes, "scale": abs(attributes["scale"])}
    return summed(operands[0].shape[-1], evaluate("attention_scores", [np.abs(v) for v in operands], wide)) + TINY


def attention_output(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    return summed(operands[0].shape[-1], evaluate("attention_output", [np.abs(v) for v in operands], attributes)) + TINY


def attention(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """An error e of the scores changes every weight by a factor of at most exp(2 e)."""
    q, k, v, q_offsets, k_offsets, *bias = operands
    magnitude = evaluate("attention", [q, k, np.abs(v), q_offsets, k_offsets, *bias], attributes)
    width, keys = attributes["head_dim"], int(max(np.diff(k_offsets), default=0))
    # What is not finite hides a key or spoils a row, where no bound counts.
    q_most, k_most = (np.abs(x[np.isfinite(x)]).max(initial=0) for x in (q, k))
    largest = q_most * k_most * width * abs(attributes["scale"])
    error = summed(width, np.minimum(largest, 1e3)) + 2 * U * 3 * np.minimum(largest, 100)
    # A bias is added by one more rounding, and widens the range of what exp is taken of.
    error += 2 * U * 4 * min(max((np.abs(table).max(initial=0) for table in bias), default=0.0), 100)
    return magnitude * np.expm1(2 * error) + summed(keys + 8, magnitude) + TINY


def half_weights(operands: Operands, attributes: Attributes) -> np.ndarray:
    """What attention's weights lose as float16: half a unit each, and what is below its smallest step.

    The largest weight of a row is 1 before they are divided by their sum.
    """
    q, k, v, q_offsets, k_offsets, *bias = operands
    keys = int(max(np.diff(k_offsets), default=0))
    magnitude = evaluate("attention", [q, k, np.abs(v), q_offsets, k_offsets, *bias], attributes)
    return 2.0**-11 * magnitude + 2.0**-25 * keys * np.abs(v[np.isfinite(v)]).max(initial=0)


def rope(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    x, cos, sin = (np.abs(value) for value in operands)
    cos, sin = cos[..., None, :], sin[..., None, :]
    first, second = np.split(x, 2, axis=-1)
    return 4 * U * np.concatenate([first * cos + second * sin, second * cos + first * sin], axis=-1) + TINY


def embedding_sum(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    magnitudes = [abs(v) if place % 2 else v for place, v in enumerate(operands)]
    tables = len(operands) // 2
    return (tables - 1) * 2 * U * evaluate("embedding_sum", magnitudes, attributes)


def embedding_backward(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    g, order, starts = operands
    most = int(max(np.diff(starts), default=0))
    return summed(most, evaluate("embedding_backward", [np.abs(g), order, starts], attributes)) if most > 1 else 0 * y


def reduce(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    x, axis, kind = operands[0], attributes["axis"], attributes["kind"]
    n = x.shape[axis]
    if kind == "max":
        return np.zeros_like(y)
    if kind == "deviation":  # the mean's error adds to every difference
        shift = summed(n, np.abs(x).sum(axis=axis) / max(n, 1))
        return summed(n, np.abs(y)) + shift + TINY
    wide = [np.abs(x)] + ([np.abs(operands[1])] if len(operands) > 1 else [])
    return summed(2 * n, evaluate("reduce", wide, attributes)) + TINY


def dropout(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """1 - p is rounded, then a division."""
    p = attributes["p"]
    return (8 + 2 / max(1 - p, U)) * U * np.abs(y) + TINY


def cross_entropy(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    logits = operands[0]
    classes = logits.shape[-1]
    size = np.abs(logits).max(axis=-1, initial=0)
    _, picked, _ = target_weights(operands, classes)
    weights = np.abs(picked)
    if attributes.get("label_smoothing"):
        weights = weights + attributes["label_smoothing"] * (np.abs(operands[2]).max() if len(operands) > 2 else 1)
    return weights * (summed(classes, np.ones(1)) + 8 * U * (2 * size + np.log(max(classes, 1)))) + 2.0**-21 * weights


def cross_entropy_backward(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    g, logits = operands[:2]
    classes = logits.shape[-1]
    _, picked, _ = target_weights(operands[1:], classes)
    factor = np.abs(picked) + attributes.get("label_smoothing", 0.0) * (
        np.abs(operands[3]).max() if len(operands) > 3 else 1
    )
    spread = np.minimum(np.abs(logits).max(axis=-1, initial=0), 50)
    return ((np.abs(g) * factor) * (summed(classes, np.ones(1)) + 2 * U * (8 + 8 * spread)))[..., None] + 0 * y + TINY


def binary_cross_entropy(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """Two logarithms, the second of 1 - p; each 2^-21 absolute near 1."""
    return 2.0**-20 + 8 * U * np.abs(y)


def pool(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    x, offsets, first = operands
    if set(attributes["modes"]) <= {"cls", "last_token", "max"}:
        return np.zeros_like(y)
    most = int(max(np.diff(offsets), default=0))
    magnitude = np.abs(evaluate("pool", [np.abs(x), offsets, first], attributes))
    return summed(most, np.where(np.isfinite(magnitude), magnitude, 0)) + TINY


BOUNDS: dict[str, Bound] = {
    "activation": activation,
    "activation_backward": activation_backward,
    "gated": gated,
    "gated_backward": gated_backward,
    "binary": binary,
    "softmax": softmax,
    "softmax_backward": softmax_backward,
    "layer_norm": norm(True, 1e-5),
    "layer_norm_backward": norm_backward(True, 1e-5),
    "rms_norm": norm(False, 1e-6),
    "rms_norm_backward": norm_backward(False, 1e-6),
    "normalize": normalize,
    "linear": linear,
    "matmul": matmul,
    "attention_scores": attention_scores,
    "attention_mask": rounded(0.5),
    "attention_output": attention_output,
    "attention": attention,
    "rope": rope,
    "embedding_sum": embedding_sum,
    "embedding_backward": embedding_backward,
    "reduce": reduce,
    "dropout": dropout,
    "cross_entropy": cross_entropy,
    "cross_entropy_backward": cross_entropy_backward,
    "binary_cross_entropy": binary_cross_entropy,
    "pool": pool,
    "cast": exact,
    "bias_gelu": bias_gelu,
    "gated_linear": gated_linear,
    "layer_norm_linear": layer_norm_linear(norm(True, 1e-5)),
    "residual_layer_norm": residual_layer_norm(norm(True, 1e-5)),
    "residual_rms_norm": residual_rms_norm(norm(False, 1e-6)),
    "rms_norm_rope": rms_norm_rope(norm(False, 1e-6)),
    "softmax_dropout": softmax_dropout(softmax, dropout),
    "adam": adam,
    "set_rows": exact,
    "quantize_rows": quantize_rows,
    "integer_linear": exact,
    "dequantize_rows": dequantize_rows,
}


def bound(op: str, operands: Operands, attributes: Attributes, y: np.ndarray, half: bool) -> np.ndarray:
    """The bound of a result, of several a tuple; a float16 one is off by half a unit of float16 more."""
    wide = [value.astype(np.float64) if value.dtype.kind == "f" else value for value in operands]
    with np.errstate(all="ignore"):
        allowed = BOUNDS[op](wide, attributes, y)
        if half and op == "attention":
            allowed = allowed + half_weights(wide, attributes)
        if half and op == "layer_norm_linear":
            allowed = allowed + folded_norm(wide, attributes)
        return allowed + 2.0**-11 * (np.abs(y) + allowed) + 2.0**-25 if half else allowed
