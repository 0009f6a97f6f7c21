"""The real all-MiniLM-L6-v2 weights: 200 texts against sentence-transformers' golden file, and the same bits always."""

import random

import numpy as np
import pytest

from grilly import VulkanSentenceTransformer

from .golden import per_text, same_bits

LARGEST_DIFFERENCE = 1e-6  # two float32 engines differ by about 3e-7


@pytest.fixture(scope="module")
def model(real_model_path, device):
    with VulkanSentenceTransformer(str(real_model_path), device=device) as model:
        assert model.backend == device
        yield model


def test_tokens_are_the_reference_tokenizers(model, texts, minilm_golden):
    different = [
        index
        for index, (text, ids) in enumerate(zip(texts, per_text(minilm_golden["ids"]), strict=True))
        if list(model.tokenizer.encode(text, truncation=True)) != ids
    ]
    assert not different


def test_embeddings_are_the_golden_ones(embeddings, sample, minilm_golden):
    rows = embeddings[sample]
    for golden in ("embeddings", "embeddings_float64"):
        expected = minilm_golden[golden][sample]
        assert rows.dtype == np.float32 and rows.shape == expected.shape
        difference = np.abs(rows - expected).max(axis=1)
        worst = sample[difference.argmax()]
        assert difference.max() <= LARGEST_DIFFERENCE, f"text {worst} differs by {difference.max():.2e}"
    assert np.abs(np.linalg.norm(rows.astype(np.float64), axis=1) - 1).max() < 1e-6


def test_a_text_alone_has_the_same_bits(model, texts, embeddings, some):
    alone = np.stack([model.encode(texts[index]) for index in some])
    assert same_bits(alone, embeddings[some])


@pytest.mark.parametrize("batch_size", [1, 3, 1000])
def test_any_batch_size_has_the_same_bits(model, texts, embeddings, some, batch_size):
    rows = model.encode([texts[index] for index in some], batch_size=batch_size)
    assert same_bits(rows, embeddings[some])


def test_any_order_has_the_same_bits(model, texts, embeddings, some, slow):
    order = some.copy() if slow else some * 2
    random.Random(7).shuffle(order)
    assert same_bits(model.encode([texts[index] for index in order]), embeddings[order])


def test_a_second_model_has_the_same_bits(real_model_path, device, texts, embeddings, some):
    with VulkanSentenceTransformer(str(real_model_path), device=device) as second:
        assert same_bits(second.encode([texts[index] for index in some]), embeddings[some])


def test_the_number_of_threads_does_not_change_bits(real_model_path, texts, some):
    rows = []
    for threads in (1, 2):
        with VulkanSentenceTransformer(str(real_model_path), device="cpu", num_threads=threads) as model:
            rows.append(model.encode([texts[index] for index in some]))
    assert same_bits(*rows)


def test_integers_are_near_float32(real_model_path, texts, minilm_golden, device, slow):
    """`benchmarks/embed_integers.py` measures a thousand sentences."""
    some = slice(None, None, 9 if slow else 1)
    with VulkanSentenceTransformer(str(real_model_path), device=device, dtype="int8") as model:
        rows = model.encode(texts[some])
    cosines = (rows.astype(np.float64) * minilm_golden["embeddings_float64"][some]).sum(axis=1)
    assert cosines.mean() >= 0.997 and cosines.min() >= 0.98
