"""Queries whose relevant documents are known, searched for in a corpus."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.evaluation.evaluator import Measured
from grilly.inputs import positive
from grilly.retrieval import matrix
from grilly.tensors import as_array
from grilly.util import SimilarityFunction

__all__ = ["InformationRetrievalEvaluator"]

Hits = list[tuple[float, int]]
#: A metric's name -> the argument that lists how many hits count.
CUTS = {
    "accuracy@k": "accuracy_at_k", "precision@k": "precision_recall_at_k", "recall@k": "precision_recall_at_k",
    "ndcg@k": "ndcg_at_k", "mrr@k": "mrr_at_k", "map@k": "map_at_k",
}  # fmt: skip
#: The order of the file's columns: metrics that alternate stand together.
COLUMNS = (("accuracy@k",), ("precision@k", "recall@k"), ("mrr@k",), ("ndcg@k",), ("map@k",))
SHOWN = {
    "accuracy": "Accuracy",
    "precision": "Precision",
    "recall": "Recall",
    "mrr": "MRR",
    "ndcg": "NDCG",
    "map": "MAP",
}


@closed()
class InformationRetrievalEvaluator(Measured):
    """How well the most similar documents of a corpus are those that are relevant to a query.

    Metrics of each similarity, of the first k hits: `accuracy@k` (a relevant one is among them), `precision@k`,
    `recall@k`, `ndcg@k`, `mrr@k`, `map@k`. Equal scores are in the order of the documents' names. Queries without
    relevant documents are left out. Queries are encoded by `encode_query`, documents by `encode_document`.

    Args:
        queries: Name of a query -> its text.
        corpus: Name of a document -> its text.
        relevant_docs: Name of a query -> the names of its relevant documents.
        corpus_chunk_size: Documents that are encoded and compared at a time.
        mrr_at_k: For which k the metric is given, like the following four.
        ndcg_at_k: See `mrr_at_k`.
        accuracy_at_k: See `mrr_at_k`.
        precision_recall_at_k: See `mrr_at_k`.
        map_at_k: See `mrr_at_k`.
        show_progress_bar: As in `encode`, like `batch_size` and `truncate_dim`.
        batch_size: As in `encode`.
        name: Goes in front of the metrics' names, and into the files' names.
        write_csv: Whether a call with an `output_path` appends to its file.
        truncate_dim: Dimensions kept of each row.
        score_functions: Name -> function of two matrices of rows; default: the model's similarity.
        main_score_function: The similarity of `primary_metric`; default: the one with the best nDCG.
        query_prompt: Prompt of the queries, or `query_prompt_name` its name.
        query_prompt_name: See `query_prompt`.
        corpus_prompt: Prompt of the documents, or `corpus_prompt_name` its name.
        corpus_prompt_name: See `corpus_prompt`.
        write_predictions: Whether a call with an `output_path` writes each query's hits, as lines of JSON.

    A call also takes `corpus_model`, which encodes the documents, and `corpus_embeddings`, their rows.

    Source: `sentence_transformers.evaluation.InformationRetrievalEvaluator`, version 6.2.

    Example:
        >>> from grilly.evaluation import InformationRetrievalEvaluator
        >>> corpus = {"d1": "Rye bread is baked here.", "d2": "The train is late."}
        >>> search = InformationRetrievalEvaluator({"q": "Where can I buy bread?"}, corpus, {"q": {"d1"}})
        >>> model.evaluate(search)["cosine_ndcg@10"]
        1.0
    """

    line_end = "\n"

    file_begins = "Information-Retrieval_evaluation"

    def __init__(
        self,
        queries: Mapping[str, Any],
        corpus: Mapping[str, Any],
        relevant_docs: Mapping[str, Any],
        corpus_chunk_size: int = 50000,
        mrr_at_k: Sequence[int] = (10,),
        ndcg_at_k: Sequence[int] = (10,),
        accuracy_at_k: Sequence[int] = (1, 3, 5, 10),
        precision_recall_at_k: Sequence[int] = (1, 3, 5, 10),
        map_at_k: Sequence[int] = (100,),
        show_progress_bar: bool | None = False,
        batch_size: int = 32,
        name: str = "",
        write_csv: bool = True,
        truncate_dim: int | None = None,
        score_functions: Mapping[str, Callable[[Any, Any], Any]] | None = None,
        main_score_function: str | SimilarityFunction | None = None,
        query_prompt: str | None = None,
        query_prompt_name: str | None = None,
        corpus_prompt: str | None = None,
        corpus_prompt_name: str | None = None,
        write_predictions: bool = False,
    ) -> None:
        super().__init__(name, batch_size, show_progress_bar, write_csv)
        self.queries_ids = [each for each in queries if relevant_docs.get(each)]
        self.queries = [queries[each] for each in self.queries_ids]
        self.corpus_ids, self.corpus = list(corpus), list(corpus.values())
        self.relevant_docs, self.corpus_chunk_size = relevant_docs, positive(corpus_chunk_size, "corpus_chunk_size")
        self.mrr_at_k, self.ndcg_at_k, self.accuracy_at_k = mrr_at_k, ndcg_at_k, accuracy_at_k
        self.precision_recall_at_k, self.map_at_k = precision_recall_at_k, map_at_k
        self.truncate_dim, self.score_functions = truncate_dim, score_functions
        self.score_function_names = sorted(score_functions or {})
        self.main_score_function = main_score_function and SimilarityFunction(main_score_function)
        self.query_prompt, self.query_prompt_name = query_prompt, query_prompt_name
        self.corpus_prompt, self.corpus_prompt_name = corpus_prompt, corpus_prompt_name
        self.write_predictions = write_predictions
        self._corpus: dict[str, Any] = {}
        # The place of each document in the order of names, which decides between equal scores.
        self._order = np.empty(len(self.corpus_ids), np.int64)
        self._order[sorted(range(len(self.corpus_ids)), key=self.corpus_ids.__getitem__)] = range(len(self.corpus_ids))

    def __call__(
        self,
        model: Any,
        output_path: str | None = None,
        epoch: int = -1,
        steps: int = -1,
        corpus_model: Any = None,
        corpus_embeddings: Any = None,
    ) -> dict[str, float]:
        self._corpus = {"model": corpus_model, "rows": corpus_embeddings}
        return super().__call__(model, output_path, epoch, steps)

    def _columns(self) -> list[str]:
        return [
            f"{name}-{SHOWN[metric[:-2]]}@{k}" for name in self.score_function_names for metric, k in self._listed()
        ]

    def _listed(self) -> list[tuple[str, int]]:
        """Metrics with their k, in the order of the columns."""
        return [(name, k) for names in COLUMNS for k in getattr(self, CUTS[names[0]]) for name in names]

    def _functions(self, model: Any) -> Mapping[str, Callable[[Any, Any], Any]]:
        return self.score_functions or {model.similarity_fn_name: model.similarity}

    def _measure(self, model: Any, output_path: str | None) -> tuple[dict[str, Any], list[Any]]:
        functions = self._functions(model)
        self.score_function_names, self.primary_metric = sorted(functions), None
        hits = self._search(model, functions)
        if self.write_predictions and output_path is not None:
            self._write_hits(Path(output_path), hits)
        found = {name: self._of(hits[name]) for name in functions}
        metrics = {
            f"{name}_{metric[:-2]}@{k}": found[name][metric, k]
            for name in functions
            for metric, cut in CUTS.items()
            for k in getattr(self, cut)
        }
        most = max(self.ndcg_at_k)
        main = self.main_score_function and self.main_score_function.value
        main = main or max(self.score_function_names, key=lambda name: found[name]["ndcg@k", most])
        self.primary_metric = f"{main}_ndcg@{most}"
        return metrics, [found[name][listed] for name in self.score_function_names for listed in self._listed()]

    def _search(self, model: Any, functions: Mapping[str, Any]) -> dict[str, list[Hits]]:
        """Of each function and query the best hits, the highest score first."""
        most = max(k for cut in CUTS.values() for k in getattr(self, cut))
        queries = self.embed_inputs(
            model, self.queries, "query", prompt_name=self.query_prompt_name, prompt=self.query_prompt
        )
        hits: dict[str, list[Hits]] = {name: [[] for _ in self.queries] for name in functions}
        for start in range(0, len(self.corpus), self.corpus_chunk_size):
            rows = self._documents(model, slice(start, start + self.corpus_chunk_size))
            for name, function in functions.items():
                for known, scores in zip(hits[name], matrix(as_array(function(queries, rows))), strict=True):
                    places = self._best(scores, start, most)
                    known.extend(zip(scores[places].tolist(), (places + start).tolist(), strict=True))
                    known.sort(key=lambda hit: (-hit[0], self._order[hit[1]]))
                    del known[most:]
        return hits

    def _documents(self, model: Any, part: slice) -> Any:
        if (rows := self._corpus.get("rows")) is not None:
            return rows[part]
        return self.embed_inputs(
            self._corpus.get("model") or model, self.corpus[part], "corpus",
            prompt_name=self.corpus_prompt_name, prompt=self.corpus_prompt,
        )  # fmt: skip

    def _best(self, scores: npt.NDArray[Any], start: int, most: int) -> npt.NDArray[np.int64]:
        """Places of the `most` best scores of a query; of equal ones those whose names come first."""
        if len(scores) <= most:
            return np.arange(len(scores))
        places = np.flatnonzero(scores >= np.partition(scores, -most)[-most])
        return places[np.lexsort((self._order[start + places], -scores[places]))[:most]]

    def _of(self, hits: list[Hits]) -> dict[tuple[str, int], float]:
        """Each metric and k, a mean over queries."""
        values: dict[tuple[str, int], list[float]] = {}
        for query, found in zip(self.queries_ids, hits, strict=True):
            relevant = set(self.relevant_docs[query])
            right = np.array([self.corpus_ids[place] in relevant for _, place in found], dtype=np.float64)
            for metric, cut in CUTS.items():
                for k in getattr(self, cut):
                    values.setdefault((metric, k), []).append(MEASURES[metric](right[:k], len(relevant), k))
        return {key: float(np.mean(each)) for key, each in values.items()}

    def _write_hits(self, folder: Path, hits: dict[str, list[Hits]]) -> None:
        os.makedirs(folder, exist_ok=True)
        for name, found in hits.items():
            file = f"Information-Retrieval_evaluation{self.name and '_' + self.name}_predictions_{name}.jsonl"
            lines = [
                {
                    "query_id": query,
                    "query": text,
                    "results": [{"corpus_id": self.corpus_ids[place], "score": score} for score, place in best],
                }
                for query, text, best in zip(self.queries_ids, self.queries, found, strict=True)
            ]
            (folder / file).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def gain(right: npt.NDArray[Any]) -> float:
    """The discounted gain of hits."""
    return float((right / np.log2(np.arange(len(right)) + 2.0)).sum())


def mean_precision(right: npt.NDArray[Any], known: int, k: int) -> float:
    """Mean precision at each relevant hit, of as many as there can be."""
    precisions = np.cumsum(right) / (np.arange(len(right)) + 1.0)
    return float((precisions * right).sum()) / min(k, known)


def first(right: npt.NDArray[Any]) -> float:
    """One over the place of the first relevant hit."""
    return 1.0 / (int(np.argmax(right)) + 1) if right.any() else 0.0


#: Metric -> what it is of the first k hits (1 where relevant), of the number of relevant documents, and of k.
MEASURES: dict[str, Callable[[npt.NDArray[Any], int, int], float]] = {
    "accuracy@k": lambda right, known, k: float(right.any()),
    "precision@k": lambda right, known, k: float(right.sum()) / k,
    "recall@k": lambda right, known, k: float(right.sum()) / known,
    "ndcg@k": lambda right, known, k: gain(right) / gain(np.ones(min(known, k))),
    "mrr@k": lambda right, known, k: first(right),
    "map@k": mean_precision,
}
