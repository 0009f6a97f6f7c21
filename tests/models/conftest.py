"""What the tests of real weights share; each module has a `model` of its own."""

import os

import numpy as np
import pytest

import grilly

from .golden import per_text


@pytest.fixture(scope="module")
def some(minilm_golden):
    """Every 29th text and the first of the longest: few tokens, many kinds."""
    lengths = [len(ids) for ids in per_text(minilm_golden["ids"])]
    return sorted({*range(0, len(lengths), 29), lengths.index(max(lengths))})


@pytest.fixture(scope="module")
def sample(device, texts, some):
    """The texts of `embeddings`: all, and every fifth and `some` where a software driver takes minutes for all."""
    slow = device == "vulkan" and "llvmpipe" in grilly.info()["choice"]["name"] and "GRILLY_TEST_LONG" not in os.environ
    return sorted({*range(0, len(texts), 5 if slow else 1), *some})


@pytest.fixture(scope="module")
def embeddings(model, texts, sample):
    """Rows of all 200 texts: the sample's computed in one call, with no batch handed to another backend, others NaN."""
    before = grilly.stats()["fallbacks"]
    found = model.encode([texts[index] for index in sample])
    assert grilly.stats()["fallbacks"] == before
    rows = np.full((len(texts), found.shape[1]), np.nan, found.dtype)
    rows[sample] = found
    return rows
