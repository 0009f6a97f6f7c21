"""A small random BERT on software drivers: counters, bits and numbers at every vector width and on SwiftShader."""

from pathlib import Path

import numpy as np
import pytest
from conftest import need, need_vulkan, unexpected

from . import reference
from .device_process import run
from .golden import normalized, per_text, same_bits
from .variant_list import sized

LAYERS, HIDDEN = 2, 96
LAVAPIPE_WIDTHS = {"native": {}} | {
    f"width {width}": {"LP_NATIVE_VECTOR_WIDTH": str(width)} for width in (128, 256, 512)
}
SWIFTSHADER = Path("/usr/lib/chromium")
WORDS = "the a in of and to is it dog time year people way day thing man world life hand part child eye".split()


def swiftshader_environment() -> dict[str, str]:
    icd = SWIFTSHADER / "vk_swiftshader_icd.json"
    present = icd.exists() and (SWIFTSHADER / "libvk_swiftshader.so").exists()
    need("swiftshader", present, f"{SWIFTSHADER}/libvk_swiftshader.so is missing (Debian: chromium-common)")
    return {"VK_DRIVER_FILES": str(icd), "VK_ICD_FILENAMES": str(icd)}


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("small") / "bert"
    checkpoint = sized(
        51,
        hidden_size=HIDDEN,
        num_attention_heads=3,
        intermediate_size=200,
        num_hidden_layers=LAYERS,
        max_position_embeddings=160,
    )
    checkpoint.transformer = {"max_seq_length": 160}
    checkpoint.write(folder)
    return folder


@pytest.fixture(scope="module")
def thousand() -> list[str]:
    """1,000 texts: mostly short, a few of every length up to beyond the limit, one empty."""
    random = np.random.RandomState(9)
    lengths = [0, 1, 30, 31, 32, 62, 63, 64, 125, 126, 127, 128, 157, 158, 159, 200]
    lengths += [1 + random.randint(14) for _ in range(1000 - len(lengths))]
    random.shuffle(lengths)
    return [" ".join(WORDS[random.randint(len(WORDS))] for _ in range(length)) for length in lengths]


@pytest.fixture(scope="module")
def expected(small, thousand) -> dict[int, np.ndarray]:
    """The float64 reference's rows for every 25th text and the eight longest."""
    from grilly import VulkanSentenceTransformer

    longest = sorted(range(1000), key=lambda index: -len(thousand[index]))[:8]
    model = reference.Model(small)
    with VulkanSentenceTransformer(str(small), device="cpu") as engine:
        return {
            index: normalized(model.embed(list(engine.tokenizer.encode(thousand[index]))))
            for index in {*range(0, 1000, 25), *longest}
        }


@pytest.fixture(
    scope="module",
    params=[
        *(pytest.param(name, marks=pytest.mark.vulkan) for name in LAVAPIPE_WIDTHS),
        pytest.param("swiftshader", marks=pytest.mark.swiftshader),
    ],
)
def outcome(request, small, thousand, tmp_path_factory):
    if request.param == "swiftshader":
        environment = swiftshader_environment()
    else:
        need_vulkan()
        environment = LAVAPIPE_WIDTHS[request.param]
    return run(small, thousand, tmp_path_factory.mktemp("run"), **environment)


def test_runs_on_vulkan_without_fallback(outcome):
    assert outcome.record["backend"] == "vulkan"
    total = outcome.record["total"]
    assert total["fallbacks"] == 0 and total["batches_cpu"] == 0 and total["batches_vulkan"] > 0


def test_validation_layer_is_silent(outcome):
    assert not unexpected(outcome.record["messages"])


def test_numbers(outcome, expected):
    difference = {
        index: float(np.abs(outcome.arrays["embeddings"][index] - row).max()) for index, row in expected.items()
    }
    assert max(difference.values()) <= 1e-6, difference


def test_bits(outcome):
    arrays = outcome.arrays
    assert same_bits(arrays["again"], arrays["embeddings"])
    assert same_bits(arrays["shuffled"], arrays["embeddings"])
    assert same_bits(arrays["alone"], arrays["some"])


def test_one_instance_and_one_device(outcome):
    assert outcome.record["total"]["instances"] == 1
    assert outcome.record["total"]["devices"] == 1


def test_weights_go_up_once(outcome, small):
    assert outcome.record["before"]["bytes_weights"] == outcome.record["total"]["bytes_weights"]
    parameters = sum(array.size * 4 for array in reference.Bert(small).tensors.values())
    assert 0.9 * parameters <= outcome.record["total"]["bytes_weights"] <= 1.2 * parameters + 65536


def test_one_submit_and_one_wait_a_batch(outcome):
    batches = outcome.spent("batches_vulkan")
    assert batches > 0
    assert outcome.spent("submits") == batches
    assert outcome.spent("waits") == batches


def test_dispatches(outcome):
    """At most nine a layer, and a handful for embeddings, pooling and the unit length."""
    assert outcome.spent("dispatches") <= outcome.spent("batches_vulkan") * (9 * LAYERS + 8)


def test_bytes_up_and_down(outcome):
    """Up go ids, lengths and positions; down come the texts' rows."""
    tokens, texts = int(outcome.arrays["tokens"].sum()), len(outcome.arrays["tokens"])
    batches = outcome.spent("batches_vulkan")
    assert 4 * tokens <= outcome.spent("bytes_up") <= 12 * tokens + 16 * texts + 1024 * batches
    assert outcome.spent("bytes_down") <= texts * HIDDEN * 4 + 1024 * batches


@pytest.mark.swiftshader
def test_real_weights_on_swiftshader(real_model_path, texts, minilm_golden, tmp_path):
    environment = swiftshader_environment()
    lengths = [len(ids) for ids in per_text(minilm_golden["ids"])]
    chosen = [index for index, length in enumerate(lengths) if length <= 40][::8][:19] + [lengths.index(max(lengths))]
    outcome = run(real_model_path, [texts[index] for index in chosen], tmp_path, **environment)
    assert outcome.record["backend"] == "vulkan" and outcome.record["total"]["fallbacks"] == 0
    assert len(chosen) == 20
    assert np.abs(outcome.arrays["embeddings"] - minilm_golden["embeddings"][chosen]).max() <= 1e-6
    assert same_bits(outcome.arrays["alone"], outcome.arrays["some"])
    assert not unexpected(outcome.record["messages"])
