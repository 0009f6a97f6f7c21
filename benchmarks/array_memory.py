"""What memory costs a call on arrays: microseconds to issue it by the size of its result, and the driver's allocations.

`python benchmarks/array_memory.py OLD NEW [--largest MIB] [--device vulkan]`, where OLD and NEW are folders that hold
an unpacked wheel each; both are measured size by size, in a process each, after their results agree. A call is `relu`,
whose result is dropped; `varying` goes through five sizes up to a quarter larger, and with `others` eight more results
stay alive. A round is an upload, a call on it and a download. The exit code is 1 unless NEW issues each size within 3
times the median of its column and no round after the third allocates.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import zlib

import measure

#: Bytes of results.
SIZES = [4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 33 << 20, 48 << 20, 64 << 20, 100 << 20, 256 << 20, 1 << 30]
#: Parts of a size, in the order of use.
VARYING = (1.0, 1.13, 0.97, 1.21, 1.05)
MOST = 3.0
#: Calls between two waits, and how often.
CALLS, WAITS = 10, 15
#: Rounds before those that count, and those.
FIRST, ROUNDS = 3, 12
#: Bytes over which results are not compared, and no eight others are alive.
LARGE = 256 << 20


class Build:
    """A process with one of the builds."""

    def __init__(self, folder: str, device: str) -> None:
        environment = os.environ | {"PYTHONPATH": folder, "PYTHONHASHSEED": "0"}
        command = [sys.executable, __file__, "--worker", device]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.device = self.receive()["device"]

    def measure(self, size: int) -> dict:
        self.process.stdin.write(f"{size}\n")
        self.process.stdin.flush()
        return self.receive()

    def receive(self) -> dict:
        return json.loads(self.process.stdout.readline())


def work(device: str) -> None:
    """Answers a size with what it costs."""
    import numpy as np

    import grilly
    from grilly import _core, functional

    engine = _core.engine(device)
    print(json.dumps({"device": engine.device}), flush=True)

    def allocations() -> float:
        # Earlier builds do not count them.
        return grilly.stats().get("allocations", float("nan"))

    def issued(given: list) -> float:
        """Microseconds to issue a call."""
        times = []
        for number in range(WAITS + FIRST):
            seconds = 0.0
            for place in range(CALLS):
                x = given[(number + place) % len(given)]
                start = time.perf_counter()
                y = functional.relu(x)
                del y
                seconds += time.perf_counter() - start
            engine.synchronize()
            times.append(1e6 * seconds / CALLS)
        return statistics.median(times[FIRST:])

    def rounds(given: list) -> tuple[float, float]:
        """Milliseconds of a round, and allocations in a round."""
        times = []
        for number in range(FIRST + ROUNDS):
            if number == FIRST:
                before = allocations()
            start = time.perf_counter()
            functional.relu(grilly.to_vulkan(given[number % len(given)], device)).numpy()
            times.append(time.perf_counter() - start)
        return 1e3 * statistics.median(times[FIRST:]), (allocations() - before) / ROUNDS

    for line in sys.stdin:
        size = int(line)
        most = int(size * max(VARYING)) // 4
        host = np.resize(np.random.default_rng(1).standard_normal(min(most, 1 << 20), np.float32), most)
        parts = [host[: int(size * part) // 4] for part in VARYING]
        given = [grilly.to_vulkan(part, device) for part in parts]
        found: dict = {}
        if size <= LARGE:
            result = functional.relu(given[0]).numpy()
            found["right"] = bool(np.array_equal(result, np.maximum(parts[0], 0)))
            found["checksum"] = zlib.crc32(result.tobytes())
        found["equal"] = issued(given[:1])
        found["varying"] = issued(given)
        if size <= LARGE:
            others = [functional.relu(given[0]) for _ in range(8)]
            found["others"] = issued(given)
            del others
        del given
        found["round"], found["allocations"] = rounds(parts[:1])
        found["round_varying"], found["allocations_varying"] = rounds(parts)
        print(json.dumps(found), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs=2)
    parser.add_argument("--largest", type=int, default=1024, help="MiB")
    parser.add_argument("--device", default="vulkan")
    given = parser.parse_args()
    old, new = (Build(folder, given.device) for folder in given.folders)
    rows: dict[int, tuple[dict, dict]] = {}
    columns = ("equal", "varying", "others")
    print(f"{new.device}: microseconds to issue a call, milliseconds and driver allocations of a round, old -> new")
    print("         KiB", *(f"{name:>20}" for name in (*columns, "round", "round_varying", "allocations")))
    for size in (size for size in SIZES if size <= given.largest << 20):
        rows[size] = pair = old.measure(size), new.measure(size)
        if not all(row.get("right", True) for row in pair) or pair[0].get("checksum") != pair[1].get("checksum"):
            print(f"results of {size} bytes differ")
            return 1
        cells = [
            f"{pair[0][name]:.2f} -> {pair[1][name]:.2f}" if name in pair[0] else ""
            for name in (*columns, "round", "round_varying")
        ]
        allocated = (f"{row['allocations']:.1f}, {row['allocations_varying']:.1f}" for row in pair)
        print(f"{size >> 10:>12}", *(f"{cell:>20}" for cell in (*cells, " -> ".join(allocated))), flush=True)
    failed = any(row["allocations"] + row["allocations_varying"] > 0 for _, row in rows.values())
    for name in columns:
        for build, times in zip(("old", "new"), zip(*rows.values(), strict=True), strict=True):
            worst = spread([row[name] for row in times if name in row])
            print(f"{name}, {build}: the slowest size takes {worst:.2f} x the median (at most {MOST})")
            failed |= build == "new" and worst > MOST
    print("written to", measure.save("array-memory", new.device, {"rows": rows}))
    return 1 if failed else 0


def spread(times: list[float]) -> float:
    """The longest of the median."""
    return max(times) / statistics.median(times)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2])
    else:
        sys.exit(main())
