"""Evaluators of NanoBEIR over a stand-in for the package datasets: numbers beside their definition,
and what is refused. Numbers beside sentence-transformers' own are compared in tests/live/test_nano_beir.py."""

import csv
import sys

import nano_data_sets
import numpy as np
import pytest

from grilly import evaluation, util
from grilly.errors import InvalidArgumentError, MissingLibraryError, UnsupportedError

KINDS = [
    evaluation.NanoBEIREvaluator,
    evaluation.SparseNanoBEIREvaluator,
    evaluation.MultiVectorNanoBEIREvaluator,
    evaluation.CrossEncoderNanoBEIREvaluator,
]


class Letters:
    """A model whose rows are counts of letters, and whose scores of pairs are their products."""

    similarity_fn_name = "dot"
    similarity = staticmethod(util.dot_score)

    def encode(self, texts, truncate_dim=None, prompt=None, **options):
        rows = [[((prompt or "") + text).count(chr(97 + place)) for place in range(26)] for text in texts]
        return np.array(rows, dtype=np.float32)[:, :truncate_dim]

    encode_query = encode_document = encode

    def predict(self, pairs, **options):
        left, right = (self.encode(texts) for texts in zip(*pairs))
        return (left * right).sum(axis=1)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", nano_data_sets.module())


def of_split(split):
    """Scores and relevance `(queries, documents)` of a split, by their definition."""
    queries, corpus, qrels = (nano_data_sets.load_dataset("", name, split) for name in ("queries", "corpus", "qrels"))
    named = {}
    for row in qrels:
        found = row["corpus-id"]
        named.setdefault(row["query-id"], set()).update(found if isinstance(found, list) else [found])
    corpus = sorted((row for row in corpus if row["text"]), key=lambda row: row["_id"])
    scores = Letters().encode(queries["text"]).astype(float) @ Letters().encode([row["text"] for row in corpus]).T
    return scores, np.array([[row["_id"] in named[query] for row in corpus] for query in queries["_id"]])


def test_the_mean_over_data_sets_of_the_first_relevant_ones(tmp_path):
    evaluator = evaluation.NanoBEIREvaluator(["MSMARCO", "nq"], mrr_at_k=[3])
    found = [evaluator(Letters(), str(tmp_path)), evaluator(Letters(), str(tmp_path), 1, 5)][1]
    expected = []
    for split in ("NanoMSMARCO", "NanoNQ"):
        scores, relevant = of_split(split)
        first = [right[np.argsort(-row, kind="stable")][:3] for row, right in zip(scores, relevant)]
        expected.append(np.mean([1 / (right.argmax() + 1) if right.any() else 0 for right in first]))
        assert found[f"{split}_dot_mrr@3"] == pytest.approx(expected[-1], abs=1e-12)
    assert found["NanoBEIR_mean_dot_mrr@3"] == pytest.approx(np.mean(expected), abs=1e-12)
    assert evaluator.primary_metric == "NanoBEIR_mean_dot_ndcg@10"
    rows = list(csv.reader((tmp_path / "NanoBEIR_evaluation_mean_results.csv").open()))
    assert rows[2][:2] == ["1", "5"] and float(rows[2][rows[0].index("dot-MRR@3")]) == pytest.approx(np.mean(expected))
    assert len(list(tmp_path.iterdir())) == 3


def test_the_mean_over_data_sets_of_ranked_documents():
    evaluator = evaluation.CrossEncoderNanoBEIREvaluator(
        ["scifact", "fever"], rerank_k=5, aggregate_fn=max, aggregate_key="best_one"
    )
    found = evaluator(Letters())
    each = [found[f"Nano{name}_R5_ndcg@10"] for name in ("SciFact", "FEVER")]
    assert found["NanoBEIR_R5_best_one_ndcg@10"] == max(each) > 0
    assert evaluator.primary_metric == "NanoBEIR_R5_best_one_ndcg@10"
    assert len(evaluation.CrossEncoderNanoBEIREvaluator().evaluators) == 11


def test_prompts_of_each_data_set_and_settings():
    prompts = {"nq": "zzz ", "fever": ""}
    given = {"query_prompts": prompts, "corpus_prompts": "x", "truncate_dim": 9, "aggregate_key": "own_key"}
    evaluator = evaluation.NanoBEIREvaluator(list(prompts), **given)
    assert [each.query_prompt for each in evaluator.evaluators] == list(prompts.values())
    assert [each.corpus_prompt for each in evaluator.evaluators] == ["x", "x"]
    assert "NanoBEIR_own_key_9_dot_map@100" in evaluator(Letters())
    names = {"dataset_names": ["nq", "fever"], "dataset_id": "sentence-transformers/NanoBEIR-en"}
    prompts = {"query_prompts": prompts, "corpus_prompts": {"nq": "x", "fever": "x"}}
    assert evaluator.get_config_dict() == names | {"truncate_dim": 9} | prompts
    with pytest.raises(InvalidArgumentError, match="query_prompts has no prompt of fever"):
        evaluation.NanoBEIREvaluator(["nq", "fever"], query_prompts={"nq": "a"})


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_loaded(kind, monkeypatch):
    for names in ([], ["nq", "trec"]):
        with pytest.raises(InvalidArgumentError, match="dataset_names is .*, expected some of climatefever, "):
            kind(names)
    loaded = nano_data_sets.load_dataset

    def lacking(path, subset, split):
        return nano_data_sets.Rows({"_id": row["_id"]} for row in loaded(path, "corpus", split))

    def offline(path, subset, split):
        raise ConnectionError("no network")

    for load, said in ((lacking, "of 'own/Nano' has no column 'text'"), (offline, "a hub or its cache: no network")):
        monkeypatch.setattr(sys.modules["datasets"], "load_dataset", load)
        with pytest.raises(InvalidArgumentError, match=f"^split 'NanoNQ' of subset '.*{said}"):
            kind(["nq"], dataset_id="own/Nano")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingLibraryError, match=f"{kind.__name__} loads .* from a hub .*pip install datasets"):
        kind(["nq"])


def test_a_first_ranking_of_unknown_documents(monkeypatch):
    loaded = nano_data_sets.load_dataset

    def load(path, subset, split):
        rows = loaded(path, subset, split)
        return nano_data_sets.Rows(rows[:5]) if subset == "corpus" else rows

    monkeypatch.setattr(sys.modules["datasets"], "load_dataset", load)
    with pytest.raises(InvalidArgumentError, match="'bm25' of 'own/Nano' names 'd[0-9]+'"):
        evaluation.CrossEncoderNanoBEIREvaluator(["nq"], dataset_id="own/Nano")


def test_vectors_of_tokens_are_not_shortened():
    with pytest.raises(UnsupportedError, match="truncate_dim"):
        evaluation.MultiVectorNanoBEIREvaluator(["nq"], truncate_dim=8)
