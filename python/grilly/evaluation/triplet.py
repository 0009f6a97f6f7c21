"""A text, one that should be nearer to it, and one that should be farther."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly.closed import closed
from grilly.evaluation.compared import Compared
from grilly.evaluation.evaluator import same_length
from grilly.inputs import need_one_of
from grilly.util import SimilarityFunction

__all__ = ["TripletEvaluator"]


@closed()
class TripletEvaluator(Compared):
    """The share of triples whose anchor is more alike to the positive text than to the negative one, by a margin.

    Anchors are encoded by `encode_query`, the others by `encode_document`.

    Args:
        anchors: A text of each triple.
        positives: The one that should be nearer to it.
        negatives: The one that should be farther.
        main_similarity_function: The similarity of `primary_metric`.
        margin: By how much, for all similarities or by their names; default: 0.
        name: Goes in front of the metrics' names, and into the file's name.
        batch_size: As in `encode`, like `show_progress_bar` and `truncate_dim`.
        show_progress_bar: None: if the logger `grilly` logs at level INFO.
        write_csv: Whether a call with an `output_path` appends to its file.
        truncate_dim: Dimensions kept of each row.
        similarity_fn_names: Of `"cosine"`, `"dot"`, `"euclidean"` and `"manhattan"`; default: the model's.
        main_distance_function: The older name of `main_similarity_function`.

    Raises:
        InvalidArgumentError: Lists of different lengths, or another similarity.

    Source: `sentence_transformers.evaluation.TripletEvaluator`, version 6.2.

    Example:
        >>> from grilly.evaluation import TripletEvaluator
        >>> model.evaluate(TripletEvaluator(["A cat."], ["A kitten."], ["It rains."]))
        {'cosine_accuracy': 1.0}
    """

    file_begins = "triplet_evaluation"

    def __init__(
        self,
        anchors: Any,
        positives: Any,
        negatives: Any,
        main_similarity_function: str | SimilarityFunction | None = None,
        margin: float | dict[str, float] | None = None,
        name: str = "",
        batch_size: int = 16,
        show_progress_bar: bool | None = False,
        write_csv: bool = True,
        truncate_dim: int | None = None,
        similarity_fn_names: list[str] | None = None,
        main_distance_function: str | SimilarityFunction | None = "deprecated",
    ) -> None:
        super().__init__(name, batch_size, show_progress_bar, write_csv)
        same_length(anchors=anchors, positives=positives, negatives=negatives)
        self.anchors, self.positives, self.negatives = anchors, positives, negatives
        self.truncate_dim = truncate_dim
        if main_similarity_function is None and main_distance_function != "deprecated":
            main_similarity_function = main_distance_function
        self._choose(similarity_fn_names, main_similarity_function)
        margins = margin if isinstance(margin, dict) else dict.fromkeys(self.similarity_names, margin or 0)
        for key in margins:
            need_one_of(key, self.similarity_names, "a key of margin")
        self.margin = dict.fromkeys(self.similarity_names, 0.0) | margins

    @classmethod
    def _example(cls, example: Any) -> list[Any]:
        return list(example.texts[:3])

    def _columns(self) -> list[str]:
        return [f"accuracy_{name}" for name in self.similarity_fn_names]

    def _measure(self, model: Any, output_path: str | None) -> tuple[dict[str, Any], list[Any]]:
        parts = {"anchor": self.anchors, "positive": self.positives, "negative": self.negatives}
        anchors, positives, negatives = (self.embed_inputs(model, texts, part) for part, texts in parts.items())
        names = self._similarities(model)
        metrics = {}
        for name in names:
            near, far = self._scores(name, anchors, positives), self._scores(name, anchors, negatives)
            metrics[f"{name}_accuracy"] = float(np.mean(near > far + self.margin[name]))
        values = list(metrics.values())
        if len(names) > 1:
            metrics["max_accuracy"] = max(values)
        self.primary_metric = f"{self._main or ('max' if len(names) > 1 else names[0])}_accuracy"
        return metrics, values
