"""Registered shaders where they must really run: in `encode`, by architecture, and under names that share a kernel."""

import numpy as np
import pytest

import grilly
from grilly import ShaderCompiler, ShaderCompilerConfig, VulkanSentenceTransformer, kernels
from grilly.backend import shader_registry

HEAD = """#version 460
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 64) in;
"""
# The weighted sums, times FACTOR.
SUMS = (
    HEAD
    + """#include "attention-output-interface.glsl"
void main() {
    uint row = 64u * gl_WorkGroupID.x + gl_LocalInvocationIndex;
    uint head = gl_WorkGroupID.y;
    uint text = gl_WorkGroupID.z;
    if (row >= push.q_len) {
        return;
    }
    uint kv_head = head * push.kv_heads / push.heads;
    uint from = ((text * push.heads + head) * push.q_len + row) * push.kv_len;
    uint to = ((text * push.q_len + row) * push.heads + head) * push.head_dim;
    for (uint column = 0u; column < push.head_dim; column++) {
        float sum = 0.0;
        for (uint key = 0u; key < push.kv_len; key++) {
            uint at = ((text * push.kv_len + key) * push.kv_heads + kv_head) * push.head_dim + column;
            sum = fma(weights[from + key], values[at], sum);
        }
        y[to + column] = FACTOR * sum;
    }
}
"""
)
TEXTS = ["rain", "the rains of winter", "", "a dry year", "nobody knows", "of winter the rains", "rain " * 30]


@pytest.fixture
def compiler(tmp_path):
    (tmp_path / "sums.glsl").write_text(SUMS)

    def make(**defines) -> ShaderCompiler:
        given = {"FACTOR": 1.0} | defines
        return ShaderCompiler(ShaderCompilerConfig(tmp_path, cache_directory=tmp_path / "cache", defines=given))

    return make


@pytest.fixture
def registered():
    """`registered(shader, architecture, file, compiler)`: an entry that is gone after the test."""
    made = []

    def register(shader, architecture, file, compiler):
        shader_registry.register_architecture_shader(shader, architecture, file, compiler=compiler)
        made.append((shader, architecture))

    yield register
    for shader, architecture in made:
        shader_registry.unregister(shader, architecture)


def outcome(model, name: str) -> list[str]:
    return [line for line in model.plan.splitlines() if line.startswith(f"{name}: ")]


def test_a_users_attention_runs_in_encode(tiny_model, device, compiler, registered):
    def load():
        return VulkanSentenceTransformer(tiny_model, device=device)

    with load() as before:
        expected = before.encode(TEXTS)
        assert outcome(before, "split") == [f"split: left layer {layer} attention as it is" for layer in range(2)]
        registered("attention-output", "bert", "sums", compiler())
        with load() as model:
            assert model.backend == device
            reason = "a shader of the user is registered for attention-output, bert: sums"
            assert outcome(model, "split") == [f"split: done at layer {n} attention: {reason}" for n in range(2)]
            order = [line.split()[1] for line in model.plan.splitlines() if line[:3].strip().isdigit()]
            place = order.index("attention_scores")
            assert order[place - 3 : place + 3] == ["linear"] * 3 + ["attention_scores", "softmax", "attention_output"]
            found = model.encode(TEXTS)
            # The same sums in another order: a few roundings of numbers below 1, two layers deep.
            np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)
            alone = np.stack([model.encode(text) for text in TEXTS])
            np.testing.assert_array_equal(alone, found, err_msg="a text has the same bits in any batch")
            np.testing.assert_array_equal(model.encode(TEXTS, batch_size=2), found)
            # What is loaded keeps its shaders, whatever is registered later.
            registered("attention-output", "bert", "sums", compiler(FACTOR=2.0))
            np.testing.assert_array_equal(model.encode(TEXTS), found)
            with load() as doubled:
                difference = np.abs(doubled.encode(TEXTS) - expected).max()
                if device == "vulkan":
                    assert difference > 1e-2, "the shader that doubles really runs"
                else:
                    assert difference < 2e-6, "the CPU computes what the operation means"
        shader_registry.register_architecture_shader("attention-output", "bert", "attention-output")
        with load() as after:
            assert after.plan == before.plan
            np.testing.assert_array_equal(after.encode(TEXTS), expected)
        np.testing.assert_array_equal(before.encode(TEXTS), expected)


