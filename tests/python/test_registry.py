"""`grilly.backend.shader_registry`: names, defaults, and upstream's own samples."""

import functools
import re
from pathlib import Path

import numpy as np
import pytest

from grilly import ShaderCompiler, ShaderCompilerConfig, _core, errors, functional, testing, to_vulkan
from grilly.backend import shader_registry

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "shaders.md"


def test_names_and_defaults_of_the_registry():
    registry = shader_registry.ShaderRegistry()
    for name in ("gpt", "GPT", "gpt2", "gpt_neox", "granite"):
        assert registry.get_shader("attention-output", name) == "attention-output-gpt"
    assert registry.get_shader("attention-output", architecture="t5") == "attention-output-t5"
    assert registry.get_shader("attention-output", architecture="bert") == "attention-output"
    assert registry.get_shader("attention-output") == "attention-output"
    names = registry.list_shaders()
    assert names == sorted(names) and names == registry.list_shaders("gpt")
    upstream = (
        "activation-gelu activation-relu activation-silu activation-softmax attention-scores attention-mask "
        "attention-output attention-concat-heads embedding-lookup embedding-pool-mask fnn-linear fnn-layernorm "
        "fnn-dropout fnn-residual rope oja-learning sanger-gha"
    )
    for name in (*upstream.split(), "embedding-normalize", "embedding-pool"):
        assert name in names and registry.get_shader(name) == name
    registry.register_generic("new", "new-file")
    assert registry.get_shader("new", "gpt") == "new-file"
    assert "new" not in shader_registry.get_registry().list_shaders(), "a registry of one's own changes no other"


def test_what_was_registered_is_taken_back():
    registry = shader_registry.ShaderRegistry()
    registry.register_generic("new", "mine")
    registry.register_generic("attention-output", "mine")
    registry.register_architecture_specific("attention-output", "t5", "mine")
    registry.register_architecture_specific("attention-output", "bert", "other")
    for architecture in ("T5", "bert", None):
        registry.unregister("attention-output", architecture)
    registry.unregister("attention-output", "never registered")
    found = {name: registry.get_shader("attention-output", name) for name in ("t5", "bert", "gpt")}
    assert found == {"t5": "attention-output-t5", "bert": "attention-output", "gpt": "attention-output-gpt"}
    registry.unregister("new")
    assert "new" not in registry.list_shaders()


@pytest.mark.parametrize(
    "file, options, seen",
    [
        ("attention-output", (), np.ones((4, 4))),
        ("attention-output-gpt", (), np.tri(4)),
        ("attention-output-windowed", ("window",), np.tri(4, k=1) - np.tri(4, k=-2)),
    ],
)
def test_a_shipped_shader_brings_its_pattern_and_its_options(device, file, options, seen):
    engine = _core.engine(device)
    weights, values = np.ones((1, 1, 4, 4), np.float32), np.eye(4, dtype=np.float32).reshape(1, 4, 1, 4)
    attributes = {"architecture": "pattern-test", "window": 1}
    shader_registry.register_architecture_shader("attention-output", "pattern-test", file)
    try:
        found = engine.call("attention_output", [engine.upload(weights), engine.upload(values)], attributes).numpy()
        np.testing.assert_array_equal(found.reshape(4, 4), seen)
        for option in ("window", "global_tokens", "seed"):
            if option in options:
                functional.attention_output(weights, values, architecture="pattern-test", **{option: 1})
                continue
            with pytest.raises(errors.InvalidArgumentError, match=f"the shader {file} has no {option};"):
                functional.attention_output(weights, values, architecture="pattern-test", **{option: 1})
    finally:
        shader_registry.unregister("attention-output", "pattern-test")


def test_an_unknown_shader_is_none_with_a_warning(caplog):
    with caplog.at_level("WARNING", logger="grilly"):
        assert shader_registry.get_shader("nonsense", "gpt") is None
    assert "'nonsense'" in caplog.text


def test_the_samples_of_upstreams_guide_run():
    # Code of upstream's guide, as it stands there.
    from grilly.backend.shader_registry import (
        _registry,
        get_shader,
        register_architecture_shader,
        register_generic_shader,
    )

    register_generic_shader("attention-output", "attention-output")
    register_architecture_shader("attention-output", "gpt", "attention-output-gpt")
    _registry.register_architecture_specific(
        "attention-output",  # Base shader name
        "gpt",  # Architecture
        "attention-output-gpt",  # Shader file name (without .glsl)
    )
    _registry.register_architecture_specific("attention-output", "llama", "attention-output-llama")
    shader_name = get_shader("attention-output", architecture="gpt")
    assert shader_name == "attention-output-gpt"
    assert get_shader("attention-output") == "attention-output"


