"""Runs every pipeline in every mode: optimised, unoptimised, validated, and at another subgroup size of lavapipe.

`python tests/modes.py`, after the other tests, which record what they dispatch (dispatched.py). For the pipelines that
did not run in a mode tests that dispatched them run again in that mode: such as take the least time, until all have
run. What sees the size of its subgroup runs at each size.

`python tests/modes.py long`: the whole table of cases optimised and at each size, all that GRILLY_TEST_LONG adds to
other tests, and then every pipeline of it in every mode.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import conftest  # which names the driver
import dispatched
import lavapipe
from dispatched import Mode, Tests

ROOT = Path(__file__).parent.parent


def sees_subgroup(pipeline: str) -> bool:
    return dispatched.built()[variant_of(pipeline)].subgroups


@dataclass(frozen=True)
class Wanted:
    """A mode that each pipeline of some kind must have run in, and the environment that makes it."""

    name: str
    holds: Callable[[Mode], bool]
    environment: dict[str, str]
    applies: Callable[[str], bool] = lambda pipeline: True

    def of(self, every: set[str]) -> set[str]:
        return set(filter(self.applies, every))


#: Seconds in which lavapipe compiles a pipeline.
COMPILATION = 1.0
NARROW = next(iter(lavapipe.SUBGROUPS))
#: In this order: what runs optimised at another width has both. Neighbours with one environment run together.
WANTED = (
    Wanted("optimised", lambda mode: mode.optimised, lavapipe.environment(NARROW, optimised=True)),
    Wanted("unoptimised", lambda mode: not mode.optimised, lavapipe.environment(NARROW)),
    Wanted("another width", lambda mode: mode.width in lavapipe.SUBGROUPS, lavapipe.environment(NARROW)),
    Wanted("validated", lambda mode: mode.validated, lavapipe.environment(NARROW)),
    *(
        Wanted(
            f"subgroups of {size}",
            lambda mode, width=width: mode.width == width,
            lavapipe.environment(width),
            sees_subgroup,
        )
        for width, size in lavapipe.SUBGROUPS.items()
    ),
)


def pipelines(tests: Tests) -> set[str]:
    return {name for spent in tests.values() for name in spent}


def ran(record: dict[Mode, Tests], wanted: Wanted) -> set[str]:
    return set().union(*(pipelines(tests) for mode, tests in record.items() if wanted.holds(mode)))


def native(record: dict[Mode, Tests]) -> Tests:
    """Tests at the native width, whose processes take the environment they are given."""
    found: Tests = {}
    for mode, tests in record.items():
        for test, spent in tests.items() if mode.width == lavapipe.NATIVE else ():
            found.setdefault(test, {}).update(spent)
    return found


def chosen(tests: Tests, missing: Iterable[str], costs: dict[str, float]) -> list[str]:
    """Tests that dispatch what is missing: the next is the one that takes the least for each pipeline still missing.

    What is missing is compiled in any case; a test costs as much more as it has pipelines beyond that.
    """
    left, compiled, found = set(missing), set(missing), []
    while True:
        prices = {
            test: (costs.get(test, 0.0) + COMPILATION * len(spent.keys() - compiled)) / len(left & spent.keys())
            for test, spent in tests.items()
            if not left.isdisjoint(spent)
        }
        if not prices:
            return sorted(found)
        found.append(min(prices, key=prices.__getitem__))
        left -= tests[found[-1]].keys()
        compiled |= tests[found[-1]].keys()


def variant_of(pipeline: str) -> str:
    return pipeline.partition(" ")[0]


def run(arguments: list[str], environment: dict[str, str]) -> bool:
    """Whether pytest is content."""
    if not arguments:
        return True
    options = ["-q", "-n", "2", "--dist", "worksteal", "-p", "no:cacheprovider"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(arguments))
        file.flush()
        command = [sys.executable, "-m", "pytest", *options, f"@{file.name}"]
        return subprocess.run(command, cwd=ROOT, env=os.environ | environment).returncode == 0


def missing_of(group: list[Wanted], record: dict[Mode, Tests], every: set[str]) -> set[str]:
    return set().union(*(wanted.of(every) - ran(record, wanted) for wanted in group))


def complete_modes(group: list[Wanted], tests: Tests, every: set[str]) -> bool:
    """Whether the tests that ran again, in the one environment of these modes, passed."""
    left, passed = dict(tests), True
    while time.time() < conftest.UNTIL and (missing := missing_of(group, dispatched.read(), every)):
        again = chosen(left, missing, dispatched.highest_costs())
        if not again:
            break
        passed &= run(again, group[0].environment)
        left = {test: spent for test, spent in left.items() if test not in again}
    return passed


def show(record: dict[Mode, Tests], when: str) -> None:
    every = pipelines(native(record))
    counts = [f"{wanted.name} {len(every & ran(record, wanted))}" for wanted in WANTED if wanted.of(every) == every]
    print(f"pipelines {when}: of {len(every)} that tests dispatch: {', '.join(counts)}", flush=True)


def show_idle(every: set[str], features: set[str]) -> None:
    """Names the variants that no test of this record dispatches, and what the device lacks for them."""
    names = {variant_of(pipeline) for pipeline in every}
    print("variants that no test dispatches here:")
    for name, variant in sorted(dispatched.built().items()):
        if name not in names:
            lacks = ", ".join(feature for feature in variant.needs if feature not in features)
            print(f"  {name}: {f'the device lacks {lacks}' if lacks else 'none asks for it, or another goes first'}")


def complete() -> None:
    """Runs again what did not run in some mode, and fails where that leaves something out."""
    import grilly

    device = next((device for device in grilly.info()["devices"] if "llvmpipe" in device["name"]), None)
    if device is None:
        return print("no lavapipe, which alone compiles in several ways: nothing runs again")
    record = dispatched.read()
    tests = native(record)
    every = pipelines(tests)
    if not every:
        sys.exit("no record of what tests dispatch: run `make test-python`")
    show(record, "before")
    failed = []
    for _, group in groupby(WANTED, key=lambda wanted: wanted.environment):
        group = list(group)
        if not complete_modes(group, tests, every):
            failed.append(", ".join(wanted.name for wanted in group))
    record = dispatched.read()
    show(record, "after")
    show_idle(every, set(device["features"]))
    lacking = [
        f"{name}: not {wanted.name}" for wanted in WANTED for name in sorted(wanted.of(every) - ran(record, wanted))
    ]
    if lacking and time.time() > conftest.UNTIL:
        print(f"GRILLY_TEST_UNTIL has passed: {len(lacking)} pipelines did not run in a mode")
        lacking = []
    if failed or lacking:
        sys.exit("\n".join(["tests fail in these modes:", *failed, "these pipelines did not run:", *lacking]))


def run_long() -> None:
    os.environ["GRILLY_TEST_LONG"] = "1"
    rows = ["tests/ops/test_ops.py", "-k", "test_value and vulkan"]
    modes = [lavapipe.environment(optimised=True), *map(lavapipe.environment, lavapipe.SUBGROUPS)]
    more = ["tests/everywhere", "tests/models", "tests/train"]
    more += ["tests/specifications", "tests/python/test_user_shaders_families.py"]
    passed = [*(run(rows, mode) for mode in modes), run(["tests/ops"], {}), run(more, {})]
    complete()
    if not all(passed):
        sys.exit(1)


if __name__ == "__main__":
    run_long() if sys.argv[1:] == ["long"] else complete()
