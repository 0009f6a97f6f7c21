"""`device="auto"` on devices by their limits: an integrated GPU that is slower than the CPU is not taken.

A slow GPU is the test's Vulkan layer, which waits at every submission; a slow CPU is slow_threads.c, which takes its
engine's threads most of their time. Nothing in the product knows of either.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import LONG, TESTS, need, need_vulkan
from models import families
from models.golden import FLOAT32

from . import device_profiles
from .device_profiles import Memory

pytestmark = pytest.mark.timeout(3600)
INTEGRATED, DISCRETE = "intel-xe", "nvidia-pascal"
#: Microseconds of a submission, far above those of a batch of a tiny model on the CPU.
SLOW = 200_000
MODEL = {"family": "roberta"}
NOW, EARLIER = "measured now", "measured earlier"


@pytest.fixture(scope="module")
def layers(tmp_path_factory) -> Path:
    need_vulkan()
    return tmp_path_factory.mktemp("layer")


@pytest.fixture(scope="module")
def slow_threads(layers) -> Path:
    need("profiles", sys.platform == "linux", "slow_threads.c is of Linux")
    library = layers / "slow_threads.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", library]
    subprocess.run([*command, Path(__file__).parent / "slow_threads.c"], check=True)
    return library


@pytest.fixture
def process(layers, tmp_path):
    """`process(cases, device=..., delay=..., **variables)`: what automatic_run wrote, with a cache of its own."""

    def run(cases: list[dict], device: str = INTEGRATED, delay: int = 0, **variables: str) -> dict:
        output = layers / "outcome.json"
        values = device_profiles.values(device) | {"submitMicroseconds": delay}
        environment = device_profiles.environment(values, layers, Memory()) | {
            "XDG_CACHE_HOME": str(tmp_path / "cache")
        }
        command = [sys.executable, "-m", "profiles.automatic_run", str(output)]
        ended = subprocess.run(
            command, cwd=TESTS, env=os.environ | environment | variables, input=json.dumps(cases),
            capture_output=True, text=True,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        found = json.loads(output.read_text(encoding="utf-8"))
        assert not found["messages"] and found["stats"]["fallbacks"] == 0
        assert all(own["error"] <= FLOAT32 or "dtype" in case for own, case in zip(found["cases"], cases, strict=True))
        return found

    return run


def times(tmp_path: Path) -> list[dict]:
    return json.loads((tmp_path / "cache" / "grilly" / "faster.json").read_text(encoding="utf-8"))


def lines(own: dict) -> list[str]:
    return [line for line in own["log"] if 'device="auto" means' in line]


def test_a_slower_gpu_leaves_the_model_to_the_cpu(process, tmp_path):
    found = process([MODEL, MODEL, MODEL | {"device": "auto"}], delay=SLOW)
    first, *others = found["cases"]
    name = device_profiles.values(INTEGRATED)["deviceName"]
    assert first["backend"] == "cpu" and first["requested"] == "auto" and first["timed"] > 0
    assert name in first["reason"] and first["reason"].endswith(NOW)
    for own in others:
        assert own["backend"] == "cpu" and own["reason"].endswith(EARLIER) and own["timed"] == 0
    [row] = times(tmp_path)
    assert row["device"] == name and row["seconds"]["gpu"] > SLOW / 1e6 > row["seconds"]["cpu"]
    on_gpu, on_cpu = (f"{1e3 * row['seconds'][kind]:.2f} ms" for kind in ("gpu", "cpu"))
    for own in found["cases"]:
        [line] = lines(own)
        assert line.startswith("INFO ") and on_gpu in line and on_cpu in line
    [told] = found["auto"]["measured"]
    assert found["auto"]["measures"] and told["faster"] == "cpu" and told["seconds_cpu"] == row["seconds"]["cpu"]
    # A second process does not measure; after the times, not the device of the moment, it goes.
    before = (tmp_path / "cache" / "grilly" / "faster.json").read_bytes()
    [again] = process([MODEL])["cases"]
    assert again["backend"] == "cpu" and again["reason"].endswith(EARLIER) and again["timed"] == 0
    assert (tmp_path / "cache" / "grilly" / "faster.json").read_bytes() == before


def test_a_faster_gpu_runs_the_model(process, slow_threads, tmp_path):
    preload = {"LD_PRELOAD": str(slow_threads)}
    [first] = process([MODEL | {"num_threads": 2}], **preload)["cases"]
    [row] = times(tmp_path)
    assert row["seconds"]["gpu"] < row["seconds"]["cpu"] and row["threads"] == 2
    assert first["backend"] == "vulkan" and first["reason"].endswith(NOW) and first["timed"] > 0
    assert len(lines(first)) == 1
    [again] = process([MODEL | {"num_threads": 2}])["cases"]
    assert again["backend"] == "vulkan" and again["reason"].endswith(EARLIER) and again["timed"] == 0


def test_who_names_a_device_gets_it(process, tmp_path):
    [slower] = process([MODEL], delay=SLOW)["cases"]
    assert slower["backend"] == "cpu"
    cases = [MODEL | {"device": device} for device in ("vulkan", "vulkan:0", "cuda", "cpu")]
    for own in process(cases, delay=SLOW)["cases"]:
        assert own["backend"] == ("cpu" if own["requested"] == "cpu" else "vulkan") and not lines(own)
        assert own["timed"] == 0
    [own] = process([MODEL], delay=SLOW, VK_GPU_INDEX="0")["cases"]
    assert own["backend"] == "vulkan" and own["reason"] == "VK_GPU_INDEX is 0"
    assert len(times(tmp_path)) == 1


def test_a_discrete_gpu_is_taken_without_measuring(process, tmp_path):
    found = process([MODEL], device=DISCRETE, delay=SLOW)
    [own] = found["cases"]
    assert own["backend"] == "vulkan" and own["timed"] == 0 and not lines(own)
    assert own["reason"] == "a discrete GPU, the only usable device"
    assert found["auto"] == {"measures": False, "measured": []}
    assert not (tmp_path / "cache" / "grilly" / "faster.json").exists()


def test_each_size_and_type_has_times_of_its_own(process, tmp_path):
    names = list(families.table()) if LONG else ["modernbert", "t5", "gpt2"]
    types = [{"dtype": "float16"}, {"dtype": "int8"}, {"numerics": "everywhere"}, {"num_threads": 1}]
    cases = [MODEL, *(MODEL | own for own in types), *({"family": name} for name in names)]
    for own, case in zip(process(cases, delay=SLOW)["cases"], cases, strict=True):
        assert own["backend"] == "cpu" and len(lines(own)) == 1, (case, own)
    rows = times(tmp_path)
    assert {(row["dtype"], row["numerics"]) for row in rows if row["threads"] > 1} >= {
        ("float32", "run"), ("float16", "run"), ("int8", "run"), ("float32", "everywhere-1"),
    }  # fmt: skip
    keys = [json.dumps({key: value for key, value in row.items() if key != "seconds"}) for row in rows]
    assert len(set(keys)) == len(keys) and any(row["threads"] == 1 for row in rows)


@pytest.mark.parametrize("damage", ["a file in place of the folder", "no file of this form"])
def test_a_cache_that_cannot_be_used(process, tmp_path, damage):
    cache = tmp_path / "cache"
    if damage.startswith("a file"):
        cache.write_text("")
    else:
        (cache / "grilly").mkdir(parents=True)
        (cache / "grilly" / "faster.json").write_text('[{"version": ')
    first, second = process([MODEL, MODEL], delay=SLOW)["cases"]
    assert first["backend"] == second["backend"] == "cpu"
    assert first["reason"].endswith(NOW) and second["reason"].endswith(EARLIER)
