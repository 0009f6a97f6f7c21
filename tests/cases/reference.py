"""Every primitive operation of the array engine in float64 NumPy: what the kernels are held against.

A reference takes `(operands, attributes)`, float operands already as float64 and whole numbers as they are, and returns
float64, of an operation with several results a tuple. It is written for clarity, follows the
formulas in the comments of src/ops/, and shares no code with the package.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cases.functions import activate, slope
from cases.kinds import Attributes, Operands, Reference, kinds
from cases.reference_attention import attention, attention_mask, attention_output, attention_scores, rope
from cases.reference_fused import (
    bias_gelu,
    gated_linear,
    layer_norm_linear,
    residual_layer_norm,
    residual_rms_norm,
    rms_norm_rope,
    softmax_dropout,
)
from cases.reference_softmax import (
    binary_cross_entropy,
    cross_entropy,
    cross_entropy_backward,
    softmax,
    softmax_backward,
)
from cases.reference_training import adam, dequantize_rows, integer_linear, quantize_rows, set_rows


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
        cross_entropy_backward, binary_cross_entropy, pool, cast, bias_gelu, residual_layer_norm, residual_rms_norm,
        rms_norm_rope, softmax_dropout, gated_linear, layer_norm_linear, adam, set_rows,
        quantize_rows, integer_linear, dequantize_rows,
    )
}  # fmt: skip


def evaluate(op: str, operands: Operands, attributes: Attributes) -> Any:
    """The reference of `op`, with float operands raised to float64."""
    wide = [value.astype(np.float64) if value.dtype.kind == "f" else value for value in operands]
    with np.errstate(all="ignore"):
        return REFERENCES[op](wide, attributes)
