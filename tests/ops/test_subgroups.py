"""The op-case table again at lavapipe's other vector widths, which are its subgroup sizes: 4 and 16 beside 8."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import lavapipe_at, need

from grilly import _core

TABLE = Path(__file__).with_name("test_ops.py")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("width, subgroup", [(128, 4), (512, 16)])
def test_every_case_at_another_subgroup_size(vulkan, width, subgroup):
    device = _core.engine("vulkan").device
    need("vulkan", "llvmpipe" in device, f"{device} has one subgroup size; lavapipe's is set by LP_NATIVE_VECTOR_WIDTH")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TABLE), "-k", "test_value and vulkan"],
        cwd=TABLE.parent.parent.parent,
        env={**os.environ, **lavapipe_at(width), "GRILLY_REQUIRE": "vulkan"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"subgroup size {subgroup}:\n{done.stdout[-4000:]}"
    assert " passed" in done.stdout and "skipped" not in done.stdout
