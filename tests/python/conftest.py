"""A small model for each device, and Python processes of their own."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import grilly.testing
from grilly import VulkanSentenceTransformer


@dataclass
class Finished:
    """A process that has ended."""

    status: int
    output: str
    errors: str


Run = Callable[..., Finished]


@pytest.fixture(scope="session")
def tiny_model(checkpoint) -> Path:
    """The folder of the random two-layer BERT: 32 dimensions, 48 tokens, mean pooling."""
    return checkpoint("base")


@pytest.fixture(scope="session")
def prompted_model(checkpoint) -> Path:
    """The same with the prompts query and passage, of which passage is the default."""
    return checkpoint("prompt_default")


@pytest.fixture
def model(tiny_model, device):
    with VulkanSentenceTransformer(tiny_model, device=device) as model:
        assert model.backend == device
        yield model


@pytest.fixture
def cpu_model(tiny_model):
    with VulkanSentenceTransformer(tiny_model, device="cpu") as model:
        yield model


@pytest.fixture
def run() -> Run:
    """`run(code, *arguments, **environment)`: a Python process; an environment value of None removes a variable."""

    def start(code: str, *arguments: object, timeout: float = 120, **environment: str | None) -> Finished:
        variables = {**os.environ, "GRILLY_DEBUG": "0"} | environment
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
            env={name: value for name, value in variables.items() if value is not None},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    return start


@pytest.fixture
def backend():
    """Upstream's `Compute`."""
    with grilly.Compute() as backend:
        yield backend


@pytest.fixture
def faults():
    """`grilly.testing.inject_fault`, disarmed at the end."""
    yield grilly.testing.inject_fault
    grilly.testing.clear_faults()


@pytest.fixture
def no_vulkan(tmp_path) -> dict[str, str]:
    """An environment in which the loader finds no driver."""
    nothing = str(tmp_path / "no_such_driver.json")
    return {"VK_DRIVER_FILES": nothing, "VK_ICD_FILENAMES": nothing}


@pytest.fixture(params=["numpy", "resident on the cpu", "resident on vulkan"])
def made(request):
    """Makes a module: with parameters in NumPy alone, or with copies on a device."""
    if request.param == "numpy":
        return lambda module: module.eval()
    if request.param.endswith("vulkan"):
        request.getfixturevalue("vulkan")
        return lambda module: module.eval().vulkan()

    def place(module):
        for parameter in module.parameters():
            parameter.place("cpu")
        return module.eval()

    return place
