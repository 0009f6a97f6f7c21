"""Every primitive operation of the array engine in float64 NumPy: what the kernels are held against.

A reference takes `(operands, attributes)`, float operands already as float64 and whole numbers as they are, and returns
float64. It is written for clarity, follows the
formulas in the comments of src/ops/, and shares no code with the package.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cases.functions import activate, slope

Operands = list[np.ndarray]
Attributes = dict[str, Any]
Reference = Callable[[Operands, Attributes], np.ndarray]

IGNORED = -1  # 0xFFFFFFFF as int32: a target that cross_entropy leaves out


def kinds(attributes: Attributes) -> tuple[str, float, float]:
    return attributes["kind"], attributes.get("a", 1.0), attributes.get("b", 1.0)


def activation(operands: Operands, attributes: Attributes) -> np.ndarray:
    return activate(operands[0], *kinds(attributes))


def activation_backward(operands: Operands, attributes: Attributes) -> np.ndarray:
    g, x = operands
    return g * slope(x, *kinds(attributes))


def gated(operands: Operands, attributes: Attributes) -> np.ndarray:
    first, second = np.split(operands[0], 2, axis=-1)
    return first * activate(second, *kinds(attributes))


def gated_backward(operands: Operands, attributes: Attributes) -> np.ndarray:
    g, x = operands
    first, second = np.split(x, 2, axis=-1)
    of_first, of_second = activate(second, *kinds(attributes)), first * slope(second, *kinds(attributes))
    return np.concatenate([g * of_first, g * of_second], axis=-1)


def binary(operands: Operands, attributes: Attributes) -> np.ndarray:
    a, b = operands
    functions = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide}
    return np.asarray(functions[attributes["kind"]](a, b))


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


def layer_norm(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, weight, bias = operands
    centred = x - x.mean(axis=-1, keepdims=True)
    return (
        centred / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + attributes.get("eps", 1e-5)) * weight + bias
    )


def layer_norm_backward(operands: Operands, attributes: Attributes) -> np.ndarray:
    g, x, weight = operands
    centred = x - x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + attributes.get("eps", 1e-5))
    unit, h = centred / deviation, g * weight
    return (h - h.mean(axis=-1, keepdims=True) - unit * (h * unit).mean(axis=-1, keepdims=True)) / deviation


def rms_norm(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, weight = operands
    return x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + attributes.get("eps", 1e-6)) * weight


def rms_norm_backward(operands: Operands, attributes: Attributes) -> np.ndarray:
    g, x, weight = operands
    root = np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + attributes.get("eps", 1e-6))
    unit, h = x / root, g * weight
    return (h - unit * (h * unit).mean(axis=-1, keepdims=True)) / root


def normalize(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, eps = operands[0], attributes.get("eps", 1e-12)
    norm = np.sqrt(np.square(x).sum(axis=-1, keepdims=True))
    return x / (norm + eps if attributes.get("floor", "max") == "add" else np.maximum(norm, eps))


def linear(operands: Operands, attributes: Attributes) -> np.ndarray:
    rest = operands[2:]
    y = operands[0] @ operands[1].T
    if attributes.get("bias", False):
        y = y + rest.pop(0)
    if attributes.get("activation"):
        y = activate(y, attributes["activation"])
    return y + rest.pop(0) if attributes.get("residual", "none") == "added" else y


def matmul(operands: Operands, attributes: Attributes) -> np.ndarray:
    a, b = operands
    a = np.swapaxes(a, -1, -2) if attributes.get("transpose_a", False) else a
    b = np.swapaxes(b, -1, -2) if attributes.get("transpose_b", False) else b
    return attributes.get("scale", 1.0) * (a @ b)


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


def attention(operands: Operands, attributes: Attributes) -> np.ndarray:
    q, k, v, q_offsets, k_offsets = operands
    heads, groups, width = attributes["heads"], attributes["kv_heads"], attributes["head_dim"]
    q = heads_of(q, attributes.get("q_column", 0), heads, width)
    k = np.repeat(heads_of(k, attributes.get("k_column", 0), groups, width), heads // groups, axis=0)
    v = np.repeat(heads_of(v, attributes.get("v_column", 0), groups, width), heads // groups, axis=0)
    result = np.zeros(q.shape)
    for text in range(len(q_offsets) - 1):
        rows = slice(q_offsets[text], q_offsets[text + 1])
        keys = slice(k_offsets[text], k_offsets[text + 1])
        scores = attributes["scale"] * (q[:, rows] @ k[:, keys].swapaxes(-1, -2))
        weights = softmax([scores], {"causal": attributes.get("causal", False)})
        result[:, rows] = weights @ v[:, keys]
    return result.transpose(1, 0, 2).reshape(q.shape[1], heads * width)


def rope(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, cos, sin = operands
    cos, sin = cos[..., None, :], sin[..., None, :]
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def embedding_sum(operands: Operands, attributes: Attributes) -> np.ndarray:
    return np.asarray(sum(table[ids] for ids, table in zip(operands[::2], operands[1::2])))


def embedding_backward(operands: Operands, attributes: Attributes) -> np.ndarray:
    g, order, starts = operands
    rows = [g[order[first:last]].sum(axis=0) for first, last in zip(starts[:-1], starts[1:])]
    return np.asarray(rows).reshape(len(starts) - 1, g.shape[1])


def reduce(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, axis, kind = operands[0], attributes["axis"], attributes["kind"]
    if len(operands) == 1:
        functions = {"sum": np.sum, "mean": np.mean, "max": np.max, "deviation": np.std}
        return np.asarray(functions[kind](x, axis=axis))
    weights = operands[1].reshape(x.shape[: axis + 1] + (1,) * (x.ndim - axis - 1))
    if kind == "max":
        kept = np.where(weights > 0, x, -np.inf).max(axis=axis, initial=-np.inf)
        return np.where((weights > 0).any(axis=axis), kept, 0.0)
    total = (weights * x).sum(axis=axis)
    return total if kind == "sum" else total / np.maximum(weights.sum(axis=axis), 1e-9)


def philox(seed: int, blocks: np.ndarray) -> np.ndarray:
    """Philox4x32-10 (Salmon et al., 2011) with counter `(block, 0, 0)` and key `seed`: `[blocks, 4]` words."""
    mask = np.uint64(0xFFFFFFFF)
    counter = [blocks.astype(np.uint64) & mask, blocks.astype(np.uint64) >> np.uint64(32)]
    counter += [np.zeros_like(counter[0]), np.zeros_like(counter[0])]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        product0, product1 = np.uint64(0xD2511F53) * counter[0], np.uint64(0xCD9E8D57) * counter[2]
        counter = [
            (product1 >> np.uint64(32)) ^ counter[1] ^ np.uint64(key[0]),
            product1 & mask,
            (product0 >> np.uint64(32)) ^ counter[3] ^ np.uint64(key[1]),
            product0 & mask,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(counter, axis=-1)


def dropout(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, p = operands[0], attributes["p"]
    blocks = np.arange((x.size + 3) // 4, dtype=np.uint64) + np.uint64(attributes.get("offset", 0))
    words = philox(attributes["seed"], blocks).reshape(-1)[: x.size].reshape(x.shape)
    keep = (words >> np.uint64(8)).astype(np.float64) * 2.0**-24 >= np.float32(p)
    return np.where(keep, x / (1 - p) if p < 1 else x, 0.0)


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


def pool(operands: Operands, attributes: Attributes) -> np.ndarray:
    """Packed texts from token `first[b]` of each on; without tokens zeros, and for max minus infinity."""
    x, offsets, first = operands
    result = np.zeros((len(offsets) - 1, len(attributes["modes"]), x.shape[1]))
    for text in range(len(result)):
        skipped = int(first[text])
        tokens = x[offsets[text] + skipped : offsets[text + 1]]
        places = skipped + 1.0 + np.arange(len(tokens))[:, None]
        for column, mode in enumerate(attributes["modes"]):
            if mode == "max":
                result[text, column] = tokens.max(axis=0, initial=-np.inf)
            elif len(tokens):
                result[text, column] = {
                    "cls": lambda tokens, _: tokens[0],
                    "last_token": lambda tokens, _: tokens[-1],
                    "mean": lambda tokens, _: tokens.mean(axis=0),
                    "mean_sqrt_length": lambda tokens, _: tokens.sum(axis=0) / math.sqrt(len(tokens)),
                    "weighted_mean": lambda tokens, places: (tokens * places).sum(axis=0) / places.sum(),
                }[mode](tokens, places)
    return result.reshape(len(result), len(attributes["modes"]) * x.shape[1])


def cast(operands: Operands, attributes: Attributes) -> np.ndarray:
    return operands[0].astype(attributes["to"]).astype(np.float64)


REFERENCES: dict[str, Reference] = {
    function.__name__: function
    for function in (
        activation, activation_backward, gated, gated_backward, binary, softmax, softmax_backward, layer_norm,
        layer_norm_backward, rms_norm, rms_norm_backward, normalize, linear, matmul, attention_scores, attention_mask,
        attention_output, attention, rope, embedding_sum, embedding_backward, reduce, dropout, cross_entropy,
        cross_entropy_backward, binary_cross_entropy, pool, cast,
    )
}  # fmt: skip


def evaluate(op: str, operands: Operands, attributes: Attributes) -> np.ndarray:
    """The reference of `op`, with float operands raised to float64."""
    wide = [value.astype(np.float64) if value.dtype.kind == "f" else value for value in operands]
    with np.errstate(all="ignore"):
        return REFERENCES[op](wide, attributes)
