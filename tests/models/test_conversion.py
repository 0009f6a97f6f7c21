"""`quant.convert`: models whose products are rounded to few bits after they are loaded, saved, and loaded again."""

import json
import pickle
from copy import deepcopy

import numpy as np
import pytest

from grilly import SentenceTransformer, VulkanSentenceTransformer, quant
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError

from . import families, safetensors_file, ternary
from .golden import FLOAT32, same_bits


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    with np.load(families.FIXTURES / "families.npz") as file:
        return [str(text) for text in file["texts"] if str(text).strip()]


@pytest.fixture
def small(tmp_path):
    """A model of floats."""
    return families.build("qwen3-matrix", tmp_path)


@pytest.mark.parametrize("kind", ["w1.58a8", "1bit"])
def test_a_converted_model(small, device, kind, sentences, tmp_path):
    texts = sentences[1:4]
    with VulkanSentenceTransformer(small, device=device) as model:
        floats = model.encode(texts, normalize_embeddings=False)
        assert quant.convert(model, kind) is model
        assert model.plan.count(" quantized_linear (") == 2 * 6
        rows = model.encode(texts, normalize_embeddings=False)
        assert np.isfinite(rows).all() and not same_bits(rows, floats)
        model.save_pretrained(tmp_path / "saved")
    method = json.loads((tmp_path / "saved/config.json").read_text())["quantization_config"]["quant_method"]
    assert method == {"w1.58a8": "bitnet", "1bit": "grilly_1bit"}[kind]
    with VulkanSentenceTransformer(tmp_path / "saved", device=device) as again:
        assert same_bits(again.encode(texts, normalize_embeddings=False), rows)
        with pytest.raises(UnsupportedError, match="in integers already"):
            quant.convert(again, kind)
        assert same_bits(again.encode(texts, normalize_embeddings=False), rows)


@pytest.mark.parametrize("kind", ["w1.58a8", "1bit"])
def test_products_of_a_converted_model(small, kind, sentences):
    with quant.convert(VulkanSentenceTransformer(small, device="cpu"), kind) as model:
        products = model._core.integer_products([sentences[3]])
    tensors = safetensors_file.read_folder(small)
    first = np.concatenate([tensors[f"layers.0.mlp.{part}_proj.weight"] for part in ("up", "gate")])
    arrays = next(arrays for name, _, _, arrays in products if name == "layer 0 feed-forward in")
    if kind == "1bit":
        values, scale = np.where(first > 0, 1, -1), 1 / np.abs(first.astype(np.float64)).mean(axis=1)
    else:
        parts = [ternary.rounded(part) for part in np.split(first, 2)]
        values, scale = np.concatenate([part for part, _ in parts]), np.repeat([scale for _, scale in parts], 96)
    assert (arrays["matrix"] == values).all()
    x = arrays["x"]
    factor = np.float32(127) / np.maximum(np.abs(x).max(axis=1, keepdims=True), np.float32(1e-5))
    y = np.rint(x * factor).astype(np.int64) @ values.T / scale / factor.astype(np.float64)
    assert np.abs(arrays["y"] - y).max() <= FLOAT32 * np.abs(y).max()


@pytest.mark.parametrize("name", ["qwen3-matrix", "mpnet-bfloat16"])
def test_a_model_in_int8(name, device, sentences, tmp_path):
    """The same as by the element type, also after another conversion; saved or copied, it has the same bits."""
    folder, texts = families.build(name, tmp_path), sentences[:3]
    with VulkanSentenceTransformer(folder, device=device) as model:
        floats = model.encode(texts)
        quant.convert(quant.convert(model, "1bit"), "int8")
        assert model.dtype == "int8"
        rows = model.encode(texts)
        with VulkanSentenceTransformer(folder, device=device, dtype="int8") as other:
            assert same_bits(rows, other.encode(texts))
        for copy in (pickle.loads(pickle.dumps(model)), deepcopy(model)):
            assert copy.dtype == "int8" and same_bits(copy.encode(texts), rows)
        model.save_pretrained(tmp_path / "saved")
    config = json.loads((tmp_path / "saved/config.json").read_text())
    assert config["quantization_config"] == {"quant_method": "grilly_int8"}
    with VulkanSentenceTransformer(tmp_path / "saved", device=device) as again:
        assert again.dtype == "int8" and same_bits(again.encode(texts), rows)
        again.save_pretrained(tmp_path / "again")
        assert json.loads((tmp_path / "again/config.json").read_text()) == config
        # An element type comes before it, also of a copy, and is saved in place of it.
        assert same_bits(again.float().encode(texts), floats)
        copy = pickle.loads(pickle.dumps(again))
        assert copy.dtype == "float32" and same_bits(copy.encode(texts), floats)
        again.save_pretrained(tmp_path / "again")
    with SentenceTransformer(tmp_path / "again", device=device) as floating:
        assert floating.dtype == "float32"
    for dtype, expected in ((None, "int8"), ("auto", "int8"), ("float16", "float16"), ("float32", "float32")):
        with SentenceTransformer(tmp_path / "saved", device=device, dtype=dtype) as loaded:
            assert loaded.dtype == expected
            assert expected != "int8" or same_bits(loaded.encode(texts, normalize_embeddings=True), rows)


@pytest.mark.parametrize("kind", ["w1.58a8", "1bit"])
def test_both_kinds_of_integers(small, kind, sentences, tmp_path):
    """What a conversion to few bits leaves in floating point stays in int8."""
    with SentenceTransformer(small, device="cpu", dtype="int8") as model:
        rows = quant.convert(model, kind).encode(sentences[:3])
        model.save_pretrained(tmp_path / "saved")
    with SentenceTransformer(tmp_path / "saved", device="cpu") as again:
        assert again.dtype == "int8" and same_bits(again.encode(sentences[:3]), rows)
        assert again.plan.count(" quantized_linear (") == 2 * 6


def test_what_cannot_be_converted(tmp_path, small):
    with VulkanSentenceTransformer(small, device="cpu") as model:
        with pytest.raises(InvalidArgumentError, match="kind"):
            quant.convert(model, "2bit")
        with pytest.raises(InvalidTypeError, match="expected a loaded model"):
            quant.convert(small, "1bit")
    with VulkanSentenceTransformer(ternary.build("bitnet", tmp_path), device="cpu") as model:
        with pytest.raises(UnsupportedError, match="in integers already"):
            quant.convert(model, "w1.58a8")
