"""float16 and bfloat16 through the encoder: distance from float32, bits, bytes, and what cannot be held so."""

import logging
import random

import numpy as np
import pytest

import grilly
from grilly import VulkanSentenceTransformer

from . import reference
from .golden import normalized, same_bits, scaled_difference
from .variant_list import sized

NARROW = {"float16": 2.0**-11, "bfloat16": 2.0**-8}  # half a unit in the last place of 1


def noise(dtype: str, layers: int) -> float:
    """How far a text's vector is moved, relative to its length, by numbers stored in a narrow type.

    A layer stores seven tensors (products, attention, norms) and multiplies by as many rounded ones. Each rounding is
    an independent error, evenly spread over half a unit in the last place: 1 / sqrt(3) of it on average. Norms keep
    errors from growing, so the squares add.
    """
    return NARROW[dtype] * np.sqrt((2 * 7 * layers + 4) / 3)


def check(rows: np.ndarray, expected: np.ndarray, dtype: str, layers: int) -> None:
    """Unit rows. `1 - cosine` is half the square of the distance, of which a column has its share, five times at most.

    Twice the expected distance is allowed.
    """
    rows = rows.astype(np.float64)
    moved = noise(dtype, layers)
    cosines = (normalized(rows) * normalized(expected)).sum(axis=1)
    assert 1 - cosines.min() <= 2 * moved**2, (1 - cosines.min(), moved)
    assert np.abs(rows - expected).max() <= 5 * moved / np.sqrt(rows.shape[1]), np.abs(rows - expected).max()


@pytest.fixture(scope="module", params=NARROW)
def dtype(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def model(real_model_path, device, dtype):
    with VulkanSentenceTransformer(str(real_model_path), device=device, dtype=dtype) as model:
        assert model.backend == device and model.dtype == dtype
        yield model


def test_embeddings_are_near_the_golden_ones(embeddings, sample, minilm_golden, dtype):
    rows, expected = embeddings[sample], minilm_golden["embeddings_float64"][sample]
    assert rows.dtype == (np.float16 if dtype == "float16" else np.float32) and rows.shape == expected.shape
    check(rows, expected, dtype, layers=6)
    cosines = (normalized(rows.astype(np.float64)) * expected).sum(axis=1)
    assert cosines.min() >= {"float16": 0.9999, "bfloat16": 0.999}[dtype]


@pytest.mark.parametrize("batch_size", [1, 3, 1000])
def test_a_text_has_the_same_bits_in_any_batch_and_order(model, texts, embeddings, some, slow, batch_size):
    order = some.copy() if slow else some * 2
    random.Random(7).shuffle(order)
    rows = model.encode([texts[index] for index in order], batch_size=batch_size)
    assert same_bits(rows, embeddings[order])


def test_other_outputs_have_the_type_too(model, texts, slow, dtype):
    expected = np.float16 if dtype == "float16" else np.float32
    tokens = model.encode(texts[:3], output_value="token_embeddings")
    assert [rows.dtype for rows in tokens] == [expected] * 3
    [features] = model.encode(texts[:1], output_value=None)
    assert features["sentence_embedding"].dtype == features["token_embeddings"].dtype == expected
    assert np.array_equal(features["token_embeddings"], tokens[0])
    assert model.encode(texts[0]).dtype == expected
    assert model.encode(["a text", "another"] * (2 if slow else 60), precision="int8").dtype == np.int8
    assert model.similarity(model.encode(texts[:2]), model.encode(texts[:3])).dtype == np.float32


@pytest.mark.parametrize("arguments", [{"dtype": np.float16}, {"model_kwargs": {"torch_dtype": "float16"}}])
def test_other_ways_to_say_it(checkpoint, device, arguments):
    with (
        VulkanSentenceTransformer(str(checkpoint("base")), device=device, **arguments) as model,
        VulkanSentenceTransformer(str(checkpoint("base")), device=device, dtype="float16") as other,
    ):
        assert model.dtype == "float16"
        assert same_bits(model.encode(["a", "b c"]), other.encode(["a", "b c"]))


@pytest.mark.vulkan
def test_half_the_bytes_and_no_more_dispatches(vulkan, tmp_path, dtype):
    spent = {}
    checkpoint = sized(54, hidden_size=128, num_attention_heads=4, intermediate_size=512)
    checkpoint.write(tmp_path / "bert")
    for name in ("float32", dtype):
        before = grilly.stats()
        with VulkanSentenceTransformer(str(tmp_path / "bert"), device="vulkan", dtype=name) as model:
            model.encode(["a text", "and another one"])
            assert ("-> " + dtype in model.plan) == (name == dtype)
        after = grilly.stats()
        spent[name] = {key: after[key] - before[key] for key in ("bytes_weights", "dispatches", "fallbacks")}
    assert spent[dtype]["dispatches"] == spent["float32"]["dispatches"] > 0
    # Biases and the weights of norms stay float32.
    assert 0.5 <= spent[dtype]["bytes_weights"] / spent["float32"]["bytes_weights"] <= 0.52
    assert spent[dtype]["fallbacks"] == 0


@pytest.mark.parametrize("hidden, heads, inner", [(96, 3, 200), (40, 2, 68), (48, 12, 36), (384, 6, 64)])
def test_other_widths(tmp_path, device, dtype, hidden, heads, inner):
    checkpoint = sized(52, hidden_size=hidden, num_attention_heads=heads, intermediate_size=inner)
    checkpoint.write(tmp_path / "bert")
    exact = reference.Model(tmp_path / "bert")
    texts = ["", "one", "a dog and the time of a year", "way " * 40]
    with VulkanSentenceTransformer(str(tmp_path / "bert"), device=device, dtype=dtype) as model:
        rows = model.encode(texts)
        ids = [tuple(model.tokenizer.encode(text, truncation=True)) for text in texts]
        layers = model.config["num_hidden_layers"]
    check(rows, np.stack([normalized(exact.embed(each)) for each in ids]), dtype, layers)


def test_rows_that_are_no_multiple_of_four_are_held_as_float32(tmp_path, device, dtype, caplog):
    """Weights are rounded all the same, as on the CPU."""
    checkpoint = sized(53, hidden_size=30, num_attention_heads=3, intermediate_size=50)
    checkpoint.write(tmp_path / "bert")
    texts = ["one", "a dog and the time of a year"]
    with (
        caplog.at_level(logging.INFO, "grilly"),
        VulkanSentenceTransformer(str(tmp_path / "bert"), device=device, dtype=dtype) as model,
        VulkanSentenceTransformer(str(tmp_path / "bert"), device="cpu", dtype=dtype) as cpu,
    ):
        assert model.backend == device
        left, right = (each.encode(texts, normalize_embeddings=False) for each in (model, cpu))
    assert scaled_difference(left, right) <= (2 * NARROW[dtype] if left.dtype == np.float16 else 1e-6)
    said = [record.getMessage() for record in caplog.records if "stored as float32" in record.getMessage()]
    assert len(said) == (device == "vulkan"), said


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_a_file_of_the_type_is_kept_as_it_is(checkpoint, device, name):
    """float32 of such a file differs by what is stored between the steps, not by the weights."""
    folder = str(checkpoint(name))
    with (
        VulkanSentenceTransformer(folder, device=device, dtype=name) as model,
        VulkanSentenceTransformer(folder, device=device) as exact,
    ):
        left, right = model.encode(["a dog", "way"]), exact.encode(["a dog", "way"])
    assert np.abs(left - right).max() <= 5 * noise(name, 2) / np.sqrt(32)
    if device == "cpu":
        assert np.abs(left - right).max() <= (NARROW["float16"] if name == "float16" else 0)
