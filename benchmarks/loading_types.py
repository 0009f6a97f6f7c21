"""Loading of large checkpoints by family, stored type and wanted type, beside an older build.

`python benchmarks/loading.py --types [--device vulkan] [--old FOLDER] [--families t5-large,jina-lora] [--rounds 3]`:
`FOLDER` holds an unpacked wheel. Each build has a process, in which every load comes once before it is timed, so that
files and pipelines are cached; the tokenizer's share is the time of a StaticEmbedding with the same tokenizer. Both
files of a family hold the same numbers, so rows by either must have the same bits; so must the old build's. Of a family
with adapters the merged one is timed: its first text less a later one. Exits with 1 where a gate or bits are missed.
"""

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILES = ("F16", "F32")
TYPES = ("float16", "float32", "bfloat16")
#: Numbers a second; of the family's float16 file in float16; that one beside the old build's.
LEAST, LEAST_OF_OWN, LEAST_OF_OLD = 150e6, 0.5, 0.97
TEXT = "a text that shows that it runs"


class Told(logging.Handler):
    """Keeps what is said of uploads."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.uploads: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message.startswith("uploaded"):
            self.uploads.append(message)


def worker() -> None:
    """Answers `[folder, static, device, dtype, task, told]` with seconds, a row and, if wanted, what uploads told."""
    import grilly

    logger, told = logging.getLogger("grilly"), Told()
    logger.addHandler(told)
    for line in sys.stdin:
        folder, static, device, dtype, task, tell = json.loads(line)
        logger.setLevel(logging.DEBUG if tell else logging.WARNING)
        told.uploads.clear()
        start = time.perf_counter()
        grilly.SentenceTransformer(static, device="cpu").close()
        tokenizer = time.perf_counter() - start
        start = time.perf_counter()
        model = grilly.VulkanSentenceTransformer(folder, device=device, dtype=dtype)
        seconds = time.perf_counter() - start - tokenizer
        assert model.backend == device.split(":")[0], model.backend
        if task is not None:
            model.encode(TEXT)
            start = time.perf_counter()
            model.encode(TEXT, task=task)
            first = time.perf_counter() - start
            start = time.perf_counter()
            model.encode(TEXT, task=task)
            seconds = first - (time.perf_counter() - start)
        row = model.encode(TEXT, **({} if task is None else {"task": task}))
        answer = {"seconds": seconds, "row": row.tolist(), "device": model.device_name, "uploads": told.uploads}
        model.close()
        print(json.dumps(answer), flush=True)


class Build:
    def __init__(self, folder: str | None) -> None:
        environment = os.environ | ({} if folder is None else {"PYTHONPATH": folder})
        command = [sys.executable, __file__, "--worker"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def load(self, *request: str | bool | None) -> dict:
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process ended while it loaded {request}")
        return json.loads(answer)


def cosine(x: list[float], y: list[float]) -> float:
    dot, of_x, of_y = (sum(a * b for a, b in zip(*pair, strict=True)) for pair in ((x, y), (x, x), (y, y)))
    return dot / (of_x * of_y) ** 0.5


def measure_family(name: str, folder: Path, given: argparse.Namespace, builds: list[Build]) -> list[dict]:
    import large_models
    from loading import static_folder

    large = large_models.LARGE[name]
    folders = {kind: str(large_models.write(name, folder / kind, kind)) for kind in FILES}
    static = str(static_folder(folder / FILES[0], folder / "static", 1024))
    cells = [(kind, dtype) for kind in FILES for dtype in TYPES]
    new, old = builds[0], builds[1:]

    def load(build: Build, kind: str, dtype: str, tell: bool = False) -> dict:
        return build.load(folders[kind], static, given.device, dtype, large.task, tell)

    # Untimed: files, pipelines, and the rows.
    first = {cell: load(new, *cell, tell=True) for cell in cells}
    rows = {cell: answer["row"] for cell, answer in first.items()}
    faults = {cell: "" for cell in cells}
    for dtype in TYPES:
        least = cosine(rows["F16", dtype], rows["F16", "float32"])
        faults["F16", dtype] = "" if least > 0.99 else f"a cosine of {least} with float32"
        faults["F32", dtype] = "" if rows["F16", dtype] == rows["F32", dtype] else "other bits than by the other file"
    for build in old:
        if load(build, *cells[0])["row"] != rows[cells[0]]:
            faults[cells[0]] = "other bits than the old build's"
    seconds: dict = {cell: [] for cell in cells}
    of_old = []
    for number in range(given.rounds):
        for cell in cells:
            for build in builds[:: 1 if number % 2 else -1] if cell == cells[0] else [new]:
                (seconds[cell] if build is new else of_old).append(load(build, *cell)["seconds"])
    count = large_models.numbers(large)
    speeds = {cell: count / statistics.median(times) for cell, times in seconds.items()}
    found = []
    for cell, speed in speeds.items():
        row = {"family": name, "file": cell[0], "dtype": cell[1], "numbers": count, "seconds": seconds[cell]}
        row |= {"numbers_per_second": speed, "of_own": speed / speeds[cells[0]], "device": first[cell]["device"]}
        row |= {"uploads": first[cell]["uploads"], "fault": faults[cell]}
        row["ok"] = not row["fault"] and speed >= LEAST and row["of_own"] >= LEAST_OF_OWN
        if cell == cells[0] and of_old:
            row |= {"old_seconds": of_old, "of_old": statistics.median(of_old) / statistics.median(seconds[cell])}
            row["ok"] &= row["of_old"] >= LEAST_OF_OLD
        found.append(row)
    return found


def measure_types(given: argparse.Namespace) -> int:
    import large_models
    import measure

    chosen = given.families.split(",") if given.families else list(large_models.LARGE)
    builds = [Build(folder) for folder in (given.new, *([given.old] if given.old else []))]
    result: dict = {"machine": measure.machine(), "rows": []}
    begun, longest = time.monotonic(), 0.0
    for place, name in enumerate(chosen):
        start = time.monotonic()
        if start + longest > begun + given.seconds:
            print("no time for", ", ".join(chosen[place:]))
            break
        with tempfile.TemporaryDirectory() as scratch:
            rows = measure_family(name, Path(scratch), given, builds)
        for row in rows:
            of_old = f"  {row['of_old']:.2f} x the old build's" if "of_old" in row else ""
            of_old += "  " + row["fault"]
            print(
                f"{'ok' if row['ok'] else 'MISSED':<8}{name:<19}{row['file']} as {row['dtype']:<9}"
                f"{row['numbers_per_second'] / 1e6:>8.0f} M/s {row['of_own']:>6.2f} x its float16's{of_old}",
                flush=True,
            )
        result["rows"] += rows
        longest = max(longest, time.monotonic() - start)
    device = result["rows"][0]["device"]
    print("written to", measure.save(f"loading types {given.device}", device, result))
    return 0 if all(row["ok"] for row in result["rows"]) else 1


if __name__ == "__main__":
    worker()
