"""References and bounds of attention, whole and in parts; see references.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly.report.references import (
    TINY,
    Attributes,
    Operands,
    U,
    bounded,
    magnitude,
    reference,
    softmax,
    summed,
)

__all__ = ["in_half"]


def heads_of(x: Any, heads: int, width: int, column: int = 0) -> Any:
    """`[heads, T, width]` out of packed columns."""
    return x[:, column : column + heads * width].reshape(len(x), heads, width).swapaxes(0, 1)


@reference
def attention(operands: Operands, attributes: Attributes) -> Any:
    q, k, v, q_offsets, k_offsets, *others = operands
    heads, groups, width = attributes["heads"], attributes["kv_heads"], attributes["head_dim"]
    window, leading, cap = (attributes.get(name, 0) for name in ("window", "global_tokens", "soft_cap"))
    q = heads_of(q, heads, width)
    k, v = (np.repeat(heads_of(x, groups, width), heads // groups, axis=0) for x in (k, v))
    y = np.zeros(q.shape)
    for text in range(len(q_offsets) - 1):
        rows, own = slice(*q_offsets[text : text + 2]), text // attributes.get("shared_by", 1)
        keys = slice(*k_offsets[own : own + 2])
        scores = q[:, rows] @ k[:, keys].swapaxes(1, 2)
        place, key = np.arange(scores.shape[1])[:, None], np.arange(scores.shape[2])
        if attributes.get("align_end"):
            place = place + scores.shape[2] - scores.shape[1]
        distance, seen = key - place, np.ones(scores.shape[1:], dtype=bool)
        if window:
            seen = (np.abs(distance) <= window) | (key < leading) | ((place >= 0) & (place < leading))
        if attributes.get("causal"):
            seen = seen & (distance <= 0)
        for side, at in enumerate(attributes.get("distances", ())):
            reach = len(others[-1]) // 2
            met = np.repeat(heads_of(others[-1], groups, width, at), heads // groups, axis=0)
            near = np.clip(distance, -reach, reach) + reach
            products = (k[:, keys] if side else q[:, rows]) @ met.swapaxes(1, 2)
            found = np.take_along_axis(products, (near.T if side else near)[None], axis=2)
            scores = scores + (found.swapaxes(1, 2) if side else found)
        scores = attributes["scale"] * scores
        if cap:
            scores = cap * np.tanh(scores / cap)
        if attributes.get("bias"):
            reach = others[0].shape[1] // 2
            table = others[0][(text * heads + np.arange(heads)) % len(others[0])]
            scores = scores + table[:, np.clip(distance, -reach, reach) + reach]
        if scores.size:
            y[:, rows] = softmax([scores, np.broadcast_to(seen, scores.shape)], {}) @ v[:, keys]
    return y.swapaxes(0, 1).reshape(len(operands[0]), -1)


def of_values(operands: Operands, attributes: Attributes) -> Any:
    """Attention to the magnitudes of the values."""
    return attention([*operands[:2], np.abs(operands[2]), *operands[3:]], attributes)


@bounded
def attention_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    q, k, _, _, k_offsets, *others = operands
    width, far = attributes["head_dim"], np.abs(others[-1]).max() if attributes.get("distances") else 0.0
    q_most, k_most = np.abs(q).max(), np.abs(k).max()
    largest = (q_most * k_most + (q_most + k_most) * far) * width * abs(attributes["scale"])
    off = summed(width, min(largest, 1e3)) + 6 * U * min(largest, 100)
    off += 8 * U * min(np.abs(others[0]).max(), 100) if attributes.get("bias") else 0.0
    size = of_values(operands, attributes)
    return size * np.expm1(2 * off) + summed(int(np.diff(k_offsets).max()) + 8, size) + TINY


def in_half(operands: Operands, attributes: Attributes) -> Any:
    """What attention's weights lose as float16.

    Example:
        >>> from grilly.report import attention, rows
        >>> row = next(row for row in rows.ROWS if row.dtype == "float16" and row.operation == "attention")
        >>> float(attention.in_half(row.wide(), row.attributes).max()) < 2e-3
        True
    """
    keys, v = int(np.diff(operands[4]).max()), operands[2]
    return 2.0**-11 * of_values(operands, attributes) + 2.0**-25 * keys * np.abs(v).max()


def grouped(x: Any, heads: int) -> Any:
    """`[B, S, G, D]` with each group repeated for its heads, as `[B, H, S, D]`."""
    return np.repeat(x, heads // x.shape[2], axis=2).transpose(0, 2, 1, 3)


@reference
def attention_scores(operands: Operands, attributes: Attributes) -> Any:
    q, k = operands
    return attributes["scale"] * (q.transpose(0, 2, 1, 3) @ grouped(k, q.shape[2]).swapaxes(-1, -2))


@reference
def attention_output(operands: Operands, attributes: Attributes) -> Any:
    weights, v = operands
    return (weights @ grouped(v, weights.shape[1])).transpose(0, 2, 1, 3)


@bounded
def attention_scores_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    return summed(operands[0].shape[-1], magnitude("attention_scores", operands, attributes)) + TINY


@bounded
def attention_output_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    return summed(operands[0].shape[-1], magnitude("attention_output", operands, attributes)) + TINY


@reference
def attention_mask(operands: Operands, attributes: Attributes) -> Any:
    return operands[0] + np.where(np.tri(*operands[0].shape[-2:]) > 0, 0.0, attributes["mask_value"])


@bounded
def attention_mask_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    return U * np.abs(y) + TINY


@reference
def attention_bias(operands: Operands, attributes: Attributes) -> Any:
    x, table = operands
    queries, keys = x.shape[-2:]
    distance, reach = np.arange(keys) - np.arange(queries)[:, None], table.shape[1] // 2
    return x + table[:, np.clip(distance, -reach, reach) + reach]


@bounded
def attention_bias_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    return U * np.abs(y) + TINY
