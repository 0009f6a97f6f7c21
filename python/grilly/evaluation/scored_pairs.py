"""Evaluators of a CrossEncoder: scores of pairs of texts against labels, known scores, or relevant documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.errors import InvalidArgumentError
from grilly.evaluation.evaluator import Measured, same_length
from grilly.evaluation.measures import average_precision, best_accuracy, best_f1, f1_scores, pearson, ranking, spearman
from grilly.evaluation.reranking import as_documents

__all__ = [
    "CrossEncoderClassificationEvaluator",
    "CrossEncoderCorrelationEvaluator",
    "CrossEncoderRerankingEvaluator",
    "base_ranking",
]


class Scored(Measured):
    """An evaluator of the scores of pairs."""

    prompt_name: str | None = None

    def _predict(self, model: Any, pairs: Any) -> npt.NDArray[Any]:
        options = {"batch_size": self.batch_size, "show_progress_bar": self.show_progress_bar}
        return np.asarray(model.predict(pairs, prompt_name=self.prompt_name, convert_to_numpy=True, **options))

    @classmethod
    def from_input_examples(cls, examples: list[Any], **options: Any) -> Any:
        """The evaluator of the texts and labels of `InputExample`s.

        Example:
            >>> from grilly.evaluation import CrossEncoderCorrelationEvaluator, InputExample
            >>> examples = [InputExample(texts=["A cat.", "A dog."], label=0.5)]
            >>> CrossEncoderCorrelationEvaluator.from_input_examples(examples).scores
            [0.5]
        """
        columns: Any = map(list, zip(*((each.texts, each.label) for each in examples), strict=True))
        return cls(*columns, **options)


@closed()
class CrossEncoderClassificationEvaluator(Scored):
    """How well the scores of pairs give their labels.

    Of a model with one score: `accuracy` and `f1` at the best threshold, with both thresholds, `precision`, `recall`
    and `average_precision`. Of one with several: `f1_macro`, `f1_micro`, `f1_weighted` of the class with the highest.

    Args:
        sentence_pairs: Pairs of texts.
        labels: 0 or 1, or the number of the class.
        name: Goes in front of the metrics' names, and into the file's name.
        prompt_name: As in `predict`, like `batch_size` and `show_progress_bar`.
        batch_size: As in `predict`.
        show_progress_bar: None: if the logger `grilly` logs at level INFO.
        write_csv: Whether a call with an `output_path` appends to its file.
        **options: Accepted.

    Raises:
        InvalidArgumentError: Lists of different lengths.

    Source: `sentence_transformers.cross_encoder.evaluation.CrossEncoderClassificationEvaluator`, version 6.2.

    Example:
        >>> from grilly.evaluation import CrossEncoderClassificationEvaluator
        >>> pairs = CrossEncoderClassificationEvaluator([("A cat.", "A dog."), ("A cat.", "It rains.")], [1, 1])
        >>> ranker_model.evaluate(pairs)["f1"]
        1.0
    """

    file_begins = "CrossEncoderClassificationEvaluator"

    def __init__(
        self,
        sentence_pairs: Any,
        labels: Any,
        *,
        name: str = "",
        prompt_name: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        write_csv: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(name, batch_size, show_progress_bar, write_csv)
        same_length(sentence_pairs=sentence_pairs, labels=labels)
        self.sentence_pairs, self.labels, self.prompt_name = sentence_pairs, np.asarray(labels), prompt_name
        self._one = True

    def _columns(self) -> list[str]:
        one = "Accuracy Accuracy_Threshold F1 F1_Threshold Precision Recall Average_Precision"
        return (one if self._one else "Macro_F1 Micro_F1 Weighted_F1").split()

    def _measure(self, model: Any, output_path: str | None) -> tuple[dict[str, Any], list[Any]]:
        scores = self._predict(model, self.sentence_pairs)
        self._one = model.num_labels == 1
        self.primary_metric = "average_precision" if self._one else "f1_macro"
        if self._one:
            f1, precision, recall, threshold = best_f1(scores, self.labels)
            values = [*best_accuracy(scores, self.labels), f1, threshold, precision, recall]
            values.append(average_precision(self.labels, scores))
        else:
            values = [*f1_scores(self.labels, scores.argmax(axis=1))]
        several = ["f1_macro", "f1_micro", "f1_weighted"]
        names = [column.lower() for column in self._columns()] if self._one else several
        return dict(zip(names, values, strict=True)), values


@closed()
class CrossEncoderCorrelationEvaluator(Scored):
    """Correlation of the scores of pairs with known scores: `pearson` and `spearman`.

    Args:
        sentence_pairs: Pairs of texts.
        scores: What is known of each pair, on any scale.
        name: Goes in front of the metrics' names, and into the file's name.
        prompt_name: As in `predict`, like `batch_size` and `show_progress_bar`.
        batch_size: As in `predict`.
        show_progress_bar: None: if the logger `grilly` logs at level INFO.
        write_csv: Whether a call with an `output_path` appends to its file.

    Raises:
        InvalidArgumentError: Lists of different lengths.

    Source: `sentence_transformers.cross_encoder.evaluation.CrossEncoderCorrelationEvaluator`, version 6.2.

    Example:
        >>> from grilly.evaluation import CrossEncoderCorrelationEvaluator
        >>> pairs = [("A cat.", "A kitten."), ("A cat.", "It rains.")]
        >>> sorted(ranker_model.evaluate(CrossEncoderCorrelationEvaluator(pairs, [0.9, 0.1])))
        ['pearson', 'spearman']
    """

    file_begins = "CrossEncoderCorrelationEvaluator"

    def __init__(
        self,
        sentence_pairs: Any,
        scores: Any,
        name: str = "",
        prompt_name: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        write_csv: bool = True,
    ) -> None:
        super().__init__(name, batch_size, show_progress_bar, write_csv)
        same_length(sentence_pairs=sentence_pairs, scores=scores)
        self.sentence_pairs, self.scores, self.prompt_name = sentence_pairs, scores, prompt_name
        self.primary_metric = "spearman"

    def _columns(self) -> list[str]:
        return ["Pearson_Correlation", "Spearman_Correlation"]

    def _measure(self, model: Any, output_path: str | None) -> tuple[dict[str, Any], list[Any]]:
        scores = self._predict(model, self.sentence_pairs)
        values = [pearson(self.scores, scores), spearman(self.scores, scores)]
        return dict(zip(["pearson", "spearman"], values, strict=True)), values


@closed()
class CrossEncoderRerankingEvaluator(Scored):
    """How far up the relevant documents of a query are after ranking: `map`, `mrr@k` and `ndcg@k`.

    With `documents`, in the order of a first search, the metrics of that order are given too, as `base_...`.

    Args:
        samples: A dict for each query, of `query`, `positive` (the relevant documents), and either `negative` or
            `documents`.
        at_k: How many documents count for `mrr` and `ndcg`.
        always_rerank_positives: Whether relevant documents that are not among `documents` are ranked, too.
        name: Goes in front of the metrics' names, and into the file's name.
        prompt_name: As in `predict`, like `batch_size` and `show_progress_bar`.
        batch_size: As in `predict`.
        show_progress_bar: None: if the logger `grilly` logs at level INFO.
        write_csv: Whether a call with an `output_path` appends to its file.
        mrr_at_k: The older name of `at_k`.

    Raises:
        InvalidArgumentError: A sample lacks one of these.

    Source: `sentence_transformers.cross_encoder.evaluation.CrossEncoderRerankingEvaluator`, version 6.2.

    Example:
        >>> from grilly.evaluation import CrossEncoderRerankingEvaluator
        >>> sample = {"query": "A cat.", "positive": ["A kitten.", "Cats."], "negative": []}
        >>> ranker_model.evaluate(CrossEncoderRerankingEvaluator([sample]))
        {'map': 1.0, 'mrr@10': 1.0, 'ndcg@10': 1.0}
    """

    file_begins = "CrossEncoderRerankingEvaluator"

    def __init__(
        self,
        samples: Any,
        at_k: int = 10,
        always_rerank_positives: bool = True,
        name: str = "",
        prompt_name: str | None = None,
        batch_size: int = 64,
        show_progress_bar: bool | None = False,
        write_csv: bool = True,
        mrr_at_k: int | None = None,
    ) -> None:
        super().__init__(name, batch_size, show_progress_bar, write_csv)
        self.samples = list(samples.values()) if isinstance(samples, dict) else samples
        self.at_k = at_k if mrr_at_k is None else mrr_at_k
        self.always_rerank_positives, self.prompt_name = always_rerank_positives, prompt_name
        self.primary_metric = f"ndcg@{self.at_k}"

    @property
    def csv_file(self) -> str:
        """`CrossEncoderRerankingEvaluator_NAME_results_@K.csv`."""
        return f"{self.file_begins}{self.name and '_' + self.name}_results_@{self.at_k}.csv"

    def _columns(self) -> list[str]:
        return ["MAP", f"MRR@{self.at_k}", f"NDCG@{self.at_k}"]

    def _measure(self, model: Any, output_path: str | None) -> tuple[dict[str, Any], list[Any]]:
        listed = list(self._documents())
        pairs = [[query, text] for query, texts, relevant in listed if any(relevant) for text in texts]
        scores = self._predict(model, pairs) if pairs else np.empty(0)
        found = []
        for _, texts, relevant in listed:
            if any(relevant):
                found.append(ranking(relevant, scores[: len(texts)], self.at_k))
                scores = scores[len(texts) :]
            else:
                found.append((0.0, 0.0, 0.0))
        names = ["map", f"mrr@{self.at_k}", f"ndcg@{self.at_k}"]
        values = np.mean(found, axis=0).tolist()
        metrics = dict(zip(names, values, strict=True))
        bases = [
            base_ranking(each["documents"], as_documents(each["positive"]), self.at_k)
            for each in self.samples
            if each.get("documents")
        ]
        if bases:
            metrics |= zip([f"base_{name}" for name in names], np.mean(bases, axis=0).tolist(), strict=True)
        return metrics, values

    def _documents(self) -> Iterator[tuple[Any, list[Any], list[bool]]]:
        """Query, documents, and which of them are relevant."""
        for place, sample in enumerate(self.samples):
            if lacking := [key for key in ("query", "positive") if key not in sample]:
                raise InvalidArgumentError(f"samples[{place}] has no {lacking[0]!r}")
            if ("negative" in sample) == ("documents" in sample):
                raise InvalidArgumentError(f"samples[{place}] needs either 'negative' or 'documents'")
            right, documents = as_documents(sample["positive"]), sample.get("documents")
            if not documents:
                texts = [*right, *(sample.get("negative") or ())]
                yield sample["query"], texts, [place < len(right) for place in range(len(texts))]
                continue
            if self.always_rerank_positives:
                documents = [*right, *(text for text in documents if text not in right)]
            yield sample["query"], documents, [text in right for text in documents]


def base_ranking(documents: Any, relevant: Any, k: int) -> tuple[float, float, float]:
    """Average precision, reciprocal rank and nDCG of documents as they are; those that are absent come last.

    Example:
        >>> from grilly.evaluation.scored_pairs import base_ranking
        >>> base_ranking(["a", "b"], ["a"], 10)
        (1.0, 1.0, 1.0)
    """
    right = [text in relevant for text in documents]
    if not any(right):
        return 0.0, 0.0, 0.0
    right += [True] * (len(relevant) - sum(right))
    return ranking(right, np.arange(len(right), 0, -1), k)
