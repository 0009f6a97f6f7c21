"""Haystack: components that embed texts and documents, dense and sparse, and one that ranks documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from grilly.cross_encoder import CrossEncoder
from grilly.integrations.loading import library, loaded, settings
from grilly.multi_vector_encoder import MultiVectorEncoder
from grilly.sentence_transformer import SentenceTransformer, VulkanSentenceTransformer
from grilly.sparse_encoder import SparseEncoder

with library("haystack-ai"):
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.dataclasses import SparseEmbedding

__all__ = [
    "GrillyDocumentEmbedder",
    "GrillyRanker",
    "GrillySparseDocumentEmbedder",
    "GrillySparseTextEmbedder",
    "GrillyTextEmbedder",
]


class Holding:
    """A component with a model, which `warm_up` or the first run loads.

    Args:
        model: The name or the folder of a model, or a loaded one, of which `to_dict` writes its settings.
        options: Arguments of the model's constructor, such as `{"device": "cpu"}`, for a name.
        encode_kwargs: Arguments of each call of the model, such as `batch_size`.
    """

    kinds: ClassVar[tuple[type[Any], ...]] = (SentenceTransformer, VulkanSentenceTransformer)
    #: Arguments of the constructor after the model and its options.
    others: ClassVar[tuple[str, ...]] = ("encode_kwargs",)

    def __init__(
        self,
        model: Any = "all-MiniLM-L6-v2",
        *,
        options: dict[str, Any] | None = None,
        encode_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.model, self.options, self.encode_kwargs = model, dict(options or {}), dict(encode_kwargs or {})
        self.held: Any = None

    def warm_up(self) -> None:
        """Loads the model."""
        if self.held is None:
            self.held = loaded(self.model, self.options, *self.kinds)

    def to_dict(self) -> dict[str, Any]:
        """The settings, as pipelines write them down."""
        name, options = settings(self.model, self.options, self.kinds[0])
        others = {other: getattr(self, other) for other in self.others}
        written: dict[str, Any] = default_to_dict(self, model=name, options=options, **others)
        return written

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        """A component of such settings."""
        return default_from_dict(cls, data)


class HoldingDocuments(Holding):
    """One that embeds documents, with some of their metadata before their text.

    Args:
        model: As for `Holding`, like `options` and `encode_kwargs`.
        meta_fields_to_embed: Names of the metadata.
        embedding_separator: What stands between them and the text.
    """

    others = ("encode_kwargs", "meta_fields_to_embed", "embedding_separator")

    def __init__(
        self,
        model: Any = "all-MiniLM-L6-v2",
        *,
        options: dict[str, Any] | None = None,
        encode_kwargs: dict[str, Any] | None = None,
        meta_fields_to_embed: Sequence[str] = (),
        embedding_separator: str = "\n",
    ) -> None:
        super().__init__(model, options=options, encode_kwargs=encode_kwargs)
        self.meta_fields_to_embed, self.embedding_separator = list(meta_fields_to_embed), embedding_separator

    def _encoded(self, documents: list[Document]) -> Any:
        """The rows of documents."""
        self.warm_up()
        return self.held.encode_document([self._text(document) for document in documents], **self.encode_kwargs)

    def _text(self, document: Document) -> str:
        values = [document.meta.get(name) for name in self.meta_fields_to_embed]
        return self.embedding_separator.join([*(str(value) for value in values if value), document.content or ""])


@component
class GrillyTextEmbedder(Holding):
    """The embedding of a query, by `encode_query`.

    Args:
        model: The name or the folder of a model, or a `SentenceTransformer`.
        options: Arguments of its constructor, such as `{"device": "cpu"}`.
        encode_kwargs: Arguments of `encode_query`.

    Source: the embedders of haystack-ai 3.4.

    Example:
        >>> from grilly.integrations.haystack import GrillyTextEmbedder
        >>> len(GrillyTextEmbedder(model).run("Where is the cat?")["embedding"])
        384
    """

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        """`embedding` of a text.

        Example:
            >>> from grilly.integrations.haystack import GrillyTextEmbedder
            >>> sorted(GrillyTextEmbedder(model).run("Where is the cat?"))
            ['embedding']
        """
        self.warm_up()
        return {"embedding": self.held.encode_query(text, **self.encode_kwargs).tolist()}


@component
class GrillyDocumentEmbedder(HoldingDocuments):
    """The embeddings of documents, by `encode_document`.

    Args:
        model: The name or the folder of a model, or a `SentenceTransformer`.
        options: Arguments of its constructor, such as `{"device": "cpu"}`.
        encode_kwargs: Arguments of `encode_document`.
        meta_fields_to_embed: Names of metadata that are put before the text of a document.
        embedding_separator: What stands between them and the text.

    Source: the embedders of haystack-ai 3.4.

    Example:
        >>> from haystack import Document
        >>> from grilly.integrations.haystack import GrillyDocumentEmbedder
        >>> found = GrillyDocumentEmbedder(model).run([Document(content="On the mat.")])["documents"]
        >>> len(found[0].embedding)
        384
    """

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Copies of the documents, with `embedding`.

        Example:
            >>> from grilly.integrations.haystack import GrillyDocumentEmbedder
            >>> GrillyDocumentEmbedder(model).run([])
            {'documents': []}
        """
        rows = self._encoded(documents).tolist()
        found = zip(documents, rows, strict=True)
        return {"documents": [replace(document, embedding=row) for document, row in found]}


