"""BERTopic: topics of texts by a model's embeddings."""

from grilly.integrations.embedder import Embedder
from grilly.integrations.loading import library

with library("bertopic"):
    from bertopic.backend import BaseEmbedder

__all__ = ["GrillyEmbedder"]


class GrillyEmbedder(Embedder, BaseEmbedder):
    """A model as BERTopic's `embedding_model`: its name, its folder or a `SentenceTransformer`.

    BERTopic takes objects whose class it does not know for none, and loads a model of its choice. Arguments by name are
    those of the constructor of `SentenceTransformer`.

    Source: `BaseEmbedder` of BERTopic 0.17.

    Example:
        >>> from bertopic import BERTopic
        >>> from grilly.integrations.bertopic import GrillyEmbedder
        >>> topics = BERTopic(embedding_model=GrillyEmbedder("all-MiniLM-L6-v2", device="cpu"))
    """
