"""Evaluators of NanoBEIR, of each of the four classes of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from grilly.closed import closed
from grilly.errors import InvalidArgumentError
from grilly.evaluation.information_retrieval import InformationRetrievalEvaluator
from grilly.evaluation.multi_vectors import MultiVectorInformationRetrievalEvaluator, refuse_truncation
from grilly.evaluation.nano_data_sets import ENGLISH, SPLITS, Several
from grilly.evaluation.scored_pairs import CrossEncoderRerankingEvaluator
from grilly.evaluation.sparse import KEYS, SparseInformationRetrievalEvaluator, flops, sparse
from grilly.util import SimilarityFunction

__all__ = [
    "CrossEncoderNanoBEIREvaluator", "MultiVectorNanoBEIREvaluator", "NanoBEIREvaluator", "SparseNanoBEIREvaluator",
]  # fmt: skip


@closed()
class NanoBEIREvaluator(Several):
    """`InformationRetrievalEvaluator` of NanoBEIR's data sets: 13 searches of about 50 queries and 5000 documents.

    Metrics are `NanoMSMARCO_cosine_ndcg@10` and so on of each data set, and `NanoBEIR_mean_cosine_ndcg@10` of all.

    Args:
        dataset_names: Some of `climatefever`, `dbpedia`, `fever`, `fiqa2018`, `hotpotqa`, `msmarco`, `nfcorpus`, `nq`,
            `quoraretrieval`, `scidocs`, `arguana`, `scifact`, `touche2020`; default: all.
        dataset_id: What `datasets.load_dataset` is called with; other languages have the same subsets and splits.
        mrr_at_k: As in `InformationRetrievalEvaluator`, like the arguments that are not named here.
        ndcg_at_k: As there.
        accuracy_at_k: As there.
        precision_recall_at_k: As there.
        map_at_k: As there.
        show_progress_bar: As there.
        batch_size: As there.
        write_csv: As there; a file for each data set, and one for all.
        truncate_dim: As there; it is part of the metrics' names.
        score_functions: As there.
        main_score_function: As there.
        aggregate_fn: Of the list of a metric's values.
        aggregate_key: Its name in the metrics' names.
        query_prompts: Prompt of all queries, or a data set's name -> the prompt of its queries.
        corpus_prompts: The same of documents.
        write_predictions: As there.

    Raises:
        InvalidArgumentError: Another name, one without a prompt, or a data set that cannot be loaded.
        MissingLibraryError: The package datasets is not installed.

    Source: `sentence_transformers.evaluation.NanoBEIREvaluator`, version 6.2.

    Example:
        >>> from grilly.evaluation import NanoBEIREvaluator
        >>> try:
        ...     NanoBEIREvaluator(["trec"])
        ... except ValueError as error:
        ...     print(str(error)[:50])
        dataset_names is ['trec'], expected some of climat
    """

    #: The class that evaluates one data set.
    information_retrieval_class: ClassVar[type[InformationRetrievalEvaluator]] = InformationRetrievalEvaluator

    def __init__(
        self,
        dataset_names: Sequence[str] | None = None,
        dataset_id: str = ENGLISH,
        mrr_at_k: Sequence[int] = (10,),
        ndcg_at_k: Sequence[int] = (10,),
        accuracy_at_k: Sequence[int] = (1, 3, 5, 10),
        precision_recall_at_k: Sequence[int] = (1, 3, 5, 10),
        map_at_k: Sequence[int] = (100,),
        show_progress_bar: bool = False,
        batch_size: int = 32,
        write_csv: bool = True,
        truncate_dim: int | None = None,
        score_functions: Mapping[str, Callable[[Any, Any], Any]] | None = None,
        main_score_function: str | SimilarityFunction | None = None,
        aggregate_fn: Callable[[list[float]], Any] = np.mean,
        aggregate_key: str = "mean",
        query_prompts: str | Mapping[str, str] | None = None,
        corpus_prompts: str | Mapping[str, str] | None = None,
        write_predictions: bool = False,
    ) -> None:
        options = {
            "mrr_at_k": mrr_at_k, "ndcg_at_k": ndcg_at_k, "accuracy_at_k": accuracy_at_k,
            "precision_recall_at_k": precision_recall_at_k, "map_at_k": map_at_k, "batch_size": batch_size,
            "show_progress_bar": show_progress_bar, "write_csv": write_csv, "score_functions": score_functions,
            "main_score_function": main_score_function, "write_predictions": write_predictions,
        }  # fmt: skip
        super().__init__(SPLITS if dataset_names is None else dataset_names, dataset_id, options)
        self.truncate_dim, self.aggregate_fn, self.aggregate_key = truncate_dim, aggregate_fn, aggregate_key
        self.query_prompts = self._prompts("query_prompts", query_prompts)
        self.corpus_prompts = self._prompts("corpus_prompts", corpus_prompts)
        cut = "".join(f"_{most}" for most in self._cut().values() if most is not None)
        self.name = f"NanoBEIR_{aggregate_key}{cut}"
        options |= self._cut()
        self.evaluators = [self._of(name, f"{SPLITS[name.lower()]}{cut}", options) for name in self.dataset_names]

    def _prompts(self, argument: str, given: str | Mapping[str, str] | None) -> dict[str, str] | None:
        """The prompt of each data set."""
        if given is None or isinstance(given, str):
            return None if given is None else dict.fromkeys(self.dataset_names, given)
        if lacking := [name for name in self.dataset_names if name not in given]:
            raise InvalidArgumentError(f"{argument} has no prompt of {', '.join(lacking)}")
        return dict(given)

    def _of(self, name: str, shown: str, options: Mapping[str, Any]) -> InformationRetrievalEvaluator:
        """The evaluator of a data set."""
        queries, corpus = (
            {row["_id"]: row["text"] for row in self._load(subset, name) if row["text"]}
            for subset in ("queries", "corpus")
        )
        prompts = {
            "query_prompt": (self.query_prompts or {}).get(name),
            "corpus_prompt": (self.corpus_prompts or {}).get(name),
        }
        made: Callable[..., InformationRetrievalEvaluator] = self.information_retrieval_class
        return made(queries, corpus, self._relevant(name), name=shown, **prompts, **options)

    def _primary(self, metrics: Mapping[str, float]) -> str:
        first = self.evaluators[0]
        main = first.main_score_function and first.main_score_function.value
        most = max(first.ndcg_at_k)
        names = [main] if main else first.score_function_names
        return max((f"{name}_ndcg@{most}" for name in names), key=metrics.__getitem__)

    def get_config_dict(self) -> dict[str, Any]:
        """Names of the data sets, and what shortens rows or goes in front of texts."""
        names = ("dataset_names", "dataset_id", *self._cut(), "query_prompts", "corpus_prompts")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


@sparse("query", "corpus")
class SparseNanoBEIREvaluator(NanoBEIREvaluator):
    """`NanoBEIREvaluator` of a SparseEncoder, with what `SparseInformationRetrievalEvaluator` gives of rows' weights.

    Of all data sets together, `active_dims` and `sparsity_ratio` are means over texts, and `avg_flops` is of all texts.
    """

    information_retrieval_class = SparseInformationRetrievalEvaluator
    max_active_dims: int | None

    def _cut(self) -> dict[str, Any]:
        return {"max_active_dims": self.max_active_dims}

    def _together(self) -> dict[str, Any]:
        added = {}
        for part, texts in (("query", "queries"), ("corpus", "corpus")):
            counts = [len(getattr(each, texts)) for each in self.evaluators]
            for name in (f"{part}_{key}" for key in KEYS):
                values = [
                    found[f"{each.name}_{name}"] for each, found in zip(self.evaluators, self._found, strict=True)
                ]
                added[name] = float(np.average(values, weights=counts))
        return super()._together() | added | {"avg_flops": flops(self.evaluators)}


@closed()
class MultiVectorNanoBEIREvaluator(NanoBEIREvaluator):
    """`NanoBEIREvaluator` of a MultiVectorEncoder, with the same arguments but for `truncate_dim`.

    Args:
        *args: As there.
        corpus_chunk_size: As in `MultiVectorInformationRetrievalEvaluator`.
        chunk_elements: Accepted.
        **options: As there.

    Source: `sentence_transformers.multi_vector_encoder.evaluation.MultiVectorNanoBEIREvaluator`, version 6.2.

    Example:
        >>> from grilly.evaluation import MultiVectorNanoBEIREvaluator
        >>> try:
        ...     MultiVectorNanoBEIREvaluator(["nq"], truncate_dim=8)
        ... except ValueError as error:
        ...     print(str(error)[:60])
        truncate_dim: a MultiVectorEncoder's vectors are not shorten
    """

    information_retrieval_class = MultiVectorInformationRetrievalEvaluator

    def __init__(
        self, *args: Any, corpus_chunk_size: int = 5000, chunk_elements: int | None = None, **options: Any
    ) -> None:
        refuse_truncation(options)
        self._chunk = {"corpus_chunk_size": corpus_chunk_size}
        super().__init__(*args, **options)

    def _cut(self) -> dict[str, Any]:
        return {}

    def _of(self, name: str, shown: str, options: Mapping[str, Any]) -> InformationRetrievalEvaluator:
        return super()._of(name, shown, {**options, **self._chunk})


@closed()
class CrossEncoderNanoBEIREvaluator(Several):
    """`CrossEncoderRerankingEvaluator` of NanoBEIR's data sets, whose subset `bm25` is the first ranking.

    Metrics are `NanoMSMARCO_R100_ndcg@10` and so on of each data set, and `NanoBEIR_R100_mean_ndcg@10` of all.

    Args:
        dataset_names: As in `NanoBEIREvaluator`; default: all but `arguana` and `touche2020`.
        dataset_id: As there.
        rerank_k: How many documents of the first ranking are ranked again.
        at_k: As in `CrossEncoderRerankingEvaluator`, like the arguments that are not named here.
        always_rerank_positives: As there.
        prompt_name: As there.
        batch_size: As there.
        show_progress_bar: As there.
        write_csv: As there; a file for each data set, and one for all.
        aggregate_fn: Of the list of a metric's values.
        aggregate_key: Its name in the metrics' names.

    Raises:
        InvalidArgumentError: Another name, or a data set that cannot be loaded.
        MissingLibraryError: The package datasets is not installed.

    Source: `sentence_transformers.cross_encoder.evaluation.CrossEncoderNanoBEIREvaluator`, version 6.2.

    Example:
        >>> from grilly.evaluation import CrossEncoderNanoBEIREvaluator
        >>> try:
        ...     CrossEncoderNanoBEIREvaluator([])
        ... except ValueError as error:
        ...     print(str(error)[:41])
        dataset_names is [], expected some of cli
    """

    def __init__(
        self,
        dataset_names: Sequence[str] | None = None,
        dataset_id: str = ENGLISH,
        rerank_k: int = 100,
        at_k: int = 10,
        always_rerank_positives: bool = True,
        prompt_name: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool = False,
        write_csv: bool = True,
        aggregate_fn: Callable[[list[float]], Any] = np.mean,
        aggregate_key: str = "mean",
    ) -> None:
        options: dict[str, Any] = {
            "at_k": at_k, "always_rerank_positives": always_rerank_positives, "prompt_name": prompt_name,
            "batch_size": batch_size, "show_progress_bar": show_progress_bar, "write_csv": write_csv,
        }  # fmt: skip
        usual = [name for name in SPLITS if name not in ("arguana", "touche2020")]
        super().__init__(usual if dataset_names is None else dataset_names, dataset_id, options)
        self.rerank_k, self.at_k, self.always_rerank_positives = rerank_k, at_k, always_rerank_positives
        self.prompt_name, self.aggregate_fn, self.aggregate_key = prompt_name, aggregate_fn, aggregate_key
        self.name = f"NanoBEIR_R{rerank_k}_{aggregate_key}"
        self.primary_metric = self._primary({})
        self.evaluators = [
            CrossEncoderRerankingEvaluator(self._samples(name), name=f"{SPLITS[name.lower()]}_R{rerank_k}", **options)
            for name in self.dataset_names
        ]

    def _samples(self, name: str) -> list[dict[str, Any]]:
        """Of each query of the first ranking its text, its relevant documents and those that are ranked."""
        queries, corpus = (
            {row["_id"]: row["text"] for row in self._load(subset, name)} for subset in ("queries", "corpus")
        )
        relevant, ranked = self._relevant(name), self._load("bm25", name)
        try:
            return [
                {
                    "query": queries[row["query-id"]],
                    "positive": [corpus[document] for document in relevant[row["query-id"]]],
                    "documents": [corpus[document] for document in row["corpus-ids"][: self.rerank_k]],
                }
                for row in ranked
            ]
        except KeyError as error:
            told = (
                f"subset 'bm25' of {self.dataset_id!r} names {error}, of which other subsets have no text or document"
            )
            raise InvalidArgumentError(told) from error

    def _primary(self, metrics: Mapping[str, float]) -> str:
        return f"ndcg@{self.at_k}"

    def get_config_dict(self) -> dict[str, Any]:
        """Names of the data sets, and how many documents are ranked and count."""
        names = ("dataset_names", "dataset_id", "rerank_k", "at_k", "always_rerank_positives")
        return {name: getattr(self, name) for name in names}
