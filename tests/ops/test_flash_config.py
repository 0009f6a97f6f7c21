"""Configurations of flash attention: what they need, which fit, and which one a device takes."""

import dataclasses
import itertools

import numpy as np
import pytest

import grilly
from grilly import _core, errors, kernels

SPEC = {
    "ampere": (128, 128, 64, True),
    "hopper": (128, 256, 128, True),
    "rdna3": (64, 64, 64, True),
    "apple": (64, 64, 64, True),
    "fallback": (32, 32, 64, False),
}
ROWS = [value for name, value in vars(kernels.TunedConfigs).items() if not name.startswith("_")]
LIMITS = (32 << 10, 48 << 10, 64 << 10, 227 << 10)


@pytest.mark.parametrize("name", SPEC)
def test_the_rows_have_the_numbers_of_the_specification(name):
    assert dataclasses.astuple(getattr(kernels.TunedConfigs, name)) == SPEC[name]


def test_what_is_needed_is_what_the_shader_declares():
    blocks = itertools.product((16, 64, 128), (16, 64, 256), (16, 64, 128, 256), (False, True))
    for config in [*ROWS, kernels.default_config, *itertools.starmap(kernels.FlashAttentionConfig, blocks)]:
        needed, reflected = _core.flash_shared_memory(dataclasses.astuple(config))
        assert needed == reflected == kernels.required_shared_memory(config), config


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("config", ROWS, ids=str)
def test_a_configuration_that_does_not_fit_names_the_nearest_that_does(config, limit):
    if kernels.required_shared_memory(config) <= limit:
        return kernels.validate_config(config, limit)
    with pytest.raises(kernels.SharedMemoryError, match=f"the limit is {limit}; .* fits") as caught:
        kernels.validate_config(config, limit)
    error = caught.value
    assert isinstance(error, ValueError) and isinstance(error, errors.GrillyError)
    assert (error.need, error.limit) == (kernels.required_shared_memory(config), limit)
    nearest = error.nearest
    kernels.validate_config(nearest, limit)
    assert nearest.block_kv < config.block_kv and nearest.head_dim == config.head_dim
    assert nearest.block_q == config.block_q or nearest.block_kv == 16, "keys are halved before queries"
    larger = (
        {"block_kv": 2 * nearest.block_kv} if nearest.block_q == config.block_q else {"block_q": 2 * nearest.block_q}
    )
    assert kernels.required_shared_memory(dataclasses.replace(nearest, **larger)) > limit


def test_no_configuration_fits_a_tiny_limit():
    with pytest.raises(kernels.SharedMemoryError, match="no smaller configuration fits") as caught:
        kernels.validate_config(kernels.default_config, 1024)
    assert caught.value.nearest is None


@pytest.mark.parametrize(
    "blocks, limit, words",
    [
        ((0, 64, 64), 1 << 15, "block_q is 0"),
        ((64, 24, 64, True), 1 << 20, "block_kv is 24, expected a multiple of 16"),
        ((64, 64, 2**40), 1 << 15, "head_dim is"),
        ((64, 64, 64), -1, "max_shared_memory is -1"),
    ],
)
def test_impossible_configurations(blocks, limit, words):
    with pytest.raises(ValueError, match=words):
        kernels.validate_config(kernels.FlashAttentionConfig(*blocks), limit)


@pytest.mark.parametrize("head_dim", [32, 64, 80, 128, 256])
def test_every_device_of_this_machine_takes_what_fits_it(head_dim):
    for device in grilly.info()["devices"]:
        config = kernels.select_config(device, head_dim)
        assert config.head_dim == head_dim
        kernels.validate_config(config, device["limits"]["shared_memory"])
        assert not config.half_precision or "coopmat_f16_f32_16x16x16" in device["features"]
    assert kernels.select_config(head_dim=head_dim).head_dim == head_dim
    with pytest.raises(IndexError):
        kernels.select_config({"index": 99})


def test_an_unknown_device_gets_the_fallback_and_runs(vulkan):
    device = _core.engine("vulkan").device
    if kernels.detect_vendor() != "unknown":
        pytest.skip(f"{device} is known")
    assert kernels.select_config() == kernels.TunedConfigs.fallback
    x = np.ones((5, 64), np.float32)
    assert (kernels.get("flash_attention", hidden_dim=64)(x, x, x, [0, 5], [0, 5]) == 1).all()
