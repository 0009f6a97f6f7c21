"""Products with weights, for `cliffs.py --part products`: `linear` in float16 and float32 of widths on and beside
multiples of 64, each beside that of the nearest multiples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from cliff_rows import Table, seconds

#: What a multiple is of.
BESIDE = "the time that each number of the product takes at the nearest multiples of 64"
#: Columns of the result and terms of a sum: squares, and the head of a SPLADE model.
SIZES = [(n, n) for n in (312, 320, 384, 500, 512, 768, 1000, 1002, 1024, 1150, 1152, 2046, 2048)] + [(30_522, 384)]
#: The most of the named cells in float16.
GATED, MOST = ((1000, 1000), (1002, 1002), (312, 312), (30_522, 384)), 1 / 0.6
#: Largest difference from float64 of rounded operands, of the largest result.
BOUNDS = {"float16": 2e-3, "float32": 1e-5}


def near(size: int) -> int:
    """The nearest multiple of 64."""
    return max(64, round(size / 64) * 64)


def call(engine: Any, dtype: str, rows: int, n: int, k: int) -> Callable[[], Any]:
    """The product, after some of its rows are compared."""
    numbers = np.random.default_rng(n + k)
    shapes = (("x", (rows, k)), ("weight", (n, k)))
    x, weight = (numbers.standard_normal(shape, np.float32).astype(dtype) for _, shape in shapes)
    bias = numbers.standard_normal(n, np.float32)
    given = [engine.upload(array) for array in (x, weight, bias)]

    def product() -> Any:
        return engine.call("linear", given, {"bias": True})

    some = sorted({0, rows // 2, rows - 1})
    expected = x[some].astype(np.float64) @ weight.astype(np.float64).T + bias
    off = float(np.abs(product().numpy()[some].astype(np.float64) - expected).max() / np.abs(expected).max())
    if not off <= BOUNDS[dtype]:
        raise SystemExit(f"{dtype} {rows} x {n} x {k}: differs from float64 by {off:.2e}; nothing is measured")
    return product


def cell(engine: Any, dtype: str, rows: int, n: int, k: int, rounds: int) -> float:
    """The time of a product's number beside one of the nearest multiples."""
    sizes = {"product": (n, k), "copy": (near(n), near(k))}
    times = seconds(engine, {name: call(engine, dtype, rows, *own) for name, own in sizes.items()}, rounds)
    rates = {name: 2 * rows * own[0] * own[1] / times[name] for name, own in sizes.items()}
    ratio = rates["copy"] / rates["product"]
    told = f"{rates['product'] / 1e12:.1f} TFLOP/s, {near(n)} x {near(k)} {rates['copy'] / 1e12:.1f}"
    print(f"{dtype} {rows} x {n} x {k}: {told}, {ratio:.2f} times the time", flush=True)
    return ratio


def measure(engine: Any, rounds: int, elements: int) -> tuple[dict[str, Table], dict[str, dict[str, float | None]]]:
    """Tables of multiples by type, and their gates."""
    rows = min(16_384, elements // 4096)
    tables: dict[str, Table] = {}
    gates: dict[str, dict[str, float | None]] = {}
    for dtype in BOUNDS:
        tables[dtype] = {f"{n} x {k}": cell(engine, dtype, rows, n, k, rounds) for n, k in SIZES}
        gated = dtype == "float16"
        gates[dtype] = {f"{n} x {k}": MOST if gated and (n, k) in GATED else None for n, k in SIZES}
    return tables, gates
