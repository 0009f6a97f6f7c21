"""Configurations of flash attention: what they need, which fit, and which one a device takes."""

import dataclasses
import itertools

import numpy as np
import pytest
from cases.bounds import bound
from cases.reference import evaluate

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
        kernel = kernels.get("flash_attention", hidden_dim=2 * config.head_dim, config=config)
        assert kernel.shared_memory == needed, config
        assert kernel.interface.local_size[0] == config.block_q * (1 if config.half_precision else 4)
        assert [dtype for dtype, _ in kernel.operands()][:3] == 3 * ["float16" if config.half_precision else "float32"]


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
        ((48, 64, 64), 1 << 20, "block_q is 48, expected a power of two from 16"),
        ((16, 512, 64), 1 << 20, "block_kv is 512, expected a power of two from 16 to 256"),
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
    run(kernels.TunedConfigs.fallback, "vulkan")


def run(config, device):
    """The kernel with these blocks on two texts, beside float64."""
    x = np.random.default_rng(5).standard_normal((150, 2 * config.head_dim)).astype(np.float16)
    offsets = np.array([0, 40, 150], np.int32)
    kernel = kernels.get("flash_attention", hidden_dim=2 * config.head_dim, config=config)
    given = grilly.to_vulkan(x if config.half_precision else x.astype(np.float32), device)
    found = np.asarray(kernel(given, given, given, *(grilly.to_vulkan(offsets, device) for _ in range(2))))
    attributes = {"heads": 2, "kv_heads": 2, "head_dim": config.head_dim, "scale": config.head_dim**-0.5}
    operands = [x.astype(np.float64)] * 3 + [offsets] * 2
    expected = evaluate("attention", operands, attributes)
    assert (np.abs(found - expected) <= bound("attention", operands, attributes, expected, config.half_precision)).all()


@pytest.mark.parametrize("head_dim", [32, 128])
@pytest.mark.parametrize("config", [*ROWS, kernels.default_config], ids=str)
def test_what_fits_a_device_runs_on_it_and_the_rest_is_refused(device, config, head_dim):
    config = dataclasses.replace(config, head_dim=head_dim)
    try:
        run(config, device)
    except kernels.SharedMemoryError as error:
        assert device == "vulkan" and error.need > error.limit
        run(error.nearest, device)


def test_a_kernel_takes_a_configuration_alone(device):
    with pytest.raises(errors.InvalidArgumentError, match="head_dim is given, and config has one"):
        kernels.get("flash_attention", head_dim=64, config=kernels.default_config)
    with pytest.raises(errors.InvalidTypeError, match="config is of type tuple"):
        kernels.get("flash_attention", config=(64, 64, 64, False))
    with pytest.raises(errors.InvalidArgumentError, match="swiglu has no option config"):
        kernels.get("swiglu", config=kernels.default_config)
    with pytest.raises(errors.InvalidArgumentError, match="hidden_dim 96 is not a multiple of head_dim 64"):
        kernels.get("flash_attention", hidden_dim=96, config=kernels.default_config)
    x = grilly.to_vulkan(np.ones((5, 64), np.float32), device)
    offsets = grilly.to_vulkan(np.array([0, 5], np.int32), device)
    plain, configured = (
        np.asarray(kernels.get("flash_attention", hidden_dim=64, **options)(x, x, x, offsets, offsets))
        for options in ({}, {"config": kernels.default_config})
    )
    assert plain.tobytes() == configured.tobytes(), "the engine takes the default's keys"
