"""Upstream's helpers: the sentence transformer, checkpoints, initialisation and batches of data."""

from __future__ import annotations

from grilly.compat.upstream.utils import data
from grilly.compat.upstream.utils.checkpoint import load_checkpoint, save_checkpoint
from grilly.compat.upstream.utils.data import *
from grilly.compat.upstream.utils.initialization import (
    kaiming_normal_,
    kaiming_uniform_,
    xavier_normal_,
    xavier_uniform_,
)
from grilly.names import left_out
from grilly.sentence_transformer import VulkanSentenceTransformer, get_vulkan_sentence_transformer

__all__ = [
    "VulkanSentenceTransformer",
    "get_vulkan_sentence_transformer",
    "kaiming_normal_",
    "kaiming_uniform_",
    "load_checkpoint",
    "save_checkpoint",
    "xavier_normal_",
    "xavier_uniform_",
]
__all__ += data.__all__

__getattr__ = left_out("grilly.utils")
