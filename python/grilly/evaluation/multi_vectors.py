"""Evaluators of a MultiVectorEncoder, which compare by MaxSim or its mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from grilly.closed import closed
from grilly.errors import UnsupportedError
from grilly.evaluation.information_retrieval import InformationRetrievalEvaluator
from grilly.evaluation.reranking import RerankingEvaluator
from grilly.evaluation.triplet import TripletEvaluator
from grilly.late_interaction import LATE_SIMILARITIES
from grilly.util import SimilarityFunction

__all__ = ["MultiVectorInformationRetrievalEvaluator", "MultiVectorRerankingEvaluator", "MultiVectorTripletEvaluator"]


@closed()
class MultiVectorInformationRetrievalEvaluator(InformationRetrievalEvaluator):
    """`InformationRetrievalEvaluator` of a MultiVectorEncoder, by MaxSim or what the model's similarity is.

    Args:
        queries: As there, like the arguments that are not named here.
        corpus: As there.
        relevant_docs: As there.
        corpus_chunk_size: As there; fewer, since a document has many vectors.
        chunk_elements: Accepted.
        score_functions: As there, of two lists of `(T, D)`.
        **options: As there, without `truncate_dim`.

    Source: `sentence_transformers.multi_vector_encoder.evaluation.MultiVectorInformationRetrievalEvaluator`, version
    6.2.

    Example:
        >>> from grilly.evaluation import MultiVectorInformationRetrievalEvaluator
        >>> corpus = {"d1": "a dog", "d2": "one two three"}
        >>> search = MultiVectorInformationRetrievalEvaluator({"q": "a dog"}, corpus, {"q": {"d1"}})
        >>> colbert_model.evaluate(search)["maxsim_recall@3"]
        1.0
    """

    def __init__(
        self,
        queries: Mapping[str, Any],
        corpus: Mapping[str, Any],
        relevant_docs: Mapping[str, Any],
        *,
        corpus_chunk_size: int = 5000,
        chunk_elements: int | None = None,
        score_functions: Mapping[str, Callable[[Any, Any], Any]] | None = None,
        **options: Any,
    ) -> None:
        refuse_truncation(options)
        super().__init__(queries, corpus, relevant_docs, corpus_chunk_size, score_functions=score_functions, **options)

    def _functions(self, model: Any) -> Mapping[str, Callable[[Any, Any], Any]]:
        name = model.similarity_fn_name
        return self.score_functions or {name: SimilarityFunction.to_similarity_fn(name)}

    def _cut(self) -> dict[str, Any]:
        return {}


@closed()
class MultiVectorRerankingEvaluator(RerankingEvaluator):
    """`RerankingEvaluator` of a MultiVectorEncoder, by the model's similarity.

    Args:
        samples: As there, like the other arguments.
        at_k: As there.
        name: As there.
        write_csv: As there.
        similarity_fct: Of two lists of `(T, D)`; default: the model's.
        batch_size: As there.
        show_progress_bar: As there.
        use_batched_encoding: As there.

    Source: `sentence_transformers.multi_vector_encoder.evaluation.MultiVectorRerankingEvaluator`, version 6.2.

    Example:
        >>> from grilly.evaluation import MultiVectorRerankingEvaluator
        >>> sample = {"query": "a dog", "positive": ["a dog"], "negative": ["one two three"]}
        >>> sorted(colbert_model.evaluate(MultiVectorRerankingEvaluator([sample])))
        ['map', 'mrr@10', 'ndcg@10']
    """

    def __init__(
        self,
        samples: Any,
        *,
        at_k: int = 10,
        name: str = "",
        write_csv: bool = True,
        similarity_fct: Callable[[Any, Any], Any] | None = None,
        batch_size: int = 16,
        show_progress_bar: bool | None = False,
        use_batched_encoding: bool = True,
    ) -> None:
        options: dict[str, Any] = {"batch_size": batch_size, "show_progress_bar": show_progress_bar}
        super().__init__(samples, at_k, name, write_csv, use_batched_encoding=use_batched_encoding, **options)
        self._function = similarity_fct

    def _scores(self, model: Any, query: Any, rows: Any) -> Any:
        self.similarity_fct = self._function or model.similarity
        return super()._scores(model, query, rows)

    def _cut(self) -> dict[str, Any]:
        return {}


@closed()
class MultiVectorTripletEvaluator(TripletEvaluator):
    """`TripletEvaluator` of a MultiVectorEncoder, with the same arguments but for `truncate_dim`.

    Source: `sentence_transformers.multi_vector_encoder.evaluation.MultiVectorTripletEvaluator`, version 6.2.

    Example:
        >>> from grilly.evaluation import MultiVectorTripletEvaluator
        >>> colbert_model.evaluate(MultiVectorTripletEvaluator(["a dog"], ["a dog"], ["one two three"]))
        {'maxsim_accuracy': 1.0}
    """

    similarity_names: ClassVar[tuple[str, ...]] = tuple(LATE_SIMILARITIES)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        refuse_truncation(options)
        super().__init__(*arguments, **options)

    def _cut(self) -> dict[str, Any]:
        return {}


def refuse_truncation(options: Mapping[str, Any]) -> None:
    """Vectors of tokens have all their dimensions."""
    if options.get("truncate_dim") is not None:
        raise UnsupportedError("truncate_dim: a MultiVectorEncoder's vectors are not shortened; leave it out")