def test_token_vectors_and_prompts_go_the_same_way(prompted_model, device, compiler, registered):
    def encode(**options):
        with VulkanSentenceTransformer(prompted_model, device=device) as model:
            return model.encode(TEXTS, prompt_name="query", **options)

    whole, tokens = encode(), encode(output_value="token_embeddings")
    registered("attention-output", "bert", "sums", compiler())
    np.testing.assert_allclose(encode(), whole, rtol=0, atol=2e-6)
    for found, expected in zip(encode(output_value="token_embeddings"), tokens, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_one_of_grillys_own_in_anothers_place_runs_too(tiny_model, device, registered):
    with VulkanSentenceTransformer(tiny_model, device=device) as model:
        expected = model.encode(TEXTS)
    registered("attention-output", "bert", "attention-output-gpt", ShaderCompiler())
    with VulkanSentenceTransformer(tiny_model, device=device) as model:
        assert "attention-output, bert: attention-output-gpt" in model.plan
        difference = np.abs(model.encode(TEXTS) - expected).max()
        assert difference > 1e-3, "causal attention is another model, on both backends"


def test_a_model_with_a_users_shader_survives_its_device(tiny_model, vulkan, compiler, registered, faults, caplog):
    registered("attention-output", "bert", "sums", compiler())
    with VulkanSentenceTransformer(tiny_model, device="vulkan") as model:
        expected = model.encode(TEXTS)
        faults("device_lost")
        found = model.encode(TEXTS)
        grilly.testing.clear_faults()
        assert model.backend == "cpu" and "the CPU took over" in caplog.text
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)


ELEMENTWISE = (
    HEAD.replace("64", "256")
    + """#include "elements.glsl"
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };
layout(push_constant) uniform Push {
    uint rows_of;
    uint rows;
    uint columns;
    uint rows_per_group;
} push;
void one(uint place) { y[place] = FACTOR; }
void four(uint quad) {
    for (uint i = 0u; i < 4u; i++) {
        one(4u * quad + i);
    }
}
void main() { walk(own_elements(push.rows_of, push.rows, push.columns, push.rows_per_group)); }
"""
)


def test_names_that_share_a_kernel_are_dispatched_by_attribute(vulkan, run, tmp_path):
    (tmp_path / "mark.glsl").write_text(ELEMENTWISE)
    (tmp_path / "sum.glsl").write_text(
        ELEMENTWISE.replace("buffer X { float x[]; }", "buffer A { float a[]; }").replace("binding = 2", "binding = 3")
    )
    done = run(
        """
        import sys
        import numpy as np
        from grilly import ShaderCompiler, ShaderCompilerConfig, functional, to_vulkan
        from grilly.backend.shader_registry import register_generic_shader
        def compiler(factor):
            return ShaderCompiler(ShaderCompilerConfig(sys.argv[1], defines={"FACTOR": factor}, enable_caching=False))
        x = to_vulkan(np.ones((3, 5), np.float32))
        half = to_vulkan(np.ones((3, 8), np.float16))  # the user's shaders take it widened
        def marked(y, value):
            return bool((np.asarray(y) == value).all())
        register_generic_shader("activation-gelu", "mark", compiler=compiler(7.0))
        assert marked(functional.gelu(x), 7) and marked(functional.gelu(x, approximate="none"), 7)
        assert marked(functional.relu(x), 1) and not marked(functional.silu(x), 7)
        register_generic_shader("activation-silu", "mark", compiler=compiler(8.0))
        register_generic_shader("activation-relu", "mark", compiler=compiler(9.0))
        assert marked(functional.silu(x), 8) and marked(functional.relu(x), 9) and marked(functional.gelu(x), 7)
        assert marked(functional.silu(half), 8) and functional.silu(half).dtype == np.float16
        register_generic_shader("fnn-dropout", "mark", compiler=compiler(6.0))
        assert marked(functional.dropout(x, 0.5), 6)
        before = np.asarray(functional.tanh(x))
        register_generic_shader("activation", "mark", compiler=compiler(5.0))
        assert marked(functional.tanh(x), 5) and marked(functional.gelu(x), 7) and not marked(before, 5)
        register_generic_shader("activation-gelu", "activation-gelu")
        print("dispatched")
        """,
        tmp_path,
    )
    assert done.output.strip() == "dispatched", done.errors


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_an_activation_of_the_users_leaves_the_product_in_encode(tiny_model, vulkan, registered, tmp_path, dtype):
    (tmp_path / "mark.glsl").write_text(ELEMENTWISE)
    compiler = ShaderCompiler(ShaderCompilerConfig(tmp_path, enable_caching=False, defines={"FACTOR": 0.0}))
    with VulkanSentenceTransformer(tiny_model, dtype=dtype) as model:
        expected = model.encode(TEXTS)
    registered("activation-gelu", "bert", "mark", compiler)
    with VulkanSentenceTransformer(tiny_model, dtype=dtype) as model:
        declined = [line for line in outcome(model, "linear_epilogue") if "declined" in line]
        assert len(declined) == 2 and "registered for activation-gelu, bert: mark" in declined[0]
        assert np.abs(model.encode(TEXTS) - expected).max() > 1e-3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_users_shaders_take_float32_from_a_narrow_model(tiny_model, device, compiler, registered, dtype):
    """Weights are rounded, and nothing else is: the CPU gives the same numbers."""

    def encode(on: str):
        with VulkanSentenceTransformer(tiny_model, device=on, dtype=dtype) as model:
            assert model.backend == on
            return model.encode(TEXTS).astype(np.float32)

    plain = encode("cpu")
    half_a_unit = 2.0**-12 if dtype == "float16" else 0
    registered("attention-output", "bert", "sums", compiler())
    assert np.abs(encode(device) - plain).max() <= 2e-6 + 2 * half_a_unit
    registered("attention-output", "bert", "sums", compiler(FACTOR=2.0))
    assert (np.abs(encode(device) - plain).max() > 1e-3) == (device == "vulkan")


