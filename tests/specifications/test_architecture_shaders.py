"""Architecture-specific shaders: selection, making one, the registry's functions, and what may come later."""

import numpy as np
import pytest
from models import families

import grilly
from grilly import VulkanSentenceTransformer, functional, testing
from grilly.backend import shader_registry

from . import Walk, missing

HERE = "tests/specifications/test_architecture_shaders.py"
GUIDE = "tests/python/test_shader_guide.py::test_the_page"
WALK: Walk = [
    ("overview: optimised, extensible, generic for all", f"{HERE}::test_the_best_shader_is_selected"),
    (
        "architectures: bert, distilbert, roberta, mpnet, xlm-roberta, albert, gpt, t5",
        f"{HERE}::test_every_architecture_encodes",
    ),
    (
        "bert: token types; distilbert: none; albert: factorised, shared",
        "tests/models/test_families.py::test_embeddings",
    ),
    ("gpt: causal, norms before", "tests/models/test_families.py::test_pre_norm_and_causal_at_other_subgroup_sizes"),
    ("t5: encoder and decoder, cross attention", "tests/models/test_decoder_states.py::test_states"),
    ("selection: the architecture's, else the generic one", f"{HERE}::test_the_best_shader_is_selected"),
    (
        "step 1: the name of the file",
        "tests/python/test_user_shaders.py::test_shaders_of_the_current_folder_are_found_in_order",
    ),
    (
        "step 2: the interface of the generic shader",
        "tests/python/test_compiler.py::test_what_differs_from_the_interface_is_named",
    ),
    (
        "step 2: the fragment with V and weights",
        "tests/python/test_registry.py::test_names_that_a_shader_calls_otherwise",
    ),
    (
        "step 3: register_architecture_specific",
        "tests/python/test_registry.py::test_the_samples_of_upstreams_guide_run",
    ),
    ("step 4: glslc", "tests/python/test_shader_files.py::test_another_compiler_finds_them"),
    ("registering: generic and of an architecture", f"{HERE}::test_samples_of_the_registry"),
    ("getting: of an architecture and generic", f"{HERE}::test_samples_of_the_registry"),
    ("when to create one: attention, cross attention, speed, norms", "docs/guides/shaders.md: A shader is right for"),
    (
        "when not: _extract_layer_weights, _add_token_type_embeddings",
        "docs/guides/shaders.md: `_add_token_type_embeddings`",
    ),
    ("example 1, 2, 4: a shader for llama, registered, compiled", GUIDE),
    ("example 3: detection of the model", ("docs/guides/shaders.md: model_class_name", GUIDE)),
    ("testing 1: a model of the architecture", f"{HERE}::test_every_architecture_encodes"),
    (
        "testing 2 to 4: the generic shader, the reference, speed",
        (
            "tests/python/test_compiler.py::test_two_shaders_are_compared",
            "tests/python/test_user_shaders_families.py::test_what_it_changes_is_what_the_numbers_say",
        ),
    ),
    ("current shaders: -gpt and -t5", f"{HERE}::test_grillys_own_can_be_asked_for"),
    ("best practices: a fallback, documentation, tests, speed, simplicity", "shaders/README.md: ## Order of reduction"),
    ("later: flash attention 2 for architectures", "tests/ops/test_flash.py::test_pairs"),
    (
        "later: sparse patterns",
        "tests/python/test_registry.py::test_a_shipped_shader_brings_its_pattern_and_its_options",
    ),
    ("later: one key head, groups", "tests/ops/test_attention.py::test_places_biases_and_grouped_heads"),
    ("later: LiquidMOE", "tests/models/test_experts.py::test_a_liquid_gate_is_that_of_its_definition"),
    (
        "later: Oja for growth, neurogenesis",
        "tests/ops/test_neurogenesis.py::test_there_are_as_many_units_as_the_data_have_dimensions",
    ),
    (
        "later: Oja, Sanger",
        (
            "tests/ops/test_hebbian.py::test_units_of_oja_span_the_first_components",
            "tests/ops/test_hebbian.py::test_units_of_sanger_are_the_first_components_in_order",
        ),
    ),
    ("later: Whitener", "tests/ops/test_streaming.py::test_whitened_rows_have_the_identity_as_covariance"),
]
REGISTER = """
from grilly.backend.shader_registry import register_architecture_shader, register_generic_shader

# Register generic shader (works for all architectures)
register_generic_shader('attention-output', 'attention-output')

# Register architecture-specific shader
register_architecture_shader('attention-output', 'gpt', 'attention-output-gpt')
"""
SELECT = """
from grilly.backend.shader_registry import get_shader

# Get shader for specific architecture
shader_name = get_shader('attention-output', architecture='gpt')
# Returns: 'attention-output-gpt' if available, else 'attention-output'
specific = shader_name

# Get generic shader
shader_name = get_shader('attention-output')
# Returns: 'attention-output'
"""


