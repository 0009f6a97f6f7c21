"""`SparseRows` under the names of sparse tensors, and what is computed with them."""

import copy
import pickle

import numpy as np
import pytest

from grilly import util
from grilly.errors import InvalidArgumentError, UnsupportedError
from grilly.numbers import Numbers
from grilly.sparse import SparseRows
from grilly.sparse_blocks import in_blocks, row_with_row
from grilly.sparse_products import row_products

DENSE = np.float32([[0, 1, 0, 2], [0, 0, 0, 0], [2, 0, -3, 0], [0, 1, 0, 1]])
ROWS = SparseRows.of(DENSE)
SIMILARITIES = [
    *(util.cos_sim, util.dot_score, util.euclidean_sim, util.manhattan_sim),
    *(util.pairwise_cos_sim, util.pairwise_dot_score, util.pairwise_euclidean_sim, util.pairwise_manhattan_sim),
]


def test_names_of_sparse_tensors():
    assert ROWS.is_sparse and ROWS.is_coalesced() and not ROWS.requires_grad
    for same in (
        ROWS.coalesce(),
        ROWS.cpu(),
        ROWS.detach(),
        ROWS.to_sparse_coo(),
        ROWS.to("cpu"),
        ROWS.to(ROWS.device),
        ROWS.to(device="cpu"),
    ):
        assert same is ROWS
    assert ROWS.indices().tolist() == np.array(np.nonzero(DENSE)).tolist() and ROWS.indices().dtype == np.int64
    assert ROWS.values().tolist() == ROWS.values.tolist() == DENSE[DENSE != 0].tolist()
    assert ROWS.values().cpu().detach().numpy().tolist() == ROWS.values.tolist() and ROWS.values.numel() == 6
    for dense in (ROWS.to_dense(), ROWS.to_dense().cpu().numpy(), ROWS.numpy(), ROWS.cpu().toarray()):
        assert np.array_equal(dense, DENSE)
    assert ROWS.size() == (4, 4) and ROWS.size(0) == ROWS.size(-1) == 4 and ROWS.dim() == ROWS.ndim == 2
    assert ROWS.numel() == 16 and ROWS.nnz == ROWS._nnz() == 6
    assert ROWS._values() is ROWS.values and np.array_equal(ROWS._indices(), ROWS.indices())
    assert ROWS._values().element_size() == 4 and ROWS._indices().nelement() == 12
    assert ROWS.dtype == np.float32 and ROWS.device == "cpu" and ROWS.device.type == "cpu"
    assert ROWS.to(np.float16).dtype == ROWS.to("float16").dtype == np.float16
    with pytest.raises(UnsupportedError, match=r"to_torch\(\).to\('cuda'\) moves a tensor"):
        ROWS.to("cuda")
    with pytest.raises(AttributeError, match="no attribute 'layout'; to_torch"):
        ROWS.layout  # noqa: B018


def test_what_a_store_of_sparse_vectors_reads():
    for row, dense in zip(ROWS, DENSE, strict=True):
        row = row.coalesce()
        places = row.indices()[0].tolist()
        assert places == np.flatnonzero(dense).tolist() and row.values().tolist() == dense[places].tolist()


def test_whole_arrays_where_numpy_asks_for_them():
    for array in (np.asarray(ROWS), np.array(ROWS), np.stack(list(ROWS)), np.asarray([ROWS[0], *ROWS[1:]])):
        assert np.array_equal(array, DENSE) and array.dtype == np.float32
    assert np.asarray(ROWS, dtype=np.float64).dtype == np.float64 and np.asarray(ROWS[0]).shape == (4,)
    with pytest.raises(ValueError, match="is a copy"):
        np.array(ROWS, copy=False)


