"""Ternary checkpoints in the published formats beside NumPy's integers, and faults of their files."""

import json
import random

import numpy as np
import pytest

import grilly
from grilly import VulkanSentenceTransformer
from grilly.errors import ModelFormatError, UnsupportedError, WeightsError

from . import families, safetensors_file, ternary
from .golden import FLOAT32, normalized, same_bits

QUANTIZED = [name for name in ternary.ROWS if name != "bitnet-floats"]


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    with np.load(families.FIXTURES / "families.npz") as file:
        return [str(text) for text in file["texts"] if str(text).strip()]


@pytest.fixture(scope="module", params=ternary.ROWS)
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(name, tmp_path_factory):
    return ternary.build(name, tmp_path_factory.mktemp("ternary"))


@pytest.fixture(scope="module")
def model(folder, device):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRILLY_STRICT", "1")
        with VulkanSentenceTransformer(folder, device=device) as model:
            assert model.backend == device and model.dtype == "float32"
            yield model


@pytest.fixture(scope="module")
def some(sentences, slow) -> list[str]:
    return sentences[1 :: 12 if slow else 4]


def given_integers(model, text: str) -> list:
    return [arrays for _, _, _, arrays in model._core.integer_products([text])]


def test_embeddings(model, folder, some):
    """Each text beside NumPy's model of the same integers, and all beside one that rounds for itself.

    Errors of 1e-7 of a number that is rounded move an integer by one at times, and every later rounding with it: in
    float64 they alone take a text of these checkpoints to a cosine of 0.9998.
    """
    rows = model.encode(some, normalize_embeddings=True).astype(np.float64)
    reference = ternary.Ternary(folder)
    ids = [list(model.tokenizer.encode(text, truncation=True)) for text in some]
    given = [reference(each, given_integers(model, text))[-1] for each, text in zip(ids, some, strict=True)]
    assert (rows * normalized(np.stack(given))).sum(axis=1).min() >= 0.9999
    cosines = (rows * normalized(np.stack([reference(each)[-1] for each in ids]))).sum(axis=1)
    assert cosines.mean() >= 0.9999 and cosines.min() >= 0.999


@pytest.mark.parametrize("name", QUANTIZED, indirect=True)
def test_products_given_the_same_integers(model, folder, sentences):
    """Every product of integers of the values that NumPy unpacks, and all that is computed between one and the next."""
    reference = ternary.Ternary(folder)
    for text in (sentences[3], sentences[8]):
        states = reference(list(model.tokenizer.encode(text, truncation=True)), given_integers(model, text))
        rows = model.encode(text, output_value="token_embeddings", normalize_embeddings=False)
        reference.compare(rows, states)
    assert max(reference.errors) <= FLOAT32


@pytest.mark.parametrize("name", QUANTIZED, indirect=True)
def test_same_bits_alone_and_in_any_batch(model, some):
    rows = model.encode(some, normalize_embeddings=False)
    assert np.isfinite(rows).all()
    order = list(range(len(some)))
    random.Random(5).shuffle(order)
    again = model.encode([some[index] for index in order], batch_size=3, normalize_embeddings=False)
    assert same_bits(again, rows[order])
    assert same_bits(model.encode(some[0], normalize_embeddings=False), rows[0])


@pytest.mark.parametrize("name", QUANTIZED, indirect=True)
def test_the_plan_names_what_is_not_of_integers(model, folder, name):
    layers = json.loads((folder / "config.json").read_text())["num_hidden_layers"]
    products = 5 if name.startswith("bitnet") else 7
    assert model.plan.count(" quantized_linear (") == layers * products
    assert "\nproducts left in floating point: none\n" in f"{model.plan}\n"


@pytest.mark.parametrize("name", ["qwen3-matrix", "gemma3_text-matrix", "bitnet-matrix"], indirect=True)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_other_types(model, folder, device, dtype, sentences, caplog):
    """Integers are the same in every type but for roundings of what they are made of, which 16 bits hold on a GPU."""
    texts = sentences[1:5]
    caplog.set_level("INFO", logger="grilly")
    with VulkanSentenceTransformer(folder, device=device, dtype=dtype) as other:
        assert other.dtype == dtype and other.plan.count(" quantized_linear (") == model.plan.count(
            " quantized_linear ("
        )
        rows, expected = (normalized(each.encode(texts).astype(np.float64)) for each in (other, model))
    assert (rows * expected).sum(axis=1).min() > 0.999
    assert not [record for record in caplog.records if "stored as float32" in record.getMessage()]


