"""SparseEncoders of every family with a masked-language head against sentence-transformers' goldens."""

import random

import numpy as np
import pytest

from grilly import SparseEncoder

from . import families, heads
from .golden import TYPES, error, per_text, same_bits
from .golden import bound as bound_of

TABLE = heads.table()["words"]


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(families.FIXTURES / "heads.npz") as file:
        return dict(file)


@pytest.fixture(scope="module", params=TABLE)
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def sentences(name, golden) -> list[str]:
    return [str(text) for text in golden["texts"][: len(golden[f"words/{name}/rows"])]]


@pytest.fixture(scope="module")
def folder(name, tmp_path_factory):
    return heads.build("words", name, tmp_path_factory.mktemp("words"))


@pytest.fixture(scope="module", params=TYPES)
def dtype(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def model(folder, device, dtype):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRILLY_STRICT", "1")
        with SparseEncoder(folder, device=device, dtype=dtype) as model:
            model.max_active_dims = None
            yield model


@pytest.fixture(scope="module")
def bound(name, dtype, golden) -> float:
    return bound_of(golden, f"words/{name}", dtype)


def dense(model: SparseEncoder, texts, **options) -> np.ndarray:
    return model.encode(texts, convert_to_sparse_tensor=False, **options)


@pytest.fixture(scope="module")
def some(slow) -> slice:
    """All texts; on a software driver every third."""
    return slice(None, None, 3) if slow else slice(None)


@pytest.fixture(scope="module")
def rows(model, sentences, some) -> np.ndarray:
    return dense(model, sentences[some])


def test_a_text(model, name, sentences, golden, bound):
    """The cheapest test that dispatches what the head does; tests/modes.py runs it again."""
    expected = golden[f"words/{name}/rows"]
    assert np.abs(dense(model, sentences[0]) - expected[0]).max() <= bound * np.abs(expected).max()


def test_embeddings(model, rows, some, name, device, dtype, golden, bound):
    assert model.backend == device and model.dtype == dtype
    assert rows.dtype == (np.float16 if dtype == "float16" else np.float32)
    assert error(rows, golden[f"words/{name}/rows"][some]) <= bound


def test_zeros_are_the_references(rows, some, name, golden, bound):
    """A word has weight zero where its largest logit is not positive, but for the rounding of logits next to zero."""
    expected = golden[f"words/{name}/rows"][some]
    differ = (rows != 0) != (expected != 0)
    assert (expected == 0).any() and np.maximum(rows, expected)[differ].max(initial=0) <= bound * expected.max()


def test_same_bits_in_any_batch_and_order_and_alone(model, rows, sentences, some, slow):
    order = list(range(len(rows)))[:: 2 if slow else 1]
    random.Random(3).shuffle(order)
    shuffled = [sentences[some][index] for index in order]
    for batch_size in (1, 7):
        assert same_bits(dense(model, shuffled, batch_size=batch_size), rows[order]), batch_size
    assert same_bits(dense(model, shuffled[0]), rows[order[0]])


def test_tokens_and_limit(name, folder, sentences, golden):
    with SparseEncoder(folder, device="cpu") as model:
        assert model.max_seq_length == golden[f"words/{name}/limit"]
        assert model.get_embedding_dimension() == golden[f"words/{name}/rows"].shape[1]
        assert [list(model.tokenizer.encode(text, truncation=True)) for text in sentences] == per_text(
            golden[f"words/{name}/ids"]
        )
