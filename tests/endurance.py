"""A day's use in small, in one process: `python tests/endurance.py --rounds 1000 --device vulkan`.

A round loads a model, of another family and class each time, and calls it; encodes 200 times with models that stay;
trains five steps; and calls some functions. After the first quarter, resident memory stays within 1 % and the number of
open files is constant.
"""

import argparse
import contextlib
import ctypes
import gc
import itertools
import json
import logging
import os
import statistics
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

from hashed_models import TEXTS  # isort: skip
from models import families, heads  # isort: skip

#: How much resident memory may differ, and the share of rounds after which it is compared.
FLAT, WARM = 0.01, 0.25


def resident():
    """Resident memory of this process in bytes, without what the allocator could give back."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # glibc's alone
        ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files():
    return len(os.listdir("/proc/self/fd"))


@dataclass
class Use:
    """Models that stay, models that come and go, and a trainer."""

    device: str
    folder: Path
    kept: list = field(default_factory=list)
    trainer: object = None
    steps: int = 0

    def start(self, families_used):
        from grilly import SentenceTransformer
        from grilly.train import Trainer, TransformerConfig

        names = itertools.islice(families.table(), families_used)
        self.folders = [("sentences", families.build(name, self.folder)) for name in names]
        for kind in ("scores", "words", "vectors"):
            for name in itertools.islice(heads.table()[kind], max(2, families_used // 20)):
                self.folders.append((kind, heads.build(kind, name, self.folder / kind)))
        tiny = Path(__file__).parent / "fixtures" / "tiny-bert"
        paths = (tiny, self.folders[0][1], self.folders[1][1])
        self.kept = [SentenceTransformer(str(path), device=self.device) for path in paths]
        config = TransformerConfig(64, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=16)
        self.trainer = Trainer(config, device=self.device, batch_size=4)
        # Everything once: pipelines, and the caches of words of models that stay.
        for number in range(len(self.folders)):
            self.load(number)
        self.encode(0, len(self.kept) * len(TEXTS))

    def load(self, number):
        """One model of the next family."""
        from grilly import CrossEncoder, MultiVectorEncoder, SentenceTransformer, SparseEncoder

        kind, path = self.folders[number % len(self.folders)]
        classes = {"sentences": SentenceTransformer, "scores": CrossEncoder, "words": SparseEncoder}
        made = (classes | {"vectors": MultiVectorEncoder})[kind]
        with made(str(path), device=self.device) as model:
            if kind == "scores":
                return model.predict([(TEXTS[0], TEXTS[1])])
            return model.encode(TEXTS[:3])

    def encode(self, number, count):
        """So many calls, of one text or several, with the models that stay."""
        for n in range(count):
            model, first = self.kept[n % len(self.kept)], (number * count + n) % len(TEXTS)
            model.encode(TEXTS[first : first + 1 + n % 3])

    def train(self, number):
        windows = np.random.default_rng(number % 7).integers(0, 64, size=(4, 17))
        self.trainer.step(windows)
        self.steps += 1

    def call(self):
        """Functions of arrays, on the device."""
        import grilly
        from grilly import functional

        x = np.linspace(-1, 1, 96, dtype=np.float32).reshape(4, 24)
        x = grilly.to_vulkan(x) if self.device == "vulkan" else x
        np.asarray(functional.softmax(functional.gelu(functional.layer_norm(x, 24, np.ones(24), np.zeros(24)))))


@dataclass
class Seen:
    """What was measured after each round."""

    memory: list = field(default_factory=list)
    files: list = field(default_factory=list)

    def add(self):
        self.memory.append(resident())
        self.files.append(open_files())

    def told(self):
        """Memory before and after in MiB, their difference as a share, and the numbers of open files."""
        memory, files = (values[int(WARM * len(values)) :] for values in (self.memory, self.files))
        tenth = max(1, len(memory) // 10)
        before, after = statistics.median(memory[:tenth]), statistics.median(memory[-tenth:])
        return {
            "before": round(before / 2**20, 2),
            "after": round(after / 2**20, 2),
            "most": round(max(memory) / 2**20, 2),
            "grown": round(after / before - 1, 5),
            "files": sorted(set(files)),
        }


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--encodes", type=int, default=200, help="in a round")
    parser.add_argument("--families", type=int, default=10**9, help="at most so many")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--grown", type=float, default=FLAT, help="a greater change of memory, as a share, is a fault")
    given = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    start, seen = time.monotonic(), Seen()
    with tempfile.TemporaryDirectory() as folder:
        use = Use(given.device, Path(folder))
        use.start(given.families)
        for number in range(given.rounds):
            use.load(number)
            use.encode(number, given.encodes)
            for step in range(5):
                use.train(5 * number + step)
            use.call()
            seen.add()
            if given.rounds >= 100 and number % (given.rounds // 20) == 0:
                print(f"round {number}: {seen.memory[-1] / 2**20:.2f} MiB, {seen.files[-1]} files", flush=True)
    told = seen.told()
    done = {"device": given.device, "loads": given.rounds, "encodes": given.rounds * given.encodes, "steps": use.steps}
    print(json.dumps({**done, "seconds": round(time.monotonic() - start), **told}))
    return 0 if abs(told["grown"]) <= given.grown and len(told["files"]) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
