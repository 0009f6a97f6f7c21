"""StaticEmbedding with the real table of the package wordllama, against sentence-transformers."""

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import grilly


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    package = Path(importlib.util.find_spec("wordllama").submodule_search_locations[0])
    folder = tmp_path_factory.mktemp("wordllama")
    first = folder / "0_StaticEmbedding"
    first.mkdir()
    shutil.copy(package / "weights" / "l2_supercat_256.safetensors", first / "model.safetensors")
    shutil.copy(package / "tokenizers" / "l2_supercat_tokenizer_config.json", first / "tokenizer.json")
    module = {"idx": 0, "name": "0", "path": first.name, "type": "sentence_transformers.models.StaticEmbedding"}
    (folder / "modules.json").write_text(json.dumps([module]), encoding="utf-8")
    return folder


def test_float32(folder, device, texts):
    exact = SentenceTransformer(str(folder), device="cpu").double().encode(texts)
    with grilly.VulkanSentenceTransformer(folder, device=device, dtype="float32") as model:
        rows = model.encode(texts, normalize_embeddings=False)
    assert np.abs(rows - exact).max() / np.abs(exact).max() <= 1e-6


def test_the_type_of_the_table(folder, device, texts):
    theirs = SentenceTransformer(str(folder), device="cpu")
    exact = SentenceTransformer(str(folder), device="cpu").double().encode(texts)
    expected = theirs.encode(texts)
    with grilly.SentenceTransformer(str(folder), device="cpu" if device == "cpu" else "cuda") as model:
        rows = model.encode(texts)
        assert model.get_embedding_dimension() == theirs.get_embedding_dimension()
    assert rows.dtype == expected.dtype == np.float16
    error, other = (np.abs(found.astype(np.float64) - exact).max() for found in (rows, expected))
    assert error <= 1.5 * other
