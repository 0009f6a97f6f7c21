"""Two rankings of the same queries and the one that both make together."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grilly.closed import closed
from grilly.errors import InvalidArgumentError
from grilly.evaluation.evaluator import Measured, same_length
from grilly.evaluation.reranking import as_documents
from grilly.evaluation.scored_pairs import base_ranking

__all__ = ["ReciprocalRankFusionEvaluator"]


@closed()
class ReciprocalRankFusionEvaluator(Measured):
    """`map`, `mrr@k` and `ndcg@k` of the documents of two searches ordered by the sum of `1 / (rrf_k + rank)`.

    The metrics of either search are given as `dense_...` and `sparse_...`. A call takes no model.

    Args:
        dense_samples: A dict for each query, of `query_id`, `query`, `positive` (the relevant documents) and
            `documents` (those that were found, the best first).
        sparse_samples: The same of the other search, with the same queries in the same order.
        at_k: How many documents count for `mrr` and `ndcg`.
        rrf_k: The constant that is added to ranks.
        name: Goes in front of the metrics' names, and into the files' names.
        batch_size: Accepted.
        show_progress_bar: Accepted.
        write_csv: Whether a call with an `output_path` appends to its file.
        write_predictions: Whether such a call writes the common ranking, as lines of JSON.

    Raises:
        InvalidArgumentError: The queries differ.

    Source: `sentence_transformers.sparse_encoder.evaluation.ReciprocalRankFusionEvaluator`, version 6.2.

    Example:
        >>> from grilly.evaluation import ReciprocalRankFusionEvaluator
        >>> sample = {"query_id": "q", "query": "a", "positive": ["x"], "documents": ["x", "y"]}
        >>> ReciprocalRankFusionEvaluator([sample], [sample | {"documents": ["y", "x"]}])()["sparse_mrr@10"]
        0.5
    """

    file_begins = "ReciprocalRankFusion_evaluation"

    def __init__(
        self,
        dense_samples: Sequence[Mapping[str, Any]],
        sparse_samples: Sequence[Mapping[str, Any]],
        at_k: int = 10,
        rrf_k: int = 60,
        name: str = "",
        batch_size: int = 32,
        show_progress_bar: bool | None = False,
        write_csv: bool = True,
        write_predictions: bool = False,
    ) -> None:
        super().__init__(name, batch_size, show_progress_bar, write_csv)
        same_length(dense_samples=dense_samples, sparse_samples=sparse_samples)
        for place, pair in enumerate(zip(dense_samples, sparse_samples, strict=True)):
            if len({each.get("query_id", place) for each in pair}) > 1 or "query_id" not in pair[0]:
                raise InvalidArgumentError(f"samples {place} have no query_id, or not the same one")
        self.dense_samples, self.sparse_samples = dense_samples, sparse_samples
        self.at_k, self.rrf_k, self.write_predictions = at_k, rrf_k, write_predictions
        self.primary_metric = f"ndcg@{at_k}"

    def __call__(  # type: ignore[override]
        self, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        return super().__call__(None, output_path, epoch, steps)

    def _columns(self) -> list[str]:
        metrics = ("MAP", f"MRR@{self.at_k}", f"NDCG@{self.at_k}")
        return [f"{search}_{metric}" for search in ("Dense", "Sparse", "Fusion") for metric in metrics]

    def _measure(self, model: Any, output_path: str | None) -> tuple[dict[str, Any], list[Any]]:
        found, lines = [], []
        for dense, sparse in zip(self.dense_samples, self.sparse_samples, strict=True):
            relevant = as_documents(dense["positive"])
            fused = self._fused(dense["documents"], sparse["documents"])
            rankings = (dense["documents"], sparse["documents"], fused)
            found.append([base_ranking(each, relevant, self.at_k) for each in rankings])
            lines.append(
                {key: dense[key] for key in ("query_id", "query")} | {"positive": relevant, "documents": fused}
            )
        if self.write_predictions and output_path is not None:
            file = f"ReciprocalRankFusion_evaluation{self.name and '_' + self.name}_predictions.jsonl"
            os.makedirs(output_path, exist_ok=True)
            (Path(output_path) / file).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        values = np.mean(found, axis=0).reshape(-1).tolist()
        metrics = ("map", f"mrr@{self.at_k}", f"ndcg@{self.at_k}")
        names = [prefix + metric for prefix in ("dense_", "sparse_", "") for metric in metrics]
        return dict(zip(names, values, strict=True)), values

    def _fused(self, *rankings: Sequence[str]) -> list[str]:
        """Documents in the order of the sums; equal ones in the order in which they are first found."""
        scores: dict[str, float] = {}
        for documents in rankings:
            places = {document: place for place, document in enumerate(documents, start=1)}
            for document, place in places.items():
                scores[document] = scores.get(document, 0.0) + 1 / (self.rrf_k + place)
        return sorted(scores, key=lambda document: -scores[document])
