"""`encode` in two builds, in turns: texts per second of the new one over the old one's, the median of the rounds.

`python benchmarks/encode_turns.py OLD NEW [--device cpu] [--rounds 7] [--shapes minilm,bert-base]`: OLD and NEW are
folders that hold each build's `grilly`. Each build works in a process of its own with the same random weights; in
every round both encode the same texts, one after the other, the first of the two changing from round to round.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORK = {"short": 512, "long": 64, "one": 1}


def worker(folder: Path, device: str, dtype: str) -> None:
    """Answers each line (the name of a row and a number of repeats) with seconds."""
    import workloads

    from grilly import VulkanSentenceTransformer

    model = VulkanSentenceTransformer(folder, device=device, dtype=dtype)
    texts = {"short": workloads.short(WORK["short"]), "long": workloads.long(WORK["long"]), "one": "a dog and a cat"}
    print(json.dumps({"first": model.encode(texts["one"]).tolist()}), flush=True)
    for line in sys.stdin:
        name, repeats = line.split()
        start = time.perf_counter()
        for _ in range(int(repeats)):
            model.encode(texts[name])
        print(json.dumps(time.perf_counter() - start), flush=True)


class Build:
    def __init__(self, package: str, *arguments: str) -> None:
        here = Path(__file__).parent
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([package, str(here)])}
        command = [sys.executable, __file__, "--worker", *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.first = self.answer()

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def seconds(self, name: str, repeats: int) -> float:
        self.process.stdin.write(f"{name} {repeats}\n")
        self.process.stdin.flush()
        return self.answer()


def measure(given: argparse.Namespace, shape: str, folder: Path) -> None:
    builds = [Build(package, str(folder), given.device, given.dtype) for package in (given.old, given.new)]
    same = "same bits" if builds[0].first == builds[1].first else "OTHER BITS"
    for name, texts in WORK.items():
        for build in builds:
            build.seconds(name, 2)
        repeats = max(1, round(given.seconds / builds[0].seconds(name, 1)))
        ratios, speeds = [], []
        for number in range(given.rounds):
            order = builds if number % 2 == 0 else builds[::-1]
            taken = {id(build): build.seconds(name, repeats) for build in order}
            old, new = (taken[id(build)] for build in builds)
            ratios.append(old / new)
            speeds.append(repeats * texts / new)
        low, high = min(ratios), max(ratios)
        print(
            f"{shape:10} {given.device:7} {given.dtype:9} {name:6} {statistics.median(speeds):10.1f} texts/s  new/old "
            f"{statistics.median(ratios):.3f} ({low:.3f} to {high:.3f})  {same}",
            flush=True,
        )
    for build in builds:
        build.process.stdin.close()
        build.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    parser.add_argument("--shapes", default="minilm,bert-base")
    given = parser.parse_args()
    import random_model

    with tempfile.TemporaryDirectory() as folder:
        for shape in given.shapes.split(","):
            measure(given, shape, random_model.write(shape, Path(folder) / shape))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(Path(sys.argv[2]), *sys.argv[3:])
    else:
        main()
