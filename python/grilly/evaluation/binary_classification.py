"""Pairs of texts that are alike or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.errors import InvalidArgumentError
from grilly.evaluation.compared import DISTANCES, Compared
from grilly.evaluation.evaluator import same_length
from grilly.evaluation.measures import average_precision, best_accuracy, best_f1, matthews

__all__ = ["BinaryClassificationEvaluator"]


@closed()
class BinaryClassificationEvaluator(Compared):
    """How well a threshold of the similarity tells pairs of label 1 from those of label 0.

    Metrics of each similarity: `accuracy`, `f1`, their thresholds, `precision` and `recall` at the best F1, `ap`
    (average precision), `mcc` (Matthews' correlation); of several, the largest as `max_...`. Thresholds of
    `"euclidean"` and `"manhattan"` are distances, the smaller the more alike.

    Args:
        sentences1: The first text of each pair.
        sentences2: The second.
        labels: 1 for pairs that are alike, else 0.
        name: Goes in front of the metrics' names, and into the file's name.
        batch_size: As in `encode`, like `show_progress_bar` and `truncate_dim`.
        show_progress_bar: None: if the logger `grilly` logs at level INFO.
        write_csv: Whether a call with an `output_path` appends to its file.
        truncate_dim: Dimensions kept of each row.
        similarity_fn_names: Of `"cosine"`, `"dot"`, `"euclidean"` and `"manhattan"`; default: the model's.

    Raises:
        InvalidArgumentError: Lists of different lengths, or another label or similarity.

    Source: `sentence_transformers.evaluation.BinaryClassificationEvaluator`, version 6.2.

    Example:
        >>> from grilly.evaluation import BinaryClassificationEvaluator
        >>> pairs = BinaryClassificationEvaluator(["A cat.", "A cat."], ["A kitten.", "It rains."], [1, 0])
        >>> model.evaluate(pairs)["cosine_ap"]
        1.0
    """

    file_begins = "binary_classification_evaluation"

    def __init__(
        self,
        sentences1: list[str],
        sentences2: list[str],
        labels: list[int],
        name: str = "",
        batch_size: int = 32,
        show_progress_bar: bool | None = False,
        write_csv: bool = True,
        truncate_dim: int | None = None,
        similarity_fn_names: list[str] | None = None,
    ) -> None:
        super().__init__(name, batch_size, show_progress_bar, write_csv)
        same_length(sentences1=sentences1, sentences2=sentences2, labels=labels)
        if wrong := [label for label in labels if label not in (0, 1)]:
            raise InvalidArgumentError(f"labels has {wrong[0]!r}, expected 0 and 1")
        self.sentences1, self.sentences2, self.labels, self.truncate_dim = sentences1, sentences2, labels, truncate_dim
        self._choose(similarity_fn_names)

    def _columns(self) -> list[str]:
        metrics = "accuracy accuracy_threshold f1 precision recall f1_threshold ap mcc".split()
        return [f"{name}_{metric}" for name in self.similarity_fn_names for metric in metrics]

    def _measure(self, model: Any, output_path: str | None) -> tuple[dict[str, Any], list[Any]]:
        texts = list(dict.fromkeys([*self.sentences1, *self.sentences2]))
        rows, places = self.embed_inputs(model, texts), {text: place for place, text in enumerate(texts)}
        first, second = (rows[[places[text] for text in each]] for each in (self.sentences1, self.sentences2))
        names = self._similarities(model)
        found = {name: self._of(self._scores(name, first, second), name) for name in names}
        metrics = {f"{name}_{metric}": value for name in names for metric, value in found[name].items()}
        if len(names) > 1:
            metrics |= {f"max_{metric}": max(each[metric] for each in found.values()) for metric in found[names[0]]}
        self.primary_metric = "max_ap" if len(names) > 1 else f"{names[0]}_ap"
        return metrics, [metrics[column] for column in self._columns() if column in metrics]

    def _of(self, scores: npt.NDArray[Any], name: str) -> dict[str, float]:
        labels, higher = np.asarray(self.labels), name not in DISTANCES
        scores = scores if higher else -scores
        accuracy, accuracy_threshold = best_accuracy(scores, labels, higher)
        f1, precision, recall, f1_threshold = best_f1(scores, labels, higher)
        predicted = scores >= f1_threshold if higher else scores <= f1_threshold
        return {
            "accuracy": accuracy, "accuracy_threshold": accuracy_threshold, "f1": f1, "f1_threshold": f1_threshold,
            "precision": precision, "recall": recall, "ap": average_precision(labels, scores if higher else -scores),
            "mcc": matthews(labels, predicted),
        }  # fmt: skip
