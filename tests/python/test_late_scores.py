"""Scores of groups of documents: each beside its definition, written out; masks, kinds of input, faults."""

import numpy as np
import pytest

from grilly import errors, late_scores, util, xtr_scores
from grilly.xtr_scores import XTRKDScores, XTRScores

CHANCE = np.random.default_rng(4)
QUERIES = [CHANCE.normal(size=(length, 6)).astype(np.float32) for length in (3, 5, 1)]
GROUPS = [[CHANCE.normal(size=(length, 6)).astype(np.float32) for length in row] for row in ((4, 2), (7, 1), (3, 3))]
FLAT = [text for group in GROUPS for text in group]


def padded(texts: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    longest = max(map(len, texts))
    rows, mask = np.zeros((len(texts), longest, 6), np.float32), np.zeros((len(texts), longest), bool)
    for place, text in enumerate(texts):
        rows[place, : len(text)], mask[place, : len(text)] = text, True
    return rows, mask


PADDED_QUERIES, QUERY_MASK = padded(QUERIES)
PADDED, MASK = (each.reshape(3, 2, *each.shape[1:]) for each in padded(FLAT))


def of_xtr(query: np.ndarray, most: int) -> list[float]:
    """Equation 5 of the paper, pair by pair."""
    found = np.zeros((len(query), len(FLAT)))
    reached = np.zeros((len(query), len(FLAT)), bool)
    for token, vector in enumerate(query.astype(np.float64)):
        products = [(float(vector @ other), place) for place, text in enumerate(FLAT) for other in text]
        products = sorted(products, key=lambda pair: -pair[0])[:most]
        for place in range(len(FLAT)):
            own = [product for product, of in products if of == place]
            found[token, place], reached[token, place] = max(own, default=0), bool(own)
    return (found.sum(axis=0) / np.maximum(reached.sum(axis=0), 1)).tolist()


@pytest.mark.parametrize("most", [1, 3, 11, 20, 256])
def test_xtr(most):
    expected = [of_xtr(query, most) for query in QUERIES]
    for given in ((QUERIES, GROUPS), (PADDED_QUERIES, PADDED), (QUERIES, PADDED), (PADDED_QUERIES, GROUPS)):
        scores = xtr_scores.xtr_scores(*given, top_k=most)
        assert scores.dtype == np.float32 and np.allclose(scores, expected, rtol=1e-6, atol=1e-6)
    masked = xtr_scores.xtr_scores(PADDED_QUERIES + 9, PADDED + 9, QUERY_MASK, MASK, top_k=most)
    # What a mask leaves out counts for nothing, whatever it is.
    filled = [np.where(mask[..., None], rows + 9, 99) for rows, mask in ((PADDED_QUERIES, QUERY_MASK), (PADDED, MASK))]
    assert np.array_equal(xtr_scores.xtr_scores(*filled, QUERY_MASK, MASK, top_k=most), masked)
    own = [expected[place][2 * place : 2 * place + 2] for place in range(3)]
    assert np.allclose(xtr_scores.xtr_kd_scores(QUERIES, GROUPS, top_k=most), own, atol=1e-6)
    assert np.array_equal(XTRScores(most)(QUERIES, GROUPS), xtr_scores.xtr_scores(QUERIES, GROUPS, top_k=most))
    assert np.array_equal(XTRKDScores(most)(QUERIES, GROUPS), xtr_scores.xtr_kd_scores(QUERIES, GROUPS, top_k=most))


def test_equal_products_are_retrieved_in_their_order():
    query, same = np.float32([[[1, 0]]]), np.float32([[[[1, 0], [1, 0]], [[1, 0], [0, 1]]]])
    assert xtr_scores.xtr_scores(query, same, top_k=1).tolist() == [[1, 0]]
    assert xtr_scores.xtr_scores(query, same, top_k=3).tolist() == [[1, 1]]
    # A token that is retrieved counts with its product also where that is negative.
    assert xtr_scores.xtr_scores(-query, same[:, 1:], top_k=2).tolist() == [[0]]
    assert xtr_scores.xtr_scores(-query, same[:, :1], top_k=9).tolist() == [[-1]]


def test_pairs():
    texts = [group[0] for group in GROUPS]
    rows, mask = padded(texts)
    expected = [xtr_scores.xtr_scores(QUERIES, [[text] for text in texts], top_k=5)[place, place] for place in range(3)]
    for given in ((QUERIES, texts), (PADDED_QUERIES, rows, QUERY_MASK, mask), (QUERIES, rows[:, None])):
        assert np.array_equal(xtr_scores.xtr_scores_pairwise(*given, top_k=5), expected)


def test_texts_without_vectors(caplog):
    none = [[np.zeros((0, 6), np.float32)], [FLAT[0]]]
    scores = xtr_scores.xtr_scores(QUERIES, none)
    assert (scores[:, 0] == np.float32(-1e9)).all() and np.abs(scores[:, 1]).max() < 100
    assert "a document without a vector" in caplog.text
    assert xtr_scores.xtr_scores([np.zeros((0, 6), np.float32)], none).tolist() == [[np.float32(-1e9), 0]]


@pytest.mark.parametrize("name", ["colbert", "mean_colbert"])
def test_maxsim_of_groups(name):
    of_all, of_pairs = {
        "colbert": (util.maxsim, util.maxsim_pairwise),
        "mean_colbert": (util.mean_maxsim, util.mean_maxsim_pairwise),
    }[name]
    scores, own, pairs = (getattr(late_scores, f"{name}_{kind}") for kind in ("scores", "kd_scores", "scores_pairwise"))
    expected = of_all(QUERIES, FLAT)
    for given in ((QUERIES, GROUPS), (PADDED_QUERIES, PADDED), (PADDED_QUERIES, PADDED, QUERY_MASK, MASK)):
        assert np.array_equal(scores(*given), expected)
        groups = [expected[place, 2 * place : 2 * place + 2] for place in range(3)]
        assert np.array_equal(own(*given), groups)
    texts = [group[1] for group in GROUPS]
    assert np.array_equal(pairs(QUERIES, texts), of_pairs(QUERIES, texts))


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: xtr_scores.xtr_scores(QUERIES, GROUPS, top_k=0), "top_k"),
        (lambda: xtr_scores.XTRScores(-1), "top_k"),
        (lambda: xtr_scores.xtr_scores(QUERIES, PADDED[0]), r"are \(2, 7, 6\), expected \(G, N, T, D\), or a list"),
        (lambda: xtr_scores.xtr_scores(QUERIES, [GROUPS[0], GROUPS[1][:1]]), r"groups have \[1, 2\] documents"),
        (lambda: xtr_scores.xtr_scores(QUERIES, PADDED, None, MASK[:2]), "documents_mask has 2 groups, documents_emb"),
        (lambda: xtr_scores.xtr_scores(QUERIES, PADDED[..., :4]), "vectors have 4 and 6 columns"),
        (lambda: xtr_scores.xtr_kd_scores(QUERIES[:2], GROUPS), "there are 2 queries and 3 groups of documents"),
        (lambda: late_scores.colbert_kd_scores(QUERIES[:2], GROUPS), "there are 2 queries and 3 groups of documents"),
    ],
)
def test_faults(call, words):
    with pytest.raises(errors.InvalidArgumentError, match=words):
        call()
