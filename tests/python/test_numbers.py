"""Arrays that also answer as tensors, without torch."""

import copy
import pickle

import numpy as np
import pytest

from grilly import util
from grilly.errors import UnsupportedError
from grilly.numbers import Numbers

SCORES = np.float32([[1, 3, 2, 3], [0, -1, 5, 4]])


@pytest.fixture
def scores() -> Numbers:
    return SCORES.copy().view(Numbers)


def test_an_array_is_numpys_wherever_dim_is_not_given(scores):
    assert isinstance(scores, np.ndarray) and scores.size == 8 and scores.device == "cpu"
    assert scores.max() == 5 and scores.max(1).tolist() == [3, 5] and np.max(scores, axis=0).tolist() == [1, 3, 5, 4]
    assert scores.argsort().tolist() == SCORES.argsort().tolist() and scores.sum(0).tolist() == [1, 2, 7, 7]
    assert scores.sort() is None and scores.tolist() == np.sort(SCORES).tolist()
    assert type(scores.sum()) is type(SCORES.sum()) and type(scores[0, 0]) is np.float32
    assert repr(scores) == repr(np.sort(SCORES)) and str(scores) == str(np.sort(SCORES))
    assert type(np.asarray(scores)) is np.ndarray and type(scores.numpy()) is np.ndarray


def test_copies_answer_too(scores):
    for made in (pickle.loads(pickle.dumps(scores)), copy.copy(scores), copy.deepcopy(scores), scores.clone()):
        assert made.cpu().topk(1).indices.tolist() == [[1], [2]] and (made == SCORES).all()


def test_orders_are_those_of_a_tensor(scores):
    assert scores.argsort(descending=True).tolist() == [[1, 3, 2, 0], [2, 3, 0, 1]]
    assert scores.argsort(dim=0, descending=True).tolist() == [[0, 0, 1, 1], [1, 1, 0, 0]]
    values, indices = scores.topk(2)
    assert values.tolist() == [[3, 3], [5, 4]] and indices.tolist() == [[1, 3], [2, 3]]
    assert scores[0].topk(k=1, largest=False).indices.tolist() == [0]
    assert scores.topk(1, dim=0).values.tolist() == [[1, 3, 5, 4]]
    assert scores.sort(descending=True).values.tolist() == [[3, 3, 2, 1], [5, 4, 0, -1]]
    assert scores.max(dim=1).indices.tolist() == [1, 2] and scores.min(dim=0, keepdim=True).values.shape == (1, 4)
    assert scores.mean(dim=1, keepdim=True).tolist() == [[2.25], [2]] and scores.argmax(dim=1).tolist() == [1, 2]


def test_what_is_computed_answers_too(scores):
    product = (scores @ scores.T)[0]
    assert product.topk(1).indices.tolist() == [0] and (2 * scores).cpu().dim() == 2
    assert scores[scores > 2].float().tolist() == [3, 3, 5, 4] and scores.bool().dtype == bool
    assert scores.half().dtype == np.float16 and scores.to("float16").dtype == np.float16
    assert scores.to(scores.device) is scores and scores.unsqueeze(0).shape == (1, 2, 4)
    assert scores.numel() == scores.nelement() == 8 and scores.element_size() == 4
    with pytest.raises(AttributeError, match="no attribute 'expand'; torch.as_tensor"):
        scores.expand(3)
    with pytest.raises(UnsupportedError, match="not on 'cuda'"):
        scores.to("cuda")


@pytest.mark.parametrize("name", ["cos_sim", "dot_score", "euclidean_sim", "maxsim"])
def test_similarities_answer_as_tensors(name):
    found = getattr(util, name)(SCORES, SCORES)
    assert found.cpu().numpy().argmax(axis=1).shape == (len(found),) and found[0].topk(1).values.shape == (1,)
