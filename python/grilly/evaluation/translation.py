"""Texts that should be nearest to each other: translations, and what two models make of the same texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly.closed import closed
from grilly.evaluation.evaluator import Measured, same_length
from grilly.similarity import cos_sim
from grilly.sparse import as_dense

__all__ = ["MSEEvaluator", "TranslationEvaluator"]


@closed()
class TranslationEvaluator(Measured):
    """The share of texts whose nearest text of the other language is their translation, both ways and on the mean.

    Args:
        source_sentences: Texts.
        target_sentences: The translation of each.
        show_progress_bar: As in `encode`, like `batch_size` and `truncate_dim`.
        batch_size: As in `encode`.
        name: Goes in front of the metrics' names, and into the file's name.
        print_wrong_matches: Whether texts are printed whose nearest one is another.
        write_csv: Whether a call with an `output_path` appends to its file.
        truncate_dim: Dimensions kept of each row.

    Raises:
        InvalidArgumentError: Lists of different lengths.

    Source: `sentence_transformers.evaluation.TranslationEvaluator`, version 6.2.

    Example:
        >>> from grilly.evaluation import TranslationEvaluator
        >>> model.evaluate(TranslationEvaluator(["A cat.", "It rains."], ["A kitten.", "Rain falls."]))
        {'src2trg_accuracy': 1.0, 'trg2src_accuracy': 1.0, 'mean_accuracy': 1.0}
    """

    file_begins = "translation_evaluation"

    def __init__(
        self,
        source_sentences: list[str],
        target_sentences: list[str],
        show_progress_bar: bool | None = False,
        batch_size: int = 16,
        name: str = "",
        print_wrong_matches: bool = False,
        write_csv: bool = True,
        truncate_dim: int | None = None,
    ) -> None:
        super().__init__(name, batch_size, show_progress_bar, write_csv)
        same_length(source_sentences=source_sentences, target_sentences=target_sentences)
        self.source_sentences, self.target_sentences = source_sentences, target_sentences
        self.print_wrong_matches, self.truncate_dim = print_wrong_matches, truncate_dim
        self.primary_metric = "mean_accuracy"

    def _columns(self) -> list[str]:
        return ["src2trg", "trg2src"]

    def _measure(self, model: Any, output_path: str | None) -> tuple[dict[str, Any], list[Any]]:
        sources, targets = list(self.source_sentences), list(self.target_sentences)
        scores = np.asarray(cos_sim(self.embed_inputs(model, sources), self.embed_inputs(model, targets)))
        nearest = scores.argmax(axis=1).tolist()
        if self.print_wrong_matches:
            for place, best in enumerate(nearest):
                if targets[place] != targets[best]:
                    self._print(place, scores[place])
        forth = float(np.mean([targets[i] == targets[j] for i, j in enumerate(nearest)]))
        back = float(np.mean([sources[i] == sources[j] for i, j in enumerate(scores.argmax(axis=0).tolist())]))
        metrics = {"src2trg_accuracy": forth, "trg2src_accuracy": back, "mean_accuracy": (forth + back) / 2}
        return metrics, [forth, back]

    def _print(self, place: int, scores: Any) -> None:
        order = np.argsort(-scores, kind="stable")
        best = int(order[0])
        print(f"\nIncorrect  : Source {place} is most similar to target {best} instead of target {place}")
        print(f"Source     : {self.source_sentences[place]}")
        print(f"Pred Target: {self.target_sentences[best]} (Score: {scores[best]:.4f})")
        print(f"True Target: {self.target_sentences[place]} (Score: {scores[place]:.4f})")
        for each in order[:5]:
            print("\t", each, f"(Score: {scores[each]:.4f})", self.target_sentences[each])


@closed()
class MSEEvaluator(Measured):
    """Minus 100 times the mean squared difference of a model's rows from those of another model.

    Args:
        source_sentences: Texts that the other model encodes, when the evaluator is made.
        target_sentences: As many texts, which the evaluated model encodes: the same, or translations.
        teacher_model: The other model.
        show_progress_bar: As in `encode`, like `batch_size` and `truncate_dim`.
        batch_size: As in `encode`.
        name: Goes in front of the metric's name, and into the file's name.
        write_csv: Whether a call with an `output_path` appends to its file.
        truncate_dim: Dimensions kept of each row.

    Raises:
        InvalidArgumentError: Lists of different lengths.

    Source: `sentence_transformers.evaluation.MSEEvaluator`, version 6.2.

    Example:
        >>> from grilly.evaluation import MSEEvaluator
        >>> model.evaluate(MSEEvaluator(["A cat."], ["A cat."], model))["negative_mse"] == 0
        True
    """

    def __init__(
        self,
        source_sentences: list[str],
        target_sentences: list[str],
        teacher_model: Any = None,
        show_progress_bar: bool | None = False,
        batch_size: int = 32,
        name: str = "",
        write_csv: bool = True,
        truncate_dim: int | None = None,
    ) -> None:
        super().__init__(name, batch_size, show_progress_bar, write_csv)
        same_length(source_sentences=source_sentences, target_sentences=target_sentences)
        self.target_sentences, self.truncate_dim = target_sentences, truncate_dim
        self.primary_metric = "negative_mse"
        self.source_embeddings = as_dense(self.embed_inputs(teacher_model, source_sentences))

    @property
    def csv_file(self) -> str:
        """`mse_evaluation_NAME_results.csv`."""
        return f"mse_evaluation_{self.name}_results.csv"

    @property
    def description(self) -> str:
        """`"Knowledge Distillation"`."""
        return "Knowledge Distillation"

    def _columns(self) -> list[str]:
        return ["MSE"]

    def _measure(self, model: Any, output_path: str | None) -> tuple[dict[str, Any], list[Any]]:
        rows = as_dense(self.embed_inputs(model, self.target_sentences))
        error = 100 * float(np.square(self.source_embeddings - rows).mean(dtype=np.float64))
        return {"negative_mse": -error}, [error]