def test_nothing_is_left_out():
    assert missing(WALK) == []


def test_the_best_shader_is_selected():
    get = shader_registry.get_shader
    for architecture in ("gpt", "gpt2", "granite", "GPT"):
        assert get("attention-output", architecture=architecture) == "attention-output-gpt"
    assert get("attention-output", architecture="t5") == "attention-output-t5"
    for architecture in ("bert", "distilbert", "roberta", "mpnet", "xlm-roberta", "albert", "another"):
        assert get("attention-output", architecture=architecture) == "attention-output"


@pytest.mark.parametrize("name", ["bert", "distilbert", "roberta", "mpnet", "xlm-roberta", "albert", "gpt2", "t5"])
def test_every_architecture_encodes(name, device, tmp_path):
    model = VulkanSentenceTransformer(testing.tiny_checkpoint(name, tmp_path), device=device)
    assert model.model_type == name and model.backend == device
    both = model.encode(["a text", "another text of more words"])
    assert np.isfinite(both).all() and abs(both[0] - both[1]).max() > 1e-3


def test_samples_of_the_registry():
    names: dict = {}
    exec(REGISTER, names)
    exec(SELECT, names)
    assert names["specific"] == "attention-output-gpt" and names["shader_name"] == "attention-output"


@pytest.mark.parametrize("name, architecture", [("gpt2", "gpt"), ("t5", "t5"), ("llama", "llama")])
def test_grillys_own_can_be_asked_for(name, architecture, device, tmp_path):
    shader = f"attention-output-{architecture}"
    folder = families.build(name, tmp_path)
    texts = ["one", "two three four", "a longer text of several words"]
    fused = VulkanSentenceTransformer(folder, device=device)
    assert "split: done" not in fused.plan
    try:
        shader_registry.register_architecture_shader("attention-output", architecture, shader)
        assert VulkanSentenceTransformer(folder, device=device).plan == fused.plan
        shader_registry.register_architecture_shader("attention-output", architecture, shader, unfused=True)
        apart = VulkanSentenceTransformer(folder, device=device)
    finally:
        shader_registry.unregister("attention-output", architecture)
    assert f"{architecture}: {shader}" in apart.plan.replace(name, architecture) and "attention_output" in apart.plan
    assert abs(apart.encode(texts) - fused.encode(texts)).max() < 1e-5
    assert VulkanSentenceTransformer(folder, device=device).plan == fused.plan


def test_a_shader_of_an_architecture_has_the_generic_ones_numbers(device):
    """The weights that a shipped entry leaves out are zero in the models that it serves."""
    random = np.random.default_rng(0)
    weights = np.tril(random.random((2, 4, 20, 20), np.float32))
    values = random.standard_normal((2, 20, 4, 8), np.float32)
    operands = [grilly.to_vulkan(array, device=device) for array in (weights, values)]
    generic = np.asarray(functional.attention_output(*operands))
    assert abs(np.asarray(functional.attention_output(*operands, architecture="gpt")) - generic).max() < 1e-5
    assert abs(generic - np.einsum("bhij,bjhd->bihd", weights, values).reshape(generic.shape)).max() < 1e-4
