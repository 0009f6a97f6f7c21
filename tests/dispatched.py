"""Which pipelines ran: a variant and its specialization constants, counted from dispatches, by mode and by test.

A mode is how lavapipe compiled, how wide its vectors were, and whether the validation layer watched. Each test process
adds to the file of its mode, `target/coverage-of-variants-MODE.json`: the pipelines of each test with their dispatches,
and how long it took.
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
#: How long each test of this process took, whether it or a process that it started dispatches.
seconds: dict[str, float] = {}


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


def name_of(variant: str, constants: list[int]) -> str:
    """Without the last constant of shaders/include/half.glsl: the device's answer in this process, no test's choice."""
    answered = variant == "cast" or variant.endswith("-float16")
    return f"{variant} {constants[:-1] if answered else constants}"


def counts() -> Counts:
    """Dispatches of this process so far, of grilly's own shaders."""
    found: Counts = {}
    if "grilly" in sys.modules:
        from grilly import _core

        for variant, constants, count in _core.dispatched():
            if variant in built():
                name = name_of(variant, constants)
                found[name] = found.get(name, 0) + count
    return found


def add(test: str, before: Counts, after: Counts) -> None:
    """What a test dispatched between two counts."""
    spent = {name: count - before.get(name, 0) for name, count in after.items() if count > before.get(name, 0)}
    if spent:
        tests.setdefault(test, {}).update(spent)


def save() -> None:
    """Adds what this process dispatched to the file of its mode, if lavapipe ran it."""
    if not (tests and lavapipe.chosen()):
        return
    TARGET.mkdir(exist_ok=True)
    with (TARGET / f"{PREFIX}{Mode.of_this_process().name}.json").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        found = json.loads(text) if text else {"tests": {}, "seconds": {}}
        for test, spent in tests.items():
            found["tests"].setdefault(test, {}).update(spent)
        found["seconds"] |= seconds
        file.seek(0)
        file.truncate()
        json.dump(found, file, indent=0, sort_keys=True)
    tests.clear()
    seconds.clear()


def save_process() -> None:
    """For a process that a test started: all that it dispatched is that test's."""
    add(os.environ.get("PYTEST_CURRENT_TEST", "no test").rpartition(" ")[0], {}, counts())
    save()


def records() -> dict[Mode, dict[str, dict]]:
    files = sorted(TARGET.glob(f"{PREFIX}*.json"))
    return {Mode.named(file.stem.removeprefix(PREFIX)): json.loads(file.read_text()) for file in files}


def read() -> dict[Mode, Tests]:
    """What the files say of dispatches."""
    return {mode: record["tests"] for mode, record in records().items()}


def durations() -> dict[str, float]:
    """The longest time that each test took in any mode."""
    longest: dict[str, float] = {}
    for record in records().values():
        for test, took in record["seconds"].items():
            longest[test] = max(took, longest.get(test, 0.0))
    return longest
