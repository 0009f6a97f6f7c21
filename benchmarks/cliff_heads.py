"""Attention and its gradients, for `cliffs.py --part heads`: heads of many widths, each beside one of a usual width."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from cliff_rows import Table, seconds

#: What a multiple is of.
BESIDE = "the time that each number takes in the head beside it"
#: Columns of a head, those of the head beside it, and the least rate beside its rate that is asked for.
Cells = tuple[tuple[int, int, float | None], ...]
FLOAT16: Cells = ((26, 32, None), (40, 48, None), (72, 80, 0.8), (80, 64, None), (96, 64, None), (104, 96, None))
FLOAT16 += ((128, 64, None), (160, 128, None), (192, 128, 0.6), (200, 192, None), (256, 128, 0.6))
FLOAT32: Cells = ((26, 32, None), (72, 80, 0.8), (80, 64, None), (96, 64, 0.7), (104, 96, None), (128, 64, 0.7))
FLOAT32 += ((192, 64, None), (256, 64, 0.5))
BACKWARD: Cells = ((40, 32, None), (72, 64, 0.7), (80, 64, None), (96, 128, 0.7), (128, 64, None))
TABLES = {
    "attention float16": ("attention", "float16", FLOAT16),
    "attention float32": ("attention", "float32", FLOAT32),
    "attention_backward float16": ("attention_backward", "float16", BACKWARD),
}
TEXTS, LENGTH, HEADS = 32, 512, 8
#: Largest difference from float64 of rounded operands, of the largest result.
BOUNDS = {"float16": 4e-3, "float32": 1e-5}


def exact(x: np.ndarray, width: int, length: int, g: np.ndarray | None = None) -> np.ndarray:
    """Of the first head of the first text: the result, or with `g` the gradients in its queries, keys and values."""
    columns = x.shape[1] // 3
    q, k, v = (x[:length, first : first + width].astype(np.float64) for first in (0, columns, 2 * columns))
    scores = q @ k.T * width**-0.5
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    if g is None:
        return weights @ v
    g = g[:length, :width].astype(np.float64)
    of_weights = g @ v.T
    of_scores = weights * (of_weights - (weights * of_weights).sum(axis=1, keepdims=True)) * width**-0.5
    return np.concatenate([of_scores @ k, of_scores.T @ q, weights.T @ g], axis=1)


def call(engine: Any, op: str, dtype: str, width: int) -> Callable[[], Any]:
    """The operation, after the first head's results are compared."""
    columns, gradients = HEADS * width, op != "attention"
    numbers = np.random.default_rng(width)
    x = numbers.standard_normal((TEXTS * LENGTH, 3 * columns), np.float32).astype(dtype)
    g = numbers.standard_normal((TEXTS * LENGTH if gradients else 1, columns), np.float32).astype(dtype)
    offsets = engine.upload((np.arange(TEXTS + 1) * LENGTH).astype(np.int32))
    packed = engine.upload(x)
    read = [packed, packed, packed, offsets, offsets]
    given: dict[str, Any] = {"heads": HEADS, "kv_heads": HEADS, "head_dim": width, "scale": width**-0.5}
    given |= {"k_column": columns, "v_column": 2 * columns}
    if gradients:
        read = [engine.upload(g), engine.call("attention", read, given), *read]
        given |= {"packed": True}

    def attend() -> Any:
        return engine.call(op, read, given)

    found = attend().numpy()[:LENGTH].astype(np.float64)
    found = np.concatenate([found[:, at : at + width] for at in range(0, found.shape[1], columns)], axis=1)
    expected = exact(x, width, LENGTH, g if gradients else None)
    off = float(np.abs(found - expected).max() / np.abs(expected).max())
    if not off <= BOUNDS[dtype]:
        raise SystemExit(f"{op} {dtype}, heads of {width}: {off:.2e} from float64; nothing is measured")
    return attend


def measure(engine: Any, rounds: int, _: int) -> tuple[dict[str, Table], dict[str, dict[str, float | None]]]:
    """Tables of multiples by operation and type, and their gates."""
    tables: dict[str, Table] = {}
    gates: dict[str, dict[str, float | None]] = {}
    for name, (op, dtype, cells) in TABLES.items():
        tables[name], gates[name] = {}, {}
        for width, near, least in cells:
            calls = {"own": call(engine, op, dtype, width), "copy": call(engine, op, dtype, near)}
            times = seconds(engine, calls, rounds)
            # Two products of each weight, and five of its gradient.
            operations = (4 if op == "attention" else 10) * TEXTS * HEADS * LENGTH * LENGTH
            rates = {of: operations * size / times[of] / 1e12 for of, size in (("own", width), ("copy", near))}
            ratio = rates["copy"] / rates["own"]
            told = f"{rates['own']:.1f} TFLOP/s, of {near} {rates['copy']:.1f}"
            print(f"{name}, heads of {width}: {told}, {1 / ratio:.2f} of its rate", flush=True)
            tables[name][str(width)] = ratio
            gates[name][str(width)] = least and 1 / least
    return tables, gates
