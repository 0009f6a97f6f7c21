"""The rows of ops.py in two builds, in turns: how fast the new one is relative to the old one.

`python benchmarks/turns.py OLD NEW [--rounds 7] [--again 31] [--budget SECONDS] [--only TEXT]`, where OLD and NEW are
folders that hold an unpacked wheel each. Every round has a fresh pair of processes, because two processes of one build
differ by up to a tenth; both prepare a row at once, then measure it one after the other. Rows whose median is below
0.97 are measured again; one fails, and the exit code is 1, if the upper end of the 95 % interval of its median is below
0.97 then. `--budget` ends the rounds early; the first line says how many there were. Results on the smaller shape are
compared by checksum.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
import zlib

import measure

LEAST = 0.97
#: Rows of more elements are dropped from a process before the next: memory.
LARGE = 1 << 22


class Build:
    """A process with one of the builds."""

    def __init__(self, folder: str) -> None:
        environment = os.environ | {"PYTHONPATH": folder, "PYTHONHASHSEED": "0"}
        command = [sys.executable, __file__, "--worker"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def send(self, key: str, repeats: int) -> None:
        self.process.stdin.write(json.dumps([key, repeats]) + "\n")
        self.process.stdin.flush()

    def receive(self) -> dict:
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def work() -> None:
    """Answers `[key, repeats]` with microseconds per call, and a checksum of the result."""
    import numpy as np

    import ops
    from grilly import _core

    engine = _core.engine("vulkan")
    table = {f"{row.op}|{row.name}|{shape[0]}x{shape[1]}": (row, shape) for row in ops.ROWS for shape in row.shapes}
    print(json.dumps({"device": engine.device, "keys": list(table)}), flush=True)
    block = np.random.default_rng(1).standard_normal(1 << 20, np.float32)
    ops.draw = lambda rng, *shape: np.resize(block, shape)
    ready: dict = {}

    def prepare(key: str) -> tuple:
        row, shape = table[key]
        if math.prod(shape) > LARGE:
            for other in [other for other in ready if math.prod(table[other][1]) > LARGE]:
                del ready[other]
        operands = row.make(np.random.default_rng(0), shape)
        for place in row.narrow if row.half else ():
            operands[place] = operands[place].astype(np.float16)
        ours = [engine.upload(np.ascontiguousarray(x)) for x in operands]
        result = engine.call(row.op, ours, row.attributes)
        checksum = zlib.crc32(result.numpy().tobytes()) if math.prod(shape) <= LARGE else 0
        return lambda: engine.call(row.op, ours, row.attributes), checksum

    def seconds(call, count: int) -> float:
        engine.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            call()
        engine.synchronize()
        return (time.perf_counter() - start) / count

    for line in sys.stdin:
        key, repeats = json.loads(line)
        try:
            if key not in ready:
                ready[key] = prepare(key)
                seconds(ready[key][0], 10)
        except Exception as e:  # an operation that one of the builds lacks
            print(json.dumps({"error": f"{type(e).__name__}: {e}"}), flush=True)
            continue
        call, checksum = ready[key]
        count = max(20, min(2000, int(0.006 / seconds(call, 20)))) if repeats else 0
        times = [1e6 * seconds(call, count) for _ in range(repeats)]
        print(json.dumps({"microseconds": times, "checksum": checksum}), flush=True)


def interval(ratios: list[float]) -> tuple[float, float]:
    """The 95 % interval of the median, by order statistics."""
    ordered, n = sorted(ratios), len(ratios)
    below, k = 0.0, 0
    while k < n // 2 and below + math.comb(n, k) / 2**n <= 0.025:
        below += math.comb(n, k) / 2**n
        k += 1
    return ordered[max(k - 1, 0)], ordered[n - max(k, 1)]


def rounds(folders: list[str], keys: list[str], count: int, until: float, found: dict) -> None:
    for number in range(count):
        if time.monotonic() > until:
            return
        order = folders if number % 2 == 0 else folders[::-1]
        builds = {folder: Build(folder) for folder in order}
        for build in builds.values():
            build.receive()
        for key in keys:
            for repeats, together in ((0, True), (2, False)):
                answers = {}
                for folder in order:
                    builds[folder].send(key, repeats)
                    if not together:
                        answers[folder] = builds[folder].receive()
                for folder in order if together else ():
                    answers[folder] = builds[folder].receive()
            old, new = (answers[folder] for folder in folders)
            if "error" in old or "error" in new:
                found.setdefault("errors", {})[key] = old.get("error") or new.get("error")
                continue
            if old["checksum"] != new["checksum"]:
                found.setdefault("other bits", {})[key] = [old["checksum"], new["checksum"]]
            times = [statistics.median(answer["microseconds"]) for answer in (old, new)]
            found["rows"].setdefault(key, []).append(times)
        for build in builds.values():
            build.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--again", type=int, default=31)
    parser.add_argument("--budget", type=float, default=3600.0)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    until = time.monotonic() + given.budget
    probe = [Build(folder) for folder in given.folders]
    about = [build.receive() for build in probe]
    for build in probe:
        build.close()
    keys = [key for key in about[0]["keys"] if key in about[1]["keys"] and given.only in key]
    found: dict = {"rows": {}}
    rounds(given.folders, keys, given.rounds, until, found)
    medians = {key: statistics.median(old / new for old, new in times) for key, times in found["rows"].items()}
    slow = [key for key, median in medians.items() if median < LEAST]
    count = max(map(len, found["rows"].values()), default=0)
    print(f"{about[1]['device']}: {len(medians)} rows, {count} rounds, {len(slow)} below {LEAST}")
    again: dict = {"rows": {}}
    if slow:
        rounds(given.folders, slow, given.again, until, again)
    failed = 0
    for key, times in again["rows"].items():
        ratios = [old / new for old, new in times]
        low, high = interval(ratios)
        failed += high < LEAST
        verdict = "FAILED" if high < LEAST else "ok"
        median = statistics.median(ratios)
        print(f"{verdict:<8}{key:<60}{medians[key]:.3f} {median:.3f} [{low:.3f}, {high:.3f}] of {len(ratios)}")
    for kind in ("errors", "other bits"):
        for key, value in found.get(kind, {}).items():
            print(f"{kind}: {key}: {value}")
    print("written to", measure.save("turns", about[1]["device"], {"first": found, "again": again}))
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--worker"]:
        work()
    else:
        sys.exit(main())
