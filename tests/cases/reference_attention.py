"""Attention and its parts in float64 NumPy, and the patterns of architectures."""

from __future__ import annotations

import numpy as np

from cases.kinds import Attributes, Operands
from cases.reference_softmax import softmax


def grouped(x: np.ndarray, heads: int) -> np.ndarray:
    """`[B, S, G, D]` with each group repeated for its query heads, as `[B, H, S, D]`."""
    return np.repeat(x, heads // x.shape[2], axis=2).transpose(0, 2, 1, 3)


def attention_scores(operands: Operands, attributes: Attributes) -> np.ndarray:
    q, k = operands
    return attributes["scale"] * (q.transpose(0, 2, 1, 3) @ grouped(k, q.shape[2]).swapaxes(-1, -2))


def attention_mask(operands: Operands, attributes: Attributes) -> np.ndarray:
    scores = operands[0]
    masked = np.zeros(scores.shape, dtype=bool)
    if attributes.get("causal", True):
        masked |= ~np.tri(*scores.shape[-2:], dtype=bool)
    if len(operands) > 1:
        keys = operands[1] == 0
        masked |= keys.reshape(keys.shape[0], *[1] * (scores.ndim - 2), keys.shape[1])
    return scores + np.where(masked, attributes.get("mask_value", -1e9), 0.0)


def scatter(x: int) -> int:
    """Wellons' lowbias32, by which bigbird draws blocks."""
    x = (x ^ (x >> 16)) * 0x7FEB352D & 0xFFFFFFFF
    x = (x ^ (x >> 15)) * 0x846CA68B & 0xFFFFFFFF
    return x ^ (x >> 16)


def pattern(attributes: Attributes, queries: int, keys: int) -> np.ndarray:
    """Which weights the shader of an architecture takes as they are; the others count as zero."""
    architecture, window = attributes.get("architecture", ""), attributes.get("window", 0)
    row, key = np.arange(queries)[:, None], np.arange(keys)
    if architecture in ("gpt", "gpt2", "gpt_neox", "granite"):
        return np.tri(queries, keys, dtype=bool)
    if architecture not in ("modernbert", "longformer", "bigbird"):
        return np.ones((queries, keys), dtype=bool)
    allowed = (np.abs(row - key) <= window) if window else np.ones((queries, keys), dtype=bool)
    if architecture == "modernbert":
        return allowed
    allowed |= np.minimum(row, key) < attributes.get("global_tokens", 0)
    if architecture == "bigbird":
        block, draws = attributes.get("block", 64), attributes.get("random_blocks", 0)
        blocks = -(-keys // block)
        for first in range(-(-queries // block)):
            for draw in range(draws):
                place = (first * draws + draw) & 0xFFFFFFFF
                drawn = scatter((attributes.get("seed", 0) + scatter(place)) & 0xFFFFFFFF) % blocks
                allowed |= (row // block == first) & (key // block == drawn)
    return allowed


def attention_output(operands: Operands, attributes: Attributes) -> np.ndarray:
    weights, v = operands
    weights = np.where(pattern(attributes, *weights.shape[-2:]), weights, 0)
    return (weights @ grouped(v, weights.shape[1])).transpose(0, 2, 1, 3)


def heads_of(x: np.ndarray, column: int, heads: int, width: int) -> np.ndarray:
    """`[heads, T, width]` out of packed columns."""
    return x[:, column : column + heads * width].reshape(len(x), heads, width).transpose(1, 0, 2)


def seen(attributes: Attributes, queries: int, keys: int) -> tuple[np.ndarray, np.ndarray]:
    """Which keys queries see, and how far these lie after them."""
    place = np.arange(queries)[:, None] + (keys - queries if attributes.get("align_end") else 0)
    key, window, first = np.arange(keys), attributes.get("window", 0), attributes.get("global_tokens", 0)
    keep = np.ones((queries, keys), dtype=bool)
    if window:
        keep = (np.abs(key - place) <= window) | (key < first) | ((place >= 0) & (place < first))
    return keep & (key <= place) if attributes.get("causal") else keep, key - place


def attention(operands: Operands, attributes: Attributes) -> np.ndarray:
    q, k, v, q_offsets, k_offsets, *bias = operands
    heads, groups, width = attributes["heads"], attributes["kv_heads"], attributes["head_dim"]
    q = heads_of(q, attributes.get("q_column", 0), heads, width)
    k = np.repeat(heads_of(k, attributes.get("k_column", 0), groups, width), heads // groups, axis=0)
    v = np.repeat(heads_of(v, attributes.get("v_column", 0), groups, width), heads // groups, axis=0)
    result = np.zeros(q.shape)
    for text in range(len(q_offsets) - 1):
        rows = slice(q_offsets[text], q_offsets[text + 1])
        own = text // attributes.get("shared_by", 1)
        keys = slice(k_offsets[own], k_offsets[own + 1])
        scores = attributes["scale"] * (q[:, rows] @ k[:, keys].swapaxes(-1, -2))
        keep, distance = seen(attributes, *scores.shape[1:])
        if bias:
            reach = bias[0].shape[1] // 2
            own_rows = (text * heads + np.arange(heads)) % len(bias[0])
            scores = scores + bias[0][own_rows][:, np.clip(distance, -reach, reach) + reach]
        for head, weights in enumerate(softmax([scores, np.broadcast_to(keep, scores.shape)], {})):
            # A key that is hidden is not touched: 0 times a NaN would not be 0.
            values = v[head, keys]
            wild = ~np.isfinite(values).all(axis=1)
            result[head, rows] = weights[:, ~wild] @ values[~wild]
            for key in np.flatnonzero(wild):
                result[head, rows][keep[:, key]] += weights[keep[:, key], key, None] * values[key]
    return result.transpose(1, 0, 2).reshape(q.shape[1], heads * width)


def rope(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, cos, sin = operands
    cos, sin = cos[..., None, :], sin[..., None, :]
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
