"""The two embedding models, sentence-transformers' class and upstream's: they differ in argument order and defaults."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from grilly.sentence_transformer.plain import SentenceTransformer

if TYPE_CHECKING:
    from grilly.compat.upstream.sentence_transformer import VulkanSentenceTransformer
    from grilly.compat.upstream.utils.vulkan_sentence_transformer import get_vulkan_sentence_transformer

__all__ = ["SentenceTransformer", "VulkanSentenceTransformer", "get_vulkan_sentence_transformer"]


def __getattr__(name: str) -> Any:
    # Upstream's class is above this package, and uses it.
    if name in __all__:
        return getattr(importlib.import_module("grilly.compat.upstream.utils.vulkan_sentence_transformer"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
