"""NanoBEIR: small parts of 13 searches of BEIR on a hub, each evaluated, then all together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from grilly.errors import InvalidArgumentError
from grilly.evaluation.evaluator import Measured
from grilly.libraries import imported

__all__ = ["ENGLISH", "SPLITS", "Several"]

#: A data set's name -> its split.
SPLITS = {
    name.lower(): f"Nano{name}"
    for name in (
        "ClimateFEVER", "DBPedia", "FEVER", "FiQA2018", "HotpotQA", "MSMARCO", "NFCorpus", "NQ", "QuoraRetrieval",
        "SCIDOCS", "ArguAna", "SciFact", "Touche2020",
    )
}  # fmt: skip
#: A subset -> the columns that are read.
SUBSETS = {
    "corpus": ("_id", "text"),
    "queries": ("_id", "text"),
    "qrels": ("query-id", "corpus-id"),
    "bm25": ("query-id", "corpus-ids"),
}
ENGLISH = "sentence-transformers/NanoBEIR-en"


class Several(Measured):
    """An evaluator of several data sets: the metrics of each, then each metric of all together."""

    line_end = "\n"
    evaluators: Sequence[Any] = ()
    aggregate_fn: Callable[[list[float]], Any]
    aggregate_key: str

    def __init__(self, names: Iterable[str], dataset_id: str, options: Mapping[str, Any]) -> None:
        super().__init__("", options["batch_size"], options["show_progress_bar"], options["write_csv"])
        self.dataset_names, self.dataset_id = list(names), dataset_id
        unknown = [name for name in self.dataset_names if name.lower() not in SPLITS]
        if unknown or not self.dataset_names:
            raise InvalidArgumentError(f"dataset_names is {self.dataset_names}, expected some of {', '.join(SPLITS)}")

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        self._found = [each(model, output_path, epoch, steps) for each in self.evaluators]
        together = super().__call__(model, output_path, epoch, steps)
        return {name: value for found in self._found for name, value in found.items()} | together

    @property
    def csv_file(self) -> str:
        """`NanoBEIR_evaluation_AGGREGATE-KEY_results.csv`."""
        return f"NanoBEIR_evaluation_{self.aggregate_key}_results.csv"

    def _columns(self) -> list[str]:
        columns: list[str] = self.evaluators[0]._columns()
        return columns

    def _measure(self, model: Any, output_path: str | None) -> tuple[dict[str, Any], list[Any]]:
        metrics = self._together()
        self.primary_metric = self._primary(metrics)
        return metrics, [metrics[metric_of(column)] for column in self._columns()]

    def _together(self) -> dict[str, Any]:
        """Each metric of all data sets."""
        values: dict[str, list[float]] = {}
        for each, found in zip(self.evaluators, self._found, strict=True):
            for name, value in found.items():
                values.setdefault(name.removeprefix(f"{each.name}_"), []).append(value)
        return {name: self.aggregate_fn(every) for name, every in values.items()}

    def _primary(self, metrics: Mapping[str, float]) -> str:
        raise NotImplementedError(type(self).__name__)

    def _load(self, subset: str, name: str) -> Any:
        """The rows of a data set's subset."""
        told = f"{type(self).__name__} loads {self.dataset_id} from a hub with datasets, which cannot be imported"
        datasets = imported("datasets", f"{told}; pip install datasets")
        place = f"split {SPLITS[name.lower()]!r} of subset {subset!r} of {self.dataset_id!r}"
        try:
            rows = datasets.load_dataset(self.dataset_id, subset, split=SPLITS[name.lower()])
        except Exception as error:
            raise InvalidArgumentError(f"{place} cannot be loaded from a hub or its cache: {error}") from error
        if lacking := [column for column in SUBSETS[subset] if column not in rows.column_names]:
            raise InvalidArgumentError(f"{place} has no column {', '.join(map(repr, lacking))}")
        return rows

    def _relevant(self, name: str) -> dict[str, dict[str, None]]:
        """Name of a query -> the names of its relevant documents, in their order."""
        found: dict[str, dict[str, None]] = {}
        for row in self._load("qrels", name):
            named = row["corpus-id"]
            found.setdefault(row["query-id"], {}).update(dict.fromkeys(named if isinstance(named, list) else [named]))
        return found


def metric_of(column: str) -> str:
    """The metric of a column of a file.

    Example:
        >>> from grilly.evaluation.nano_data_sets import metric_of
        >>> metric_of("cosine-MRR@10"), metric_of("MAP")
        ('cosine_mrr@10', 'map')
    """
    function, dash, metric = column.rpartition("-")
    return f"{function}{dash and '_'}{metric.lower()}"
