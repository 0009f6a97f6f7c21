"""The kernel library: flash attention, fused operations, compiling kernels, and the memory that they need."""

import pytest

from grilly import kernels

from . import Walk, missing

HERE = "tests/specifications/test_kernel_library.py"
FLASH = "tests/ops/test_flash_config.py"
EXPORT = "tests/ops/test_flash_export.py"
WALK: Walk = [
    ("kernels for CUDA, Vulkan, Metal, WebGPU", "tests/ops/test_export.py::test_every_kernel_in_every_language"),
    ("attention: memory linear in the tokens", "tests/ops/test_flash.py::test_65536_tokens_take_linear_memory"),
    ("attention: tiles, running softmax", "tests/ops/test_flash.py::test_blocks"),
    ("attention: causal masks", "tests/ops/test_flash.py::test_products"),
    (
        "attention: half precision, tensor cores",
        (
            "tests/ops/test_kernels.py::test_half_the_bytes",
            "tests/ops/test_export_matrices.py::test_cuda_computes_the_operation_on_matrix_cores",
        ),
    ),
    (
        "attention: configurations of architectures",
        (
            f"{FLASH}::test_the_rows_have_the_numbers_of_the_specification",
            f"{EXPORT}::test_each_row_compiles_for_the_gpus_that_it_is_named_after",
            f"{EXPORT}::test_tuned_rows_on_an_nvidia_gpu",
        ),
    ),
    (
        "usage: a kernel of the default and of a tuned configuration",
        (f"{HERE}::test_constructors", f"{FLASH}::test_a_kernel_takes_a_configuration_alone"),
    ),
    ("six fusions", "tests/ops/test_fused.py::test_an_operation_is_within_its_bound_of_its_definition"),
    (
        "fusion: softmax and dropout for training",
        "tests/ops/test_fused.py::test_dropout_behind_softmax_has_the_mask_of_dropout",
    ),
    (
        "usage: swiglu and rms norm with rotary positions",
        (f"{HERE}::test_constructors", "tests/ops/test_kernels.py::test_rotary_positions_behind_a_norm"),
    ),
    ("compiling: what a kernel tells", "tests/ops/test_kernels.py::test_what_a_kernel_tells_of_itself"),
    (
        "compiling: SPIR-V, CUDA and PTX",
        ("tests/ops/test_export.py::test_nvrtc_compiles_cuda", f"{HERE}::test_constructors"),
    ),
    ("memory: what a configuration needs", f"{FLASH}::test_what_is_needed_is_what_the_shader_declares"),
    ("memory: what a device allows", f"{FLASH}::test_a_configuration_that_does_not_fit_names_the_nearest_that_does"),
    ("architecture: detection of vendors", f"{FLASH}::test_an_unknown_device_gets_the_fallback_and_runs"),
    ("references: both papers, SPIR-V", ("docs/guides/kernels.md: 2205.14135", "docs/guides/kernels.md: 2307.08691")),
]


def test_nothing_is_left_out():
    assert missing(WALK) == []


def test_constructors():
    """Each constructor makes the kernel of its name, and `generate` its code."""
    options = {"hidden_dim": 128, "head_dim": 64}
    for name, fused in {
        "layernorm_linear": "layer_norm_linear", "rmsnorm_rope": "rms_norm_rope", "swiglu": "swiglu",
        "residual_layernorm": "residual_layer_norm", "geglu": "geglu", "softmax_dropout": "softmax_dropout",
    }.items():  # fmt: skip
        known = {key: value for key, value in options.items() if key == "hidden_dim" or fused == "rms_norm_rope"}
        known = {} if fused == "softmax_dropout" else known
        made, same = getattr(kernels, f"create_{name}_kernel")(**known), kernels.get(fused, **known)
        assert (made.name, made.options, made.source) == (same.name, same.options, same.source)
        assert kernels.generate(made, "cuda", 3).code == same.compile("cuda", 3).code
    fallback = kernels.TunedConfigs.fallback
    assert (
        kernels.create_flash_attention_kernel(fallback).source == kernels.get("flash_attention", config=fallback).source
    )
    assert kernels.create_flash_attention_kernel(causal=True).options == {"causal": True}
    with pytest.raises(TypeError, match="generate: kernel is of type str, expected a Kernel"):
        kernels.generate("swiglu")