def test_a_users_attention_serves_encode(vulkan, run, tiny_model, tmp_path):
    """The guide's shader on a BERT: the same embeddings, attention taken apart, and other models as they were."""
    (glsl,) = re.findall(
        r"```glsl\n// shaders/attention-output-grouped.glsl\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL
    )
    (tmp_path / "mine.glsl").write_text(glsl)
    (tmp_path / "seven.glsl").write_text(glsl.replace("= sum;", "= 7.0;"))
    code = """
        import sys
        import numpy as np
        from grilly import ShaderCompiler, ShaderCompilerConfig, VulkanSentenceTransformer
        from grilly.backend.shader_registry import register_architecture_shader
        compiler = ShaderCompiler(ShaderCompilerConfig(sys.argv[2], enable_caching=False))
        texts = ["A text.", "", "a longer text of the same batch", "A text."]
        def load():
            return VulkanSentenceTransformer(sys.argv[1])
        before = load()
        first = before.encode(texts)
        assert "split: left" in before.plan and "split: done" not in before.plan, before.plan
        register_architecture_shader("attention-output", "t5", "mine", compiler=compiler)
        assert load().plan == before.plan
        register_architecture_shader("attention-output", "bert", "mine", compiler=compiler)
        model = load()
        assert "split: done" in model.plan, model.plan
        found = model.encode(texts)
        assert np.abs(found - first).max() < 1e-6 and np.array_equal(found[0], found[3])
        assert np.array_equal(found, np.stack([model.encode(text) for text in texts]))
        register_architecture_shader("attention-output", "bert", "seven", compiler=compiler)
        assert np.abs(load().encode(texts) - first).max() > 1e-3, "the user's shader runs"
        assert np.array_equal(before.encode(texts), first), "what was loaded keeps its shaders"
        register_architecture_shader("attention-output", "bert", "attention-output")
        again = load()
        assert again.plan == before.plan and np.array_equal(again.encode(texts), first)
        print("served")
    """
    done = run(code, tiny_model, tmp_path)
    assert done.output.strip() == "served", done.errors


RENAMED = """#version 460
layout(local_size_x = 64) in;
layout(constant_id = 1) const uint REACH = 0;
layout(std430, binding = 0) readonly buffer P { float p[]; } P_in;
layout(std430, binding = 1) readonly buffer V { float v[]; } V_in;
layout(std430, binding = 2) writeonly buffer Out { float o[]; } result;
layout(push_constant) uniform Push { uint batch_size, heads, kv_heads, q_len, kv_len, head_dim; } push;
void main() {
    uint row = 64u * gl_WorkGroupID.x + gl_LocalInvocationIndex;
    uint head = gl_WorkGroupID.y, text = gl_WorkGroupID.z, kv_head = head * push.kv_heads / push.heads;
    if (row >= push.q_len) return;
    for (uint column = 0u; column < push.head_dim; column++) {
        float sum = float(REACH);
        for (uint key = 0u; key < push.kv_len; key++) {
            sum = fma(P_in.p[((text * push.heads + head) * push.q_len + row) * push.kv_len + key],
                      V_in.v[((text * push.kv_len + key) * push.kv_heads + kv_head) * push.head_dim + column], sum);
        }
        result.o[((text * push.q_len + row) * push.heads + head) * push.head_dim + column] = sum;
    }
}
"""
NAMES = {"P_in": "weights", "V_in": "values", "result": "y", "batch_size": "batch", "REACH": "WINDOW"}


@pytest.mark.parametrize("ending", [".glsl", ".spv"])
def test_names_that_a_shader_calls_otherwise(vulkan, tmp_path, ending):
    (tmp_path / "renamed.glsl").write_text(RENAMED)
    # Without debug information a module has no names.
    compiler = ShaderCompiler(ShaderCompilerConfig(str(tmp_path), debug_info=True))
    if ending == ".spv":
        (tmp_path / "renamed.spv").write_bytes(compiler.get_compute_function("renamed").spirv)
        (tmp_path / "renamed.glsl").unlink()
    register = functools.partial(
        shader_registry.register_architecture_shader, "attention-output", "renamed", "renamed", compiler=compiler
    )
    for left_out in NAMES:
        with pytest.raises(errors.PipelineCreationFailed, match=f'is called "{left_out}"'):
            register(names={name: ours for name, ours in NAMES.items() if name != left_out})
    with pytest.raises(errors.InvalidArgumentError, match=re.escape('names: renamed has no "W"; it has P_in, V_in')):
        register(names=NAMES | {"W": "weights"})
    with pytest.raises(errors.PipelineCreationFailed, match='is called "keys", expected "values"'):
        register(names=NAMES | {"V_in": "keys"})
    random = np.random.default_rng(0)
    weights = to_vulkan(random.random((2, 4, 5, 7), np.float32))
    values = to_vulkan(random.standard_normal((2, 7, 2, 3), np.float32))
    register(names=NAMES)
    try:
        plain = functional.attention_output(weights, values).numpy()
        found = functional.attention_output(weights, values, architecture="renamed").numpy()
        np.testing.assert_allclose(found, plain, rtol=1e-6, atol=1e-6)
        windowed = functional.attention_output(weights, values, architecture="renamed", window=9)
        np.testing.assert_allclose(windowed.numpy(), found + 9, rtol=1e-5)
        compared = testing.compare_shaders(
            "renamed",
            compiler=compiler,
            names=NAMES,
            weights=weights.numpy(),
            values=values.numpy(),
            rounds=1,
            repeats=1,
        )
        assert compared.largest_difference < 1e-5
    finally:
        shader_registry.unregister("attention-output", "renamed")
