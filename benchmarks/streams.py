"""`encode` of an iterator: its memory, then its rate beside that of one list of the same texts, in turns.

`python benchmarks/streams.py MODEL [--device vulkan] [--texts 1000000] [--rounds 3]`

Texts are short, and made one by one for the measure of memory: how much more than after the first 50,000 texts the
process holds that no file backs. Rows are compared before times are taken. A ratio is the median of the rounds; above
1 the iterator is faster.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from pathlib import Path

import measure
import numpy as np
import workloads

from grilly import SentenceTransformer

BEGUN = 50_000


def anonymous() -> int:
    """Bytes of this process' memory that no file backs."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("RssAnon:")))


def growth(model: SentenceTransformer, count: int) -> tuple[int, int]:
    """Bytes after the first texts, and the most that were added to them later."""
    done, held, most = 0, 0, 0
    for part in model.encode(workloads.one_by_one(count, 5, 40, seed=1)):
        done += len(part)
        if done <= BEGUN:
            held = anonymous()
        most = max(most, anonymous())
    return held, most - held


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("model")
    options.add_argument("--device", default=None)
    options.add_argument("--texts", type=int, default=100_000)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    texts = workloads.short(given.texts)
    with SentenceTransformer(given.model, device=given.device) as model:
        held, more = growth(model, given.texts)
        print(f"anonymous memory: {held >> 20} MiB after {BEGUN} texts, then {more / 2**20:+.1f} MiB", flush=True)
        ways: dict[str, Callable[[], object]] = {
            "list": lambda: model.encode(texts),
            "iterator": lambda: [None for _ in model.encode(iter(texts))],
        }
        assert np.array_equal(np.concatenate(list(model.encode(iter(texts)))), model.encode(texts)), "other rows"
        taken = measure.turns(ways, given.rounds, warm=0)
        ratio = measure.ratio(taken["iterator"], taken["list"])
        rate = given.texts / statistics.median(taken["iterator"])
        print(f"{model.device_name}: {given.texts} texts, iterator {ratio:.3f} of the list's rate, {rate:.0f} texts/s")


if __name__ == "__main__":
    main()
