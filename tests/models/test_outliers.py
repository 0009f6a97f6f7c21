"""A weight of 1e4 beside small ones: dtype="int8" stays near the floats, and the plan says how."""

import random
import re
import zlib

import numpy as np
import pytest
from conftest import LONG

from grilly import VulkanSentenceTransformer

from . import families, safetensors_file

TABLE = families.table()
NAMES = list({row["files"]["config.json"]["model_type"]: name for name, row in reversed(TABLE.items())}.values())
NAMES += ["jina-bert", "jina-lora"]
# The matrices of layers; other places are of norms, biases and tables.
MATRICES = re.compile(r"\d+\..*(weight|original)$")


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    with np.load(families.FIXTURES / "families.npz") as file:
        return [text for text in map(str, file["texts"]) if text.strip()][:8]


def encoded(folder, dtype, texts) -> tuple[np.ndarray, str]:
    with VulkanSentenceTransformer(folder, device="cpu", dtype=dtype) as model:
        return model.encode(texts).astype(np.float64), model.plan.strip().splitlines()[-1]


def places(name: str, tensors: dict[str, np.ndarray]) -> list[str]:
    """Tensors to change: here a few matrices, a norm and a table, all in the long run."""
    floats = [tensor for tensor in tensors if tensors[tensor].dtype.kind == "f"]
    if LONG:
        return floats
    # A convolution over one place is a matrix, too.
    flat = [tensor for tensor in floats if tensors[tensor].ndim == 2 or tensors[tensor].shape[2:] == (1,)]
    matrices = [tensor for tensor in flat if MATRICES.search(tensor)]
    draw = random.Random(name)
    return draw.sample(matrices, 2) + draw.sample([tensor for tensor in floats if tensor not in matrices], 1)


@pytest.mark.parametrize("name", NAMES)
def test_one_large_weight(name, sentences, tmp_path):
    folder = families.build(name, tmp_path)
    path = folder / "model.safetensors"
    tensors = safetensors_file.read(path)
    before, _ = encoded(folder, "float32", sentences)
    kept = 0
    for tensor in places(name, tensors):
        array = tensors[tensor].copy()
        array.flat[zlib.crc32(tensor.encode()) % array.size] = 1e4
        safetensors_file.write(path, tensors | {tensor: array}, TABLE[name]["stored"])
        wide, _ = encoded(folder, "float32", sentences)
        narrow, _ = encoded(folder, "float16", sentences)
        if (wide == before).all() or (wide * narrow).sum(axis=1).min() < 0.99:
            continue
        found, last = encoded(folder, "int8", sentences)
        assert (found * narrow).sum(axis=1).min() >= 0.99, tensor
        kept += last.startswith("products left in floating point: ") and "layer 0 attention output" in last
    assert kept or not LONG


@pytest.mark.parametrize("dtype", ["int8", "float16"])
def test_the_plan_says_so(dtype, device, sentences, tmp_path, caplog):
    folder = families.build("roberta", tmp_path)
    path, tensor = folder / "model.safetensors", "roberta.encoder.layer.0.output.dense.weight"
    tensors = safetensors_file.read(path)
    array = tensors[tensor].copy()
    array[3, 5] = -1e4
    safetensors_file.write(path, tensors | {tensor: array})
    with VulkanSentenceTransformer(folder, device=device, dtype=dtype) as model:
        assert "quantized_linear" not in model.plan and model.dtype == dtype
        last = model.plan.strip().splitlines()[-1]
    said = "encoder.layer.0.output.dense.weight holds -10000 in a row of small numbers: no product is of integers"
    assert (said in caplog.text) == last.startswith("products left in floating point: layer 0") == (dtype == "int8")


def test_weights_of_many_sizes(sentences, tmp_path):
    """From large ones, which factors of columns even out, on to those beside which all others are lost."""
    folder = families.build("mistral", tmp_path)
    path, tensor = folder / "model.safetensors", "layers.0.mlp.up_proj.weight"
    tensors = safetensors_file.read(path)
    counts = []
    for number in (1, 10, 100, 1000, 10000, 60000):
        array = tensors[tensor].copy()
        array[32, 13] = number
        safetensors_file.write(path, tensors | {tensor: array}, TABLE["mistral"]["stored"])
        narrow, _ = encoded(folder, "float16", sentences)
        found, last = encoded(folder, "int8", sentences)
        assert (found * narrow).sum(axis=1).min() >= 0.99, number
        counts.append(last.count("layer"))
    assert counts == sorted(counts) and counts[0] == 0 and counts[-1] > 4