def test_saved_and_loaded_again(sentences, tmp_path):
    for name in ("bitnet", "gemma3_text"):
        with VulkanSentenceTransformer(ternary.build(name, tmp_path), device="cpu") as model:
            model.save_pretrained(tmp_path / "saved" / name)
            with VulkanSentenceTransformer(tmp_path / "saved" / name, device="cpu") as again:
                assert same_bits(again.encode(sentences[:5]), model.encode(sentences[:5]))


def test_matrices_stay_packed(vulkan, tmp_path):
    """Values and scales of the products take a sixth of their bytes in float16, at most; the rest is float32."""
    folder = ternary.build("bitnet-matrix", tmp_path)
    tensors = safetensors_file.read_folder(folder)
    products = [array for name, array in tensors.items() if name.endswith("_proj.weight")]
    others = sum(4 * array.size for name, array in tensors.items() if "_proj" not in name)
    before = grilly.stats()["bytes_weights"]
    VulkanSentenceTransformer(folder, device="vulkan").close()
    found = grilly.stats()["bytes_weights"] - before - others
    tables = 2 * 4 * 160 * 16  # cosines and sines of each position
    assert 0 < found - tables <= sum(2 * 4 * array.size for array in products) / 6


# --------------------------------------------------------------------------------------------------------------- faults


def change(folder, edit, **config) -> None:
    tensors = safetensors_file.read_folder(folder)
    edit(tensors)
    safetensors_file.write(folder / "model.safetensors", tensors, "BF16")
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))


def refused(folder, kind, *parts) -> None:
    with pytest.raises(kind) as caught:
        VulkanSentenceTransformer(folder, device="cpu")
    for part in parts:
        assert part in str(caught.value), (part, str(caught.value))


Q = "model.layers.1.self_attn.q_proj.weight"


@pytest.mark.parametrize(
    ("edit", "parts"),
    [
        (lambda t: t.pop(f"{Q}_scale"), ["missing layers.1.self_attn.q_proj.weight_scale [1]"]),
        (lambda t: t.update({f"{Q}_scale": np.ones(2, np.float32)}), ["weight_scale has shape [2], expected [1]"]),
        (lambda t: t.update({f"{Q}_scale": -np.ones(1, np.float32)}), ["weight_scale holds -1, expected a positive"]),
        (lambda t: t.update({f"{Q}_scale": np.ones(1, np.uint8)}), ["weight_scale is stored as U8, expected F32"]),
        (lambda t: t.update({Q: ternary.unpack(t[Q]).astype(np.float32)}), ["has shape [60, 60], expected [15, 60]"]),
        (lambda t: t.update({Q: t[Q].astype(np.float32)}), ["stored as BF16, expected U8, four ternary"]),
        (lambda t: t.update({Q: t[Q] | 3 << 4}), ["q_proj.weight has the code 3 in its byte 0"]),
        (lambda t: t.update({Q: t[Q][:-1]}), ["has shape [14, 60], expected [15, 60]"]),
    ],
)
def test_faults_of_packed_tensors(tmp_path, edit, parts):
    folder = ternary.build("bitnet", tmp_path)
    change(folder, edit)
    refused(folder, WeightsError, "model.safetensors", *parts)


def test_mixed_formats(tmp_path):
    folder = ternary.build("bitnet", tmp_path)
    change(folder, lambda tensors: None, quantization_config=None)
    refused(
        folder, WeightsError, "has shape [15, 60], expected [60, 60]", "unexpected layers.0.mlp.down_proj.weight_scale"
    )
    change(folder, lambda tensors: None, quantization_config={"quant_method": "gptq", "bits": 4})
    refused(folder, UnsupportedError, "config.json", 'quant_method "gptq"')
    folder = ternary.build("bitnet-online", tmp_path)
    change(folder, lambda tensors: tensors.update({Q: tensors[Q].astype(np.uint8)}))
    refused(folder, WeightsError, "q_proj.weight is stored as U8, expected F32, F16, BF16, F64")


def test_norms_of_products(tmp_path):
    """One tells that all products have one; o_proj's is as wide as the heads."""
    folder = ternary.build("qwen3-matrix", tmp_path)
    name = "layers.1.self_attn.o_proj.norm.weight"
    assert safetensors_file.read_folder(folder)[name].shape == (128,)
    change(folder, lambda tensors: tensors.pop(name))
    refused(folder, WeightsError, "missing layers.1.self_attn.o_proj.norm.weight [128]")
    change(folder, lambda tensors: tensors.update({name: np.ones(64, np.float32)}))
    refused(folder, WeightsError, "o_proj.norm.weight has shape [64], expected [128]")


def test_gguf_is_refused_with_the_remedy(tmp_path):
    folder = ternary.build("qwen3", tmp_path)
    (folder / "model.safetensors").rename(folder / "model-i2_s.gguf")
    refused(folder, ModelFormatError, "holds a GGUF file", "fetch the safetensors")
