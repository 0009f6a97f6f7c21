"""`SparseRows`, and functions of sparse rows and tensors, beside those of sentence-transformers and torch."""

import numpy as np
import pytest
import sentence_transformers
import torch
from models import heads
from sentence_transformers import util as their_util

from grilly import SparseEncoder, util

TEXTS = ["a dog and the cat", "one two three", "", "a dog"]


@pytest.fixture(scope="module")
def sparse(tmp_path_factory):
    folders = heads.build_both("words", "bert", tmp_path_factory.mktemp("words"))
    with SparseEncoder(folders[0], device="cpu") as ours:
        yield ours, sentence_transformers.SparseEncoder(str(folders[1]), device="cpu")


def test_rows_have_what_their_tensors_have(sparse):
    ours, theirs = sparse
    rows, tensor = ours.encode(TEXTS), theirs.encode(TEXTS).coalesce()
    assert rows.is_sparse and tuple(rows.size()) == tuple(tensor.size()) and rows.dim() == tensor.dim()
    assert rows.indices().tolist() == tensor.indices().tolist() and rows._nnz() == tensor._nnz()
    assert np.allclose(rows.values(), tensor.values().numpy(), atol=1e-5)
    assert np.allclose(rows.to_dense(), tensor.to_dense().numpy(), atol=1e-5)
    assert np.allclose(rows.tocsr().toarray(), their_util.to_scipy_coo(tensor).toarray(), atol=1e-5)
    assert np.allclose(rows._values(), tensor._values().numpy(), atol=1e-5)
    assert rows._indices().tolist() == tensor._indices().tolist()
    for name in ("to_sparse_coo", "to_sparse_csr", "to_sparse_csc"):
        found, expected = getattr(rows, name)(), getattr(tensor, name)()
        assert name == "to_sparse_coo" or found.layout == expected.layout
        assert np.allclose(found.to_dense(), expected.to_dense(), atol=1e-5)
    dense = tensor.to_dense()
    for found, expected in (
        (rows @ rows.T, tensor @ tensor.T), (rows @ dense.T, tensor @ dense.T), (rows @ dense[0], tensor @ dense[0]),
        (rows * 2, tensor * 2), (rows[0], tensor[0]), (rows * rows, tensor * tensor),
    ):  # fmt: skip
        assert np.allclose(np.asarray(found), expected.to_dense().numpy(), rtol=1e-5, atol=1e-4)
    for row, other in zip(rows, tensor, strict=True):
        assert row.coalesce().indices()[0].tolist() == other.coalesce().indices()[0].tolist()


def test_no_texts_give_their_shapes(sparse):
    ours, theirs = sparse
    for options in ({"convert_to_tensor": True}, {"convert_to_tensor": True, "convert_to_sparse_tensor": False}):
        found, expected = ours.encode([], **options), theirs.encode([], **options)
        assert found.shape == expected.shape and found.layout == expected.layout and found.dtype == expected.dtype
    assert ours.encode([]).shape == (0,)


FUNCTIONS = [name for name in util.__all__ if name.endswith(("_sim", "dot_score"))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_similarities_of_sparse_tensors_and_rows(sparse, name):
    ours, theirs = sparse
    tensor, rows = theirs.encode(TEXTS), ours.encode(TEXTS)
    expected = getattr(their_util, name)(tensor, tensor)
    # Their distance of sparse rows is from squares, and so loses half the digits near zero.
    tolerance = 5e-3 * float(expected.nan_to_num().abs().max()) if name == "euclidean_sim" else 2e-3
    for pair in ((tensor, tensor), (rows, rows), (rows, tensor), (tensor.to_dense(), rows), (list(rows), list(tensor))):
        found = getattr(util, name)(*pair)
        assert isinstance(found, torch.Tensor) == any(
            isinstance(each, torch.Tensor) or isinstance(each, list) for each in pair
        )
        assert np.allclose(np.asarray(found), expected.numpy(), rtol=1e-5, atol=tolerance)


def test_searching_sparse_tensors_and_rows(sparse):
    ours, theirs = sparse
    tensor, rows = theirs.encode(TEXTS), ours.encode(TEXTS)
    for options in ({}, {"query_chunk_size": 1, "corpus_chunk_size": 3}, {"top_k": 0}):
        for scores in (
            lambda of, model: of.cos_sim,
            lambda of, model: of.dot_score,
            lambda of, model: model.similarity,
        ):
            expected = their_util.semantic_search(tensor, tensor, score_function=scores(their_util, theirs), **options)
            for pair in ((tensor, tensor), (rows, rows), (rows, tensor), (list(tensor), list(rows))):
                found = util.semantic_search(*pair, score_function=scores(util, ours), **options)
                places = [[[hit["corpus_id"] for hit in hits] for hits in each] for each in (found, expected)]
                assert places[0] == places[1]
                values = [[hit["score"] for hits in each for hit in hits] for each in (found, expected)]
                assert np.allclose(*values, rtol=1e-5, atol=1e-3)
    lone = util.semantic_search(tensor[0], tensor, top_k=1)
    assert lone[0][0]["corpus_id"] == their_util.semantic_search(tensor[0], tensor, top_k=1)[0][0]["corpus_id"]


def test_norms_of_sparse_tensors(sparse):
    tensor = sparse[1].encode(TEXTS)
    found, expected = util.normalize_embeddings(tensor), their_util.normalize_embeddings(tensor)
    assert found.layout == expected.layout and torch.allclose(found.to_dense(), expected.to_dense(), atol=1e-6)
