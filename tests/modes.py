"""Runs every pipeline in every mode: optimised, unoptimised, validated, and at another subgroup size of lavapipe.

`python tests/modes.py`, after the other tests, which record what they dispatch (dispatched.py). For each pipeline that
did not run in a mode one of the tests that dispatched it runs again in that mode: the one that took the shortest.
Rows of the op-case table whose shader sees the size of its subgroup all run at each size.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import dispatched
import lavapipe
from dispatched import Mode, Tests

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Wanted:
    """A mode that each pipeline must have run in, and the environment that makes it."""

    name: str
    holds: Callable[[Mode], bool]
    environment: dict[str, str]


NARROW = next(iter(lavapipe.SUBGROUPS))
#: In this order: what runs optimised at another width has both.
WANTED = (
    Wanted("optimised", lambda mode: mode.optimised, lavapipe.environment(NARROW, optimised=True)),
    Wanted("unoptimised", lambda mode: not mode.optimised, lavapipe.environment(NARROW)),
    Wanted("another width", lambda mode: mode.width in lavapipe.SUBGROUPS, lavapipe.environment(NARROW)),
    Wanted("validated", lambda mode: mode.validated, lavapipe.environment(NARROW)),
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


def chosen(tests: Tests, missing: Iterable[str], seconds: dict[str, float]) -> list[str]:
    """For each pipeline the test that took the shortest."""
    missing, found = set(missing), set()
    for test, spent in sorted(tests.items(), key=lambda row: seconds.get(row[0], 0.0)):
        if missing & spent.keys():
            missing -= spent.keys()
            found.add(test)
    return sorted(found)


def variant_of(pipeline: str) -> str:
    return pipeline.partition(" ")[0]


def subgroup_rows(tests: Tests) -> list[str]:
    """Rows of the op-case table whose shader sees the size of its subgroup."""
    built = dispatched.built()
    rows = (test for test in tests if test.startswith("tests/ops/test_ops.py::test_value["))
    return [test for test in rows if any(built[variant_of(name)].subgroups for name in tests[test])]


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


def show(record: dict[Mode, Tests], when: str) -> None:
    every = pipelines(native(record))
    counts = [f"{wanted.name} {len(every & ran(record, wanted))}" for wanted in WANTED]
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
    import conftest  # noqa: F401, which names the driver

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
    for wanted in WANTED:
        again = chosen(tests, every - ran(dispatched.read(), wanted), dispatched.durations())
        if not run(again, wanted.environment):
            failed.append(wanted.name)
    for width, size in lavapipe.SUBGROUPS.items():
        done = {test for mode, tests in dispatched.read().items() if mode.width == width for test in tests}
        if not run(sorted(set(subgroup_rows(tests)) - done), lavapipe.environment(width)):
            failed.append(f"subgroups of {size}")
    record = dispatched.read()
    show(record, "after")
    show_idle(every, set(device["features"]))
    lacking = [f"{name}: not {wanted.name}" for wanted in WANTED for name in sorted(every - ran(record, wanted))]
    if failed or lacking:
        sys.exit("\n".join(["tests fail in these modes:", *failed, "these pipelines did not run:", *lacking]))


def whole_table() -> None:
    """Every row of the op-case table optimised, and at each subgroup size."""
    rows = ["tests/ops/test_ops.py", "-k", "test_value and vulkan"]
    modes = [lavapipe.environment(optimised=True), *map(lavapipe.environment, lavapipe.SUBGROUPS)]
    if not all([run(rows, mode) for mode in modes]):
        sys.exit(1)


if __name__ == "__main__":
    whole_table() if sys.argv[1:] == ["table"] else complete()