@pytest.mark.vulkan
def test_a_users_flash_attention_has_tiles_of_64_or_of_its_constant(vulkan, products, tmp_path):
    """grilly's own text with and without the constant, its results doubled."""
    products("plain")  # The text of `flash_attention` sums so.
    source = kernels.get("flash_attention", hidden_dim=64).source
    doubled = source.replace("result[2u * chunk + i] / factor[row]", "2.0 * result[2u * chunk + i] / factor[row]")
    fixed = doubled.replace("local_size_x = 256, local_size_x_id = 7", "local_size_x = 256")
    for place, name, value in ((5, "BLOCK_Q", 64), (6, "BLOCK_KV", 64), (7, "INVOCATIONS", 256)):
        fixed = fixed.replace(f"layout(constant_id = {place}) const uint {name} =", f"const uint {name} =")
        assert f"const uint {name} = {value};" in fixed
    x = np.random.default_rng(3).standard_normal((200, 64)).astype(np.float32)
    given = [grilly.to_vulkan(part, vulkan) for part in (x, x, x, *[np.array([0, 30, 200], np.int32)] * 2)]
    small = kernels.get("flash_attention", hidden_dim=64, config=kernels.TunedConfigs.fallback)
    plain = kernels.get("flash_attention", hidden_dim=64)
    expected = {kernel: np.asarray(kernel(*given)) for kernel in (plain, small)}
    for name, text in (("doubled", doubled), ("fixed", fixed)):
        (tmp_path / f"{name}.glsl").write_text(text)
        compiler = ShaderCompiler(ShaderCompilerConfig(tmp_path, enable_caching=False))
        shader_registry.register_generic_shader("attention", name, compiler=compiler)
        try:
            for kernel in (plain, small):
                # Without the constant a configuration is not told, and the tiles are those of the default.
                own = expected[plain if name == "fixed" else kernel]
                np.testing.assert_array_equal(np.asarray(kernel(*given)), 2 * own)
        finally:
            shader_registry.unregister("attention")


def test_shaders_of_the_current_folder_are_found_in_order(vulkan, run, tmp_path):
    """The current folder, `shaders`, `shaders/spv`, then grilly's own; a folder that was chosen goes first."""
    code = f"""
        import os, sys
        from pathlib import Path
        import numpy as np
        import grilly
        from grilly import ShaderCompiler, ShaderCompilerConfig, ShaderNotFound, functional
        from grilly.backend.shader_registry import get_registry

        SUMS = {SUMS!r}
        NAME = "attention-output-my_arch"
        os.chdir(sys.argv[1])
        Path("chosen").mkdir()
        Path("shaders/spv").mkdir(parents=True)

        def write(place, factor, spirv=False):
            text = SUMS.replace("FACTOR", f"{{factor:.1f}}")
            path = Path(place, NAME + ".glsl")
            path.write_text(text)
            if spirv:
                config = ShaderCompilerConfig(place, enable_caching=False)
                path.with_suffix(".spv").write_bytes(ShaderCompiler(config).get_compute_function(NAME).spirv)
                path.unlink()

        def factor(name=NAME):
            get_registry().register_architecture_specific("attention-output", "my_arch", name)
            compute = grilly.Compute()
            compute.set_architecture("my_arch")
            one = np.ones((1, 1, 1, 1), np.float32)
            return compute.attention.attention_output(one, one, num_heads=1, head_dim=1).item()

        try:
            factor()
        except ShaderNotFound as error:
            for place in (NAME, f"shaders/{{NAME}}", f"shaders/spv/{{NAME}}"):
                for ending in ("glsl", "spv"):
                    assert f"{{place}}.{{ending}}" in str(error), error
        else:
            raise AssertionError("found")
        write("shaders/spv", 4.0, spirv=True)
        assert factor() == factor("shaders/spv/" + NAME) == factor("spv/" + NAME) == 4.0
        write("shaders", 3.0)
        assert factor() == factor("shaders/" + NAME) == 3.0
        assert factor(NAME + ".spv") == 4.0
        write(".", 2.0)
        assert factor() == 2.0
        write("chosen", 5.0)
        grilly.Compute(shader_dir="chosen")
        assert factor() == 5.0
        Path("chosen", NAME + ".glsl").unlink()
        assert factor() == 3.0
        print("found in order")
    """
    done = run(code, tmp_path)
    assert done.output.strip() == "found in order", done.errors