def test_parts():
    for places in (
        np.array([2, 0]),
        np.array([-1]),
        np.array([1, 0, 1, 0], bool),
        np.zeros(4, bool),
        np.array([], int),
    ):
        for given in (places, places.tolist()):
            assert np.array_equal(ROWS[given].toarray(), DENSE[places])
    assert np.array_equal(ROWS[:, :].toarray(), DENSE) and np.array_equal(ROWS[1:, :].toarray(), DENSE[1:])
    assert ROWS[2, 0] == 2 and ROWS[2, 1] == 0 and ROWS[-1, -1] == 1 and ROWS[0, :].shape == (4,)
    assert list(ROWS[2]) == DENSE[2].tolist()
    for place in ((0, 4), (0, -5), (4, 0)):
        with pytest.raises(IndexError):
            ROWS[place]
    for again in (pickle.loads(pickle.dumps(ROWS)), copy.deepcopy(ROWS)):
        assert np.array_equal(again.toarray(), DENSE) and again.values().tolist() == ROWS.values.tolist()


def test_products(monkeypatch):
    other = np.arange(8, dtype=np.float32).reshape(4, 2)
    for block, terms in ((1024, 1 << 22), (3, 1 << 22), (1, 2), (2, 1)):
        monkeypatch.setattr("grilly.sparse_products.BLOCK", block)
        monkeypatch.setattr("grilly.sparse_products.TERMS", terms)
        for found, expected in (
            (ROWS @ other, DENSE @ other), (other.T @ ROWS, other.T @ DENSE), (ROWS @ other[:, 1], DENSE @ other[:, 1]),
            (other[:, 1] @ ROWS, other[:, 1] @ DENSE), (ROWS[0] @ other, DENSE[0] @ other),
            (ROWS @ ROWS[0], DENSE @ DENSE[0]), (ROWS[0] @ ROWS[3], DENSE[0] @ DENSE[3]),
            (other.T @ ROWS[0], other.T @ DENSE[0]),
            (ROWS @ ROWS.T, DENSE @ DENSE.T), (ROWS[:0] @ other, DENSE[:0] @ other),
        ):  # fmt: skip
            assert np.array_equal(np.asarray(found), expected)
    assert isinstance(ROWS @ ROWS.t(), SparseRows) and isinstance(ROWS @ other, np.ndarray)
    assert np.array_equal(ROWS.T.toarray(), DENSE.T) and np.array_equal(ROWS.transpose(0, 1).toarray(), DENSE.T)
    assert ROWS.transpose(1, -1) is ROWS and ROWS[0].T.shape == (4,)
    for found, expected in (
        (ROWS * 2, DENSE * 2), (0.5 * ROWS, DENSE / 2), (ROWS / 2, DENSE / 2), (ROWS * 0, DENSE * 0),
        (ROWS * ROWS, DENSE * DENSE), (ROWS * DENSE[::-1], DENSE * DENSE[::-1]), (DENSE * ROWS, DENSE * DENSE),
        (ROWS[0] * ROWS[3], DENSE[0] * DENSE[3]), (np.float64(2) * ROWS, DENSE * 2),
    ):  # fmt: skip
        assert np.array_equal(found.toarray(), expected) and found.dtype == np.float32 and (found.values != 0).all()
    for wrong in (lambda: ROWS @ other.T, lambda: ROWS @ ROWS[:2], lambda: ROWS * DENSE[0], lambda: other @ ROWS):
        with pytest.raises(InvalidArgumentError, match="differ"):
            wrong()


def test_products_of_many_rows():
    random = np.random.RandomState(3)
    a, b = (random.rand(rows, 300) * (random.rand(rows, 300) < 0.05) for rows in (300, 140))
    b[::7] = 0
    for dtype in (np.float32, np.float16):
        left, right = a.astype(dtype), b.astype(dtype)
        expected = left.astype(np.float64) @ right.astype(np.float64).T
        rows, others = SparseRows.of(left), SparseRows.of(right)
        for pair in ((rows, right), (left, others), (rows, others), (others, rows)):
            found = row_products(*pair)
            whole = expected if len(pair[0]) == 300 else expected.T
            assert found.dtype == np.float32 and np.allclose(found, whole, rtol=1e-6, atol=1e-6)


