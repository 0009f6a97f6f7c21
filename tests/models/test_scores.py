"""CrossEncoders of every family with a head against sentence-transformers' goldens: three types, both backends."""

import random

import numpy as np
import pytest

from grilly import CrossEncoder
from grilly.scores import identity

from . import families, heads
from .golden import FLOAT32, TYPES, error, per_text, same_bits
from .golden import bound as bound_of

TABLE = heads.table()["scores"]


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(families.FIXTURES / "heads.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def pairs(golden) -> list[tuple[str, str]]:
    return [(str(first), str(second)) for first, second in golden["pairs"]]


@pytest.fixture(scope="module", params=TABLE)
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(name, tmp_path_factory):
    return heads.build("scores", name, tmp_path_factory.mktemp("scores"))


@pytest.fixture(scope="module", params=TYPES)
def dtype(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def model(name, folder, device, dtype, need_width):
    need_width(TABLE, name, dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRILLY_STRICT", "1")
        with CrossEncoder(folder, device=device, dtype=dtype) as model:
            yield model


@pytest.fixture(scope="module")
def bound(name, dtype, golden) -> float:
    return bound_of(golden, f"scores/{name}", dtype)


def logits(model: CrossEncoder, pairs, **options) -> np.ndarray:
    rows = model.predict(pairs, activation_fn=identity, **options)
    return rows.reshape(len(pairs), model.num_labels)


@pytest.fixture(scope="module")
def some(slow) -> slice:
    """All pairs; on a software driver every sixth."""
    return slice(None, None, 6) if slow else slice(None)


@pytest.fixture(scope="module")
def rows(model, pairs, some) -> np.ndarray:
    return logits(model, pairs[some])


def test_a_pair(model, name, pairs, golden, bound):
    """The cheapest test that dispatches what the head does; tests/modes.py runs it again."""
    expected = golden[f"scores/{name}/rows"]
    assert np.abs(logits(model, pairs[:1]) - expected[:1]).max() <= bound * np.abs(expected).max()


def test_logits(model, rows, some, name, device, dtype, golden, bound):
    assert model.backend == device and model.dtype == dtype and rows.dtype == np.float32
    assert error(rows, golden[f"scores/{name}/rows"][some]) <= bound


def test_scores_have_the_activation_of_the_configuration(model, pairs, slow, name, dtype, golden):
    some = slice(None, None, 9) if slow else slice(None)
    expected = golden[f"scores/{name}/scores"][some]
    scores = model.predict(pairs[some])
    assert scores.shape == expected.shape and scores.dtype == expected.dtype == np.float32
    if dtype == "float32":
        assert np.abs(scores - expected).max() <= FLOAT32 * max(1.0, np.abs(expected).max())


def test_same_bits_in_any_batch_and_order_and_alone(model, rows, pairs, some, slow):
    order = list(range(len(rows)))[:: 2 if slow else 1]
    random.Random(3).shuffle(order)
    shuffled = [pairs[some][index] for index in order]
    for batch_size in (1, 7):
        assert same_bits(logits(model, shuffled, batch_size=batch_size), rows[order]), batch_size
    assert same_bits(logits(model, shuffled[:1]), rows[order[:1]])


def test_tokens_segments_and_limit(name, folder, pairs, golden):
    with CrossEncoder(folder, device="cpu") as model:
        assert model.max_seq_length == golden[f"scores/{name}/limit"]
        ids, segments = model._core.tokenize_pairs(*map(list, zip(*pairs, strict=True)))
    assert ids == per_text(golden[f"scores/{name}/ids"])
    assert segments == per_text(golden[f"scores/{name}/segments"])


def test_the_goldens_cross_the_limit_and_have_segments(golden):
    for name in TABLE:
        lengths = np.array([len(row) for row in per_text(golden[f"scores/{name}/ids"])])
        assert (lengths == golden[f"scores/{name}/limit"]).sum() >= 2, name
    two = {name for name in TABLE if (golden[f"scores/{name}/segments"] == 1).any()}
    assert {"bert", "electra", "deberta-v2"} <= two and "roberta" not in two
