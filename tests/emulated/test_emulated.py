"""Every kernel on matrix cores, for every shape of matrices that the engine knows, without a GPU.

On Mesa's software driver a layer emulates the matrices in shared memory: numbers are held against float64, and what the
layer makes of modules is validated. On Khronos' mock driver every pipeline is made. Khronos' validation layer above
both sees the devices' matrices, and must be silent.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import lavapipe
import pytest
from conftest import LONG, TESTS, need
from lavapipe import NATIVE

from .matrix_devices import DEVICES, environment, mocked

pytestmark = pytest.mark.timeout(1800)
ON_MATRICES = TESTS.parent / "scripts" / "matrix-device.sh"
#: What absences fail: these devices have all but one of the two forms of attention.
REQUIRED = "vulkan,matrices,f16_f32,bf16_f32,s8_s32"
#: Of joined subgroups only calls whose control flow all of a workgroup share.
ALONE = "not attention and not gradients"
IN_LANES, SHARED = "not shared", "not (attention or gradients) or shared"
#: The devices, the bits of the driver's vectors, with a lane for 32, other lanes that it is to have, and the calls.
RUNS = {
    "nvidia": ("nvidia", NATIVE, 32, ALONE),
    # With eight lanes, of which no tile of products is made.
    "nvidia-attention": ("nvidia", NATIVE, 0, f"({IN_LANES}) and not ({ALONE})"),
    "amd": ("amd", NATIVE, 64, ALONE),
    "intel": ("intel", NATIVE, 0, IN_LANES),
    "intel-mirrored": ("intel-mirrored", NATIVE, 0, "shared"),
    "lavapipe": ("lavapipe", NATIVE, 0, IN_LANES),
    "lavapipe-rows": ("lavapipe-rows", NATIVE, 0, IN_LANES),
    "lavapipe-mirrored": ("lavapipe-mirrored", NATIVE, 0, SHARED),
}
#: Of sixteen lanes.
WIDE = {
    "intel-16": ("intel", "512", 0, IN_LANES),
    "intel-mirrored-16": ("intel-mirrored", "512", 0, "shared"),
    "amd-attention": ("amd", "512", 0, "shared"),
}
RUNS |= WIDE if lavapipe.AVX512 else {}
#: Some calls of some for `make test-devices`; `make test-long` runs all.
FEW = {"nvidia": "bfloat16 or int8", "intel": "float32-linear or float16"}


def python(arguments: list[str], more: dict[str, str], *, matrices: bool) -> str:
    """What a process of the tests' folder writes; on the device with matrices of Mesa 26, or another driver."""
    command = [str(ON_MATRICES)] * matrices + [sys.executable, "-m", *arguments]
    own = {name: value for name, value in os.environ.items() if name != "GRILLY_TEST_LONG"} | more
    ended = subprocess.run(command, cwd=TESTS, env=own, capture_output=True, text=True)
    output = ended.stdout + ended.stderr
    assert ended.returncode == 0, output
    assert "no Vulkan validation" not in output
    return output


def passed(calls: str, more: dict[str, str]) -> int:
    """Runs calls beside float64, none of which may be left out."""
    need("matrices", sys.platform == "linux", "Debian's Mesa 26 runs on Linux")
    more = more | {"ALLOW_CPU_VULKAN": "1", "GRILLY_REQUIRE": f"{REQUIRED},rows-in-lanes,shared-rows"}
    output = python(["pytest", "-q", "ops/test_matrices.py", "-k", calls], more, matrices=True)
    [told] = re.findall(r"^(\d+) passed(?:, \d+ deselected)? in", output, re.MULTILINE)
    return int(told)


def validated(folder: Path) -> int:
    """Modules that the layer wrote, by SPIR-V's own rules."""
    modules = sorted(folder.glob("*.spv"))
    for path in modules:
        subprocess.run(["spirv-val", "--target-env", "vulkan1.3", str(path)], check=True)
        path.unlink()
    return len(modules)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("matrices")


@pytest.mark.parametrize("name", RUNS if LONG else FEW)
def test_numbers(folder, name):
    device, width, lanes, calls = RUNS[name]
    calls = calls if LONG else f"({calls}) and ({FEW[name]})"
    count = passed(calls, environment(DEVICES[device], folder, lanes, width))
    # Calls share modules of the same kernel and tile; one more is the probe's.
    assert validated(folder / "modules") > count // 3


@pytest.mark.skipif(not LONG, reason="make test-long")
def test_models(folder):
    """In float32, float16 and integers."""
    named = [
        "models/test_families.py",
        "models/test_integers.py",
        "-k",
        "vulkan-roberta and (test_embeddings[ or near_those)",
    ]
    more = {"ALLOW_CPU_VULKAN": "1", "GRILLY_REQUIRE": f"{REQUIRED},weights", "GRILLY_TEST_LONG": ""}
    output = python(["pytest", "-q", *named], environment(DEVICES["intel"], folder) | more, matrices=True)
    assert re.search(r"^[1-9]\d* passed", output, re.MULTILINE) and validated(folder / "modules")


@pytest.mark.skipif(not LONG, reason="make test-long")
def test_products_of_digits(folder):
    """Those that are the same everywhere, in matrices of 16 x 16 x 32, have the CPU's bits."""
    calls = ["everywhere/test_matrices.py", "everywhere/test_products.py", "-k", "vulkan or kernels_of_digits"]
    more = {"ALLOW_CPU_VULKAN": "1", "GRILLY_REQUIRE": REQUIRED, "GRILLY_MATRIX_MEMORY": str(48 << 10)}
    output = python(["pytest", "-q", *calls], environment(DEVICES["nvidia"], folder, 32) | more, matrices=True)
    assert re.search(r"^[1-9]\d passed", output, re.MULTILINE) and validated(folder / "modules")


PIPELINES = [(name, lanes) for name, device in DEVICES.items() for lanes in device.lanes]


@pytest.mark.parametrize(("name", "lanes"), PIPELINES)
def test_pipelines(folder, name, lanes):
    device, output = DEVICES[name], folder / "pipelines.json"
    python(["emulated.pipelines_run", str(output)], mocked(device, folder, lanes), matrices=False)
    found = json.loads(output.read_text(encoding="utf-8"))
    [reported] = found["devices"]
    assert reported["limits"]["subgroup_size"] == lanes and found["messages"] == []
    known = "mirrored" not in device.rows
    for call in found["calls"].values():
        runs = set(call["wanted"]) <= set(call["ran"])
        assert runs == (not call["rows"] or (call["rows"] == "rows-in-lanes") == known), call
