"""Operations on rows, for `cliffs.py --part rows`: layer norm, RMS norm, softmax and quantisation of rows of 29 widths
with as many elements, and softmax of few long rows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import grilly

WIDTHS = (64, 128, 192, 256, 312, 384, 512, 640, 768, 896, 1000, 1002, 1024, 1152, 1280, 1536, 2048, 2560, 3072, 4096)
WIDTHS += (5120, 6144, 8192, 8200, 12_288, 16_384, 30_522, 50_257, 151_936)
#: What a multiple is of.
BESIDE = "the time of a copy of the same bytes"
#: Rows and columns of few long rows, and the gate.
LONG = (((64, 1 << 20), 3.0), ((8, 1 << 22), 3.0), ((1, 1 << 24), 4.0))
#: Seconds that warm the clocks, which fall while a cell's results are compared.
WARM = 0.5
#: Bytes that are moved, of those of float32 elements read and written.
MOVED = {"quantize_rows": 5 / 8}
#: Largest difference from float64 of rounded operands, of the largest result.
BOUNDS = {"float32": 1e-5, "float16": 1e-3}
Table = dict[str, float]


def gate(op: str, width: int) -> float | None:
    """The most times of a copy that a width may take."""
    if op == "quantize_rows":
        return None
    for most, times in ((64, 1.5), (128, 1.35), (8192, 1.3 if op == "softmax" else 1.25)):
        if width <= most:
            return times
    return 1.75


def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + 1e-5) * weight + bias


def rms_norm(x: np.ndarray, weight: np.ndarray, _: np.ndarray) -> np.ndarray:
    return x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + 1e-6) * weight


def softmax(x: np.ndarray, *_: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def quantize_rows(x: np.ndarray, *_: np.ndarray) -> np.ndarray:
    return x * (127.0 / np.abs(x).max(axis=-1, keepdims=True))


#: Of each operation the number of operands and its reference; integers may be half a step and its rounding apart.
OPS: dict[str, tuple[int, Callable[..., np.ndarray]]] = {
    "layer_norm": (3, layer_norm),
    "rms_norm": (2, rms_norm),
    "softmax": (1, softmax),
    "quantize_rows": (1, quantize_rows),
}


def compare(name: str, found: np.ndarray, x: np.ndarray, given: list[np.ndarray]) -> None:
    """Ends the run where some rows differ from float64."""
    rows = sorted({0, 1, len(x) // 2, len(x) - 1} & set(range(len(x))))
    expected = OPS[name][1](x[rows].astype(np.float64), *(vector.astype(np.float64) for vector in given))
    off = float(np.abs(found[rows].astype(np.float64) - expected).max() / np.abs(expected).max())
    bound = 0.51 / 127 if name == "quantize_rows" else BOUNDS[x.dtype.name]
    if not off <= bound:
        raise SystemExit(f"{name} {x.shape}: differs from float64 by {off:.2e}; nothing is measured")


def seconds(engine: Any, calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median time of each call on the device, in turns, with warm clocks."""
    end = time.perf_counter() + WARM
    while time.perf_counter() < end:
        calls["copy"]()
        engine.synchronize()
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in calls.items():
            with grilly.profile() as profile:
                call()
            if number:
                taken[name].append(profile.seconds)
    return {name: statistics.median(times) for name, times in taken.items()}


def cell(
    engine: Any, shape: tuple[int, int], ops: list[str], values: np.ndarray, rounds: int, dtype: str = "float32"
) -> Table:
    """Times of a copy of the same bytes, after some rows of each result are compared."""
    x = values[: shape[0] * shape[1]].reshape(shape).astype(dtype, copy=False)
    vectors = [1 + values[: shape[1]] / 8, values[-shape[1] :]]
    array, given = engine.upload(x), [engine.upload(vector) for vector in vectors]
    calls: dict[str, Callable[[], object]] = {"copy": lambda: engine.call("activation", [array], {"kind": "identity"})}
    for op in ops:
        operands = [array, *given[: OPS[op][0] - 1]]
        compare(op, engine.call(op, operands, {}).numpy(), x, vectors)
        calls[op] = lambda op=op, operands=operands: engine.call(op, operands, {})
    times = seconds(engine, calls, rounds)
    copy = times.pop("copy")
    ratios = {op: time / (copy * MOVED.get(op, 1.0)) for op, time in times.items()}
    told = ", ".join(f"{op} {ratio:.2f}" for op, ratio in ratios.items())
    print(f"{shape[0]} x {shape[1]} {dtype}: copy {1e6 * copy:.1f} us; of its time {told}", flush=True)
    return ratios


def measure(engine: Any, rounds: int, elements: int) -> tuple[dict[str, Table], dict[str, dict[str, float | None]]]:
    """Tables of multiples by operation, and their gates."""
    values = np.random.default_rng(0).standard_normal(elements, np.float32)
    tables: dict[str, Table] = {op: {} for op in OPS} | {"softmax of few rows": {}}
    gates: dict[str, dict[str, float | None]] = {name: {} for name in tables}
    for width in WIDTHS:
        ratios = cell(engine, (max(1, elements // width), width), list(OPS), values, rounds)
        for op, ratio in ratios.items():
            tables[op][str(width)], gates[op][str(width)] = ratio, gate(op, width)
    for (rows, columns), most in LONG:
        if rows * columns <= elements:
            name = f"{rows} x {columns}"
            ratios = cell(engine, (rows, columns), ["softmax"], values, rounds)
            tables["softmax of few rows"][name], gates["softmax of few rows"][name] = ratios["softmax"], most
    return tables, gates
