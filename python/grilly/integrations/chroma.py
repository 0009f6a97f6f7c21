"""Chroma: embedding functions, dense and sparse, which collections write down by name and settings."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from grilly.integrations.loading import library, loaded, settings
from grilly.sentence_transformer import SentenceTransformer, VulkanSentenceTransformer
from grilly.sparse_encoder import SparseEncoder

with library("chromadb"):
    from chromadb.api.types import EmbeddingFunction, SparseEmbeddingFunction, SparseVector
    from chromadb.utils.embedding_functions import register_embedding_function, register_sparse_embedding_function

__all__ = ["GrillyEmbeddingFunction", "GrillySparseEmbeddingFunction"]


class Holding:
    """A model, which the first texts load: Chroma makes a function wherever it reads settings, also to compare them.

    Args:
        model: The name or the folder of a model, or a loaded one.
        encode_kwargs: Arguments of `encode_document` and `encode_query`, as JSON has them.
        **options: Arguments of the model's constructor, such as `device` or `dtype`, for a name.
    """

    kinds: ClassVar[tuple[type[Any], ...]] = (SentenceTransformer, VulkanSentenceTransformer)

    def __init__(
        self, model: Any = "all-MiniLM-L6-v2", *, encode_kwargs: dict[str, Any] | None = None, **options: Any
    ) -> None:
        self.model, self.options, self.encode_kwargs = model, options, dict(encode_kwargs or {})
        self._held: Any = None

    @property
    def held(self) -> Any:
        """The model."""
        if self._held is None:
            self._held = loaded(self.model, self.options, *self.kinds)
        return self._held

    def get_config(self) -> dict[str, Any]:
        """The settings, as a collection writes them down."""
        name, options = settings(self.model, self.options, self.kinds[0])
        return {"model": name, "options": options, "encode_kwargs": self.encode_kwargs}


@register_embedding_function
class GrillyEmbeddingFunction(Holding, EmbeddingFunction[Any]):
    """A model as a collection's `embedding_function`: documents by `encode_document`, queries by `encode_query`.

    A collection that was made with it is opened without it once this module has been imported. Distances are cosine
    unless the collection says otherwise.

    Args:
        model: The name or the folder of a model, or a `SentenceTransformer`.
        encode_kwargs: Arguments of the two methods, as JSON has them.
        **options: Arguments of the constructor of `SentenceTransformer`, such as `device` or `dtype`.

    Raises:
        InvalidTypeError: A model of another class, when it is first used.

    Source: `EmbeddingFunction` of chromadb 1.5.

    Example:
        >>> from grilly.integrations.chroma import GrillyEmbeddingFunction
        >>> function = GrillyEmbeddingFunction("all-MiniLM-L6-v2", device="cpu")
        >>> function(["On the mat."])[0].shape, function.name(), function.get_config()["options"]
        ((384,), 'grilly', {'device': 'cpu'})
    """

    def __call__(self, input: Any) -> Any:
        """A row for each document."""
        return rows_of(self.held.encode_document(list(input), **self.encode_kwargs))

    def embed_query(self, input: Any) -> Any:
        """A row for each query.

        Example:
            >>> from grilly.integrations.chroma import GrillyEmbeddingFunction
            >>> len(GrillyEmbeddingFunction(model).embed_query(["Where is the cat?"]))
            1
        """
        return rows_of(self.held.encode_query(list(input), **self.encode_kwargs))

    @staticmethod
    def name() -> str:
        """The name in a collection's settings."""
        return "grilly"

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> GrillyEmbeddingFunction:
        """A function of the settings that `get_config` gives."""
        made: GrillyEmbeddingFunction = of_settings(GrillyEmbeddingFunction, json.dumps(config))
        return made

    def default_space(self) -> Any:
        """The distance of collections that name none."""
        return "cosine"


@register_sparse_embedding_function
class GrillySparseEmbeddingFunction(Holding, SparseEmbeddingFunction[Any]):
    """A `SparseEncoder` as the function of a sparse index of Chroma.

    Args:
        model: The name or the folder of a model, or a `SparseEncoder`.
        encode_kwargs: Arguments of `encode_document` and `encode_query`, as JSON has them.
        **options: Arguments of the constructor of `SparseEncoder`, such as `device`.

    Raises:
        InvalidTypeError: A model of another class, when it is first used.

    Source: `SparseEmbeddingFunction` of chromadb 1.5.

    Example:
        >>> from grilly.integrations.chroma import GrillySparseEmbeddingFunction
        >>> vector = GrillySparseEmbeddingFunction(splade_model)(["On the mat."])[0]
        >>> len(vector.indices) == len(vector.values)
        True
    """

    kinds = (SparseEncoder,)

    def __call__(self, input: Any) -> Any:
        """A sparse vector for each document."""
        return vectors_of(self.held.encode_document(list(input), **self.encode_kwargs))

    def embed_query(self, input: Any) -> Any:
        """A sparse vector for each query.

        Example:
            >>> from grilly.integrations.chroma import GrillySparseEmbeddingFunction
            >>> len(GrillySparseEmbeddingFunction(splade_model).embed_query(["Where is the cat?"]))
            1
        """
        return vectors_of(self.held.encode_query(list(input), **self.encode_kwargs))

    @staticmethod
    def name() -> str:
        """The name in a collection's settings."""
        return "grilly_sparse"

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> GrillySparseEmbeddingFunction:
        """A function of the settings that `get_config` gives."""
        made: GrillySparseEmbeddingFunction = of_settings(GrillySparseEmbeddingFunction, json.dumps(config))
        return made


@lru_cache(maxsize=4)
def of_settings(kind: type[Any], written: str) -> Any:
    """A function of settings as JSON; kept, as a collection that was opened without one asks for it in every call."""
    config = json.loads(written)
    return kind(config["model"], encode_kwargs=config["encode_kwargs"], **config["options"])


def rows_of(found: Any) -> list[Any]:
    """Rows as Chroma checks them, float32 each."""
    return list(np.asarray(found, dtype=np.float32))


def vectors_of(rows: Any) -> list[SparseVector]:
    """Sparse rows as Chroma has them."""
    return [SparseVector(indices=row.columns.tolist(), values=row.values.tolist()) for row in rows]
