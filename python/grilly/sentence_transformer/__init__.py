"""The two embedding models: sentence-transformers' class, and upstream's, which differ in their defaults alone."""

from grilly.sentence_transformer.plain import SentenceTransformer
from grilly.sentence_transformer.vulkan import VulkanSentenceTransformer, get_vulkan_sentence_transformer

__all__ = ["SentenceTransformer", "VulkanSentenceTransformer", "get_vulkan_sentence_transformer"]
