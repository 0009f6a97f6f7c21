"""Softmax and the losses of classes in float64 NumPy."""

from __future__ import annotations

import numpy as np

from cases.kinds import Attributes, Operands

IGNORED = -1  # 0xFFFFFFFF as int32: a target that cross_entropy leaves out


def softmax(operands: Operands, attributes: Attributes) -> np.ndarray:
    x = operands[0]
    keep = np.ones(x.shape, dtype=bool)
    masked = len(operands) > 1 or attributes.get("causal", False)
    if len(operands) > 1:
        keep = keep & (operands[1] != 0)
    if attributes.get("causal", False):
        keep = keep & np.tri(x.shape[-2], x.shape[-1], dtype=bool)
    if x.shape[-1] == 0:
        return x.copy()
    if not masked:
        powers = np.exp(x - x.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)
    largest = np.where(keep, x, -np.inf).max(axis=-1, keepdims=True)
    empty = ~keep.any(axis=-1, keepdims=True)
    powers = np.where(keep, np.exp(np.where(keep, x, 0) - np.where(empty, 0, largest)), 0)
    return powers / np.where(empty, 1, powers.sum(axis=-1, keepdims=True))


def softmax_backward(operands: Operands, attributes: Attributes) -> np.ndarray:
    g, y = operands
    return y * (g - (g * y).sum(axis=-1, keepdims=True))


def log_softmax(x: np.ndarray) -> np.ndarray:
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def target_weights(operands: Operands, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The class of every row (0 where ignored), its weight (0 where ignored), and a one-hot matrix."""
    targets = operands[1].astype(np.int64)
    ignored = targets == IGNORED
    clean = np.where(ignored, 0, targets)
    weight = operands[2] if len(operands) > 2 else np.ones(classes)
    return clean, np.where(ignored, 0.0, weight[clean]), np.eye(classes)[clean]


def cross_entropy(operands: Operands, attributes: Attributes) -> np.ndarray:
    """With label smoothing s the target is `(1 - s) onehot + s / C`, every class by its own weight, as torch has it."""
    logits, s = operands[0], attributes.get("label_smoothing", 0.0)
    classes = logits.shape[-1]
    clean, picked, _ = target_weights(operands, classes)
    weight = operands[2] if len(operands) > 2 else np.ones(classes)
    logs = log_softmax(logits)
    loss = -(1 - s) * picked * np.take_along_axis(logs, clean[..., None], axis=-1)[..., 0]
    kept = operands[1].astype(np.int64) != IGNORED
    loss = loss - (s / classes * (logs * weight).sum(axis=-1) if s else 0.0)
    return np.where(kept, loss, 0.0)


def cross_entropy_backward(operands: Operands, attributes: Attributes) -> np.ndarray:
    g, rest, s = operands[0], operands[1:], attributes.get("label_smoothing", 0.0)
    classes = rest[0].shape[-1]
    _, picked, onehot = target_weights(rest, classes)
    weight = rest[2] if len(rest) > 2 else np.ones(classes)
    kept = (rest[1].astype(np.int64) != IGNORED)[..., None]
    p = np.exp(log_softmax(rest[0]))
    gradient = (1 - s) * picked[..., None] * (p - onehot) + s / classes * (p * weight.sum() - weight)
    return np.where(kept, g[..., None] * gradient, 0.0)


def binary_cross_entropy(operands: Operands, attributes: Attributes) -> np.ndarray:
    p, t = operands
    return -(t * np.maximum(np.log(p), -100) + (1 - t) * np.maximum(np.log(1 - p), -100))
