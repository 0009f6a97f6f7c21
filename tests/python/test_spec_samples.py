"""Samples written for upstream's guides run unchanged; fragments get the smallest frame that makes them run.

`make test` gives one of them fewer texts, `make test-long` all.
"""

import textwrap

import numpy as np
import pytest
from conftest import LONG

from grilly import functional, kernels

GPU_GUIDE = {
    "embedding lookup": """
        # GPU-accelerated via embedding-lookup.glsl
        embeddings = functional.embedding_lookup(weight, indices)
    """,
    "layer norm": """
        # GPU-accelerated via fnn-layernorm.glsl
        x_norm = functional.layer_norm(x, hidden_size, gamma, beta, eps=1e-5)
    """,
    "gelu": """
        # GPU-accelerated via activation-gelu.glsl
        output = functional.gelu(input)
    """,
    "linear": """
        # GPU-accelerated via fnn-linear.glsl
        output = functional.linear(input, weight, bias)
    """,
}
FRAME = {
    "embedding lookup": "embeddings.shape == (2, 3, 8)",
    "layer norm": "abs(x_norm.mean(axis=-1)).max() < 1e-5",
    "gelu": "output.shape == input.shape",
    "linear": "output.shape == (2, 5)",
}
ENCODE = """
from grilly.utils.vulkan_sentence_transformer import VulkanSentenceTransformer

# Automatically uses GPU for:
# - Embedding lookup
# - Layer normalization
# - GELU activation
# - Linear transformations
# - Embedding normalization

model = VulkanSentenceTransformer('all-MiniLM-L6-v2')
embeddings = model.encode("Hello, world!")  # Mostly GPU-accelerated!
"""
BENCHMARK = """
import time
from grilly.utils.vulkan_sentence_transformer import VulkanSentenceTransformer

model = VulkanSentenceTransformer('all-MiniLM-L6-v2')

# Benchmark encoding
texts = ["Hello, world!"] * 100
start = time.time()
embeddings = model.encode(texts)
end = time.time()
print(f"Encoded {len(texts)} texts in {end - start:.2f}s")
print(f"Throughput: {len(texts) / (end - start):.1f} texts/sec")
"""
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


@pytest.mark.parametrize("name", GPU_GUIDE)
def test_fragments_of_the_gpu_guide(name):
    from grilly import functional

    rng = np.random.default_rng(0)
    names = {
        "functional": functional, "weight": rng.random((5, 8), np.float32), "bias": np.ones(5, np.float32),
        "indices": np.array([[0, 1, 2], [4, 3, 2]]), "x": rng.random((2, 8), np.float32), "hidden_size": 8,
        "gamma": np.ones(8, np.float32), "beta": np.zeros(8, np.float32), "input": rng.random((2, 8), np.float32),
    }  # fmt: skip
    exec(textwrap.dedent(GPU_GUIDE[name]), names)
    assert eval(FRAME[name], names)


def test_encode_sample(real_model_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    names: dict = {}
    exec(ENCODE, names)
    assert names["embeddings"].shape == (384,)
    assert abs(np.linalg.norm(names["embeddings"]) - 1) < 1e-5


def test_benchmark_sample(real_model_path, monkeypatch, capsys):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    names: dict = {}
    count = 100 if LONG else 10
    exec(BENCHMARK.replace("* 100", f"* {count}"), names)
    assert names["embeddings"].shape == (count, 384)
    assert "texts/sec" in capsys.readouterr().out


def test_registry_samples():
    names: dict = {}
    exec(REGISTER, names)
    exec(SELECT, names)
    assert names["specific"] == "attention-output-gpt" and names["shader_name"] == "attention-output"


def test_the_kernels_names():
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


def test_activations_have_the_names_of_the_shaders():
    x = np.array([[1.0, -2.0, 0.5]], np.float32)
    assert np.array_equal(functional.activation_gelu(x), functional.gelu(x))
    assert np.array_equal(functional.activation_softmax(x), functional.softmax(x))
