"""Pairs of texts with a score of how alike they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly.closed import closed
from grilly.evaluation.compared import Compared
from grilly.evaluation.evaluator import same_length
from grilly.evaluation.measures import pearson, spearman
from grilly.util import SimilarityFunction

__all__ = ["EmbeddingSimilarityEvaluator"]


@closed()
class EmbeddingSimilarityEvaluator(Compared):
    """Correlation of the similarity of pairs with known scores, Pearson's and Spearman's.

    Args:
        sentences1: The first text of each pair.
        sentences2: The second.
        scores: What is known of each pair, on any scale.
        batch_size: As in `encode`, like `show_progress_bar`, `precision` and `truncate_dim`.
        main_similarity: The similarity of `primary_metric`.
        similarity_fn_names: Of `"cosine"`, `"dot"`, `"euclidean"` and `"manhattan"`; default: the model's.
        name: Goes in front of the metrics' names, and into the file's name.
        show_progress_bar: None: if the logger `grilly` logs at level INFO.
        write_csv: Whether a call with an `output_path` appends to its file.
        precision: That of the rows, which are then divided by their norms first; bits are compared as 0 and 1.
        truncate_dim: Dimensions kept of each row.

    Raises:
        InvalidArgumentError: Lists of different lengths, or another similarity.

    Source: `sentence_transformers.evaluation.EmbeddingSimilarityEvaluator`, version 6.2.

    Example:
        >>> from grilly.evaluation import EmbeddingSimilarityEvaluator
        >>> texts = ["A cat.", "A kitten.", "A dog.", "It rains."]
        >>> pairs = EmbeddingSimilarityEvaluator(["A cat."] * 4, texts, [1.0, 0.9, 0.5, 0.0])
        >>> round(model.evaluate(pairs)["spearman_cosine"], 6)
        1.0
    """

    def __init__(
        self,
        sentences1: list[str],
        sentences2: list[str],
        scores: list[float],
        batch_size: int = 16,
        main_similarity: str | SimilarityFunction | None = None,
        similarity_fn_names: list[str] | None = None,
        name: str = "",
        show_progress_bar: bool | None = False,
        write_csv: bool = True,
        precision: str | None = None,
        truncate_dim: int | None = None,
    ) -> None:
        super().__init__(name, batch_size, show_progress_bar, write_csv)
        same_length(sentences1=sentences1, sentences2=sentences2, scores=scores)
        self.sentences1, self.sentences2, self.scores = sentences1, sentences2, scores
        self.precision, self.truncate_dim = precision, truncate_dim
        self._choose(similarity_fn_names, main_similarity)

    @property
    def csv_file(self) -> str:
        """`similarity_evaluation_NAME_PRECISION_results.csv`."""
        parts = ["similarity_evaluation", self.name, self.precision, "results.csv"]
        return "_".join(part for part in parts if part)

    @property
    def description(self) -> str:
        """`"Semantic Similarity"`."""
        return "Semantic Similarity"

    def _columns(self) -> list[str]:
        return [f"{name}_{measure}" for name in self.similarity_fn_names for measure in ("pearson", "spearman")]

    def _measure(self, model: Any, output_path: str | None) -> tuple[dict[str, Any], list[Any]]:
        if self.precision in ("int8", "uint8"):  # of both sides, so that equal texts have equal rows
            rows = self._rows(model, [*self.sentences1, *self.sentences2])
            first, second = rows[: len(self.sentences1)], rows[len(self.sentences1) :]
        else:
            first, second = self._rows(model, self.sentences1), self._rows(model, self.sentences2)
        metrics: dict[str, float] = {}
        names = self._similarities(model)
        for name in names:
            scores = self._scores(name, first, second)
            metrics |= {f"pearson_{name}": pearson(self.scores, scores)}
            metrics |= {f"spearman_{name}": spearman(self.scores, scores)}
        values = list(metrics.values())
        if len(names) > 1:
            for measure in ("pearson", "spearman"):
                metrics[f"{measure}_max"] = max(metrics[f"{measure}_{name}"] for name in names)
        self.primary_metric = f"spearman_{self._main or ('max' if len(names) > 1 else names[0])}"
        return metrics, values

    def _rows(self, model: Any, texts: list[str]) -> Any:
        if self.precision is None:
            return self.embed_inputs(model, texts)
        rows = self.embed_inputs(model, texts, precision=self.precision, normalize_embeddings=True)
        if self.precision == "binary":
            rows = (rows.astype(np.int16) + 128).astype(np.uint8)
        return (np.unpackbits(rows, axis=1) if "binary" in self.precision else rows).astype(np.float32)
