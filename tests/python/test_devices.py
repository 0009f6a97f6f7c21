"""`grilly.info()`, `grilly.stats()`, the choice of a device, and what happens without one or when one fails."""

import json
import logging
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import grilly
from grilly import SentenceTransformer, VulkanSentenceTransformer
from grilly.devices import format_info

TEXTS = ["the cat", "a dog and a child", "", "world"] * 25

ENCODE = """
import sys, grilly
model = grilly.VulkanSentenceTransformer(sys.argv[1])
again = grilly.VulkanSentenceTransformer(sys.argv[1])
fallbacks = grilly.stats()["fallbacks"]
print(model.backend, again.backend, model.encode(["the cat"]).shape, grilly.VULKAN_AVAILABLE, fallbacks)
print(model.device_reason)
"""


def test_info(device):
    info = grilly.info()
    assert set(info) == {"version", "devices", "choice", "auto", "cpu", "environment", "float32_products", "numerics"}
    assert info["cpu"]["threads"] >= 1 and info["cpu"]["simd"] and info["cpu"]["name"]
    assert info["auto"]["measures"] is (info["choice"]["reason"].startswith("an integrated GPU"))
    assert set(info["choice"]) == {"backend", "name", "reason"}
    assert info["environment"]["ALLOW_CPU_VULKAN"] is True
    assert json.loads(json.dumps(info)) == info
    for index, row in enumerate(info["devices"]):
        assert row["index"] == index and row["name"] and row["api"].count(".") == 2
        assert (row["position"] is None) == (row["unusable"] is not None)
        assert row["limits"]["shared_memory"] > 0
    positions = sorted(row["position"] for row in info["devices"] if row["position"] is not None)
    assert positions == list(range(len(positions)))
    assert bool(positions) == grilly.VULKAN_AVAILABLE == (info["choice"]["backend"] == "vulkan")