def test_functions_of_numpy():
    for found, expected in (
        (np.matmul(ROWS, DENSE[0]), DENSE @ DENSE[0]), (np.matmul(DENSE, ROWS), DENSE @ DENSE),
        (np.multiply(DENSE, ROWS).toarray(), DENSE * DENSE), (np.max(ROWS), 2),
        (np.maximum(ROWS, 0), np.maximum(DENSE, 0)),
        (DENSE + ROWS, DENSE * 2), (np.concatenate([ROWS, DENSE]), np.concatenate([DENSE, DENSE])),
    ):  # fmt: skip
        assert np.array_equal(found, expected)
    for plain in (ROWS.values.sum(), np.argsort(-ROWS.values), ROWS.values > 0, ROWS.values.max()):
        assert type(plain) in (Numbers, np.float32)
    with pytest.raises(InvalidArgumentError, match="a part of the columns"):
        ROWS[1:, 2]


def test_scipy():
    sparse = pytest.importorskip("scipy.sparse")
    matrix = ROWS.tocsr()
    assert sparse.issparse(matrix) and np.array_equal(matrix.toarray(), DENSE) and ROWS[0].tocsr().shape == (1, 4)


# -------------------------------------------------------------------------------------------------------- comparisons


@pytest.mark.parametrize("function", SIMILARITIES, ids=lambda function: function.__name__)
@pytest.mark.parametrize("block", [1024, 3])
def test_similarities(function, block, monkeypatch):
    monkeypatch.setattr("grilly.sparse_blocks.BLOCK", block)
    expected = function(DENSE, DENSE)
    for pair in ((ROWS, ROWS), (ROWS, DENSE), (DENSE, ROWS), (list(ROWS), ROWS), (list(ROWS), DENSE.tolist())):
        assert np.allclose(function(*pair), expected, rtol=1e-6, atol=1e-6)
    assert np.allclose(function(ROWS[0], ROWS), function(DENSE[0], DENSE), rtol=1e-6, atol=1e-6)
    assert np.allclose(function(a=ROWS, b=ROWS), expected, rtol=1e-6, atol=1e-6)
    with pytest.raises(InvalidArgumentError):
        function(ROWS, SparseRows.of(DENSE[:, :3]))


def test_blocks_have_a_share_of_the_rows(monkeypatch):
    monkeypatch.setattr("grilly.sparse_blocks.BLOCK", 2)
    seen = []
    in_blocks(lambda a, b: seen.append((len(a), len(b))) or np.zeros((len(a), len(b))))(ROWS, ROWS[:3])
    row_with_row(lambda a, b: seen.append((len(a), len(b))) or np.zeros(len(a)))(ROWS[:3], DENSE[:3])
    assert seen == [(2, 2), (2, 1), (2, 2), (2, 1), (2, 2), (1, 1)]


def test_searching():
    def places(found):
        return [[hit["corpus_id"] for hit in hits] for hits in found]

    for options in ({}, {"score_function": util.dot_score}, {"query_chunk_size": 1, "corpus_chunk_size": 3}):
        expected = places(util.semantic_search(DENSE, DENSE, top_k=2, **options))
        for pair in ((ROWS, ROWS), (list(ROWS), ROWS), (DENSE, ROWS), (ROWS, DENSE)):
            assert places(util.semantic_search(*pair, top_k=2, **options)) == expected
        assert places(util.semantic_search(ROWS[0], ROWS, top_k=2, **options)) == expected[:1]
    assert util.semantic_search(ROWS, ROWS, top_k=0) == [[]] * 4 == util.semantic_search(DENSE, DENSE, top_k=0)
    assert util.paraphrase_mining_embeddings(DENSE, top_k=0) == []
    assert places(util.semantic_search(ROWS, ROWS[:0])) == [[]] * 4


def test_norms():
    found = util.normalize_embeddings(ROWS)
    assert isinstance(found, SparseRows) and np.allclose(found.toarray(), util.normalize_embeddings(DENSE))
    assert np.allclose(util.normalize_embeddings(ROWS[0]).toarray(), util.normalize_embeddings(DENSE[0]))
