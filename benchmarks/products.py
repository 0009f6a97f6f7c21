"""Products with their epilogue on a GPU, float16 in and out: TFLOP/s beside PyTorch's cuBLAS in the same run.

`python benchmarks/products.py [--rounds N]`

`y = gelu(x w^T + b)`, sums in float32. Outputs are compared with float64 first. Times are wall times over many recorded
repetitions with one wait at the end, ours and torch's in turn, and then each engine's by itself after a pause: a card
that another engine has just heated runs at a lower clock. Beside each figure stands the floor: the time that the
operations take at the card's best cuBLAS rate in this run, and that the bytes take at its copy rate.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any

import measure as machine
import numpy as np

from ops import alternating, seconds

SHAPES = ((16384, 3072, 768), (16384, 1536, 384), (8192, 8192, 8192), (16384, 768, 3072), (16384, 384, 1536))
GATES = {(16384, 3072, 768): 150, (16384, 1536, 384): 100, (8192, 8192, 8192): 220}  # TFLOP/s
GOALS = {(16384, 3072, 768): 260, (16384, 1536, 384): 200, (8192, 8192, 8192): 320}
PAUSE = 0.5  # seconds


def check(y: np.ndarray, x: Any, w: Any, b: Any, torch: Any) -> float:
    """The largest difference from float64 over some rows, in roundings of float16."""
    rows = slice(0, 512)
    exact = torch.nn.functional.gelu(x[rows].double() @ w.double().T + b.double()).cpu().numpy()
    return float((np.abs(y[rows] - exact) / np.maximum(np.abs(exact), 1.0)).max() * 2**11)


def measure(shape: tuple[int, int, int], engine: Any, torch: Any, rounds: int) -> dict[str, Any]:
    m, n, k = shape
    rng = np.random.default_rng(0)
    x = rng.standard_normal((m, k), np.float32).astype(np.float16)
    w = (rng.standard_normal((n, k), np.float32) / np.sqrt(k)).astype(np.float16)
    b = rng.standard_normal(n, np.float32).astype(np.float16)
    ours = [engine.upload(array) for array in (x, w, b)]
    attributes = {"bias": True, "activation": "gelu_erf"}
    theirs = [torch.from_numpy(array).cuda() for array in (x, w, b)]
    gelu, linear = torch.nn.functional.gelu, torch.nn.functional.linear
    y = engine.call("linear", ours, attributes).numpy()
    off = check(y, *theirs, torch)
    if not off <= 2.0 or y.dtype != np.float16:
        raise SystemExit(f"{shape}: {off:.2f} roundings of float16 from float64; nothing is measured")
    again = engine.call("linear", ours, attributes).numpy()
    if again.tobytes() != y.tobytes():
        raise SystemExit(f"{shape}: a second call gave other bits")
    rivals = {
        "grilly": (lambda: engine.call("linear", ours, attributes), engine.synchronize),
        "torch": (lambda: gelu(linear(*theirs)), torch.cuda.synchronize),
        "torch product alone": (lambda: linear(*theirs), torch.cuda.synchronize),
    }
    times = alternating(rivals, rounds, span=0.05, least=5)
    rate = {name: 2e-12 * m * n * k / statistics.median(row) for name, row in times.items()}
    alone = {}
    for name, rival in rivals.items():
        time.sleep(PAUSE)
        [row] = alternating({name: rival}, rounds, span=0.02, least=5).values()
        alone[name] = 2e-12 * m * n * k / statistics.median(row)
    pairs = zip(times["torch"], times["grilly"], strict=True)
    return {
        "shape": shape, "teraflops": rate, "teraflops_alone": alone,
        "bytes": 2 * (m * k + n * k + m * n + n), "roundings": off,
        "times_torch": statistics.median(t / g for t, g in pairs), "gate": GATES.get(shape), "goal": GOALS.get(shape),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    import torch

    from grilly import _core

    engine = _core.engine("vulkan")
    print(f"{engine.device} ({engine.backend}); torch {torch.__version__} on {torch.cuda.get_device_name()}")
    copy = torch.empty(1 << 28, dtype=torch.int8, device="cuda")
    target = torch.empty_like(copy)
    bandwidth = 2 * copy.nbytes / seconds(lambda: target.copy_(copy), torch.cuda.synchronize, 50)
    rows = [measure(shape, engine, torch, given.rounds) for shape in SHAPES]
    best = max(max(row["teraflops"].values()) for row in rows) * 1e12
    missed = []
    for row in rows:
        m, n, k = row["shape"]
        floor = max(2 * m * n * k / best, row["bytes"] / bandwidth)
        row["of_floor"] = floor / (2 * m * n * k / (row["teraflops"]["grilly"] * 1e12))
        rates = ", ".join(f"{name} {rate:.0f}" for name, rate in row["teraflops"].items())
        gate = f"gate {row['gate']}, goal {row['goal']}" if row["gate"] else "no gate"
        by_itself = ", ".join(f"{rate:.0f}" for rate in row["teraflops_alone"].values())
        ratios = f"{row['times_torch']:.2f} x torch, {row['of_floor']:.2f} of the floor"
        print(f"{m} x {n} x {k}: {rates} TFLOP/s ({by_itself} alone); {ratios}; {gate}")
        if row["gate"] and row["teraflops"]["grilly"] < row["gate"]:
            missed.append(row["shape"])
    facts = {"device": engine.device, "bandwidth": bandwidth, "machine": machine.machine(), "rows": rows}
    print(machine.save("products", engine.device, facts))
    print("missed gates:", missed or "none")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
