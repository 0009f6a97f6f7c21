"""MultiVectorEncoders of several families, expanded or not, against sentence-transformers' goldens."""

import random

import numpy as np
import pytest

from grilly import MultiVectorEncoder
from grilly.util import maxsim, mean_maxsim

from . import families, heads
from .golden import TYPES, error, per_text, same_bits
from .golden import bound as bound_of

TABLE = heads.table()["vectors"]
SIDES = ("query", "document")


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(families.FIXTURES / "heads.npz") as file:
        return dict(file)


@pytest.fixture(scope="module", params=TABLE)
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def sentences(name, golden) -> list[str]:
    return [str(text) for text in golden["texts"][: golden[f"vectors/{name}/counts"].shape[1]]]


@pytest.fixture(scope="module")
def expected(name, golden) -> dict[str, list[np.ndarray]]:
    """The vectors of each text, by task."""
    counts = golden[f"vectors/{name}/counts"]
    each = np.split(golden[f"vectors/{name}/rows"].astype(np.float64), np.cumsum(counts.ravel())[:-1])
    return {"query": each[: counts.shape[1]], "document": each[counts.shape[1] :]}


@pytest.fixture(scope="module")
def folder(name, tmp_path_factory):
    return heads.build("vectors", name, tmp_path_factory.mktemp("vectors"))


@pytest.fixture(scope="module", params=TYPES)
def dtype(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def model(folder, device, dtype):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRILLY_STRICT", "1")
        with MultiVectorEncoder(folder, device=device, dtype=dtype) as model:
            yield model


@pytest.fixture(scope="module")
def bound(name, dtype, golden) -> float:
    return bound_of(golden, f"vectors/{name}", dtype)


@pytest.fixture(scope="module")
def some(slow) -> slice:
    """All texts; on a software driver every third."""
    return slice(None, None, 3) if slow else slice(None)


def encode(model: MultiVectorEncoder, side: str, texts, **options):
    return {"query": model.encode_query, "document": model.encode_document}[side](texts, **options)


@pytest.fixture(scope="module")
def found(model, sentences, some) -> dict[str, list[np.ndarray]]:
    return {side: encode(model, side, sentences[some]) for side in SIDES}


def test_a_text(model, sentences, expected, bound):
    """The cheapest test that dispatches what the class does; tests/modes.py runs it again."""
    largest = max(np.abs(rows).max() for rows in expected["query"])
    assert np.abs(encode(model, "query", sentences[0]) - expected["query"][0]).max() <= bound * largest


def test_vectors(model, found, some, device, dtype, expected, bound):
    assert model.backend == device and model.dtype == dtype
    for side in SIDES:
        assert [len(rows) for rows in found[side]] == [len(rows) for rows in expected[side][some]]
        assert all(rows.dtype == (np.float16 if dtype == "float16" else np.float32) for rows in found[side])
    assert error(joined(found), joined({side: rows[some] for side, rows in expected.items()})) <= bound


def joined(vectors: dict[str, list[np.ndarray]]) -> np.ndarray:
    return np.concatenate([rows for side in SIDES for rows in vectors[side]])


def test_scores(model, found, some, name, dtype, golden, bound):
    scores, expected = model.similarity(found["query"], found["document"]), golden[f"vectors/{name}/scores"]
    assert scores.dtype == np.float32 and error(scores, expected[some, some]) <= bound
    model.similarity_fn_name = "meanmaxsim"
    means = model.similarity(found["query"], found["document"])
    model.similarity_fn_name = None
    assert np.allclose(means, scores / [[len(rows)] for rows in found["query"]], rtol=1e-6)


def test_same_bits_in_any_batch_and_order_and_alone(model, found, sentences, some, slow):
    order = list(range(len(found["query"])))[:: 2 if slow else 1]
    random.Random(3).shuffle(order)
    shuffled = [sentences[some][index] for index in order]
    for side in SIDES:
        for batch_size in (1, 7):
            again = encode(model, side, shuffled, batch_size=batch_size)
            assert all(same_bits(one, found[side][at]) for one, at in zip(again, order, strict=True)), batch_size
        assert same_bits(encode(model, side, shuffled[0]), found[side][order[0]])


def test_tokens_and_limit(name, folder, sentences, golden):
    with MultiVectorEncoder(folder, device="cpu") as model:
        assert model.max_seq_length == golden[f"vectors/{name}/limit"]
        assert model.get_embedding_dimension() == golden[f"vectors/{name}/rows"].shape[1]
        ids = [row["input_ids"].tolist() for side in SIDES for row in encode(model, side, sentences, output_value=None)]
        assert ids == per_text(golden[f"vectors/{name}/ids"])
        scored = [int(row["attention_mask"].sum()) for row in model.encode_document(sentences, output_value=None)]
        assert scored == golden[f"vectors/{name}/counts"][1].tolist()


def test_scores_of_the_references_vectors(name, expected, golden):
    """MaxSim alone, from vectors that both have."""
    scores = golden[f"vectors/{name}/scores"]
    assert error(maxsim(expected["query"], expected["document"]), scores) <= 1e-6
    means = scores / [[len(rows)] for rows in expected["query"]]
    assert error(mean_maxsim(expected["query"], expected["document"]), means) <= 1e-6
