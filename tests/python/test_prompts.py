"""Which prompt a call uses; the model has query and passage, and passage is its default."""

import numpy as np
import pytest

from grilly import VulkanSentenceTransformer

QUERY, PASSAGE = "search query: ", "a page of text "
TEXTS = ["the cat", "a dog", ""]


@pytest.fixture
def model(prompted_model):
    with VulkanSentenceTransformer(prompted_model, device="cpu") as model:
        yield model


def starts_with(model, rows, prompt) -> bool:
    return np.array_equal(rows, model.encode([prompt + text for text in TEXTS], prompt=""))


def test_prompts_of_the_folder(model):
    assert model.prompts == {"query": QUERY, "document": "", "passage": PASSAGE}
    assert model.default_prompt_name == "passage"


def test_default(model):
    assert starts_with(model, model.encode(TEXTS), PASSAGE)
    model.default_prompt_name = None
    assert starts_with(model, model.encode(TEXTS), "")


def test_name_before_default(model):
    assert starts_with(model, model.encode(TEXTS, prompt_name="query"), QUERY)


def test_prompt_before_name(model, caplog):
    assert starts_with(model, model.encode(TEXTS, prompt="tell: ", prompt_name="query"), "tell: ")
    assert "prompt_name is ignored" in caplog.text
    assert starts_with(model, model.encode(TEXTS, prompt=""), "")


def test_query(model):
    assert starts_with(model, model.encode_query(TEXTS), QUERY)
    assert starts_with(model, model.encode_query(TEXTS, prompt_name="passage"), PASSAGE)
    assert starts_with(model, model.encode_query(TEXTS, prompt="tell: "), "tell: ")
    assert model.encode_query("the cat").shape == (32,)


def test_document_takes_the_empty_prompt_first(model):
    """`document` is always there, so it keeps the default from being used."""
    assert starts_with(model, model.encode_document(TEXTS), "")
    del model.prompts["document"]
    assert starts_with(model, model.encode_document(TEXTS), PASSAGE)
    del model.prompts["passage"]
    model.prompts["corpus"] = "corpus: "
    assert starts_with(model, model.encode_document(TEXTS), "corpus: ")


def test_without_a_query_prompt_the_default_is_used(model):
    del model.prompts["query"]
    assert starts_with(model, model.encode_query(TEXTS), PASSAGE)


def test_positional_arguments_of_query(model):
    plain = model.encode_query(TEXTS, 1, False, False)
    assert np.array_equal(plain, model.encode(TEXTS, 1, False, False, prompt_name="query"))


def test_prompts_of_the_caller(prompted_model):
    prompts = {"query": "mine: ", "code": "code: ", "document": None}
    with VulkanSentenceTransformer(prompted_model, device="cpu", prompts=prompts, default_prompt_name="code") as model:
        assert model.prompts == {"query": "mine: ", "document": "", "code": "code: ", "passage": PASSAGE}
        assert starts_with(model, model.encode(TEXTS), "code: ")
        assert starts_with(model, model.encode_query(TEXTS), "mine: ")


def test_include_prompt(model):
    included = model.encode(TEXTS, prompt_name="query")
    model.set_pooling_include_prompt(False)
    tokens = model.encode(TEXTS, prompt_name="query", output_value="token_embeddings", normalize_embeddings=False)
    excluded = model.encode(TEXTS, prompt_name="query", normalize_embeddings=False)
    length = len(model.tokenizer.encode(QUERY)) - 1
    expected = np.stack([row[length:].astype(np.float64).mean(axis=0) for row in tokens])
    assert np.abs(excluded - expected).max() < 1e-6
    model.set_pooling_include_prompt(True)
    assert np.array_equal(model.encode(TEXTS, prompt_name="query"), included)
