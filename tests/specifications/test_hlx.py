"""HLX: training of a transformer that repeats in every bit: kernels, memory, synchronisation, sizes, integration."""

from dataclasses import astuple

import pytest

from grilly.train import Trainer, TransformerConfig

from . import Walk, missing

HERE = "tests/specifications/test_hlx.py"
FUNCTIONAL = "tests/ops/test_functional.py"
VALUES = "tests/ops/test_ops.py::test_value"
TRAINING = "tests/train/test_training.py"
ENGINE = "docs/guides/engine.md"
WALK: Walk = [
    ("principle 1: equal bits in every run", f"{TRAINING}::test_every_bit_repeats"),
    (
        "principle 1: reductions in a fixed order, no atomics across workgroups",
        "shaders/README.md: ## Order of reduction",
    ),
    (
        "principle 1: explicit barriers",
        "tests/python/test_synchronization.py::test_a_missing_barrier_is_reported_and_none_is_missing",
    ),
    ("principle 2: each operation alone", VALUES),
    (
        "principle 2: another implementation in its place",
        "src/compiler/tests/registering.rs::a_registered_shader_is_the_one_selected",
    ),
    ("principle 2: interfaces", "tests/build_script.rs::a_shader_gives_kernels_with_named_variants"),
    (
        "principle 3: norms before the parts, no warm-up",
        f"{TRAINING}::test_gradients_of_the_whole_smallest_model_are_those_of_float64",
    ),
    ("gemm: tiles in shared memory", (VALUES, f"{ENGINE}: ## Tiles")),
    ("gemm backward: modes 0 and 1", "tests/python/test_compute.py::test_gemm_backward_has_two_modes_and_accumulates"),
    ("layer norm: a tree of sums, both passes", (VALUES, f"{FUNCTIONAL}::test_norm_gradients")),
    (
        "layer norm: variance, epsilon",
        (f"{FUNCTIONAL}::test_the_variance_of_a_norm_does_not_cancel", "docs/guides/functional.md: E[x^2] - E[x]^2"),
    ),
    ("softmax: three passes, backward", (VALUES, f"{FUNCTIONAL}::test_every_derivative_named_by_its_function")),
    ("gelu: by tanh, backward", f"{FUNCTIONAL}::test_every_activation_and_its_derivative"),
    ("cross entropy: log of softmax, backward", f"{FUNCTIONAL}::test_cross_entropy"),
    (
        "adam: bias correction",
        (f"{HERE}::test_defaults_of_adam", "tests/train/test_optimizers.py::test_steps_are_those_of_torchs_formulas"),
    ),
    ("memory layout: rows one after the other", f"{FUNCTIONAL}::test_linear"),
    ("memory: weights, activations, gradients, staging, parameters", f"{ENGINE}: ## Memory"),
    (
        "barriers: between dispatches, before the host reads",
        "tests/python/test_synchronization.py::test_a_missing_barrier_is_reported_and_none_is_missing",
    ),
    (
        "guarantees: in a workgroup, across, order, no atomics",
        (f"{TRAINING}::test_every_bit_repeats", f"{TRAINING}::test_checkpointing_changes_no_bit"),
    ),
    ("sizes: tiny, small, medium", f"{HERE}::test_sizes"),
    ("loop: forward, backward, update", f"{TRAINING}::test_steps_are_those_of_float64"),
    ("loop: checkpoints", f"{TRAINING}::test_more_steps_and_fewer_checkpoints"),
    ("reused: pipelines, command buffers, buffers, modules, bindings", f"{ENGINE}: ## The five types"),
    ("provided: shaders", "tests/build_script.rs::the_shaders_of_the_crate_are_read"),
    ("provided: orchestration in Rust", "examples/train.rs::main"),
    (
        "provided: sizes, settings, schedules, checkpoints",
        ("src/train/schedule.rs::one_cycle_is_torchs", "tests/train/test_command.py::test_it_trains_and_resumes"),
    ),
    ("integration: shaders, modules, stubs, building, tests", (f"{ENGINE}: ## Steps", "build_shaders.sh: make")),
    ("throughput and memory", "tests/train/test_table.py::test_the_tables_of_a_device"),
    ("throughput and memory: on GPUs", "benchmarks/README.md: ## The specification's tables"),
    ("later: flash attention", "src/train/graph.rs::the_work_of_the_largest_step_is_known"),
    (
        "later: 16 bits",
        (
            f"{TRAINING}::test_16_bits_are_near",
            "tests/train/test_mixed_precision.py::test_a_hundred_steps_of_a_run_are_those_of_a_vulkan_device",
        ),
    ),
    ("later: checkpoints of gradients", f"{TRAINING}::test_checkpointing_changes_no_bit"),
    ("later: tokens of byte pairs", "tests/train/test_vocabulary.py::test_a_run_keeps_its_tokens"),
]


def test_nothing_is_left_out():
    assert missing(WALK) == []


@pytest.mark.parametrize("name, sizes, parameters", [
    ("tiny", (256, 256, 4, 4, 1024, 128), 3_323_392),
    ("small", (256, 512, 6, 8, 2048, 256), 19_308_544),
    ("medium", (256, 768, 12, 12, 3072, 512), 85_842_432),
])  # fmt: skip
def test_sizes(name, sizes, parameters):
    config = getattr(TransformerConfig, name)()
    assert astuple(config)[:6] == sizes
    assert config.parameter_count() == parameters


def test_defaults_of_adam(tmp_path):
    options = Trainer(TransformerConfig.tiny(), "some words " * 600, tmp_path / "run", device="cpu").options
    assert options["learning_rate"] == {"constant": 3e-4} or options["learning_rate"] == 3e-4
    assert (options["betas"], options["eps"]) == ([0.9, 0.999], 1e-8)
