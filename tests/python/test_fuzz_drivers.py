"""Each driver of tests/fuzz for a few seconds from a fixed seed, and what its parent process tells of a bad case."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
DRIVERS = {"folders": 300, "archives": 200, "tokenizers": 150, "runs": 600, "checkpoints": 40, "indexes": 300}


def told(script, *options):
    """The status of a driver and its lines."""
    command = [sys.executable, str(script), *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "GRILLY_DEBUG": "0"})
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("name", DRIVERS)
def test_a_driver_finds_nothing(name):
    status, lines = told(TESTS / f"fuzz/{name}.py", "--seconds", 10, "--cases", DRIVERS[name])
    assert status == 0 and re.search(r": \d+ cases from seed 0 on cpu in .*; 0 faults", lines), lines


@pytest.mark.parametrize("name, cases", [("folders", 40), ("interfaces", 60)])
def test_a_driver_finds_nothing_on_vulkan(vulkan, name, cases):
    status, lines = told(TESTS / f"fuzz/{name}.py", "--seconds", 10, "--cases", cases, "--device", "vulkan")
    assert status == 0 and re.search(r": \d+ cases from seed 0 on vulkan in .*; 0 faults", lines), lines


BAD = """
'''Cases that go wrong.'''
import os, sys, time
sys.path.insert(0, {tests!r})
from fuzz import driver
driver.HANG = 0.5

def corpus(folder, given):
    return None

def case(made, chance):
    kind = int(chance.integers(8))
    if kind == 0:
        os.abort()
    if kind == 1:
        while True:
            pass
    if kind == 2:
        raise KeyError("foreign")
    if kind == 3:
        raise BaseException("as a panic does")
    if kind == 4:
        raise driver.Fault("other numbers")
    if kind == 5:
        from grilly.errors import CheckpointError
        raise CheckpointError("as it must be")
    return "works"

if __name__ == "__main__":
    sys.exit(driver.main(corpus, case))
"""


def test_a_bad_case_is_told_with_its_seed_and_the_next_ones_run(tmp_path):
    script = tmp_path / "bad.py"
    script.write_text(BAD.format(tests=str(TESTS)))
    status, lines = told(script, "--cases", 16, "--seed", 11, "--seconds", 200)
    assert status == 1
    faults = re.split(r"^bad: seed ", lines, flags=re.MULTILINE)[1:]
    for part in ("ended with SIGABRT", "hangs", "KeyError", "as a panic does", "other numbers"):
        assert any(part in fault and "--cases 1 --seed" in fault for fault in faults), (part, lines)
    assert re.search(r"bad: 16 cases from seed 11 on cpu in .* CheckpointError.*; \d+ faults", lines), lines
    # One of them again.
    seed = re.search(r"bad: seed (\d+): other numbers", lines)[1]
    status, again = told(script, "--cases", 1, "--seed", seed)
    assert status == 1 and f"bad: seed {seed}: other numbers" in again
