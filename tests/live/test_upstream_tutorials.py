"""Upstream's tutorials, unchanged, from the clone that GRILLY_UPSTREAM names: each runs, or stops at a name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import need

#: The module at which a tutorial stops, which is no part of this package; docs/guides/nn.md lists the same.
STOPS = {
    "01_quickstart": None,
    "02_fused_operations": None,
    "03_buffer_pool": "grilly.backend.buffer_pool",
    "04_polynomial_regression": None,
    "05_neural_network": None,
    "06_transformer_components": None,
    "07_autograd": "grilly.nn.autograd",
    "08_advanced_activations": None,
    "08_custom_autograd": "grilly.nn.autograd",
    "09_data_loading": "grilly.datasets",
    "10_gpu_training": "grilly.datasets",
}
FOLDER = Path(os.environ.get("GRILLY_UPSTREAM", "")) / "tutorials"


@pytest.mark.parametrize("name", STOPS)
def test_a_tutorial(name, vulkan):
    need("upstream", (FOLDER / f"{name}.py").exists(), "GRILLY_UPSTREAM names no clone of upstream")
    environment = os.environ | {"GRILLY_DEBUG": "0"}
    done = subprocess.run(
        [sys.executable, f"{name}.py"], cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=500
    )
    if STOPS[name] is None:
        assert done.returncode == 0, done.stderr
    else:
        # The error says what is there instead.
        module = STOPS[name].rsplit(".", 1)[1]
        assert done.stderr.splitlines()[-1].startswith(f"grilly.errors.UnsupportedImportError: {module} is "), (
            done.stderr
        )
