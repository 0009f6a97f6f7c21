"""Queries with documents that are relevant and others that are not, ordered by the similarity of their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.evaluation.evaluator import Measured
from grilly.evaluation.measures import ranking
from grilly.tensors import as_array
from grilly.util import cos_sim

__all__ = ["RerankingEvaluator", "as_documents"]


@closed()
class RerankingEvaluator(Measured):
    """How far up the relevant documents of a query are among its documents: `map`, `mrr@k` and `ndcg@k`.

    Queries are encoded by `encode_query`, documents by `encode_document`. A sample without relevant documents, or
    without others, is left out.

    Args:
        samples: A dict for each query, of `query`, `positive` and `negative`: a text, and lists of texts.
        at_k: How many documents count for `mrr` and `ndcg`.
        name: Goes in front of the metrics' names, and into the file's name.
        write_csv: Whether a call with an `output_path` appends to its file.
        similarity_fct: Of two matrices of rows; default: cosine.
        batch_size: As in `encode`, like `show_progress_bar` and `truncate_dim`.
        show_progress_bar: None: if the logger `grilly` logs at level INFO.
        use_batched_encoding: Whether all samples are encoded together, or one after the other.
        truncate_dim: Dimensions kept of each row.
        mrr_at_k: The older name of `at_k`.

    Source: `sentence_transformers.evaluation.RerankingEvaluator`, version 6.2.

    Example:
        >>> from grilly.evaluation import RerankingEvaluator
        >>> sample = {"query": "A cat.", "positive": ["A kitten."], "negative": ["It rains."]}
        >>> model.evaluate(RerankingEvaluator([sample]))
        {'map': 1.0, 'mrr@10': 1.0, 'ndcg@10': 1.0}
    """

    def __init__(
        self,
        samples: Any,
        at_k: int = 10,
        name: str = "",
        write_csv: bool = True,
        similarity_fct: Callable[[Any, Any], Any] = cos_sim,
        batch_size: int = 64,
        show_progress_bar: bool | None = False,
        use_batched_encoding: bool = True,
        truncate_dim: int | None = None,
        mrr_at_k: int | None = None,
    ) -> None:
        super().__init__(name, batch_size, show_progress_bar, write_csv)
        given = list(samples.values()) if isinstance(samples, dict) else samples
        listed = [each | {key: as_documents(each[key]) for key in ("positive", "negative")} for each in given]
        self.samples = [each for each in listed if each["positive"] and each["negative"]]
        self.at_k = at_k if mrr_at_k is None else mrr_at_k
        self.similarity_fct, self.use_batched_encoding = similarity_fct, use_batched_encoding
        self.truncate_dim = truncate_dim
        self.primary_metric = f"ndcg@{self.at_k}"

    @property
    def csv_file(self) -> str:
        """`RerankingEvaluator_NAME_results_@K.csv`."""
        return f"RerankingEvaluator{self.name and '_' + self.name}_results_@{self.at_k}.csv"

    def _columns(self) -> list[str]:
        return ["MAP", f"MRR@{self.at_k}", f"NDCG@{self.at_k}"]

    def _measure(self, model: Any, output_path: str | None) -> tuple[dict[str, Any], list[Any]]:
        step = max(1, len(self.samples)) if self.use_batched_encoding else 1
        found = []
        for start in range(0, len(self.samples), step):
            part = self.samples[start : start + step]
            queries = self.embed_inputs(model, [each["query"] for each in part], "query")
            documents = [[*each["positive"], *each["negative"]] for each in part]
            rows = self.embed_inputs(model, [text for texts in documents for text in texts], "corpus")
            end = 0
            for place, (sample, texts) in enumerate(zip(part, documents, strict=True)):
                begin, end = end, end + len(texts)
                relevant = np.arange(len(texts)) < len(sample["positive"])
                scores = self._scores(model, queries[place : place + 1], rows[begin:end])
                found.append(ranking(relevant, scores, self.at_k))
        means = np.mean(found, axis=0).tolist() if found else [float("nan")] * 3
        return dict(zip(["map", f"mrr@{self.at_k}", f"ndcg@{self.at_k}"], means, strict=True)), means

    def _scores(self, model: Any, query: Any, rows: Any) -> npt.NDArray[Any]:
        scores = np.asarray(as_array(self.similarity_fct(query, rows)))
        return scores[0] if scores.ndim > 1 else scores


def as_documents(given: Any) -> list[Any]:
    """One text as a list of it."""
    return [given] if isinstance(given, str) else list(given)
