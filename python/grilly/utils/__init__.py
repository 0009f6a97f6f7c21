"""Upstream's helpers: the sentence transformer, checkpoints, initialisation and batches of data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grilly.sentence_transformer import VulkanSentenceTransformer, get_vulkan_sentence_transformer
from grilly.utils.checkpoint import load_checkpoint, save_checkpoint
from grilly.utils.data import *
from grilly.utils.data import __all__ as _data
from grilly.utils.initialization import kaiming_normal_, kaiming_uniform_, xavier_normal_, xavier_uniform_

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
# Type checkers follow the import; they reject a computed list.
if not TYPE_CHECKING:
    __all__ += _data


def __getattr__(name: str) -> Any:
    from grilly.upstream import missing

    raise missing("module 'grilly.utils'", name)
