"""Upstream's path to the sentence transformer."""

from grilly.sentence_transformer import VulkanSentenceTransformer, get_vulkan_sentence_transformer

__all__ = ["VulkanSentenceTransformer", "get_vulkan_sentence_transformer"]
