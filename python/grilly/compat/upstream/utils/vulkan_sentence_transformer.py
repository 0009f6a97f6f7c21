"""Upstream's path to the sentence transformer."""

from grilly.compat.upstream.sentence_transformer import VulkanSentenceTransformer, get_vulkan_sentence_transformer

__all__ = ["VulkanSentenceTransformer", "get_vulkan_sentence_transformer"]
