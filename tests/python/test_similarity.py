"""The four similarities against float64, and against hand-made cases."""

import numpy as np
import pytest

from grilly import VulkanSentenceTransformer, similarity
from grilly.similarity import SIMILARITIES

RANDOM = np.random.RandomState(4)
A, B = RANDOM.standard_normal((7, 33)).astype(np.float32), RANDOM.standard_normal((5, 33)).astype(np.float32)


def expected(name, a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    difference = a - b
    return {
        "cosine": lambda: (a * b).sum(-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)),
        "dot": lambda: (a * b).sum(-1),
        "euclidean": lambda: -np.sqrt((difference**2).sum(-1)),
        "manhattan": lambda: -np.abs(difference).sum(-1),
    }[name]()


@pytest.mark.parametrize("name", SIMILARITIES)
def test_every_row_with_every_row(name):
    found = SIMILARITIES[name][0](A, B)
    assert found.dtype == np.float32 and found.shape == (7, 5)
    # 33 terms of size about 1: at most 33 roundings of 2^-24 of a sum below 64
    assert np.abs(found - expected(name, A[:, None], B[None])).max() < 33 * 2**-24 * 64


@pytest.mark.parametrize("name", SIMILARITIES)
def test_row_with_row(name):
    found = SIMILARITIES[name][1](A[:5], B)
    assert found.dtype == np.float32 and found.shape == (5,)
    assert np.abs(found - expected(name, A[:5], B)).max() < 33 * 2**-24 * 64


@pytest.mark.parametrize("name", SIMILARITIES)
def test_vectors_lists_and_blocks(name, monkeypatch):
    every, pairwise = SIMILARITIES[name]
    assert every(A[0], B).shape == (1, 5) and every(A[0], B[0]).shape == (1, 1) and pairwise(A[0], B[0]).shape == ()
    assert np.array_equal(every(list(A), B.tolist()), every(A, B))
    assert every(A.astype(np.float64), B).dtype == np.float64
    assert every(A.astype(np.float16), B.astype(np.float16)).dtype == np.float32
    whole = every(A, B)
    monkeypatch.setattr(similarity, "BLOCK", 1)
    assert np.array_equal(every(A, B), whole)
    with pytest.raises(ValueError, match="shapes"):
        every(A, B[:, :5])
    with pytest.raises(ValueError, match="shapes"):
        pairwise(A, B)


def test_a_zero_row_is_like_nothing():
    assert similarity.cos_sim(np.zeros((1, 33)), A).tolist() == [[0] * 7]


@pytest.mark.parametrize("name", SIMILARITIES)
def test_the_models_function(tiny_model, name):
    with VulkanSentenceTransformer(tiny_model, device="cpu", similarity_fn_name=name) as model:
        rows = model.encode(["the cat", "a dog"])
        assert np.array_equal(model.similarity(rows, rows), SIMILARITIES[name][0](rows, rows))
        assert np.array_equal(model.similarity_pairwise(rows, rows), SIMILARITIES[name][1](rows, rows))
        model.similarity_fn_name = None
        assert model.similarity_fn_name == "cosine"
        with pytest.raises(ValueError, match="maxsim"):
            model.similarity_fn_name = "maxsim"
