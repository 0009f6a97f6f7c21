"""What can be done with the vectors of tokens: comparing the texts that have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from grilly.late_interaction import LATE_SIMILARITIES
from grilly.sentence_transformer.saving import Saving
from grilly.sentence_transformer.settings import Similar

__all__ = ["MultiVectors"]

#: PyLate's settings of what begins the texts of a task, which are one token if the tokenizer knows them.
BEGINNINGS = {"query_prefix": "query", "document_prefix": "document"}

XTR = "a score depends on the other documents: grilly.xtr_scores computes it; take 'maxsim' or 'meanmaxsim' here"


class MultiVectors(Similar, Saving):
    """A loaded model of a vector per token."""

    usual_similarity: ClassVar[str] = "maxsim"
    SUPPORTED_SIMILARITY_FN_NAMES: ClassVar[tuple[str, ...]] = tuple(LATE_SIMILARITIES)
    _similarities: ClassVar[Mapping[str, tuple[Any, Any]]] = LATE_SIMILARITIES
    _refused_similarities: ClassVar[Mapping[str, str]] = {"xtr": XTR}

    def similarity(self, embeddings1: Any, embeddings2: Any, **options: Any) -> Any:
        """Scores of every query with every document, by `similarity_fn_name`: `(N, M)`.

        Args:
            embeddings1: Vectors of queries: a list of `(T, D)`, or those of one.
            embeddings2: Vectors of documents.
            **options: As for `grilly.util.maxsim`.

        Returns:
            float32 `(N, M)`; a torch tensor if there are tensors among the vectors, where sentence-transformers always
            returns one.

        Source: `sentence_transformers.MultiVectorEncoder.similarity`, version 6.2.

        Example:
            >>> queries = colbert_model.encode_query(["a cat", "a dog"])
            >>> colbert_model.similarity(queries, colbert_model.encode_document(["A cat sits on the mat."])).shape
            (2, 1)
        """
        return self._similarities[self.similarity_fn_name][0](embeddings1, embeddings2, **options)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any, **options: Any) -> Any:
        """Scores of each query with the document at its place, as `similarity` does: `(N,)`.

        Source: `sentence_transformers.MultiVectorEncoder.similarity_pairwise`, version 6.2.

        Example:
            >>> queries = colbert_model.encode_query(["a cat", "a dog"])
            >>> colbert_model.similarity_pairwise(queries, colbert_model.encode_document(["A cat.", "Rates."])).shape
            (2,)
        """
        return self._similarities[self.similarity_fn_name][1](embeddings1, embeddings2, **options)

    def _setting(self, key: str) -> Any:
        # Readers put it before a prompt that does not begin with it.
        stated: str | None = self._core.settings[key]
        return stated if self.prompts.get(BEGINNINGS[key], "").startswith(stated or "") else None
