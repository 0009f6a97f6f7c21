"""Which pipelines ran: a variant and its specialization constants, counted from dispatches, by mode and by test.

A mode is how lavapipe compiled, how wide its vectors were, and whether the validation layer watched. Each test process
adds to the file of its mode, `target/coverage-of-variants-MODE.json`: the pipelines of each test with their dispatches,
and its cost.
"""

import fcntl
import functools
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import lavapipe

TARGET = Path(__file__).parent.parent / "target"
PREFIX = "coverage-of-variants-"

#: By name of the pipeline, as in "rope [1, 0]".
Counts = dict[str, int]
Tests = dict[str, Counts]

tests: Tests = {}
#: The seconds that each test of this process takes, if lavapipe does not optimise, whether it or a process that it
#: started dispatches.
costs: dict[str, float] = {}
#: Arithmetic operations per second on lavapipe without its optimiser.
RATE = 3e8


@dataclass(frozen=True)
class Mode:
    optimised: bool
    width: str
    validated: bool

    @classmethod
    def of_this_process(cls) -> "Mode":
        loaded = "VkLayer_khronos_validation" in Path("/proc/self/maps").read_text()
        return cls(lavapipe.optimised(), lavapipe.width(), loaded)

    @property
    def name(self) -> str:
        validated = "validated" if self.validated else "unvalidated"
        return f"{'optimised' if self.optimised else 'unoptimised'}-{self.width}-{validated}"

    @classmethod
    def named(cls, name: str) -> "Mode":
        optimised, width, validated = name.split("-")
        return cls(optimised == "optimised", width, validated == "validated")


@dataclass(frozen=True)
class Variant:
    needs: list[str]
    #: Whether it sees the size of its subgroup.
    subgroups: bool


@functools.cache
def built() -> dict[str, Variant]:
    """Every variant of grilly's own shaders."""
    from grilly import _core

    return {name: Variant(needs, subgroups) for name, needs, subgroups in _core.built_variants()}


@functools.cache
def name_of(variant: str, constants: tuple[int, ...]) -> str:
    """Without the last constant of shaders/include/half.glsl: the device's answer in this process, no test's choice."""
    answered = variant == "cast" or variant.endswith("-float16")
    return f"{variant} {list(constants[:-1] if answered else constants)}"


@dataclass
class Totals:
    """Of this process so far, by grilly's own shaders."""

    counts: Counts
    flops: int

    @classmethod
    def now(cls) -> "Totals":
        found = cls({}, 0)
        if "grilly" in sys.modules:
            import grilly
            from grilly import _core

            for variant, constants, count in _core.dispatched():
                if variant in built():
                    name = name_of(variant, tuple(constants))
                    found.counts[name] = found.counts.get(name, 0) + count
            found.flops = grilly.stats()["flops_vulkan"]
        return found


def add(test: str, before: Totals, after: Totals, seconds: float = 0.0) -> None:
    """What a test spent between two totals."""
    had = before.counts
    spent = {name: count - had.get(name, 0) for name, count in after.counts.items() if count > had.get(name, 0)}
    if spent:
        tests.setdefault(test, {}).update(spent)
    # A test that resets grilly.stats() counts from zero.
    flops = after.flops - before.flops if after.flops >= before.flops else after.flops
    costs[test] = seconds + flops / RATE


def save() -> None:
    """Adds what this process dispatched to the file of its mode, if lavapipe ran it."""
    if not (tests and lavapipe.chosen()):
        return
    TARGET.mkdir(exist_ok=True)
    with (TARGET / f"{PREFIX}{Mode.of_this_process().name}.json").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        found = json.loads(text) if text else {"tests": {}, "costs": {}}
        for test, spent in tests.items():
            found["tests"].setdefault(test, {}).update(spent)
        for test, cost in costs.items():
            found["costs"][test] = max(cost, found["costs"].get(test, 0.0))
        file.seek(0)
        file.truncate()
        json.dump(found, file, indent=0, sort_keys=True)
    tests.clear()
    costs.clear()


def save_process() -> None:
    """For a process that a test started: all that it dispatched is that test's."""
    add(os.environ.get("PYTEST_CURRENT_TEST", "no test").rpartition(" ")[0], Totals({}, 0), Totals.now())
    save()


def records() -> dict[Mode, dict[str, dict]]:
    files = sorted(TARGET.glob(f"{PREFIX}*.json"))
    return {Mode.named(file.stem.removeprefix(PREFIX)): json.loads(file.read_text()) for file in files}


def read() -> dict[Mode, Tests]:
    """What the files say of dispatches."""
    return {mode: record["tests"] for mode, record in records().items()}


def highest_costs() -> dict[str, float]:
    """Those of each test in any mode."""
    highest: dict[str, float] = {}
    for record in records().values():
        for test, cost in record["costs"].items():
            highest[test] = max(cost, highest.get(test, 0.0))
    return highest
