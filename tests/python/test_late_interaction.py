"""MaxSim: numbers beside float64, masks, kinds of input, refusals."""

import numpy as np
import pytest

from grilly.errors import InvalidArgumentError
from grilly.util import SimilarityFunction, maxsim, maxsim_pairwise, mean_maxsim, mean_maxsim_pairwise


def vectors(lengths, columns=16, seed=0):
    chance = np.random.default_rng(seed)
    return [chance.standard_normal((length, columns)).astype(np.float32) for length in lengths]


QUERIES, DOCUMENTS = vectors([4, 1, 7, 3], seed=1), vectors([9, 2, 1, 5], seed=2)


def by_hand(queries, documents) -> np.ndarray:
    """In float64, an element at a time."""
    return np.array([
        [sum(max(sum(float(x) * float(y) for x, y in zip(q, d, strict=True)) for d in document) for q in query)
         for document in documents]
        for query in queries
    ])  # fmt: skip


EXACT = by_hand(QUERIES, DOCUMENTS)
LENGTHS = np.array([len(query) for query in QUERIES])


def test_scores_are_float64s_rounded():
    found = maxsim(QUERIES, DOCUMENTS)
    assert found.dtype == np.float32 and np.array_equal(found, EXACT.astype(np.float32))
    assert np.array_equal(maxsim_pairwise(QUERIES, DOCUMENTS), np.diag(EXACT).astype(np.float32))
    assert np.allclose(mean_maxsim(QUERIES, DOCUMENTS), EXACT / LENGTHS[:, None], rtol=1e-7)
    assert np.allclose(mean_maxsim_pairwise(QUERIES, DOCUMENTS), np.diag(EXACT) / LENGTHS, rtol=1e-7)
    assert np.array_equal(mean_maxsim(QUERIES, DOCUMENTS, length_normalize=False), found)


def test_a_score_has_the_same_bits_among_any_others():
    found = maxsim(QUERIES, DOCUMENTS, chunk_elements=1, device="cpu")
    for row, query in enumerate(QUERIES):
        for column, document in enumerate(DOCUMENTS):
            assert maxsim(query, document).tobytes() == found[row, column].tobytes()
            assert maxsim_pairwise(query, document).tobytes() == found[row, column].tobytes()


def padded(texts, fill=0.0):
    length = max(map(len, texts))
    whole = np.full((len(texts), length, texts[0].shape[1]), fill, np.float32)
    mask = np.zeros((len(texts), length), bool)
    for place, text in enumerate(texts):
        whole[place, : len(text)], mask[place, : len(text)] = text, True
    return whole, mask


def test_padding_and_masks():
    expected = maxsim(QUERIES, DOCUMENTS)
    (queries, query_mask), (documents, document_mask) = padded(QUERIES), padded(DOCUMENTS)
    assert np.array_equal(maxsim(queries, documents), expected)
    # What a mask leaves out may hold anything.
    loud, _ = padded(DOCUMENTS, fill=99.0)
    assert np.array_equal(maxsim(queries, loud, b_mask=document_mask), expected)
    assert not np.array_equal(maxsim(queries, loud), expected)
    means = mean_maxsim(queries, loud, a_mask=query_mask, b_mask=document_mask.astype(np.float32))
    assert np.array_equal(means, mean_maxsim(QUERIES, DOCUMENTS))
    some = [np.arange(len(query)) % 2 == 0 for query in QUERIES]
    kept = [query[mask] for query, mask in zip(QUERIES, some, strict=True)]
    assert np.array_equal(maxsim(QUERIES, DOCUMENTS, a_mask=some), maxsim(kept, DOCUMENTS))
    assert np.array_equal(mean_maxsim(QUERIES[0], DOCUMENTS, a_mask=some[0]), mean_maxsim(kept[0], DOCUMENTS))


def test_texts_without_vectors(caplog):
    nothing = np.zeros((0, 16), np.float32)
    found = maxsim([QUERIES[0], nothing], [nothing, DOCUMENTS[0]])
    assert found[:, 0].tolist() == [-1e9, -1e9] and found[1, 1] == 0 and np.isclose(found[0, 1], EXACT[0, 0])
    assert "a document without a vector" in caplog.text
    assert maxsim([], DOCUMENTS).shape == (0, 4) and maxsim(QUERIES, []).shape == (4, 0)
    assert maxsim_pairwise([], []).shape == (0,)


def test_other_types():
    narrow = [text.astype(np.float16) for text in DOCUMENTS]
    wide = [text.astype(np.float64) for text in narrow]
    assert np.array_equal(maxsim(QUERIES, narrow), maxsim(QUERIES, wide))
    whole = [np.sign(text).astype(np.int8) for text in DOCUMENTS]
    assert np.array_equal(maxsim(QUERIES, whole), maxsim(QUERIES, [text.astype(np.float32) for text in whole]))


def test_names():
    assert SimilarityFunction.to_similarity_fn("maxsim") is maxsim
    assert SimilarityFunction.to_similarity_pairwise_fn(SimilarityFunction.MEAN_MAXSIM) is mean_maxsim_pairwise


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: maxsim([np.zeros(3)], DOCUMENTS), r"a\[0\] is float64 of shape \(3,\), expected numbers \(T, D\)"),
        (lambda: maxsim(QUERIES, [["a"]]), r"b\[0\] is <U1 of shape"),
        (lambda: maxsim(QUERIES, vectors([3], columns=8)), "vectors have 8 and 16 columns"),
        (lambda: maxsim_pairwise(QUERIES, DOCUMENTS[:2]), "there are 4 queries and 2 documents"),
        (lambda: maxsim(QUERIES, DOCUMENTS, a_mask=[np.ones(4)]), "a_mask has 1 masks for 4 texts"),
        (lambda: maxsim(QUERIES[:1], DOCUMENTS, a_mask=[np.ones(3)]), r"a_mask\[0\] has shape \(3,\), but a\[0\] 4"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidArgumentError, match=words):
        call()


@pytest.mark.parametrize("wrong", ["ab", 3, np.zeros((2, 2, 2, 2), np.float32), np.zeros(3, np.float32)])
def test_what_is_no_texts_is_refused(wrong):
    with pytest.raises(InvalidArgumentError, match="expected"):
        maxsim(wrong, DOCUMENTS)
