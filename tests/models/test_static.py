"""StaticEmbedding models: a table of token vectors, of which a text's are averaged."""

import json
import math

import numpy as np
import pytest

from grilly import VulkanSentenceTransformer
from grilly.errors import UnsupportedError, WeightsError
from models.safetensors_file import write
from models.static import WORDS, static

TEXTS = ["a dog and the cat", "", "dog", "zebra dog dog", "the " * 700]


def expected(table: np.ndarray, limit: int | None = None) -> np.ndarray:
    ids = [[WORDS.index(word) if word in WORDS else 0 for word in text.split()][:limit] for text in TEXTS]
    rows = [table[row].astype(np.float64).mean(axis=0) if row else np.zeros(table.shape[1]) for row in ids]
    return np.stack([row / max(np.linalg.norm(row), 1e-12) for row in rows])


@pytest.fixture
def table() -> np.ndarray:
    return np.random.RandomState(5).standard_normal((len(WORDS), 20)).astype(np.float32)


@pytest.mark.parametrize("name", ["embedding.weight", "embeddings"])
@pytest.mark.parametrize("limit", [None, 3])
def test_the_mean_of_the_tokens_vectors(tmp_path, table, device, name, limit):
    folder = static(tmp_path / "model", table, name=name, limit=limit)
    with VulkanSentenceTransformer(folder, device=device) as model:
        assert model.backend == device
        distances = np.abs(model.encode(TEXTS) - expected(table, limit)).max(axis=1)
        # The last sums 700 equal vectors, and all roundings of such a sum go one way.
        assert distances[:-1].max() <= 1e-6 and distances[-1] <= 1e-5
        assert "StaticEmbedding" in repr(model)


def test_float16(tmp_path, table, device):
    folder = static(tmp_path / "model", table.astype(np.float16))
    with VulkanSentenceTransformer(folder, device=device, dtype="float16") as model:
        assert np.abs(model.encode(TEXTS) - expected(table.astype(np.float16))).max() <= 2e-3


def test_other_tensors_and_axes_are_refused(tmp_path, table):
    folder = static(tmp_path / "model", table)
    path = folder / "0_StaticEmbedding" / "model.safetensors"
    for tensors, part in (
        ({"embeddings": table, "mapping": table[0]}, "embeddings with mapping are not read: load the model with"),
        ({"embeddings": table, "weights": table[0]}, "embeddings with weights"),
        ({"embedding.weight": table, "embedding.scale": table[0]}, "unexpected embedding.scale"),
        ({"embedding.weight": table[0]}, "expected [tokens, columns]"),
        ({"weights": table}, "embedding.weight or embeddings"),
    ):
        write(path, tensors, None)
        with pytest.raises(WeightsError, match="model.safetensors") as caught:
            VulkanSentenceTransformer(folder, device="cpu")
        assert part in str(caught.value)


def test_tensors_that_nothing_reads(tmp_path, table, device):
    """Under sentence-transformers' own name of the table a mapping changes nothing there, either."""
    folder = static(tmp_path / "model", table)
    write(folder / "0_StaticEmbedding" / "model.safetensors", {"embedding.weight": table, "mapping": table[0]}, None)
    with VulkanSentenceTransformer(folder, device=device) as model:
        assert np.abs(model.encode(TEXTS) - expected(table)).max() <= 1e-5


def test_texts_of_any_length(tmp_path, table):
    folder = static(tmp_path / "model", table)
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        assert model.max_seq_length == model.get_max_seq_length() == math.inf
        rows = model.encode(TEXTS)
        model.save_pretrained(tmp_path / "saved")
        model.max_seq_length = 3
        assert model.max_seq_length == 3 and not np.array_equal(model.encode(TEXTS), rows)
        model.max_seq_length = math.inf
        assert model.max_seq_length == math.inf and np.array_equal(model.encode(TEXTS), rows)
    assert "; all tokens of a text are read" in (tmp_path / "saved" / "README.md").read_text(encoding="utf-8")
    for file in (tmp_path / "saved").rglob("*.json"):
        assert "Infinity" not in file.read_text(encoding="utf-8")
    with VulkanSentenceTransformer(tmp_path / "saved", device="cpu") as model:
        assert model.max_seq_length == math.inf and np.array_equal(model.encode(TEXTS), rows)
    limited = static(tmp_path / "limited", table, limit=3)
    with VulkanSentenceTransformer(limited, device="cpu") as model:
        assert model.max_seq_length == 3


@pytest.mark.parametrize("kind", ["CNN", "LSTM", "BoW", "WordEmbeddings", "WordWeights", "CLIPModel"])
def test_modules_of_other_kinds_are_refused_by_name(tmp_path, table, kind):
    folder = static(tmp_path / "model", table)
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    for place in (0, 1):
        changed = [dict(module) for module in modules]
        changed[place]["type"] = f"sentence_transformers.models.{kind}"
        (folder / "modules.json").write_text(json.dumps(changed), encoding="utf-8")
        with pytest.raises(UnsupportedError, match=kind):
            VulkanSentenceTransformer(folder, device="cpu")
