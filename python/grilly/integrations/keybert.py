"""KeyBERT: keywords of texts by a model's embeddings."""

from grilly.integrations.embedder import Embedder
from grilly.integrations.loading import library

with library("keybert"):
    from keybert.backend import BaseEmbedder

__all__ = ["GrillyEmbedder"]


class GrillyEmbedder(Embedder, BaseEmbedder):
    """A model as KeyBERT's `model`: its name, its folder or a `SentenceTransformer`.

    KeyBERT takes objects whose class it does not know for none, and loads a model of its choice. Arguments by name are
    those of the constructor of `SentenceTransformer`.

    Source: `BaseEmbedder` of KeyBERT 0.9.

    Example:
        >>> from keybert import KeyBERT
        >>> from grilly.integrations.keybert import GrillyEmbedder
        >>> keywords = KeyBERT(model=GrillyEmbedder("all-MiniLM-L6-v2", device="cpu"))
    """