@component
class GrillySparseTextEmbedder(Holding):
    """The sparse embedding of a query, by `encode_query` of a `SparseEncoder`; arguments as for `GrillyTextEmbedder`.

    Source: the embedders of haystack-ai 3.4.

    Example:
        >>> from grilly.integrations.haystack import GrillySparseTextEmbedder
        >>> found = GrillySparseTextEmbedder(splade_model).run("Where is the cat?")["sparse_embedding"]
        >>> len(found.indices) == len(found.values)
        True
    """

    kinds = (SparseEncoder,)

    @component.output_types(sparse_embedding=SparseEmbedding)
    def run(self, text: str) -> dict[str, Any]:
        """`sparse_embedding` of a text.

        Example:
            >>> from grilly.integrations.haystack import GrillySparseTextEmbedder
            >>> sorted(GrillySparseTextEmbedder(splade_model).run("Where is the cat?"))
            ['sparse_embedding']
        """
        self.warm_up()
        return {"sparse_embedding": sparse(self.held.encode_query(text, **self.encode_kwargs))}


@component
class GrillySparseDocumentEmbedder(HoldingDocuments):
    """The sparse embeddings of documents, by `encode_document` of a `SparseEncoder`.

    Arguments are those of `GrillyDocumentEmbedder`.

    Source: the embedders of haystack-ai 3.4.

    Example:
        >>> from haystack import Document
        >>> from grilly.integrations.haystack import GrillySparseDocumentEmbedder
        >>> found = GrillySparseDocumentEmbedder(splade_model).run([Document(content="On the mat.")])["documents"]
        >>> len(found[0].sparse_embedding.indices) > 0
        True
    """

    kinds = (SparseEncoder,)

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Copies of the documents, with `sparse_embedding`.

        Example:
            >>> from grilly.integrations.haystack import GrillySparseDocumentEmbedder
            >>> GrillySparseDocumentEmbedder(splade_model).run([])
            {'documents': []}
        """
        rows = self._encoded(documents) if documents else []
        found = zip(documents, rows, strict=True)
        return {"documents": [replace(document, sparse_embedding=sparse(row)) for document, row in found]}


@component
class GrillyRanker(Holding):
    """The documents that a model scores highest with a query.

    Args:
        model: The name or the folder of a `CrossEncoder`, or one; or a `MultiVectorEncoder`.
        options: Arguments of the constructor of `CrossEncoder`.
        encode_kwargs: Arguments of `rank`, such as `batch_size`.
        top_k: Documents that are kept; None keeps all.

    Source: the rankers of haystack-ai 3.4.

    Example:
        >>> from haystack import Document
        >>> from grilly.integrations.haystack import GrillyRanker
        >>> documents = [Document(content="A kitten."), Document(content="Rates rose.")]
        >>> len(GrillyRanker(ranker_model, top_k=1).run("a cat", documents)["documents"])
        1
    """

    kinds = (CrossEncoder, MultiVectorEncoder)
    others = ("encode_kwargs", "top_k")

    def __init__(
        self,
        model: Any = "cross-encoder/ms-marco-MiniLM-L6-v2",
        *,
        options: dict[str, Any] | None = None,
        encode_kwargs: dict[str, Any] | None = None,
        top_k: int | None = 10,
    ) -> None:
        Holding.__init__(self, model, options=options, encode_kwargs=encode_kwargs)  # component makes another class
        self.top_k = top_k

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document], top_k: int | None = None) -> dict[str, Any]:
        """Copies of the best documents, the highest score first, which is `score` of each.

        Example:
            >>> from grilly.integrations.haystack import GrillyRanker
            >>> GrillyRanker(ranker_model).run("a cat", [])
            {'documents': []}
        """
        self.warm_up()
        texts = [document.content or "" for document in documents]
        most = self.top_k if top_k is None else top_k
        hits = self.held.rank(query, texts, top_k=most, **self.encode_kwargs) if texts else []
        return {"documents": [replace(documents[hit["corpus_id"]], score=hit["score"]) for hit in hits]}


def sparse(row: Any) -> SparseEmbedding:
    """A row of a `SparseEncoder`, as Haystack has it."""
    return SparseEmbedding(row.columns.tolist(), row.values.tolist())
