"""`encode` on all devices beside one: rows compared, then both in turns.

`python benchmarks/several_devices.py [--shapes bert-base,minilm] [--texts 2048] [--rounds 5]`

Texts are long (227 tokens on average) and weights random. A ratio is the median of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import measure as machine
import numpy as np
import random_model
import workloads

import grilly
from grilly import SentenceTransformer


def measure(path: str, dtype: str, count: int, rounds: int) -> dict[str, Any]:
    """The seconds of each round, the ratio, and whether both have the same bits."""
    given = workloads.long(count)
    one = SentenceTransformer(path, device="vulkan:0", dtype=dtype)
    every = SentenceTransformer(path, devices="all", dtype=dtype)
    expected, found = one.encode(given), every.encode(given)
    taken: dict[str, list[float]] = {"one": [], "all": []}
    for number in range(rounds):
        for name, model in [("one", one), ("all", every)][:: 1 if number % 2 else -1]:
            start = time.perf_counter()
            model.encode(given)
            taken[name].append(time.perf_counter() - start)
    for model in (one, every):
        model.close()
    ratio = statistics.median(alone / shared for alone, shared in zip(taken["one"], taken["all"], strict=True))
    row = {"dtype": dtype, "texts": count, "same_bits": bool(np.array_equal(expected, found)), "ratio": ratio}
    print(row, f"{count / statistics.median(taken['all']):.0f} texts/s", flush=True)
    return row | {"seconds": taken}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default="bert-base,minilm", help=f"of {', '.join(random_model.SHAPES)}")
    parser.add_argument("--texts", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    devices = [row["name"] for row in grilly.info()["devices"]]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for shape in given.shapes.split(","):
            path = str(random_model.write(shape, Path(folder) / shape))
            for dtype in ("float32", "float16"):
                rows.append({"shape": shape} | measure(path, dtype, given.texts, given.rounds))
    print(machine.save("several-devices", devices[0], {"machine": machine.machine(), "devices": devices, "rows": rows}))
    return int(not all(row["same_bits"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
