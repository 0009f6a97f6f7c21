"""`quant.convert`: models whose products are rounded to few bits after they are loaded, saved, and loaded again."""

import json

import numpy as np
import pytest

from grilly import VulkanSentenceTransformer, quant
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


def test_a_model_in_int8(small, sentences, tmp_path):
    """The same as by the element type, also after another conversion; saved, it is a model of floats again."""
    with VulkanSentenceTransformer(small, device="cpu") as model:
        floats = model.encode(sentences[:3])
        quant.convert(quant.convert(model, "1bit"), "int8")
        assert model.dtype == "int8"
        with VulkanSentenceTransformer(small, device="cpu", dtype="int8") as other:
            assert same_bits(model.encode(sentences[:3]), other.encode(sentences[:3]))
        model.save_pretrained(tmp_path / "saved")
    with VulkanSentenceTransformer(tmp_path / "saved", device="cpu") as again:
        assert same_bits(again.encode(sentences[:3]), floats)


def test_what_cannot_be_converted(tmp_path, small):
    with VulkanSentenceTransformer(small, device="cpu") as model:
        with pytest.raises(InvalidArgumentError, match="kind"):
            quant.convert(model, "2bit")
        with pytest.raises(InvalidTypeError, match="expected a loaded model"):
            quant.convert(small, "1bit")
    with VulkanSentenceTransformer(ternary.build("bitnet", tmp_path), device="cpu") as model:
        with pytest.raises(UnsupportedError, match="in integers already"):
            quant.convert(model, "w1.58a8")
