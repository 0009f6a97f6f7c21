"""What BERTopic and KeyBERT call alike: the rows of texts."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.integrations.loading import loaded
from grilly.sentence_transformer import SentenceTransformer, VulkanSentenceTransformer

__all__ = ["Embedder"]


@closed("embedding_model", "word_embedding_model")
class Embedder:
    """A model, by name or loaded, with the method `embed`; the classes of both libraries derive from it.

    Args:
        model: The name or the folder of a model, or a `SentenceTransformer`.
        **options: Arguments of the constructor of `SentenceTransformer`, such as `device` or `dtype`.

    Raises:
        InvalidTypeError: A model of another class.
        InvalidArgumentError: `options` beside a model that is loaded.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | SentenceTransformer | VulkanSentenceTransformer = "all-MiniLM-L6-v2",
        **options: Any,
    ) -> None:
        super().__init__()
        self.embedding_model: Any = loaded(model, options, SentenceTransformer, VulkanSentenceTransformer)

    def embed(self, documents: list[str], verbose: bool = False) -> npt.NDArray[np.floating[Any]]:
        """A row for each text.

        Args:
            documents: The texts.
            verbose: Whether to show a bar.

        Example:
            >>> from grilly.integrations.embedder import Embedder
            >>> Embedder(model).embed(["A cat.", "A dog."]).shape
            (2, 384)
        """
        rows: npt.NDArray[np.floating[Any]] = self.embedding_model.encode(documents, show_progress_bar=verbose)
        return rows
