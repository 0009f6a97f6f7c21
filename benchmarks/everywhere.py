"""`numerics="everywhere"` beside `"run"`: products on a GPU beside PyTorch's in float32, and texts embedded.

`python benchmarks/everywhere.py [--device vulkan] [--rounds 5] [--short 512] [--long 64]`

Products are timed by the device's timestamps, the best of the rounds, after smaller ones have the bits of exact sums of
integers in NumPy. The integers of the weight are made before, those of `x` count. Models have random weights, in
float32 and in int8; they and sentence-transformers in float32 encode the same texts in turns, and a ratio is the median
of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import measure as machine  # noqa: E402
import random_model  # noqa: E402
import workloads  # noqa: E402
from everywhere.operations import evaluate  # noqa: E402

import grilly  # noqa: E402
from grilly import SentenceTransformer, functional  # noqa: E402
from grilly.profiling import profile  # noqa: E402

SIZES = [(8192, 8192, 8192), (16384, 3072, 768)]
SMALL = [(1, 4, 1), (70, 132, 65), (200, 256, 384), (65, 388, 1537), (33, 64, 20000), (5, 6, 70000)]
WARM = 0.5


def of_weight(kernel: str, label: str) -> bool:
    """Whether a dispatch makes the integers of the weight, which a model does once."""
    return kernel == "column-balance" or label.endswith(" weight")


def linear(x: Any, weight: Any, numerics: str) -> Any:
    grilly.configure(numerics=numerics)
    try:
        return functional.linear(x, weight)
    finally:
        grilly.configure(numerics="run")


def differing() -> list[str]:
    """The shapes whose results have other bits than exact sums of integers."""
    numbers, found = np.random.default_rng(0), []
    for m, n, k in SMALL:
        x, weight = (numbers.standard_normal(size).astype(np.float32) for size in [(m, k), (n, k)])
        x[0, 0], weight[0, -1] = 3e38, 1e-30
        weight[:, k // 3] *= np.float32(1e-6)
        y = linear(grilly.to_vulkan(x), grilly.to_vulkan(weight), "everywhere").numpy()
        expected = evaluate("linear", [x, weight], {})
        if not np.array_equal(y.view(np.uint32), expected.view(np.uint32)):
            found.append(f"{m}x{n}x{k}")
    return found


def seconds(call: Callable[[], object], rounds: int) -> float:
    start = time.perf_counter()
    while time.perf_counter() - start < WARM:
        call()
    found = []
    for _ in range(rounds):
        with profile() as taken:
            call()
        found.append(sum(entry.seconds for entry in taken.times if not of_weight(entry.kernel, entry.label)))
    return min(found)


def torch_seconds(x: np.ndarray, weight: np.ndarray, rounds: int) -> float | None:
    """The same product by PyTorch on CUDA, if it is there."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = torch.tensor(x).cuda(), torch.tensor(weight).cuda()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    found = []
    for _ in range(rounds + 10):
        start.record()
        a @ b.T
        end.record()
        torch.cuda.synchronize()
        found.append(1e-3 * start.elapsed_time(end))
    return min(found[10:])


def products(rounds: int) -> list[dict[str, Any]]:
    rows = []
    for m, n, k in SIZES:
        numbers = np.random.default_rng(1)
        x, weight = (numbers.standard_normal(size, np.float32) for size in [(m, k), (n, k)])
        gpu = [grilly.to_vulkan(array) for array in (x, weight)]
        run = seconds(partial(linear, *gpu, "run"), rounds)
        everywhere = seconds(partial(linear, *gpu, "everywhere"), rounds)
        row = {"shape": [m, n, k], "run": run, "everywhere": everywhere, "torch": torch_seconds(x, weight, rounds)}
        rows.append(row)
        beside = f", {row['torch'] / everywhere:.2f} x torch" if row["torch"] else ""
        print(f"{m} x {n} x {k}: {1e3 * everywhere:.2f} ms, {run / everywhere:.2f} x run{beside}", flush=True)
    return rows


def engines(path: str, device: str) -> dict[str, Any]:
    """The model with both numbers, in float32 and in int8, and sentence-transformers in float32 if it is there."""
    found: dict[str, Any] = {}
    for dtype in ("float32", "int8"):
        for of in ("run", "everywhere"):
            found[f"{dtype} {of}"] = SentenceTransformer(path, device=device, dtype=dtype, numerics=of)
    try:
        import torch
        from sentence_transformers import SentenceTransformer as Rival
    except ImportError:
        return found
    torch.backends.cuda.matmul.allow_tf32 = False
    return found | {"rival": Rival(path, device="cpu" if device == "cpu" else "cuda")}


def in_turns(every: dict[str, Any], given: list[str], rounds: int) -> dict[str, list[float]]:
    """Seconds of each engine in each round; the first of a round changes from round to round."""
    names = list(every)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            start = time.perf_counter()
            every[name].encode(given, show_progress_bar=False)
            taken[name].append(time.perf_counter() - start)
    return taken


def texts(device: str, rounds: int, counts: dict[str, int]) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for shape in ("bert-base", "minilm"):
            every = engines(str(random_model.write(shape, Path(folder) / shape)), device)
            for name, count in counts.items():
                given = getattr(workloads, name)(count)
                results = {of: model.encode(given, show_progress_bar=False) for of, model in every.items()}
                taken = in_turns(every, given, rounds)
                for of in ("float32", "int8"):
                    ours = taken[f"{of} everywhere"]
                    row = {"shape": shape, "texts": name, "dtype": of, "seconds": taken}
                    row["apart"] = float(np.abs(results[f"{of} run"] - results[f"{of} everywhere"]).max())
                    for other in (f"{of} run", "rival"):
                        if other in taken:
                            pairs = zip(taken[other], ours, strict=True)
                            row[f"beside {other}"] = statistics.median(theirs / here for theirs, here in pairs)
                    row["texts_per_second"] = count / statistics.median(ours)
                    rows.append(row)
                    shown = {key: f"{value:.3g}" for key, value in row.items() if isinstance(value, float)}
                    print(shape, name, of, shown, flush=True)
            for name, model in every.items():
                if name != "rival":
                    model.close()
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="vulkan")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--short", type=int, default=512, help="short texts")
    parser.add_argument("--long", type=int, default=64, help="long texts")
    given = parser.parse_args()
    wrong = differing() if given.device != "cpu" else []
    facts = {"machine": machine.machine(), "differing": wrong}
    if given.device != "cpu":
        facts["products"] = products(given.rounds)
    facts["texts"] = texts(given.device, given.rounds, {"short": given.short, "long": given.long})
    device = "cpu" if given.device == "cpu" else grilly.info()["choice"]["name"]
    print(machine.save("everywhere", device, facts))
    print("differing bits:", wrong or "none")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
