"""What the tests of real weights share; each module has a `model` of its own."""

import numpy as np
import pytest
from conftest import LONG

import grilly

from .golden import per_text


@pytest.fixture(scope="session")
def lengths(minilm_golden):
    return [len(ids) for ids in per_text(minilm_golden["ids"])]


@pytest.fixture(scope="module")
def slow(device):
    """Whether a software driver takes minutes for all texts."""
    return device == "vulkan" and "llvmpipe" in grilly.info()["choice"]["name"] and not LONG


@pytest.fixture(scope="module")
def need_width(slow):
    """Skips 16 bits on a software driver, but for the first checkpoint of each family among `rows`."""

    def need(rows: dict[str, dict], name: str, dtype: str) -> None:
        first = {row["files"]["config.json"]["model_type"]: own for own, row in reversed(rows.items())}
        if slow and dtype != "float32" and name not in first.values():
            pytest.skip("16 bits on a software driver: one checkpoint of each family here, all in `make test-long`")

    return need


@pytest.fixture(scope="module")
def some(lengths, slow):
    """Every 29th text and one of the longest, or of more tokens than a tile of attention: few tokens, many kinds."""
    long = min(length for length in lengths if length > 64) if slow else max(lengths)
    return sorted({*range(0, len(lengths), 29), lengths.index(long)})


@pytest.fixture(scope="module")
def sample(lengths, slow, some):
    """The texts of `embeddings`: all, or every twentieth of at most 64 tokens, one of the longest and `some`."""
    if not slow:
        return list(range(len(lengths)))
    few = (index for index in range(0, len(lengths), 20) if lengths[index] <= 64)
    return sorted({*few, lengths.index(max(lengths)), *some})


@pytest.fixture(scope="module")
def embeddings(model, texts, sample):
    """Rows of all 200 texts: the sample's computed in one call, with no batch handed to another backend, others NaN."""
    before = grilly.stats()["fallbacks"]
    found = model.encode([texts[index] for index in sample])
    assert grilly.stats()["fallbacks"] == before
    rows = np.full((len(texts), found.shape[1]), np.nan, found.dtype)
    rows[sample] = found
    return rows
