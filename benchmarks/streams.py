"""`encode` of an iterator beside that of one list of the same texts: rows compared, then both in turns.

`python benchmarks/streams.py MODEL [--device vulkan] [--texts 100000] [--rounds 3]`

Texts are short. A ratio is the median of the rounds; above 1 the iterator is faster.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import measure
import numpy as np
import workloads

from grilly import SentenceTransformer


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("model")
    options.add_argument("--device", default=None)
    options.add_argument("--texts", type=int, default=100_000)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    texts = workloads.short(given.texts)
    with SentenceTransformer(given.model, device=given.device) as model:
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
