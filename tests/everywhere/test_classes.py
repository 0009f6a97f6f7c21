"""Every family and class of models: the hash of the table, on every device, in any batch, with any threads."""

import os
import re
import subprocess
import sys
from pathlib import Path

import lavapipe
import numpy as np
import pytest
from conftest import LONG, is_software
from models.golden import FLOAT32, error
from models.test_devices import LAVAPIPE_WIDTHS, swiftshader_environment

import grilly

from . import classes, hashes
from .comparison import NUMERICS

ROWS = classes.table()
HASHES = {words[1]: words[3] for words in map(str.split, hashes.lines())}
#: On a software driver, unless there is time: without biases by distance and with them.
FEW = ("family:bert", "family:mpnet")
TESTS = Path(__file__).parents[1]
#: What the table need not have: families and classes of which the others are variants.
VARIANTS = ("fixture:", "tokens:")


def some(names) -> list[str]:
    return [name for name in names if LONG or not name.startswith(VARIANTS)]


@pytest.mark.parametrize("name", some(ROWS))
def test_the_cpu_has_the_hash(name, tmp_path):
    """With one thread and with two, in any order, in batches and alone."""
    row = ROWS[name]
    folder = row.build(tmp_path)
    for threads in (1, 2):
        with classes.opened(row, folder, "cpu", num_threads=threads) as model:
            answer = row.answer(model, classes.CHOSEN)
            assert classes.hash_of(answer) == HASHES[name], threads
            if threads == 2:
                classes.check_ways(row, model, answer, 20 if LONG else 3)


@pytest.mark.parametrize("name", some(ROWS))
def test_a_gpu_has_the_hash(name, vulkan, tmp_path):
    if is_software(vulkan) and not LONG and name not in FEW:
        pytest.skip("few rows on a software driver")
    row = ROWS[name]
    with classes.opened(row, row.build(tmp_path), vulkan) as model:
        answer = row.answer(model, classes.CHOSEN)
        assert classes.hash_of(answer) == HASHES[name]
        classes.check_ways(row, model, answer)


def test_every_row_has_a_hash():
    assert ROWS.keys() <= HASHES.keys()


def test_no_hash_is_of_something_else():
    known = {hashes.REAL, *hashes.CHECKPOINTS, *hashes.INTEGERS, *ROWS}
    assert HASHES.keys() <= known
    assert [words[:1] + words[2:3] for words in map(str.split, hashes.lines()) if words[1] in ROWS] == [
        [NUMERICS, str(len(classes.CHOSEN))]
    ] * len(ROWS)


def run(environment: dict[str, str], code: str) -> str:
    """What a process of its own prints."""
    command, environment = [sys.executable, "-c", code], os.environ | environment
    done = subprocess.run(command, cwd=TESTS, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not LONG, reason="long")
@pytest.mark.parametrize(
    "driver",
    [
        *(pytest.param(name, marks=pytest.mark.vulkan) for name in LAVAPIPE_WIDTHS if name != "native"),
        pytest.param("swiftshader", marks=pytest.mark.swiftshader),
    ],
)
def test_other_drivers_have_the_hashes(driver, vulkan):
    """lavapipe at other widths of its vectors, and SwiftShader."""
    environment = swiftshader_environment() if driver == "swiftshader" else LAVAPIPE_WIDTHS[driver]
    names = [name for name in ROWS if not name.startswith(VARIANTS)]
    code = f"import sys; from everywhere import classes; sys.exit(classes.main('vulkan', *{names!r}))"
    lines = [line for line in run(environment, code).splitlines() if not line.startswith("#")]
    assert lines == [classes.line(name, HASHES[name]) for name in names]


@pytest.mark.slow
@pytest.mark.vulkan
@pytest.mark.skipif(not LONG or lavapipe.AVX512, reason="long, and the processor rounds as it should")
def test_a_driver_that_rounds_otherwise_is_refused(vulkan):
    """Without AVX-512 vectors of 512 bits round 2.5 to 3: the known answers of the mode tell."""
    code = "from everywhere import classes; classes.main('vulkan', 'family:bert')"
    environment = os.environ | lavapipe.environment("512") | {"GRILLY_STRICT": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=TESTS, env=environment, capture_output=True, text=True)
    assert done.returncode and re.search(r"computes a number to its nearest integer \(of \[2\.5, ", done.stderr), (
        done.stderr
    )


@pytest.mark.vulkan
def test_a_call_that_loses_its_device_has_the_hash(vulkan, tmp_path):
    """Some batches are the device's, the others the CPU's."""
    row = ROWS["family:bert"]
    with classes.opened(row, row.build(tmp_path), vulkan) as model:
        row.answer(model, classes.CHOSEN[:1])
        grilly.reset_stats()
        grilly.testing.inject_fault("device_lost", after=2)
        try:
            answer = row.answer(model, classes.CHOSEN, batch_size=3)
        finally:
            assert grilly.testing.clear_faults() > 0
        spent = grilly.stats()
        assert model.backend == "cpu" and spent["fallbacks"] == 1
        assert spent["batches_vulkan"] > 0 and spent["batches_cpu"] > 0, spent
        assert classes.hash_of(answer) == HASHES["family:bert"]


@pytest.mark.parametrize("name", [name for name in ROWS if name.startswith("fixture:")][:: 1 if LONG else 5])
def test_fixtures_are_as_near_as_float32(name, tmp_path):
    """Against the reference in float64, in the measure and the bound of the other tests of models."""
    fixture, row = name.removeprefix("fixture:"), ROWS[name]
    with np.load(classes.FIXTURES / "families.npz") as golden:
        texts, expected = [str(text) for text in golden["texts"]], golden[f"{fixture}/rows"]
    with classes.opened(row, row.build(tmp_path), "cpu") as model:
        assert error(model.encode(texts, normalize_embeddings=False), expected) <= FLOAT32
