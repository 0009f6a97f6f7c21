"""Every checkpoint variant against sentence-transformers' goldens, on both backends."""

import numpy as np
import pytest

from grilly import VulkanSentenceTransformer

from . import reference, variants
from .golden import normalized, per_text, scaled_difference
from .variants import CALLS, VARIANTS, call

UNIT = 1e-6  # for rows of unit length; torch's own float32 is within 3e-7 of these goldens
PLAIN = 3e-6  # for rows as they come, of the largest number in them; torch's own float32 is within 1.1e-6


@pytest.fixture(scope="module")
def sentences(variants_golden) -> list[str]:
    return [str(text) for text in variants_golden["texts"]]


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_variant(name, checkpoint, device, variants_golden, sentences):
    folder = checkpoint(name)
    with VulkanSentenceTransformer(str(folder), device=device) as model:
        assert model.backend == device
        for label, arguments in CALLS[name].items():
            expected = variants_golden[f"{name}/{label}"]
            rows = call(model, sentences, arguments, batch_size=5, normalize_embeddings=False)
            assert rows.dtype == np.float32
            assert scaled_difference(rows, expected) <= PLAIN, label
            if expected.shape[1] > 1:
                unit = call(model, sentences, arguments)
                assert scaled_difference(unit, normalized(expected)) <= UNIT, label
        assert model.get_sentence_embedding_dimension() == expected.shape[1]


@pytest.mark.parametrize(
    "name", [name for name in sorted(VARIANTS) if name.startswith(("base", "no_", "limit", "cased"))]
)
def test_tokens_and_limit(name, checkpoint, variants_golden, sentences):
    with VulkanSentenceTransformer(str(checkpoint(name)), device="cpu") as model:
        expected = per_text(variants_golden[f"{name}/plain/ids"])
        assert [list(model.tokenizer.encode(text, truncation=True)) for text in sentences] == expected
        assert model.max_seq_length == max(map(len, expected))


def test_a_folder_saved_by_sentence_transformers(device, variants_golden, sentences):
    """Version 6.2 writes other module paths and keeps the limit in the tokenizer's configuration."""
    with VulkanSentenceTransformer(str(variants.BASE), device=device) as model:
        assert model.max_seq_length == 48
        rows = model.encode(sentences, normalize_embeddings=False)
    assert scaled_difference(rows, variants_golden["base/plain"]) <= PLAIN


def test_callers_limit(checkpoint, device, variants_golden, sentences):
    """A caller's limit equals the same limit in the checkpoint."""
    with VulkanSentenceTransformer(str(checkpoint("base")), device=device, max_seq_length=20) as model:
        rows = model.encode(sentences, normalize_embeddings=False)
    assert scaled_difference(rows, variants_golden["limit_of_model/plain"]) <= PLAIN


def test_token_embeddings(checkpoint, device, variants_golden, sentences):
    bert = reference.Bert(checkpoint("base"))
    with VulkanSentenceTransformer(str(checkpoint("base")), device=device) as model:
        rows = model.encode(sentences, output_value="token_embeddings", normalize_embeddings=False)
    for row, ids in zip(rows, per_text(variants_golden["base/plain/ids"]), strict=True):
        assert scaled_difference(np.asarray(row), bert(np.asarray(ids))) <= PLAIN


@pytest.mark.parametrize("name", ["dense_of_tokens", "normalize_of_tokens", "layers_all", "layers_unrecorded"])
def test_token_embeddings_are_those_of_the_modules(name, checkpoint, device, variants_golden, sentences):
    """Pooled, they are the texts' vectors, whose golden numbers are the reference's."""
    with VulkanSentenceTransformer(str(checkpoint(name)), device=device) as model:
        tokens = model.encode(sentences, output_value="token_embeddings", normalize_embeddings=False)
    modes = {"dense_of_tokens": ["max"], "normalize_of_tokens": ["mean", "cls"]}.get(name, ["mean"])
    pooled = [np.concatenate([reference.pool(mode, np.asarray(row), 0) for mode in modes]) for row in tokens]
    assert scaled_difference(np.stack(pooled), variants_golden[f"{name}/plain"]) <= PLAIN


def test_truncation_comes_before_normalisation(checkpoint, device, variants_golden, sentences):
    expected = variants_golden["base/plain"][:, :10]
    with VulkanSentenceTransformer(str(checkpoint("base")), device=device, truncate_dim=10) as model:
        assert scaled_difference(model.encode(sentences), normalized(expected)) <= UNIT
        plain = model.encode(sentences, normalize_embeddings=False)
        assert scaled_difference(plain, expected) <= PLAIN
        six = model.encode(sentences, truncate_dim=6)
        assert scaled_difference(six, normalized(expected[:, :6])) <= UNIT


def test_prompt_is_text_in_front(checkpoint, device, sentences):
    prompts = {"query": "search query: "}
    with VulkanSentenceTransformer(str(checkpoint("base")), device=device, prompts=prompts) as model:
        joined = model.encode([prompts["query"] + text for text in sentences])
        assert np.array_equal(model.encode(sentences, prompt_name="query"), joined)
        assert np.array_equal(model.encode_query(sentences), joined)
        assert np.array_equal(model.encode_document(sentences), model.encode(sentences))
