"""The two embedding models, sentence-transformers' class and upstream's: they differ in argument order and defaults."""

import os
from typing import Any

from grilly.sentence_transformer.plain import SentenceTransformer
from grilly.sentence_transformer.vulkan import DEFAULT_NAME, VulkanSentenceTransformer

__all__ = ["SentenceTransformer", "VulkanSentenceTransformer", "get_vulkan_sentence_transformer"]


def get_vulkan_sentence_transformer(
    model_name: str | os.PathLike[str] = DEFAULT_NAME, **arguments: Any
) -> VulkanSentenceTransformer:
    """The same as `VulkanSentenceTransformer(model_name, **arguments)`.

    Example:
        >>> from grilly import get_vulkan_sentence_transformer
        >>> get_vulkan_sentence_transformer("all-MiniLM-L6-v2", device="cpu").model_type
        'bert'
    """
    return VulkanSentenceTransformer(model_name, **arguments)
