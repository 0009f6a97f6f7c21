"""What the tests of real weights share; each module has a `model` of its own."""

import pytest

import grilly

from .golden import per_text


@pytest.fixture(scope="module")
def embeddings(model, texts):
    """All 200 texts in one call, with no batch handed to another backend."""
    before = grilly.stats()["fallbacks"]
    rows = model.encode(texts)
    assert grilly.stats()["fallbacks"] == before
    return rows


@pytest.fixture(scope="module")
def some(minilm_golden):
    """Every 17th text and the first of the longest: few tokens, many kinds."""
    lengths = [len(ids) for ids in per_text(minilm_golden["ids"])]
    return sorted({*range(0, len(lengths), 17), lengths.index(max(lengths))})
