"""What evaluators have in common: metrics by name, and a file of comma-separated values for each."""

from __future__ import annotations

import csv
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from grilly.closed import closed
from grilly.errors import InvalidArgumentError
from grilly.inputs import logger

__all__ = ["BaseEvaluator", "InputExample", "Measured", "SentenceEvaluator", "SequentialEvaluator", "same_length"]


@closed("guid", "texts", "label")
class InputExample:
    """Texts with a label, as former versions of sentence-transformers gave them to evaluators.

    Args:
        guid: Any name.
        texts: The texts.
        label: A number.

    Example:
        >>> from grilly.evaluation import InputExample
        >>> InputExample(texts=["a cat", "a dog"], label=0.5).label
        0.5
    """

    def __init__(self, guid: str = "", texts: list[str] | None = None, label: float = 0) -> None:
        self.guid, self.texts, self.label = guid, texts, label

    def __str__(self) -> str:
        return f"<InputExample> label: {self.label}, texts: {'; '.join(self.texts or [])}"


@closed("greater_is_better", "primary_metric", "name", "batch_size", "show_progress_bar", "write_csv")
class BaseEvaluator:
    """The base of evaluators, to derive your own from: `__call__` gives a number, or metrics by name.

    Attributes:
        greater_is_better: Whether a higher number is a better one.
        primary_metric: The name of the metric that stands for all.

    Example:
        >>> from grilly.evaluation import BaseEvaluator
        >>> class Width(BaseEvaluator):
        ...     def __call__(self, model, output_path=None, epoch=-1, steps=-1):
        ...         return float(model.get_embedding_dimension())
        >>> model.evaluate(Width())
        384.0
    """

    name: str = ""

    def __init__(self) -> None:
        self.greater_is_better = True
        self.primary_metric: str | None = None

    def __call__(self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __call__")

    def prefix_name_to_metrics(self, metrics: Mapping[str, Any], name: str) -> dict[str, Any]:
        """Metrics with `name_` in front of their names, and of `primary_metric`.

        Example:
            >>> from grilly.evaluation import BaseEvaluator
            >>> BaseEvaluator().prefix_name_to_metrics({"map": 1}, "dev")
            {'dev_map': 1.0}
        """
        prefix = f"{name}_" if name else ""
        if self.primary_metric is not None and not self.primary_metric.startswith(prefix):
            self.primary_metric = prefix + self.primary_metric
        return {prefix + key: number(value) for key, value in metrics.items()}

    def store_metrics_in_model_card_data(self, model: Any, metrics: Any, epoch: int = 0, step: int = 0) -> None:
        """Does nothing: models here have no model card data. Evaluators of yours may call it.

        Example:
            >>> from grilly.evaluation import BaseEvaluator
            >>> BaseEvaluator().store_metrics_in_model_card_data(model, {"map": 1.0})
        """

    def get_config_dict(self) -> dict[str, Any]:
        """Settings that differ from the defaults, by name.

        Example:
            >>> from grilly.evaluation import BaseEvaluator
            >>> BaseEvaluator().get_config_dict()
            {}
        """
        names = ("truncate_dim", "max_active_dims", "precision", "at_k")
        return {name: value for name in names if (value := getattr(self, name, None)) is not None}

    @property
    def description(self) -> str:
        """The name of the class in words: `"Information Retrieval"`."""
        name = re.sub("^CE", "CrossEncoder", type(self).__name__).partition("Evaluator")[0]
        return re.sub(r"([a-z])([A-Z])", r"\1 \2", name)


#: The older name of `BaseEvaluator`.
SentenceEvaluator = BaseEvaluator


def last(scores: Sequence[Any]) -> Any:
    """The last one."""
    return scores[-1]


@closed()
class SequentialEvaluator(BaseEvaluator):
    """Several evaluators one after the other; their metrics together, and `sequential_score`.

    Args:
        evaluators: The evaluators.
        main_score_function: Of the list of their primary metrics; default: the last one.

    Source: `sentence_transformers.evaluation.SequentialEvaluator`, version 6.2.

    Example:
        >>> from grilly.evaluation import SequentialEvaluator, TranslationEvaluator
        >>> pairs = TranslationEvaluator(["A cat.", "It rains."], ["A cat!", "It rains!"])
        >>> model.evaluate(SequentialEvaluator([pairs]))["sequential_score"]
        1.0
    """

    def __init__(self, evaluators: Iterable[Any], main_score_function: Callable[[list[Any]], Any] = last) -> None:
        super().__init__()
        self.evaluators = list(evaluators)
        self.main_score_function = main_score_function

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        results: dict[str, Any] = {}
        scores = []
        for place, evaluator in enumerate(self.evaluators):
            found = evaluator(model, output_path, epoch, steps)
            primary = getattr(evaluator, "primary_metric", None)
            if not isinstance(found, dict):
                found, primary = {f"evaluator_{place}": found}, None
            scores.append(found[primary or next(iter(found))])
            results |= found
        self.primary_metric = "sequential_score"
        return results | {"sequential_score": self.main_score_function(scores) if scores else 0.0}


class Measured(BaseEvaluator):
    """An evaluator that encodes texts, gives metrics by name, and appends a line to a file.

    Rows of `embed_inputs` are arrays, which a score function of yours is called with.
    """

    #: What texts are -> the method that encodes them.
    methods: ClassVar[dict[str, str]] = {
        "": "encode",
        "query": "encode_query",
        "anchor": "encode_query",
        "corpus": "encode_document",
        "positive": "encode_document",
        "negative": "encode_document",
    }
    truncate_dim: int | None = None
    #: What the file's name has before `name`.
    file_begins: ClassVar[str]
    line_end: ClassVar[str] = "\r\n"

    def __init__(self, name: str, batch_size: int, show_progress_bar: bool | None, write_csv: bool) -> None:
        super().__init__()
        self.name, self.batch_size, self.write_csv = name, batch_size, write_csv
        self.show_progress_bar = logger.isEnabledFor(logging.INFO) if show_progress_bar is None else show_progress_bar

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        when = "" if epoch == -1 else f" after epoch {epoch}" if steps == -1 else f" in epoch {epoch}, step {steps}"
        metrics, values = self._measure(model, output_path)
        logger.info("%s %s%s: %s", type(self).__name__, self.name, when, metrics)
        if output_path is not None and self.write_csv:
            self._write(Path(output_path) / self.csv_file, [epoch, steps, *values])
        return self.prefix_name_to_metrics(metrics, self.name)

    def _measure(self, model: Any, output_path: str | None) -> tuple[dict[str, Any], list[Any]]:
        """Metrics by name, and the values of the file's columns after the first two."""
        raise NotImplementedError(type(self).__name__)

    @property
    def csv_file(self) -> str:
        """The name of the file in the folder `output_path`, whose first line names the columns."""
        return f"{self.file_begins}{self.name and '_' + self.name}_results.csv"

    @property
    def csv_headers(self) -> list[str]:
        """The names of the file's columns."""
        return ["epoch", "steps", *self._columns()]

    def _columns(self) -> list[str]:
        raise NotImplementedError(type(self).__name__)

    def _write(self, file: Path, row: list[Any]) -> None:
        os.makedirs(file.parent, exist_ok=True)
        new = not file.is_file()
        with open(file, "a", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator=self.line_end)
            writer.writerows([self.csv_headers, row] if new else [row])

    def embed_inputs(self, model: Any, sentences: Any, part: str = "", **options: Any) -> Any:
        """Rows of texts, encoded as what they are: `"query"`, `"corpus"`, `"anchor"` and others, or as neither.

        Example:
            >>> from grilly.evaluation import TranslationEvaluator
            >>> TranslationEvaluator(["A cat."], ["A dog."]).embed_inputs(model, ["A cat."]).shape
            (1, 384)
        """
        encode = getattr(model, self.methods[part])
        return encode(
            sentences, batch_size=self.batch_size, show_progress_bar=self.show_progress_bar, **self._cut(), **options
        )

    def _cut(self) -> dict[str, Any]:
        """The option of `encode` that shortens rows."""
        return {"truncate_dim": self.truncate_dim}


def number(value: Any) -> Any:
    """As a float, if it is one."""
    try:
        return float(value)
    except ValueError:
        return value


def same_length(**lists: Any) -> None:
    """Rejects lists of different lengths."""
    lengths = {name: len(values) for name, values in lists.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InvalidArgumentError(f"lists of one length are expected: {told}")
