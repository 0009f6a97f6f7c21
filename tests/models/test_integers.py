"""dtype="int8": every product of every architecture against exact integers, and the same bits in any batch."""

import random
import re

import numpy as np
import pytest
from cases.functions import activate

from grilly import VulkanSentenceTransformer

from . import families
from .golden import normalized, same_bits

TABLE = families.table()
# Units in the last place of float32: of the sums as floats, two quotients, a bias, an activation and a residual.
FLOAT32 = 16 * 2.0**-24
NARROW = {"bfloat16": 2.0**-8}


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    with np.load(families.FIXTURES / "families.npz") as file:
        return [str(text) for text in file["texts"]]


@pytest.fixture(scope="module", params=TABLE)
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def model(name, device, need_width, tmp_path_factory):
    need_width(TABLE, name, "int8")
    folder = families.build(name, tmp_path_factory.mktemp("families"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRILLY_STRICT", "1")
        with VulkanSentenceTransformer(folder, device=device, dtype="int8") as model:
            assert model.backend == device and model.dtype == "int8"
            yield model


def rounded(x: np.ndarray, by_range: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Integers, scales and zeros of float32 rows, one product and one quotient rounded to float32 each."""
    x = x.astype(np.float32)
    if not by_range:
        scale = np.float32(127) / np.maximum(np.abs(x).max(axis=1, keepdims=True), np.float32(1e-5))
        return np.clip(np.rint(x * scale), -128, 127).astype(np.int64), scale, np.zeros_like(scale, np.int64)
    least, most = (np.fmin(x.min(axis=1, keepdims=True), 0), np.fmax(x.max(axis=1, keepdims=True), 0))
    scale = np.float32(127.5) / np.maximum(np.float32(0.5) * most - np.float32(0.5) * least, np.float32(5e-6))
    zero = np.clip(-128 - np.rint(least * scale), -128, 127).astype(np.int64)
    return np.clip(np.rint(x * scale).astype(np.int64) + zero, -128, 127), scale, zero


def test_products_are_those_of_exact_integers(model, name, device, sentences):
    products = model._core.integer_products([sentences[3], sentences[8]])
    assert products
    # What is not of integers has the checkpoint's type if that is bfloat16, else float16; on the CPU float32.
    narrow = NARROW.get(TABLE[name]["files"]["config.json"].get("dtype"), 2.0**-11)
    for node, activation, by_range, arrays in products:
        q, scale, zero = rounded(arrays["x"] * arrays.get("factors", np.float32(1)), by_range)
        weight, weight_scale, _ = rounded(arrays["matrix"], False)
        sums = (q - zero) @ weight.T
        parts = [
            sums / weight_scale.T.astype(np.float64) / scale.astype(np.float64),
            arrays.get("bias", np.zeros((1, 1))),
        ]
        y = parts[0] + parts[1]
        if activation:
            y = activate(y, re.sub(r"(?<!^)(?=[A-Z])", "_", activation).lower(), 1.0, 1.0)
        residual = arrays.get("residual", np.zeros((1, 1)))
        size = np.abs(parts[0]) + np.abs(parts[1]) + np.abs(residual)
        bound = FLOAT32 * size + (device != "cpu") * narrow * np.abs(y + residual) + 1e-7
        assert (np.abs(arrays["y"] - (y + residual)) <= bound).all(), node
        # An integer more or less would be seen, but where a matrix has rows of zeros.
        if device == "cpu" and not activation:
            assert (1 / weight_scale.T / scale > 2 * bound).mean() > 0.8, node


def test_same_bits_alone_and_in_any_batch(model, sentences, slow):
    some = sentences[1 :: 12 if slow else 4]
    rows = model.encode(some, normalize_embeddings=False)
    assert rows.dtype == np.float32 and np.isfinite(rows).all()
    order = list(range(len(some)))
    random.Random(5).shuffle(order)
    again = model.encode([some[index] for index in order], batch_size=3, normalize_embeddings=False)
    assert same_bits(again, rows[order])
    assert same_bits(model.encode(some[0], normalize_embeddings=False), rows[0])


def test_embeddings_are_near_those_of_floats(model, name, sentences, slow):
    """The distance of unit vectors; a cosine of 0.98 is 0.2."""
    some = slice(1, None, 12 if slow else 4)
    with np.load(families.FIXTURES / "families.npz") as file:
        expected = normalized(file[f"{name}/rows"][some])
    found = normalized(model.encode(sentences[some], normalize_embeddings=False).astype(np.float64))
    assert np.linalg.norm(found - expected, axis=1).max() < 0.2


def test_the_plan_names_products_that_are_not_of_integers(model, name):
    last = model.plan.strip().splitlines()[-1]
    assert last.startswith("products left in floating point: ")
    experts = "experts" in last
    assert experts == any(".experts." in tensor for tensor in TABLE[name]["tensors"])
