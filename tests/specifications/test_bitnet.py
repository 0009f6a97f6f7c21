"""BitNet: 27 functions by name, command encoders, the shader compiler, its options, its errors."""

import pytest

from grilly import quant

from . import Walk, missing

HERE = "tests/specifications/test_bitnet.py"
GUIDE = "docs/guides/bitnet.md"
CRATE = "bitnet/src/tests.rs"
METAL = "tests/ops/test_metal.py"
COMPILING = "src/compiler/tests/compiling.rs"
WALK: Walk = [
    (
        "bitlinear, quantization, activation: 27 functions",
        (f"{HERE}::test_every_function_is_there", f"{CRATE}::every_function_computes_what_its_name_says"),
    ),
    (
        "bitlinear: forward and gradients",
        (
            "tests/python/test_quant.py::test_bitlinear_is_the_integer_product",
            "tests/python/test_quant.py::test_gradients_go_straight_through",
        ),
    ),
    (
        "quantization: groups of 1 bit, 8 bits with a zero point",
        "tests/python/test_quant.py::test_groups_of_signs_and_back",
    ),
    ("quantization: gradients", "tests/python/test_quant.py::test_gradients_are_rounded_at_random_without_a_bias"),
    ("activation: names", "tests/python/test_quant.py::test_activations_have_their_names"),
    (
        "bitlinear.metal, quantization.metal, activation.metal",
        (
            f"{METAL}::test_every_function_computes_what_its_name_says",
            f"{METAL}::test_the_names_are_those_of_the_specification",
            f"{METAL}::test_the_swift_package_has_the_functions_of_the_specification",
        ),
    ),
    (
        "usage 1: device, shaders, pipeline, encoder, buffers, dispatch",
        f"{GUIDE}: create_compute_encoder_with_pipeline",
    ),
    ("usage 2: compiler, compile_all_shaders, get_compute_function", f"{GUIDE}: compile_all_shaders"),
    (
        "usage 3: global shaders, create and dispatch of bitlinear_forward",
        (
            f"{GUIDE}: initialize_global_shaders",
            f"{CRATE}::the_global_shaders_stay_on_one_device",
            f"{CRATE}::every_function_has_an_encoder_and_a_dispatch_by_name",
        ),
    ),
    ("threads: groups by device, whole subgroups", f"{CRATE}::groups_are_whole_subgroups_and_every_pipeline_has_one"),
    ("memory: shared, aligned", "shaders/README.md: ## Interface"),
    (
        "stability: epsilon, clamping, softmax",
        "tests/python/test_quant.py::test_what_is_not_finite_makes_its_own_scale_nan",
    ),
    (
        "strategies: precision of 1, 8, 16, 32 bits",
        "tests/models/test_integers.py::test_products_are_those_of_exact_integers",
    ),
    ("benchmarks: cargo bench", "benches/quant.rs: criterion_main!"),
    ("profiling", "tests/python/test_devices.py::test_a_profile_has_every_kernel_and_ends_with_its_block"),
    (
        "debug and release mode",
        (
            "tests/python/test_compiler.py::test_the_defaults_are_release_modes",
            f"{COMPILING}::debug_information_stays_where_it_is_asked_for",
        ),
    ),
    ("custom configuration", f"{COMPILING}::the_cache_serves_the_same_text_and_options_alone"),
    ("errors: four beginnings", f"{CRATE}::errors_begin_with_the_specified_words"),
    (
        "adding a shader: file, function, enum, mapping, tests",
        (f"{GUIDE}: ## Shaders of your own", f"{CRATE}::a_users_function_is_one_like_the_others"),
    ),
    ("testing: the sample", f"{GUIDE}: #[test]"),
    (
        "debugging: validation, printf, readback",
        "tests/python/test_shader_debugging.py::test_what_is_printed_by_a_shader_compiled_later_is_shown_on_request",
    ),
    ("platforms: where there is no device", "tests/vulkan/processes.rs::without_a_driver_the_error_says_so"),
]
FUNCTIONS = """
    bitlinear_forward bitlinear_backward_input binarize_weights quantize_activations
    quantize_weights_1bit quantize_activations_8bit dequantize_weights_1bit dequantize_activations_8bit
    dynamic_quantize_activations quantize_gradients mixed_precision_matmul
    relu_forward relu_backward gelu_forward gelu_backward swish_forward swish_backward sigmoid_forward sigmoid_backward
    tanh_forward tanh_backward leaky_relu_forward leaky_relu_backward softmax_forward softmax_backward
    layer_norm_forward fused_relu_dropout
""".split()  # fmt: skip


def test_nothing_is_left_out():
    assert missing(WALK) == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_there(name):
    assert "Example:" in getattr(quant, name).__doc__
