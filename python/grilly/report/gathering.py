"""References and bounds of what gathers numbers: reductions, pooling, tables; see references.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from grilly.report.references import BOUNDS, TINY, Attributes, Operands, U, bounded, magnitude, reference, summed

__all__: list[str] = []


@reference
def reduce(operands: Operands, attributes: Attributes) -> Any:
    x, *weights = operands
    axis, kind = attributes["axis"], attributes["kind"]
    if not weights:
        return getattr(np, "std" if kind == "deviation" else kind)(x, axis=axis)
    spread = weights[0].reshape(weights[0].shape + (1,) * (x.ndim - axis - 1))
    return (spread * x).sum(axis=axis) / np.maximum(spread.sum(axis=axis), 1e-9)


@bounded
def reduce_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    x, axis, kind = operands[0], attributes["axis"], attributes["kind"]
    if kind == "max":
        return np.zeros_like(y)
    if kind == "deviation":
        return summed(x.shape[axis], np.abs(y) + np.abs(x).mean(axis=axis)) + TINY
    return summed(2 * x.shape[axis], magnitude("reduce", operands, attributes)) + TINY


@reference
def top_k(operands: Operands, attributes: Attributes) -> Any:
    order = np.argsort(-operands[0], axis=-1, kind="stable")[..., : attributes["count"]]
    return np.take_along_axis(operands[0], order, axis=-1), order


@bounded
def top_k_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    return np.zeros_like(y[0]), np.zeros_like(y[1])


@reference
def max_sum(operands: Operands, attributes: Attributes) -> Any:
    x, row_starts, column_starts = operands
    y = np.zeros((len(row_starts) - 1, len(column_starts) - 1))
    for j, (first, end) in enumerate(zip(column_starts[:-1], column_starts[1:], strict=True)):
        largest = x[:, first:end].max(axis=1, initial=-np.inf)
        parts = zip(row_starts[:-1], row_starts[1:], strict=True)
        y[:, j] = [largest[start:stop].sum() for start, stop in parts] if end > first else -1e9
    return y


@bounded
def max_sum_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    """As if every maximum were of the largest magnitudes."""
    most = int(np.diff(operands[1]).max(initial=0))
    return summed(most, np.maximum(magnitude("max_sum", operands, attributes), 0)) + TINY


@reference
def max_sim(operands: Operands, attributes: Attributes) -> Any:
    queries, documents, *starts = operands
    return max_sum([queries @ documents.T, *starts], attributes)


@bounded
def max_sim_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    terms = operands[0].shape[1] + int(np.diff(operands[2]).max(initial=0))
    return summed(terms, np.maximum(magnitude("max_sim", operands, attributes), 0)) + TINY


@reference
def token_convolution(operands: Operands, attributes: Attributes) -> Any:
    x, weight, offsets = operands
    before, taps = attributes["before"], weight.shape[2]
    weight = np.broadcast_to(np.repeat(weight, x.shape[1] // weight.shape[1], axis=1), (*x.shape, taps))
    y = np.zeros(x.shape)
    for start, end in zip(offsets[:-1], offsets[1:], strict=True):
        for tap in range(taps):
            rows = np.arange(max(start, start + before - tap), min(end, end + before - tap))
            y[rows] += weight[rows, :, tap] * x[rows + tap - before]
    return y


@bounded
def token_convolution_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    return summed(operands[1].shape[2], magnitude("token_convolution", operands, attributes)) + TINY


@reference
def pool(operands: Operands, attributes: Attributes) -> Any:
    x, offsets, first = operands
    found = []
    for start, end, skipped in zip(offsets[:-1], offsets[1:], first, strict=True):
        tokens = x[start + skipped : end]
        places = skipped + 1.0 + np.arange(len(tokens))[:, None]
        modes = {
            "cls": tokens[0],
            "last_token": tokens[-1],
            "max": tokens.max(axis=0),
            "mean": tokens.mean(axis=0),
            "mean_sqrt_length": tokens.sum(axis=0) / math.sqrt(len(tokens)),
            "sum": tokens.sum(axis=0),
            "weighted_mean": (tokens * places).sum(axis=0) / places.sum(),
        }
        found.append(np.concatenate([modes[mode] for mode in attributes["modes"]]))
    return np.stack(found)


@bounded
def pool_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    return summed(int(np.diff(operands[1]).max()), magnitude("pool", operands, attributes)) + TINY


@reference
def embedding_sum(operands: Operands, attributes: Attributes) -> Any:
    return sum(table[ids] for ids, table in zip(operands[::2], operands[1::2], strict=True))


@bounded
def embedding_sum_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    return (len(operands) // 2 - 1) * 2 * U * magnitude("embedding_sum", operands, attributes)


@reference
def set_rows(operands: Operands, attributes: Attributes) -> Any:
    y = operands[0].copy()
    y[operands[2]] = operands[1]
    return y


for _name in ("cast", "set_rows", "integer_linear"):
    BOUNDS[_name] = lambda operands, attributes, y: np.zeros_like(y)


@reference
def whiten(operands: Operands, attributes: Attributes) -> Any:
    x, mean, deviation, eps = operands
    return (x - mean) / (deviation + eps)


@bounded
def whiten_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    return 12 * U * np.abs(y) + TINY
