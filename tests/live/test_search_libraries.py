"""Hard negatives, and searches by faiss and usearch, beside sentence-transformers' functions."""

import random
import sys
import types

import numpy as np
import pytest
import sentence_transformers
from reference_blocks import Table
from sentence_transformers import util as their_util
from sentence_transformers.util import hard_negatives
from sentence_transformers.util import quantization as theirs

import grilly
from grilly import quantized_search as ours
from grilly import util


def rows(count, seed):
    return np.random.RandomState(seed).randn(count, 64).astype(np.float32)


QUERIES, CORPUS, CALIBRATION = rows(7, 1), rows(90, 2), rows(300, 3)
CASES = [
    (name, precision, options)
    for name, precisions in (
        ("semantic_search_faiss", ("float32", "uint8", "ubinary")),
        ("semantic_search_usearch", ("float32", "int8", "ubinary", "binary")),
    )
    for precision in precisions
    for options in (
        {},
        {"rescore": False},
        {"top_k": 70, "rescore_multiplier": 3, "calibration_embeddings": CALIBRATION},
        {"ranges": np.stack([CALIBRATION.min(axis=0), CALIBRATION.max(axis=0)])},
    )
]


@pytest.mark.parametrize("name, precision, options", CASES)
def test_searching(name, precision, options):
    pytest.importorskip(name.rpartition("_")[2])
    if precision.endswith("binary"):  # of equal distances usearch finds any, so that all are found
        options = {"rescore_multiplier": 9} | options
    known = {key: options.get(key) for key in ("ranges", "calibration_embeddings")}
    corpus = their_util.quantize_embeddings(CORPUS, precision, **known)
    found, expected = (
        getattr(module, name)(QUERIES, corpus, corpus_precision=precision, output_index=True, **options)
        for module in (ours, theirs)
    )
    again = getattr(ours, name)(QUERIES, corpus_index=expected[2], corpus_precision=precision, **options)[0]
    for left, other, right in zip(found[0], again, expected[0], strict=True):
        assert len(left) == len(other) == len(right)
        scores = [[hit["score"] for hit in hits] for hits in (left, other, right)]
        assert np.allclose(scores[0], scores[2], rtol=1e-5, atol=1e-5)
        assert np.allclose(scores[1], scores[2], rtol=1e-5, atol=1e-5)
        # Of equal numbers of bits either may come first.
        if precision == "float32" or options.get("rescore", True):
            assert [hit["corpus_id"] for hit in left] == [hit["corpus_id"] for hit in right]


@pytest.fixture(scope="module")
def models(real_model_path):
    with grilly.SentenceTransformer(str(real_model_path), device="cpu") as mine:
        yield mine, sentence_transformers.SentenceTransformer(str(real_model_path), device="cpu")


WHO, WHAT = ["cat", "dog", "train", "chef", "bread"], ["eats", "sleeps", "is late", "is old", "sings"]
MORE = [f"A {who} {what}." for who in WHO for what in WHAT]
PAIRS = {
    "query": [f"What does the {who} do?" for who in WHO for _ in range(2)],
    "answer": [f"The {who} {WHAT[(i + j) % 5]}." for i, who in enumerate(WHO) for j in range(2)],
}


@pytest.mark.parametrize("output_format", ["triplet", "n-tuple", "labeled-pair", "labeled-list"])
@pytest.mark.parametrize(
    "options",
    [
        {"num_negatives": 2},
        {"num_negatives": 2, "output_scores": True, "range_min": 1, "corpus": MORE},
        {"num_negatives": 3, "output_scores": True, "relative_margin": 0.02, "max_score": 0.9, "min_score": 0.1},
        {"num_negatives": 2, "absolute_margin": 0.05, "output_scores": True},
        {"num_negatives": 2, "sampling_strategy": "random", "range_max": 8, "use_faiss": True, "output_scores": True},
        {"num_negatives": 4, "include_positives": True, "output_scores": True},
    ],
)  # fmt: skip
def test_hard_negatives(models, monkeypatch, output_format, options):
    pandas = pytest.importorskip("pandas")
    if options.get("use_faiss"):
        pytest.importorskip("faiss")
    # It asks a data set for no more, and makes one of a dict.
    monkeypatch.setattr(Table, "to_pandas", lambda table: pandas.DataFrame(table.columns), raising=False)
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(Dataset=Table, DatasetDict=dict))
    monkeypatch.setattr(hard_negatives, "is_datasets_available", lambda: True)
    results = []
    for module, model, given in zip((util, their_util), models, (PAIRS, Table.from_dict(PAIRS))):
        random.seed(4)
        made = module.mine_hard_negatives(given, model, output_format=output_format, verbose=False, **options)
        results.append(made if isinstance(made, dict) else made.columns)
    assert list(results[0]) == list(results[1])
    for name, values in results[0].items():
        if name.startswith("score"):
            left, right = (np.concatenate([np.atleast_1d(each) for each in made[name]]) for made in results)
            assert np.allclose(left, right, rtol=0, atol=2e-6)
        else:
            assert values == results[1][name], name


def test_a_data_set_gives_one(models, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(Dataset=Table))
    made = util.mine_hard_negatives(Table.from_dict(PAIRS), models[0], num_negatives=1)
    assert isinstance(made, Table) and made.column_names == ["query", "answer", "negative"]


def test_angles():
    a, b = rows(9, 5)[:, :63], rows(9, 6)[:, :63]
    assert np.allclose(util.pairwise_angle_sim(a, b), their_util.pairwise_angle_sim(a, b), rtol=0, atol=2e-6)


def test_the_scipy_matrix():
    torch = pytest.importorskip("torch")
    tensor = torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (3, 3))
    assert np.array_equal(util.to_scipy_coo(tensor).toarray(), their_util.to_scipy_coo(tensor).toarray())
