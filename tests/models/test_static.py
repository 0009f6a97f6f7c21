"""StaticEmbedding models: a table of token vectors, of which a text's are averaged."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from grilly import SentenceTransformer, VulkanSentenceTransformer
from grilly.errors import ModelFormatError, UnsupportedError, WeightsError
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
    mapping = np.arange(len(table))
    for tensors, part in (
        ({"embeddings": table, "mapping": table.astype(np.int64)}, "mapping has shape [7, 20], expected [tokens]"),
        ({"embeddings": table, "mapping": mapping + 1}, "mapping[6] is 7, but embeddings has 7 rows: fetch the folder"),
        ({"embeddings": table, "mapping": mapping - 1}, "mapping[0] is -1"),
        ({"embeddings": table, "mapping": mapping / 2}, "mapping[1] is 0.5"),
        ({"embeddings": table, "weights": np.ones(6)}, "weights has 6 numbers, but embeddings has 7: fetch"),
        (
            {"embeddings": table, "mapping": mapping[:5], "weights": np.ones(7)},
            "weights has 7 numbers, but mapping has 5",
        ),
        ({"embeddings": table[0], "mapping": mapping}, "expected [tokens, columns]"),
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


def of_model2vec(folder: Path, tensors: dict[str, np.ndarray], **config) -> Path:
    """The folder as model2vec's older versions save it, without modules.json."""
    made = static(folder, np.zeros((len(WORDS), 1), np.float32))
    shutil.move(made / "0_StaticEmbedding" / "tokenizer.json", made / "tokenizer.json")
    shutil.rmtree(made / "0_StaticEmbedding")
    (made / "modules.json").unlink()
    write(made / "model.safetensors", tensors, None)
    (made / "config.json").write_text(json.dumps({"model_type": "model2vec"} | config), encoding="utf-8")
    return made


QUANTISED = {
    "mapping": {"embeddings": np.float32, "mapping": np.int64},
    "both": {"embeddings": np.float32, "mapping": np.int32, "weights": np.float64},
    "weights": {"embeddings": np.float16, "weights": np.float64},
    "narrow": {"embeddings": np.float16, "mapping": np.int64, "weights": np.float32},
    "integers": {"embeddings": np.int8, "weights": np.float64},
    "integers alone": {"embeddings": np.int8},
}


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("kind", QUANTISED)
def test_tables_of_model2vec(tmp_path, table, device, kind, listed):
    """`embeddings[mapping[token]] * weights[token]`; with modules.json as sentence-transformers makes of it."""
    mapping = np.array([2, 0, 1, 1, 0, 2, 2])
    weights = np.random.RandomState(6).uniform(0.1, 1, len(WORDS))
    values = {
        "embeddings": table[:3] if "mapping" in QUANTISED[kind] else table,
        "mapping": mapping,
        "weights": weights,
    }
    if QUANTISED[kind]["embeddings"] == np.int8:
        values["embeddings"] = np.rint(40 * values["embeddings"])
    tensors = {name: values[name].astype(dtype) for name, dtype in QUANTISED[kind].items()}
    rows = tensors["embeddings"].astype(np.float64)
    rows = rows[mapping] if "mapping" in tensors else rows
    rows = rows * tensors["weights"].astype(np.float64)[:, None] if "weights" in tensors else rows
    if listed:
        folder = static(tmp_path / "model", table)
        write(folder / "0_StaticEmbedding" / "model.safetensors", tensors, None)
    else:
        # Unknown words, "zebra", are left out.
        folder = of_model2vec(tmp_path / "model", tensors, normalize=True)
        rows[0] = 0
    with SentenceTransformer(folder, device="cpu" if device == "cpu" else "cuda") as model:
        found = model.encode(TEXTS[:4])
        assert found.dtype == np.float32 and np.abs(found - expected(rows)[:4]).max() <= 1e-6


def test_settings_of_model2vec(tmp_path, table, device):
    tensors = {"embeddings": table}
    folder = of_model2vec(tmp_path / "plain", tensors, architectures=["StaticModel"], model_type=None, max_length=3)
    with VulkanSentenceTransformer(folder, device=device) as model:
        assert model.max_seq_length == 3
        # Cut first, then unknown words are left out, which do not count in the mean.
        rows = model.encode(["dog zebra the cat", "zebra"], normalize_embeddings=False)
        assert np.abs(rows[0] - table[[3, 5]].astype(np.float64).mean(axis=0)).max() <= 1e-6 and not rows[1].any()
        with pytest.raises(UnsupportedError, match="copy the folder"):
            model.save_pretrained(tmp_path / "saved")
    for limit, most in ((None, math.inf), (..., 512)):
        config = {} if limit is ... else {"max_length": limit}
        folder = of_model2vec(tmp_path / str(most), tensors, **config)
        with VulkanSentenceTransformer(folder, device="cpu") as model:
            assert model.max_seq_length == most
    folder = of_model2vec(tmp_path / "bad", tensors, max_length="long")
    with pytest.raises(ModelFormatError, match="config.json.*max_length"):
        VulkanSentenceTransformer(folder, device="cpu")


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
