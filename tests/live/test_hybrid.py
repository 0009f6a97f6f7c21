"""`HybridEncoder` beside FlagEmbedding, in an environment of its own: version 1.4 needs transformers below 5.4.

`pip install FlagEmbedding "transformers<5.4"`, and pytest.
"""

import importlib.util

import numpy as np
import pytest
import torch
from models import hybrid

from grilly import HybridEncoder

if importlib.util.find_spec("FlagEmbedding") is None:
    pytest.skip("no FlagEmbedding: pip install FlagEmbedding 'transformers<5.4'", allow_module_level=True)

import FlagEmbedding

FLOAT32 = 1e-5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The products are written by torch itself."""
    folder = hybrid.build(tmp_path_factory.mktemp("hybrid") / "model")
    for file, tensors in hybrid.products().items():
        torch.save({name: torch.from_numpy(array) for name, array in tensors.items()}, folder / file)
    return folder


@pytest.fixture(scope="module")
def theirs(folder):
    return FlagEmbedding.BGEM3FlagModel(str(folder), use_fp16=False, devices="cpu", colbert_dim=hybrid.COLUMNS)


@pytest.fixture
def ours(folder, device):
    with HybridEncoder(folder, device=device) as model:
        yield model


@pytest.fixture(scope="module")
def some(texts):
    """Texts that the reference encodes, too: it fails for an empty one without tokens."""
    return texts[:120]


ALL = {"return_dense": True, "return_sparse": True, "return_colbert_vecs": True}


def test_all_three(ours, theirs, some):
    found, expected = ours.encode(some, **ALL), theirs.encode(some, batch_size=16, max_length=40, **ALL)
    assert found.keys() == expected.keys()
    assert np.abs(found["dense_vecs"] - expected["dense_vecs"]).max() <= FLOAT32
    for own, wanted in zip(found["lexical_weights"], expected["lexical_weights"], strict=True):
        assert list(own) == list(wanted)
        assert all(abs(own[token] - wanted[token]) <= FLOAT32 for token in own)
    for own, wanted in zip(found["colbert_vecs"], expected["colbert_vecs"], strict=True):
        assert own.shape == wanted.shape and (not own.size or np.abs(own - wanted).max() <= FLOAT32)


def test_a_limit_of_tokens(ours, theirs, some):
    found, expected = ours.encode(some, max_length=9, **ALL), theirs.encode(some, max_length=9, **ALL)
    assert np.abs(found["dense_vecs"] - expected["dense_vecs"]).max() <= FLOAT32
    assert [len(own) for own in found["colbert_vecs"]] == [len(own) for own in expected["colbert_vecs"]]


@pytest.mark.parametrize("weights", [None, [0.4, 0.2, 0.4]])
def test_scores(ours, theirs, some, weights):
    pairs = list(zip(some[:-1:3], some[1::3], strict=False))
    given = {"weights_for_different_modes": weights}
    limits = {"max_query_length": 40, "max_passage_length": 40}
    found, expected = (model.compute_score(pairs, **limits, **given) for model in (ours, theirs))
    assert list(found) == list(expected)
    for name, values in expected.items():
        assert np.abs(np.array(found[name]) - values).max() <= 2e-5, name
    one = ours.compute_score(pairs[0], **given)
    assert one.keys() == theirs.compute_score(pairs[0], **limits, **given).keys()


def test_scores_of_parts(ours, theirs, some):
    found = theirs.encode(some[:6], max_length=40, **ALL)
    weights, vectors = found["lexical_weights"], found["colbert_vecs"]
    ours_, theirs_ = (model.compute_lexical_matching_score(weights[:3], weights[3:]) for model in (ours, theirs))
    assert np.abs(ours_ - theirs_).max() <= FLOAT32
    assert abs(ours.colbert_score(vectors[0], vectors[1]) - float(theirs.colbert_score(vectors[0], vectors[1]))) <= 2e-5
    assert ours.convert_id_to_token(weights) == theirs.convert_id_to_token(weights)
