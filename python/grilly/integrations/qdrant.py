"""Qdrant: vectors of every kind of model as its client takes them, and the settings of a collection for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grilly.errors import InvalidTypeError, UnsupportedError
from grilly.integrations.loading import library
from grilly.multi_vector_encoder import MultiVectorEncoder
from grilly.sparse import SparseRows
from grilly.sparse_encoder import SparseEncoder

with library("qdrant-client"):
    from qdrant_client import models

__all__ = ["document_vectors", "query_vector", "vector_params"]

#: Names of `similarity_fn_name` -> Qdrant's.
DISTANCES = {
    "cosine": models.Distance.COSINE,
    "dot": models.Distance.DOT,
    "euclidean": models.Distance.EUCLID,
    "manhattan": models.Distance.MANHATTAN,
}


def vector_params(model: Any) -> Any:
    """The settings of a collection for a model's vectors.

    Args:
        model: A `SentenceTransformer`, a `SparseEncoder` or a `MultiVectorEncoder`.

    Returns:
        `VectorParams` of the model's columns and similarity, for `vectors_config`; of a `MultiVectorEncoder` compared
        by MaxSim; of a `SparseEncoder` `SparseVectorParams`, for `sparse_vectors_config`.

    Raises:
        InvalidTypeError: A model without vectors.
        UnsupportedError: A similarity that Qdrant does not have.

    Source: qdrant-client 1.20.

    Example:
        >>> from grilly.integrations.qdrant import vector_params
        >>> vector_params(model).size, vector_params(model).distance.value
        (384, 'Cosine')
    """
    if not hasattr(model, "encode_document"):
        raise InvalidTypeError(f"model is of type {type(model).__name__}, which gives no vectors of texts")
    name = model.similarity_fn_name
    if isinstance(model, SparseEncoder):
        if name != "dot":
            raise UnsupportedError(f"similarity_fn_name is {name!r}; Qdrant compares sparse vectors by dot")
        return models.SparseVectorParams()
    size = model.get_embedding_dimension()
    if isinstance(model, MultiVectorEncoder):
        # The sum of MaxSim and the mean give one order, since all scores are of one query.
        compared = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
        return models.VectorParams(size=size, distance=models.Distance.DOT, multivector_config=compared)
    return models.VectorParams(size=size, distance=DISTANCES[name])


def document_vectors(model: Any, texts: Sequence[str], **options: Any) -> list[Any]:
    """The vectors of documents, for `PointStruct` or `upload_collection`.

    Args:
        model: A `SentenceTransformer`, a `SparseEncoder` or a `MultiVectorEncoder`.
        texts: The documents.
        **options: Arguments of `encode_document`.

    Returns:
        For each text a list of float, a `SparseVector`, or a list of such lists.

    Example:
        >>> from grilly.integrations.qdrant import document_vectors
        >>> [len(vector) for vector in document_vectors(model, ["On the mat.", "Rates rose."])]
        [384, 384]
    """
    return [as_vector(row) for row in model.encode_document(list(texts), **options)]


def query_vector(model: Any, text: str, **options: Any) -> Any:
    """The vector of a query, for `query_points`: as `document_vectors` gives them, by `encode_query`.

    Example:
        >>> from grilly.integrations.qdrant import query_vector
        >>> len(query_vector(splade_model, "Where is the cat?").indices) > 0
        True
    """
    return as_vector(model.encode_query(text, **options))


def as_vector(row: Any) -> Any:
    """A row of any model, as Qdrant's client takes it."""
    if isinstance(row, SparseRows):
        return models.SparseVector(indices=row.columns.tolist(), values=row.values.tolist())
    return row.tolist()
