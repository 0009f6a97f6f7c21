"""`encode` and training steps on all devices beside one: results compared, then both in turns.

`python benchmarks/several_devices.py [--shapes bert-base,minilm] [--texts 2048] [--train medium] [--rounds 5]`

Texts are long (227 tokens on average) and weights random. A step has `--accumulate` batches of 32 windows for each
device. A ratio is the median of the rounds.
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
from grilly.train import Trainer, TransformerConfig


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


def train(size: str, accumulate: int, count: int, rounds: int) -> dict[str, Any]:
    """The same of training steps in float32; the parameters after all of them are compared."""
    config = TransformerConfig.named(size)
    options = {"accumulate": accumulate * count, "shards": count}
    trainers = {
        "one": Trainer(config, device="vulkan:0", **options),
        "all": Trainer(config, devices="all", **options),
    }
    rows = 32 * accumulate * count
    tokens = np.random.default_rng(0).integers(0, config.vocab_size, (rows, config.max_seq_len + 1))
    taken: dict[str, list[float]] = {"one": [], "all": []}
    for number in range(rounds + 1):
        for name in ("one", "all") if number % 2 else ("all", "one"):
            start = time.perf_counter()
            trainers[name].step(tokens)
            taken[name].append(time.perf_counter() - start)
    # The first step prepares.
    ratio = statistics.median(alone / shared for alone, shared in zip(taken["one"][1:], taken["all"][1:], strict=True))
    same = trainers["one"].hashes() == trainers["all"].hashes()
    row = {"train": size, "batches": accumulate * count, "same_bits": same, "ratio": ratio}
    print(row, f"{statistics.median(taken['all']):.3f} s a step", flush=True)
    return row | {"seconds": taken}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default="bert-base,minilm", help=f"of {', '.join(random_model.SHAPES)}")
    parser.add_argument("--texts", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--train", default="", help="sizes to train, such as medium")
    parser.add_argument("--accumulate", type=int, default=1, help="batches of a step, each device")
    given = parser.parse_args()
    devices = [row["name"] for row in grilly.info()["devices"]]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for shape in filter(None, given.shapes.split(",")):
            path = str(random_model.write(shape, Path(folder) / shape))
            for dtype in ("float32", "float16"):
                rows.append({"shape": shape} | measure(path, dtype, given.texts, given.rounds))
    for size in filter(None, given.train.split(",")):
        rows.append(train(size, given.accumulate, len(devices), given.rounds))
    print(machine.save("several-devices", devices[0], {"machine": machine.machine(), "devices": devices, "rows": rows}))
    return int(not all(row["same_bits"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
