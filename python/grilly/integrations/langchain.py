"""LangChain: embeddings, and a reranker as document compressor."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from grilly.cross_encoder import CrossEncoder
from grilly.integrations.loading import library, loaded
from grilly.multi_vector_encoder import MultiVectorEncoder
from grilly.sentence_transformer import SentenceTransformer, VulkanSentenceTransformer

with library("langchain-core"):
    from langchain_core.callbacks import Callbacks
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.embeddings import Embeddings
    from pydantic import PrivateAttr

__all__ = ["GrillyEmbeddings", "GrillyReranker"]


class GrillyEmbeddings(Embeddings):
    """A model's embeddings for vector stores: documents by `encode_document`, queries by `encode_query`.

    Args:
        model: The name or the folder of a model, or a `SentenceTransformer`.
        encode_kwargs: Arguments of the two methods, such as `batch_size` or `normalize_embeddings`.
        **options: Arguments of the constructor of `SentenceTransformer`, such as `device` or `dtype`.

    Raises:
        InvalidTypeError: A model of another class.
        InvalidArgumentError: `options` beside a model that is loaded.

    Source: `Embeddings` of langchain-core 1.8.

    Example:
        >>> from grilly.integrations.langchain import GrillyEmbeddings
        >>> embeddings = GrillyEmbeddings("all-MiniLM-L6-v2", device="cpu")
        >>> len(embeddings.embed_query("Where is the cat?"))
        384
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | SentenceTransformer | VulkanSentenceTransformer = "all-MiniLM-L6-v2",
        *,
        encode_kwargs: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.model: Any = loaded(model, options, SentenceTransformer, VulkanSentenceTransformer)
        self.encode_kwargs = dict(encode_kwargs or {})

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text.

        Example:
            >>> from grilly.integrations.langchain import GrillyEmbeddings
            >>> len(GrillyEmbeddings(model).embed_documents(["On the mat.", "Rates rose."]))
            2
        """
        rows: list[list[float]] = self.model.encode_document(texts, **self.encode_kwargs).tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query.

        Example:
            >>> from grilly.integrations.langchain import GrillyEmbeddings
            >>> len(GrillyEmbeddings(model).embed_query("Where is the cat?"))
            384
        """
        row: list[float] = self.model.encode_query(text, **self.encode_kwargs).tolist()
        return row


class GrillyReranker(BaseDocumentCompressor):
    """The documents that a model scores highest with the query, for a retriever with compression.

    Args:
        model: The name or the folder of a `CrossEncoder`, or one; or a `MultiVectorEncoder`.
        top_n: Documents that are kept; None keeps all.
        options: Arguments of the constructor of `CrossEncoder`, such as `{"device": "cpu"}`.
        encode_kwargs: Arguments of `rank`, such as `batch_size`.

    Raises:
        InvalidTypeError: A model of another class.
        InvalidArgumentError: `options` beside a model that is loaded.

    Source: `BaseDocumentCompressor` of langchain-core 1.8.

    Example:
        >>> from grilly.integrations.langchain import GrillyReranker
        >>> from langchain_core.documents import Document
        >>> documents = [Document("A kitten."), Document("Rates rose."), Document("A dog.")]
        >>> found = GrillyReranker(ranker_model, top_n=2).compress_documents(documents, "a cat")
        >>> len(found), sorted(found[0].metadata)
        (2, ['relevance_score'])
    """

    model: Any
    top_n: int | None
    options: dict[str, Any]
    encode_kwargs: dict[str, Any]
    _held: Any = PrivateAttr()

    def __init__(
        self,
        model: str | os.PathLike[str] | CrossEncoder | MultiVectorEncoder = "cross-encoder/ms-marco-MiniLM-L6-v2",
        *,
        top_n: int | None = 3,
        options: dict[str, Any] | None = None,
        encode_kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(model=model, top_n=top_n, options=options or {}, encode_kwargs=encode_kwargs or {})
        self._held = loaded(model, self.options, CrossEncoder, MultiVectorEncoder)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """The best documents, the highest score first, which is `relevance_score` of their metadata.

        Example:
            >>> from grilly.integrations.langchain import GrillyReranker
            >>> GrillyReranker(ranker_model).compress_documents([], "a cat")
            []
        """
        texts = [document.page_content for document in documents]
        hits = self._held.rank(query, texts, top_k=self.top_n, **self.encode_kwargs) if texts else []
        return [scored(documents[hit["corpus_id"]], hit["score"]) for hit in hits]


def scored(document: Document, score: float) -> Document:
    """A copy of a document with its score."""
    copy: Document = document.model_copy(update={"metadata": {**document.metadata, "relevance_score": score}})
    return copy