def test_info_as_text():
    info = grilly.info()
    text = format_info(info)
    for part in (info["version"], info["choice"]["name"], info["choice"]["reason"], "CPU:", "ALLOW_CPU_VULKAN=True"):
        assert part in text
    for row in info["devices"]:
        assert row["name"] in text
    done = subprocess.run([sys.executable, "-m", "grilly", "info"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip() == text
    done = subprocess.run([sys.executable, "-m", "grilly", "info", "--json"], capture_output=True, text=True)
    assert json.loads(done.stdout) == info


def test_stats(model, device):
    grilly.reset_stats()
    model.encode(TEXTS, batch_size=10)
    stats = grilly.stats()
    other = {"vulkan": "cpu", "cpu": "vulkan"}[device]
    assert stats[f"batches_{device}"] >= 10 and stats[f"batches_{other}"] == 0 and stats["fallbacks"] == 0
    assert (stats["submits"] > 0) == (stats["bytes_up"] > 0) == (device == "vulkan")
    assert stats[f"flops_{device}"] > 0 == stats[f"flops_{other}"]
    assert stats[f"share_{device}"] == 1 and stats[f"share_{other}"] == 0


def test_shares_of_the_devices(vulkan):
    grilly.reset_stats()
    assert [grilly.stats()[f"share_{device}"] for device in ("vulkan", "cpu")] == [0, 0]
    x, weight = np.ones((50, 40), np.float32), np.ones((30, 40), np.float32)
    for rows, device in ((50, vulkan), (25, "cpu"), (25, "cpu")):
        grilly.functional.linear(grilly.to_vulkan(x[:rows], device), weight)
    stats = grilly.stats()
    assert stats["flops_vulkan"] == stats["flops_cpu"] == 2 * 50 * 40 * 30
    assert stats["share_vulkan"] == stats["share_cpu"] == 0.5


def test_devices_argument(tiny_model, device):
    with VulkanSentenceTransformer(tiny_model, devices=[device]) as model:
        assert model.requested_device == model.backend == device


def test_who_names_no_device_gets_auto(tiny_model, device, caplog):
    """Which neither measures nor loads anything again where there is no integrated GPU."""
    caplog.set_level(logging.INFO, "grilly")
    with SentenceTransformer(tiny_model) as model, VulkanSentenceTransformer(tiny_model, device=None) as other:
        assert model.requested_device == other.requested_device == "auto"
        assert model.backend == other.backend == grilly.info()["choice"]["backend"]
        assert model.device_reason == grilly.info()["choice"]["reason"]
        core = model._core
        assert model._core_on("auto") is model._core_on(model.backend) is core
        assert model.to(model.backend)._core is core and model.requested_device == model.backend
        assert model.to(device=device).backend == device
    assert not [line for line in caplog.messages if "auto" in line]


@pytest.mark.vulkan
@pytest.mark.parametrize("number", [7, 10**6])
def test_a_device_number_out_of_range(tiny_model, vulkan, number):
    with pytest.raises(IndexError, match=f"vulkan:{number}"):
        VulkanSentenceTransformer(tiny_model, device=f"vulkan:{number}")


@pytest.mark.parametrize("number", [0, 3])
def test_a_numbered_device_is_not_the_cpu(run, tiny_model, no_vulkan, number):
    """Whoever gives a number wants that device."""
    code = f"import sys, grilly; grilly.VulkanSentenceTransformer(sys.argv[1], device='vulkan:{number}')"
    done = run(code, tiny_model, **no_vulkan)
    assert done.status != 0 and f"IndexOutOfRangeError: there is no device vulkan:{number}" in done.errors, done.errors


@pytest.mark.vulkan
def test_the_first_device_by_number(tiny_model, vulkan):
    with VulkanSentenceTransformer(tiny_model, device="vulkan:0") as model:
        assert model.backend == "vulkan" and "vulkan:0" in model.device_reason


@pytest.mark.vulkan
def test_vk_gpu_index(run, tiny_model, vulkan):
    index = next(row["index"] for row in grilly.info()["devices"] if row["position"] == 0)
    done = run(ENCODE, tiny_model, VK_GPU_INDEX=str(index))
    assert done.output.startswith("vulkan vulkan") and f"VK_GPU_INDEX is {index}" in done.output, done.errors
    done = run(ENCODE, tiny_model, VK_GPU_INDEX="99")
    assert done.status != 0 and "IndexOutOfRangeError" in done.errors and "99" in done.errors


def test_vk_gpu_index_that_is_no_number(run, tiny_model):
    done = run(ENCODE, tiny_model, VK_GPU_INDEX="first")
    assert done.status != 0 and "InvalidArgumentError" in done.errors and "first" in done.errors
    assert run("import grilly; grilly.stats()", VK_GPU_INDEX="first").status == 0


def check_cpu_takes_over(done, word: str) -> None:
    assert done.status == 0, done.errors
    assert done.output.splitlines()[0] == "cpu cpu (1, 32) False 2"
    warnings = [line for line in done.errors.splitlines() if line.strip()]
    assert len(warnings) == 1 and "the CPU takes over" in warnings[0], done.errors
    assert word in done.output.splitlines()[1]


def test_no_driver(run, tiny_model, no_vulkan):
    check_cpu_takes_over(run(ENCODE, tiny_model, **no_vulkan), "Vulkan")


def test_only_a_software_rasteriser(run, tiny_model):
    if not all(row["type"] == "software" for row in grilly.info()["devices"]) or not grilly.info()["devices"]:
        pytest.skip("there is a GPU, or no device at all")
    check_cpu_takes_over(run(ENCODE, tiny_model, ALLOW_CPU_VULKAN=None), "ALLOW_CPU_VULKAN")


@pytest.mark.parametrize("variable", ["GRILLY_STRICT", "GRILLY_BRIDGE_STRICT"])
def test_strict_without_a_device(run, tiny_model, no_vulkan, variable):
    done = run(ENCODE, tiny_model, **no_vulkan, **{variable: "1"})
    assert done.status != 0 and "DeviceUnavailableError" in done.errors and "GRILLY_STRICT" in done.errors


def test_strict_allows_the_cpu_by_name(run, tiny_model, no_vulkan):
    code = "import sys, grilly; print(grilly.VulkanSentenceTransformer(sys.argv[1], device='cpu').backend)"
    assert run(code, tiny_model, **no_vulkan, GRILLY_STRICT="1").output == "cpu\n"


def test_info_without_a_device(run, no_vulkan):
    done = run("import json, grilly; print(json.dumps(grilly.info()))", **no_vulkan)
    info = json.loads(done.output)
    assert info["devices"] == [] and info["choice"]["backend"] == "cpu" and "Vulkan" in info["choice"]["reason"]


# -------------------------------------------------------------------------------------------------------------- faults


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.fixture
def expected(tiny_model, vulkan):
    """What the undisturbed device gives, and what the CPU gives."""
    rows = []
    for device in (vulkan, "cpu"):
        with VulkanSentenceTransformer(tiny_model, device=device) as model:
            rows.append(model.encode(TEXTS, batch_size=10))
    return rows


@pytest.mark.vulkan
@pytest.mark.parametrize("after", [0, 3])
def test_a_device_lost_in_the_middle(tiny_model, vulkan, expected, faults, caplog, after):
    with VulkanSentenceTransformer(tiny_model, device=vulkan) as model:
        model.encode("warm")
        grilly.reset_stats()
        faults("device_lost", after)
        rows = model.encode(TEXTS, batch_size=10)
        [warning] = warnings(caplog)
        assert "CPU" in warning and "lost" in warning
        assert model.backend == "cpu" and "CPU" in model.device_reason
        stats = grilly.stats()
        assert stats["fallbacks"] == 1 and stats["batches_cpu"] >= 1 and stats["share_cpu"] > 0
        assert stats["batches_vulkan"] + stats["batches_cpu"] >= 10
        # each row is wholly the one device's or wholly the other's
        for row, by_vulkan, by_cpu in zip(rows, *expected, strict=True):
            assert row.tobytes() in (by_vulkan.tobytes(), by_cpu.tobytes())
        assert np.array_equal(model.encode(TEXTS, batch_size=10), expected[1])
        assert len(warnings(caplog)) == 1


@pytest.mark.vulkan
def test_no_memory_at_load(tiny_model, vulkan, expected, faults, caplog):
    faults("allocation")
    with VulkanSentenceTransformer(tiny_model, device=vulkan) as model:
        assert model.backend == "cpu"
        assert np.array_equal(model.encode(TEXTS, batch_size=10), expected[1])
    [warning] = warnings(caplog)
    assert "memory" in warning


@pytest.mark.vulkan
def test_a_memory_limit_too_small(tiny_model, vulkan, caplog):
    with VulkanSentenceTransformer(tiny_model, device=vulkan, memory_limit=1000) as model:
        assert model.backend == "cpu" and model.encode("the").shape == (32,)
    [warning] = warnings(caplog)
    assert re.search(r"out of memory allocating \d{5,} bytes for all weights; the model may take 1000 bytes", warning)


STRICT = """
import sys, grilly, grilly.testing
kind, when = sys.argv[2:]
if when == "load":
    grilly.testing.inject_fault(kind)
model = grilly.VulkanSentenceTransformer(sys.argv[1])
grilly.testing.inject_fault(kind)
model.encode(["the cat"] * 100)
"""


@pytest.mark.vulkan
@pytest.mark.parametrize("kind, when", [("device_lost", "encode"), ("allocation", "load")])
def test_strict_raises_for_a_fault(run, tiny_model, vulkan, kind, when):
    done = run(STRICT, tiny_model, kind, when, GRILLY_STRICT="1")
    last = done.errors.strip().splitlines()[-1]
    assert done.status == 1 and last.startswith("grilly.errors.Device") and "GRILLY_STRICT" in last, done.errors


@pytest.mark.vulkan
def test_a_new_model_after_the_device_was_lost(tiny_model, vulkan, expected, faults):
    with VulkanSentenceTransformer(tiny_model, device=vulkan) as model:
        faults("device_lost")
        model.encode(TEXTS)
        grilly.testing.clear_faults()
        with VulkanSentenceTransformer(tiny_model, device=vulkan) as other:
            assert other.backend == "vulkan"
            assert np.array_equal(other.encode(TEXTS, batch_size=10), expected[0])


def test_an_unknown_fault():
    import grilly.testing

    with pytest.raises(ValueError, match="fire"):
        grilly.testing.inject_fault("fire")


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_num_threads_changes_no_bit(tiny_model, threads):
    rows = []
    for number in (threads, None):
        with VulkanSentenceTransformer(tiny_model, device="cpu", num_threads=number) as model:
            rows.append(model.encode(TEXTS))
    assert np.array_equal(*rows)


def test_no_variable_is_set(run, tiny_model):
    code = """
    import os, sys
    before = dict(os.environ)
    import grilly
    grilly.VulkanSentenceTransformer(sys.argv[1]).encode("the cat")
    assert dict(os.environ) == before
    """
    assert run(code, tiny_model).status == 0
    assert "VK_LOADER_LAYERS_DISABLE" not in os.environ


def test_a_profile_has_every_kernel_and_ends_with_its_block(vulkan, checkpoint):
    with grilly.VulkanSentenceTransformer(checkpoint("base"), device="vulkan") as model:
        model.encode(["before"])
        grilly.reset_stats()
        with grilly.profile() as taken:
            model.encode(["a text", "another one"])
            grilly.functional.softmax(grilly.to_vulkan(np.ones((3, 5), np.float32)))
            assert taken.times == []
        dispatches = grilly.stats()["dispatches"]
        model.encode(["after"])
    assert sum(entry.count for entry in taken.times) == dispatches
    assert taken.seconds > 0 and list(taken.by_kernel().values()) == sorted(taken.by_kernel().values(), reverse=True)
    assert {"softmax", "attention"} <= {entry.kernel.removesuffix("-masked") for entry in taken.times}
    assert any(entry.label.startswith("layer 0") for entry in taken.times)
    assert len(str(taken).splitlines()) == len(taken.times) + 1
