"""GPU optimisation: the operations of an encoder on the device, what falls back, usage, and what may come later."""

import textwrap

import numpy as np
import pytest
from conftest import LONG

import grilly
from grilly import VulkanSentenceTransformer, functional, testing

from . import Walk, missing

HERE = "tests/specifications/test_gpu_optimization.py"
FUNCTIONAL = "tests/ops/test_functional.py"
WALK: Walk = [
    (
        "1 embedding lookup: embedding-lookup, no round trip",
        (f"{FUNCTIONAL}::test_embedding", f"{HERE}::test_everything_stays_on_the_device"),
    ),
    ("2 gelu: activation-gelu, elementwise, the shape is kept", f"{FUNCTIONAL}::test_activations_of_any_rank"),
    ("3 layer norm: fnn-layernorm, the last axis", f"{FUNCTIONAL}::test_layer_norm_over_a_tuple"),
    ("4 linear: fnn-linear, with a bias", f"{FUNCTIONAL}::test_linear"),
    ("5 embedding_normalize: embedding-normalize, batches", f"{FUNCTIONAL}::test_the_rest_of_embedding"),
    ("6 attention by its parts", "tests/ops/test_attention.py::test_attention_by_its_parts"),
    ("6 masks: causal and custom", "tests/ops/test_attention.py::test_attention_masks"),
    ("7 pooling: mean, maximum, sum, with a mask", f"{FUNCTIONAL}::test_pooling"),
    ("the names of the shaders", f"{HERE}::test_every_shader_has_its_name"),
    ("the names of the functions", f"{HERE}::test_activations_have_the_names_of_the_shaders"),
    ("no operation runs on the CPU", f"{HERE}::test_everything_stays_on_the_device"),
    ("usage: encode, by the device without being asked", f"{HERE}::test_encode_sample"),
    ("usage: the CPU takes over", "tests/python/test_devices.py::test_a_device_lost_in_the_middle"),
    ("details: fragments of four operations", f"{HERE}::test_fragments"),
    ("later: attention and pooling on the device", f"{HERE}::test_everything_stays_on_the_device"),
    ("later: batches, fewer transfers, pipelining", f"{HERE}::test_everything_stays_on_the_device"),
    ("later: buffers are used again", "tests/python/test_encode.py::test_closing_frees_device_memory"),
    ("benchmarking: the sample", f"{HERE}::test_benchmark_sample"),
    (
        "troubleshooting: drivers, detection, logs",
        ("tests/python/test_devices.py::test_no_driver", "tests/python/test_devices.py::test_info_as_text"),
    ),
    ("troubleshooting: shaders are compiled", "tests/python/test_compiler.py::test_the_command_compiles_a_folder"),
    ("troubleshooting: the CPU takes over", "tests/python/test_devices.py::test_no_memory_at_load"),
    (
        "performance: batch size, memory, shaders, logs",
        ("docs/guides/troubleshooting.md: batch_size", "docs/guides/devices.md: GRILLY_DEBUG"),
    ),
    (
        "see also: three documents",
        ("docs/guides/encoding.md: # ", "docs/guides/from-sentence-transformers.md: # ", "docs/guides/devices.md: # "),
    ),
]
#: Shaders by the names of the operations that they serve.
SHADERS = {
    "embedding-lookup", "activation-gelu", "fnn-layernorm", "fnn-linear", "embedding-normalize", "attention-scores",
    "attention-mask", "activation-softmax", "attention-output", "embedding-pool",
}  # fmt: skip
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


def test_nothing_is_left_out():
    assert missing(WALK) == []


def test_every_shader_has_its_name():
    from grilly.backend.shader_registry import get_registry, get_shader

    assert set(get_registry().list_shaders()) >= SHADERS
    assert all(get_shader(name) == name for name in SHADERS)


def test_everything_stays_on_the_device(vulkan, tmp_path):
    """After the first texts nothing but their numbers goes up, no operation runs on the CPU, and no buffer is made."""
    texts = [f"text number {number} of several" for number in range(100)]
    with VulkanSentenceTransformer(testing.tiny_checkpoint("bert", tmp_path), device=vulkan) as model:
        model.encode(texts)
        grilly.reset_stats()
        model.encode(texts)
        counted = grilly.stats()
    assert counted["ops_cpu"] == 0 and counted["share_vulkan"] == 1.0 and counted["fallbacks"] == 0
    assert counted["bytes_weights"] == 0 and 0 < counted["submits"] <= 8


@pytest.mark.parametrize("name", GPU_GUIDE)
def test_fragments(name):
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


def test_activations_have_the_names_of_the_shaders():
    x = np.array([[1.0, -2.0, 0.5]], np.float32)
    assert np.array_equal(functional.activation_gelu(x), functional.gelu(x))
    assert np.array_equal(functional.activation_softmax(x), functional.softmax(x))
