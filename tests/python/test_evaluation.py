"""Evaluators: measures beside their definitions, files, and what is refused. Numbers beside sentence-transformers' own
are compared in tests/live/test_evaluation.py."""

import csv
import itertools
import logging

import numpy as np
import pytest

from grilly import evaluation, util
from grilly.errors import InvalidArgumentError, UnsupportedError
from grilly.evaluation import measures


class Rows:
    """A model that has a row for each text."""

    similarity_fn_name = "dot"
    similarity = staticmethod(util.dot_score)

    def __init__(self, rows):
        self.rows = rows

    def encode(self, texts, **options):
        return np.array([self.rows[text] for text in texts], dtype=np.float32)

    encode_query = encode_document = encode


def draws():
    """Relevance and scores of a few documents, with equal scores."""
    draw = np.random.RandomState(3)
    for _ in range(60):
        count = draw.randint(2, 7)
        relevant = draw.randint(0, 2, count)
        relevant[draw.randint(count)] = 1
        yield relevant, draw.randint(0, 4, count).astype(np.float32) / 2


def test_ranking_is_the_mean_over_orders_of_equal_scores():
    for relevant, scores in draws():
        orders = [
            order
            for order in itertools.permutations(range(len(scores)))
            if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order))
        ]
        for k in (1, 3, 10):
            gains = [
                sum(relevant[each] / np.log2(place + 2) for place, each in enumerate(order[:k])) for order in orders
            ]
            best = sum(1 / np.log2(place + 2) for place in range(min(k, relevant.sum())))
            assert measures.ndcg(relevant, scores, k) == pytest.approx(np.mean(gains) / best, abs=1e-12)


def test_average_precision_is_a_sum_over_thresholds():
    for relevant, scores in draws():
        total, before = 0.0, 0.0
        for threshold in sorted(set(scores.tolist()), reverse=True):
            found = scores >= threshold
            recall = relevant[found].sum() / relevant.sum()
            total, before = total + (recall - before) * relevant[found].mean(), recall
        assert measures.average_precision(relevant, scores) == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("higher", [True, False])
def test_the_best_threshold_is_the_best_of_all(higher):
    for labels, scores in draws():
        tried = np.arange(-1, 4, 0.125)
        rules = [scores >= each if higher else scores <= each for each in tried]
        accuracy, threshold = measures.best_accuracy(scores, labels, higher)
        assert accuracy == max((rule == labels).mean() for rule in rules)
        chosen = scores >= threshold if higher else scores <= threshold
        assert (chosen == labels).mean() == accuracy
        f1, precision, recall, threshold = measures.best_f1(scores, labels, higher)
        chosen = scores >= threshold if higher else scores <= threshold
        assert chosen[labels == 1].mean() == pytest.approx(recall) and labels[chosen].mean() == pytest.approx(precision)
        best = max(2 * (rule & (labels == 1)).sum() / (rule.sum() + labels.sum()) for rule in rules)
        assert f1 == pytest.approx(best, abs=1e-12)


def test_correlations():
    draw = np.random.RandomState(5)
    for _ in range(20):
        a, b = draw.randint(0, 9, 30), draw.randn(30)
        assert measures.pearson(a, b) == pytest.approx(np.corrcoef(a, b)[0, 1], abs=1e-12)
        order = np.argsort(np.argsort(b)) + 1.0
        assert measures.spearman(b, a) == pytest.approx(np.corrcoef(order, measures.ranks(a))[0, 1], abs=1e-12)
    assert np.isnan(measures.pearson([1, 1], [1, 2])) and measures.matthews([1, 1], [1, 0]) == 0


def test_equal_scores_are_ranked_by_name_in_chunks_of_any_size():
    rows = {"q": [1, 0], **{f"t{place}": [1 + place // 4, 0] for place in range(12)}}
    corpus = {f"d{11 - place:02}": f"t{place}" for place in range(12)}
    for size in (1, 5, 12):
        search = evaluation.InformationRetrievalEvaluator(
            {"a": "q", "none": "q"}, corpus, {"a": {"d01"}}, corpus_chunk_size=size, accuracy_at_k=[1, 2], map_at_k=[2]
        )
        found = search(Rows(rows))
        # d00 to d03 have the highest score; d00 comes first by name.
        assert (found["dot_accuracy@1"], found["dot_accuracy@2"], found["dot_mrr@10"]) == (0.0, 1.0, 0.5)


def test_files_grow_by_a_line(tmp_path):
    pairs = evaluation.TranslationEvaluator(["a", "b"], ["c", "d"], name="dev")
    model = Rows({"a": [1, 0], "b": [0, 1], "c": [1, 0], "d": [1, 0.5]})
    for epoch in (0, 1):
        assert pairs(model, str(tmp_path / "new"), epoch, 7)["dev_mean_accuracy"] == 0.75
    lines = list(csv.reader((tmp_path / "new" / "translation_evaluation_dev_results.csv").open(newline="")))
    assert lines == [["epoch", "steps", "src2trg", "trg2src"], ["0", "7", "1.0", "0.5"], ["1", "7", "1.0", "0.5"]]
    pairs.write_csv = False
    pairs(model, str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_what_is_refused(cpu_model):
    for kind, arguments in (
        (evaluation.TranslationEvaluator, (["a"], [])),
        (evaluation.BinaryClassificationEvaluator, (["a"], ["b"], [2])),
        (evaluation.BinaryClassificationEvaluator, (["a"], ["b"], [1, 0])),
        (evaluation.ReciprocalRankFusionEvaluator, ([{"query_id": 1}], [{"query_id": 2}])),
    ):
        with pytest.raises(InvalidArgumentError):
            kind(*arguments)
    with pytest.raises(InvalidArgumentError, match="cosin"):
        evaluation.TripletEvaluator(["a"], ["b"], ["c"], similarity_fn_names=["cosin"])
    with pytest.raises(UnsupportedError, match="truncate_dim"):
        evaluation.MultiVectorTripletEvaluator(["a"], ["b"], ["c"], truncate_dim=2)
    with pytest.raises(InvalidArgumentError, match="either 'negative' or 'documents'"):
        evaluation.CrossEncoderRerankingEvaluator([{"query": "a", "positive": "b"}])(None)
    with pytest.raises(TypeError, match="truncate_dim"):
        evaluation.SparseTripletEvaluator(["a"], ["b"], ["c"], truncate_dim=2)
    with pytest.warns(DeprecationWarning, match="CrossEncoderClassificationEvaluator"):
        evaluation.CEF1Evaluator([("a", "b")], [1])


def test_a_model_evaluates_and_compiles(cpu_model, tmp_path, caplog):
    pairs = evaluation.EmbeddingSimilarityEvaluator(["a dog", "one", "two"], ["a cat", "two", "three"], [0, 1, 0.5])
    found = cpu_model.evaluate(pairs, tmp_path / "results")
    assert list(found) == ["pearson_cosine", "spearman_cosine"] and list((tmp_path / "results").iterdir())
    with caplog.at_level(logging.INFO, logger="grilly"):
        assert cpu_model.compile(mode="max-autotune") is None
    assert "compile() does nothing" in caplog.text
