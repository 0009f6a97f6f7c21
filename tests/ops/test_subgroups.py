"""The op-case table again at lavapipe's other vector widths, which are its subgroup sizes: 4 and 16 beside 8."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import lavapipe_at, need

from grilly import _core

TABLE = Path(__file__).with_name("test_ops.py")
#: Vector widths in bits, and the subgroup sizes that come of them.
SUBGROUPS = {128: 4, 512: 16}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_case_at_other_subgroup_sizes(vulkan, tmp_path):
    device = _core.engine("vulkan").device
    need("vulkan", "llvmpipe" in device, f"{device} has one subgroup size; lavapipe's is set by LP_NATIVE_VECTOR_WIDTH")
    chosen = ["-p", "no:cacheprovider", str(TABLE), "-k", "test_value and vulkan"]
    # Side by side: most of the time one thread compiles.
    runs = {}
    try:
        for width, subgroup in SUBGROUPS.items():
            env = {**os.environ, **lavapipe_at(width), "GRILLY_REQUIRE": "vulkan"}
            with (tmp_path / f"{subgroup}.txt").open("w") as log:
                runs[subgroup] = subprocess.Popen(
                    [sys.executable, "-m", "pytest", "-q", *chosen],
                    cwd=TABLE.parents[2],
                    env=env,
                    stdout=log,
                    stderr=log,
                )
        codes = {subgroup: run.wait() for subgroup, run in runs.items()}
    finally:
        for run in runs.values():
            run.kill()
    for subgroup, code in codes.items():
        told = (tmp_path / f"{subgroup}.txt").read_text()
        assert code == 0, f"subgroup size {subgroup}:\n{told[-4000:]}"
        assert " passed" in told and "skipped" not in told, f"subgroup size {subgroup}: {told[-200:]}"
