"""Products of integers on a GPU: TOP/s beside PyTorch's cuBLAS and grilly's own float16 in the same run.

`python benchmarks/integers.py [--rounds N]`

`y = q w^T` with sums of 32 bits; some rows of each result are compared with float64, which holds them exactly. Gate:
400 TOP/s at 8192 x 8192 x 8192; goal 520. Then products with ternary weights, scaled, by the device's clock, beside
float16 ones: goals 4 x of one row, 1.3 x of 4096.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import Any

import measure as machine
import numpy as np

import grilly
from ops import alternating

SHAPES = ((8192, 8192, 8192), (16384, 3072, 768), (16384, 768, 3072), (16384, 4096, 1024), (16384, 1024, 4096))
GATES = {(8192, 8192, 8192): (400, 520)}  # TOP/s: gate, goal
#: Rows, columns and depth of ternary products, and the goal.
TERNARY = (
    ((1, 13824, 2560), 4.0),
    ((1, 20480, 3200), 4.0),
    ((8, 13824, 2560), None),
    ((4096, 13824, 2560), 1.3),
    ((4096, 20480, 3200), 1.3),
)
#: Weights that are multiplied in turn: more than a cache holds.
WEIGHTS = 8
EXACT_ROWS = 512


def measure(shape: tuple[int, int, int], engine: Any, torch: Any, rounds: int) -> dict[str, Any]:
    m, n, k = shape
    rng = np.random.default_rng(0)
    integers = [rng.integers(-128, 128, (rows, k)).astype(np.int8) for rows in (m, n)]
    ours = [engine.upload(array) for array in integers]
    halves = [engine.upload((array / 64).astype(np.float16)) for array in integers]
    q, w = (torch.from_numpy(array).cuda() for array in integers)
    found = engine.call("integer_linear", ours, {}).numpy()[:EXACT_ROWS]
    exact = (q[:EXACT_ROWS].double() @ w.double().T).cpu().numpy()
    if not (found == exact).all():
        raise SystemExit(f"{shape}: {int((found != exact).sum())} sums are not exact; nothing is measured")
    rivals = {
        "grilly": (lambda: engine.call("integer_linear", ours, {}), engine.synchronize),
        "grilly float16": (lambda: engine.call("linear", halves, {}), engine.synchronize),
        "torch": (lambda: torch._int_mm(q, w.T), torch.cuda.synchronize),
    }
    times = alternating(rivals, rounds, span=0.05, least=5)
    rate = {name: 2e-12 * m * n * k / statistics.median(row) for name, row in times.items()}
    gate, goal = GATES.get(shape, (None, None))
    return {"shape": shape, "tera_operations": rate, "gate": gate, "goal": goal}


def ternary(shape: tuple[int, int, int], goal: float | None, engine: Any, rounds: int) -> dict[str, Any]:
    m, n, k = shape
    rng = np.random.default_rng(0)
    q, scale = engine.upload(rng.integers(-128, 128, (m, k)).astype(np.int8)), engine.upload(np.ones(m, np.float32))
    # Bytes of four codes 0, 1 and 2.
    packed = [np.uint8([0, 1, 2])[rng.integers(0, 3, (n, k // 4, 4), np.uint8)] for _ in range(WEIGHTS)]
    packed = [(codes << np.uint8([0, 2, 4, 6])).sum(axis=-1, dtype=np.uint8) for codes in packed]
    weights, factors = [engine.upload(part) for part in packed], engine.upload(np.ones(n, np.float32))
    halves = engine.upload(rng.standard_normal((m, k), np.float32).astype(np.float16))
    matrices = [engine.upload(rng.standard_normal((n, k), np.float32).astype(np.float16)) for _ in range(2)]
    times: dict[str, list[float]] = {"ternary": [], "float16": []}
    for _ in range(rounds):
        for place in range(WEIGHTS):
            for name in times:
                with grilly.profile() as taken:
                    if name == "ternary":
                        engine.call("quantized_linear", [q, scale, weights[place], factors], {"levels": "ternary"})
                    else:
                        engine.call("linear", [halves, matrices[place % len(matrices)]], {})
                    engine.synchronize()
                times[name].append(sum(row.seconds for row in taken.times))
    seconds = {name: statistics.median(row) for name, row in times.items()}
    return {"shape": shape, "seconds": seconds, "ratio": seconds["float16"] / seconds["ternary"], "goal": goal}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    import torch

    from grilly import _core

    engine = _core.engine("vulkan")
    print(f"{engine.device} ({engine.backend}); torch {torch.__version__} on {torch.cuda.get_device_name()}")
    rows = [measure(shape, engine, torch, given.rounds) for shape in SHAPES]
    missed = []
    for row in rows:
        rates = ", ".join(f"{name} {rate:.0f}" for name, rate in row["tera_operations"].items())
        gate = f"gate {row['gate']}, goal {row['goal']}" if row["gate"] else "no gate"
        print(f"{' x '.join(map(str, row['shape']))}: {rates} TOP/s; {gate}")
        if row["gate"] and row["tera_operations"]["grilly"] < row["gate"]:
            missed.append(row["shape"])
    ternary_rows = [ternary(shape, goal, engine, given.rounds) for shape, goal in TERNARY]
    for row in ternary_rows:
        times = ", ".join(f"{name} {1e6 * value:.1f}" for name, value in row["seconds"].items())
        goal = f"goal {row['goal']}" if row["goal"] else "no goal"
        print(f"{' x '.join(map(str, row['shape']))}: {times} us, {row['ratio']:.2f} x; {goal}")
    facts = {"device": engine.device, "machine": machine.machine(), "rows": rows, "ternary": ternary_rows}
    print(machine.save("integers", engine.device, facts))
    print("missed gates:", missed or "none")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
