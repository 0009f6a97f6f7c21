"""Upstream's path to the sentence transformer."""

from __future__ import annotations

from typing import NoReturn

from grilly.sentence_transformer import VulkanSentenceTransformer, get_vulkan_sentence_transformer

__all__ = ["VulkanSentenceTransformer", "get_vulkan_sentence_transformer"]


def __getattr__(name: str) -> NoReturn:
    from grilly.upstream import missing

    raise missing("module 'grilly.utils'", name)
