"""`decode_states` on devices: memory, a device that fails, another device or type."""

import logging
import shutil

import numpy as np
import pytest
from models import families
from models.golden import same_bits
from models.spoil import rewrite

import grilly
from grilly import VulkanSentenceTransformer

TEXTS = ["A dog runs through the wet grass.", "", "the cat"]
OTHERS = ["no", "A cat sits on the mat and sleeps.", ""]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A checkpoint with a decoder."""
    return families.build("t5", tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def model(whole):
    with VulkanSentenceTransformer(whole, device="cpu") as model:
        yield model


@pytest.mark.vulkan
def test_only_a_model_that_decodes_holds_the_decoder(whole, tmp_path, vulkan):
    bare = shutil.copytree(whole, tmp_path / "bare")
    rewrite(bare, lambda tensors: [tensors.pop(key) for key in list(tensors) if key.startswith("decoder.")])
    held = []
    for folder in (bare, whole):
        before = grilly.stats()["bytes_held"]
        with VulkanSentenceTransformer(folder, device=vulkan) as model:
            model.encode(TEXTS)
            held.append(grilly.stats()["bytes_held"] - before)
            if folder == whole:
                model.decode_states(TEXTS, OTHERS)
                assert grilly.stats()["bytes_held"] - before > held[0]
    assert held[0] == held[1]


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.vulkan
@pytest.mark.parametrize("decoded", [True, False], ids=["prepared", "new"])
@pytest.mark.parametrize("after", range(4))
def test_a_lost_device(whole, model, vulkan, faults, caplog, decoded, after):
    """At the encoder's batches or the decoder's: one warning, and the CPU's numbers for whatever was not done."""
    expected = model.decode_states(TEXTS, OTHERS)
    with VulkanSentenceTransformer(whole, device=vulkan) as other:
        if decoded:
            other.decode_states(TEXTS, OTHERS)
        faults("device_lost", after)
        states = other.decode_states(TEXTS, OTHERS, batch_size=1)
        assert other.backend == "cpu"
        for a, b in zip(states, expected, strict=True):
            assert a.shape == b.shape and np.abs(a - b).max() <= 1e-5 * np.abs(b).max()
        [warning] = warnings(caplog)
        assert "the CPU took over" in warning
        assert all(same_bits(a, b) for a, b in zip(other.decode_states(TEXTS, OTHERS), expected, strict=True))
        assert len(warnings(caplog)) == 1


@pytest.mark.vulkan
def test_no_memory_for_the_decoder(whole, model, vulkan, faults, caplog):
    expected = model.decode_states(TEXTS, OTHERS)
    with VulkanSentenceTransformer(whole, device=vulkan) as other:
        other.encode(TEXTS)
        faults("allocation")
        states = other.decode_states(TEXTS, OTHERS)
        assert other.backend == "cpu"
    assert all(a.shape == b.shape for a, b in zip(states, expected, strict=True))
    [warning] = warnings(caplog)
    assert "memory" in warning


@pytest.mark.vulkan
def test_strict_forbids_the_cpu(run, whole, vulkan):
    code = """
    import sys, grilly, grilly.testing
    model = grilly.VulkanSentenceTransformer(sys.argv[1])
    model.encode("a")
    grilly.testing.inject_fault("allocation")
    model.decode_states("a", "b")
    """
    done = run(code, whole, GRILLY_STRICT="1")
    last = done.errors.strip().splitlines()[-1]
    assert done.status == 1 and last.startswith("grilly.errors.Device") and "GRILLY_STRICT" in last, done.errors


def test_a_device_for_one_call(whole, model, device):
    states = model.decode_states(TEXTS, OTHERS, device=device)
    for a, b in zip(states, model.decode_states(TEXTS, OTHERS), strict=True):
        assert np.abs(a - b).max() <= 1e-5 * np.abs(b).max()


def test_a_copy_in_another_type(whole):
    with VulkanSentenceTransformer(whole, device="cpu") as model:
        full = model.decode_states(TEXTS, OTHERS)
        half = model.half().decode_states(TEXTS, OTHERS)
    for a, b in zip(half, full, strict=True):
        assert a.dtype == np.float16 and 0 < np.abs(a - b).max() <= 5e-3 * np.abs(b).max()
