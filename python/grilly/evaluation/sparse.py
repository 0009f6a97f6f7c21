"""Evaluators of a SparseEncoder: those of dense rows, and how many weights a row has."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.evaluation.binary_classification import BinaryClassificationEvaluator
from grilly.evaluation.embedding_similarity import EmbeddingSimilarityEvaluator
from grilly.evaluation.evaluator import Measured
from grilly.evaluation.information_retrieval import InformationRetrievalEvaluator
from grilly.evaluation.reranking import RerankingEvaluator
from grilly.evaluation.translation import MSEEvaluator, TranslationEvaluator
from grilly.evaluation.triplet import TripletEvaluator
from grilly.sparse import SparseRows

__all__ = [
    "SparseBinaryClassificationEvaluator", "SparseEmbeddingSimilarityEvaluator", "SparseInformationRetrievalEvaluator",
    "SparseMSEEvaluator", "SparseRerankingEvaluator", "SparseTranslationEvaluator", "SparseTripletEvaluator",
]  # fmt: skip

KEYS = ("active_dims", "sparsity_ratio")


class Weights(Measured):
    """An evaluator that also gives the mean number of weights of a row, and the share of zeros."""

    #: Of which parts these are given.
    parts: ClassVar[tuple[str, ...]] = ("",)
    max_active_dims: int | None = None

    def _begin(self) -> None:
        # Part -> of each call of encode: rows, and what `sparsity` gives.
        self._seen: dict[str, list[tuple[int, dict[str, float]]]] = {}

    def _measure(self, model: Any, output_path: str | None) -> tuple[dict[str, Any], list[Any]]:
        self._begin()
        metrics, values = super()._measure(model, output_path)
        added = {name: value for part in self.parts for name, value in self._shares(part).items()}
        return metrics | added, [*values, *added.values()]

    def _shares(self, part: str) -> dict[str, float]:
        seen = self._seen.get(part, [])
        counts = [count for count, _ in seen]
        return {
            f"{part}_{key}".lstrip("_"): float(np.average([told[key] for _, told in seen], weights=self._by(counts)))
            for key in KEYS
            if seen
        }

    def _by(self, counts: list[int]) -> list[int] | None:
        """The weights of calls of encode in the mean."""
        return None

    def _columns(self) -> list[str]:
        columns = super()._columns()
        return columns and [*columns, *(f"{part}_{key}".lstrip("_") for part in self.parts for key in KEYS)]

    def embed_inputs(self, model: Any, sentences: Any, part: str = "", **options: Any) -> Any:
        """Rows of texts, counted."""
        rows = super().embed_inputs(model, sentences, part, **options)
        if hasattr(self, "_seen"):
            self._count(part, rows, model.sparsity(rows))
        return rows

    def _count(self, part: str, rows: Any, told: dict[str, float]) -> None:
        self._seen.setdefault(part, []).append((len(rows), told))

    def _cut(self) -> dict[str, Any]:
        return {"max_active_dims": self.max_active_dims}


def sparse(*parts: str) -> Any:
    """Gives a class the constructor of its parent with `max_active_dims` where that has `truncate_dim`."""

    def made(kind: type[Any]) -> type[Any]:
        parent = kind.__bases__[-1]
        signature = inspect.signature(parent.__init__)  # type: ignore[misc]
        parameters = [
            each.replace(name="max_active_dims") if each.name == "truncate_dim" else each
            for each in signature.parameters.values()
            if each.name != "precision"
        ]
        mine = signature.replace(parameters=parameters)

        @functools.wraps(parent.__init__)  # type: ignore[misc]
        def __init__(self: Any, *arguments: Any, **options: Any) -> None:
            given = mine.bind(self, *arguments, **options).arguments
            self.max_active_dims = given.pop("max_active_dims", None)
            parent.__init__(**given)  # type: ignore[misc]

        del __init__.__wrapped__
        __init__.__signature__ = mine  # type: ignore[attr-defined]
        kind.__init__ = __init__
        kind.parts = parts
        return closed()(kind)

    return made


@sparse("")
class SparseBinaryClassificationEvaluator(Weights, BinaryClassificationEvaluator):
    """`BinaryClassificationEvaluator` of a SparseEncoder, with `active_dims` and `sparsity_ratio` of all rows."""


@sparse("")
class SparseEmbeddingSimilarityEvaluator(Weights, EmbeddingSimilarityEvaluator):
    """`EmbeddingSimilarityEvaluator` of a SparseEncoder, with `active_dims` and `sparsity_ratio` of all rows."""


@sparse("")
class SparseTranslationEvaluator(Weights, TranslationEvaluator):
    """`TranslationEvaluator` of a SparseEncoder, with `active_dims` and `sparsity_ratio` of all rows."""


@sparse("")
class SparseMSEEvaluator(Weights, MSEEvaluator):
    """`MSEEvaluator` of a SparseEncoder, with `active_dims` and `sparsity_ratio` of its rows."""


@sparse("anchor", "positive", "negative")
class SparseTripletEvaluator(Weights, TripletEvaluator):
    """`TripletEvaluator` of a SparseEncoder, with `active_dims` and `sparsity_ratio` of each of the three."""


@sparse("query", "corpus")
class SparseRerankingEvaluator(Weights, RerankingEvaluator):
    """`RerankingEvaluator` of a SparseEncoder, with `active_dims` and `sparsity_ratio` of queries and documents."""


@sparse("query", "corpus")
class SparseInformationRetrievalEvaluator(Weights, InformationRetrievalEvaluator):
    """`InformationRetrievalEvaluator` of a SparseEncoder, with `active_dims` and `sparsity_ratio` of both sides.

    `avg_flops` is the sum over words of the share of queries that have the word, times that of documents.
    """

    def _begin(self) -> None:
        super()._begin()
        self._words: dict[str, npt.NDArray[np.float64]] = {}

    def _documents(self, model: Any, part: slice) -> Any:
        rows = super()._documents(model, part)
        if self._corpus.get("rows") is not None:
            self._count("corpus", rows, model.sparsity(rows))
        return rows

    def _count(self, part: str, rows: Any, told: dict[str, float]) -> None:
        super()._count(part, rows, told)
        sparse_rows = SparseRows.from_any(rows)
        words = np.bincount(sparse_rows.columns, minlength=sparse_rows.shape[-1])
        self._words[part] = words + self._words.get(part, np.zeros(len(words)))

    def _by(self, counts: list[int]) -> list[int] | None:
        return counts

    def _measure(self, model: Any, output_path: str | None) -> tuple[dict[str, Any], list[Any]]:
        metrics, values = super()._measure(model, output_path)
        products = flops([self])
        return metrics | {"avg_flops": products}, [*values, products]

    def _columns(self) -> list[str]:
        columns = super()._columns()
        return columns and [*columns, "avg_flops"]


def flops(evaluators: Sequence[SparseInformationRetrievalEvaluator]) -> float:
    """The sum over words of the share of all queries that have the word, times that of documents."""
    shares = []
    for part in ("query", "corpus"):
        words = np.sum([each._words[part] for each in evaluators], axis=0)
        shares.append(words / sum(count for each in evaluators for count, _ in each._seen[part]))
    return float(shares[0] @ shares[1])
