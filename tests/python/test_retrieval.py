"""Searching, mining and grouping, with the results of sentence-transformers 6.2 on the same numbers."""

import json
from pathlib import Path

import numpy as np
import pytest

from grilly import MultiVectorEncoder, SentenceTransformer, util
from grilly.errors import InvalidArgumentError

# Made by tests/fixtures/make_retrieval.py with sentence-transformers: rows of whole numbers, so that scores are exact.
CASES = json.loads((Path(__file__).parent.parent / "fixtures" / "retrieval.json").read_text())


def rows(name) -> np.ndarray:
    return np.array(CASES["rows"][name], dtype=np.float32)


@pytest.mark.parametrize(
    "case", CASES["semantic_search"], ids=lambda case: "-".join(map(str, case["options"].values()))
)
def test_semantic_search(case):
    options = case["options"] | {"score_function": getattr(util, case["score_function"])}
    found = util.semantic_search(rows("queries"), rows("corpus"), **options)
    assert [[hit["corpus_id"] for hit in hits] for hits in found] == case["ids"]
    scores = [[hit["score"] for hit in hits] for hits in found]
    assert np.allclose(np.concatenate(scores), np.concatenate(case["scores"]), rtol=1e-6, atol=0)
    assert all(type(hit["corpus_id"]) is int and type(hit["score"]) is float for hits in found for hit in hits)


@pytest.mark.parametrize("case", CASES["mining"], ids=lambda case: "-".join(map(str, case["options"].values())))
def test_mining(case):
    options = case["options"] | {"score_function": util.dot_score}
    assert util.paraphrase_mining_embeddings(rows("corpus"), **options) == case["pairs"]


@pytest.mark.parametrize("case", CASES["communities"], ids=lambda case: "-".join(map(str, case["options"].values())))
def test_communities(case):
    found = util.community_detection(rows("directions"), **case["options"])
    # Members have equal scores, which torch leaves in no order; the central row is the first.
    assert [(group[0], set(group)) for group in found] == [(group[0], set(group)) for group in case["groups"]]


def test_equal_scores_come_in_the_order_of_the_rows():
    corpus = np.tile(np.eye(3, dtype=np.float32), (7, 1))
    for size in (2, 5, 21, 100):
        [hits] = util.semantic_search(corpus[:1], corpus, top_k=9, corpus_chunk_size=size)
        assert [hit["corpus_id"] for hit in hits] == [0, 3, 6, 9, 12, 15, 18, 1, 2]
        pairs = util.paraphrase_mining_embeddings(corpus, top_k=2, corpus_chunk_size=size)
        assert [pair[1:] for pair in pairs[:3]] == [[0, 3], [0, 6], [0, 9]]


def test_what_embeddings_may_be():
    queries, corpus = rows("queries"), rows("corpus")
    expected = util.semantic_search(queries, corpus)
    assert util.semantic_search(list(queries), corpus.tolist()) == expected
    [alone] = util.semantic_search(queries[0], corpus)  # a product with one row may round otherwise
    assert [hit["corpus_id"] for hit in alone] == [hit["corpus_id"] for hit in expected[0]]
    assert np.allclose([hit["score"] for hit in alone], [hit["score"] for hit in expected[0]], rtol=1e-6)
    assert util.semantic_search(queries.astype(np.float16), corpus.astype(np.float16)) == expected
    assert util.information_retrieval(queries, corpus, top_k=3) == [
        hits[:3] for hits in util.semantic_search(queries, corpus, top_k=3)
    ]
    assert util.semantic_search(queries, corpus[:0]) == [[]] * len(queries)
    assert util.community_detection([]) == [] and util.community_detection(corpus[:3]) == []


def test_memory_is_bounded_by_the_chunks():
    largest = []

    def score(a, b):
        largest.append(len(a) * len(b))
        return util.dot_score(a, b)

    corpus = rows("corpus")
    util.semantic_search(corpus, corpus, query_chunk_size=4, corpus_chunk_size=5, score_function=score)
    util.paraphrase_mining_embeddings(corpus, query_chunk_size=4, corpus_chunk_size=5, score_function=score)
    assert max(largest) == 20


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: util.semantic_search(a, b[:, :3]),
        lambda a, b: util.semantic_search(a, b, top_k=-1),
        lambda a, b: util.semantic_search(a, b, top_k=False, query_chunk_size=0),
        lambda a, b: util.semantic_search(a, b, query_chunk_size=0),
        lambda a, b: util.semantic_search(a[None], b),
        lambda a, b: util.semantic_search(["text"], b),
        lambda a, b: util.paraphrase_mining_embeddings(a, max_pairs=0),
        lambda a, b: util.community_detection(a, min_community_size=0),
    ],
)
def test_what_is_impossible(call):
    with pytest.raises(InvalidArgumentError):
        call(rows("queries"), rows("corpus"))


def test_mining_texts(tiny_model):
    texts = ["the cat", "a dog", "the cat", "way of life", "a dog"]
    with SentenceTransformer(tiny_model, device="cpu") as model:
        pairs = util.paraphrase_mining(model, texts, top_k=1, max_pairs=2)
        assert [pair[1:] for pair in pairs] == [[0, 2], [1, 4]] or [pair[1:] for pair in pairs] == [[1, 4], [0, 2]]
        assert all(abs(score - 1) < 1e-6 for score, *_ in pairs)
        every = util.paraphrase_mining(model, texts, prompt="a ")
        assert len(every) == 10 and all(i < j for _, i, j in every)


def test_a_progress_bar(capsys):
    util.community_detection(rows("directions"), min_community_size=2, show_progress_bar=True)
    assert "Groups" in capsys.readouterr().err


def test_small_functions():
    corpus = rows("corpus")
    assert util.truncate_embeddings(corpus, 3).shape[1] == 3 and util.truncate_embeddings(corpus, None) is not None
    norms = np.linalg.norm(util.normalize_embeddings(corpus + 1).astype(np.float64), axis=1)
    assert np.abs(norms - 1).max() < 1e-6
    assert np.array_equal(util.pytorch_cos_sim(corpus, corpus), util.cos_sim(corpus, corpus))
    of_tokens = MultiVectorEncoder.SUPPORTED_SIMILARITY_FN_NAMES
    known = (*SentenceTransformer.SUPPORTED_SIMILARITY_FN_NAMES, *of_tokens)
    assert known == tuple(util.SimilarityFunction.possible_values())
    for function in known[: -len(of_tokens)]:
        assert util.SimilarityFunction.to_similarity_fn(function)(corpus, corpus).shape == (len(corpus),) * 2
        assert util.SimilarityFunction.to_similarity_pairwise_fn(function)(corpus, corpus).shape == (len(corpus),)
