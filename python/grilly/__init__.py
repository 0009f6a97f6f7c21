"""Sentence embeddings with sentence-transformers' numbers on any Vulkan GPU, with a CPU that takes over.

Nothing is loaded, and no device is touched, before a name is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grilly._core import __version__
    from grilly.compiler import ComputeFunction, ShaderCompiler, ShaderCompilerConfig
    from grilly.devices import configure, info, reset_stats, stats
    from grilly.errors import CompilationFailed, FunctionNotFound, PipelineCreationFailed, ShaderNotFound
    from grilly.sentence_transformer import VulkanSentenceTransformer, get_vulkan_sentence_transformer

    VULKAN_AVAILABLE: bool

__all__ = [
    "CompilationFailed",
    "ComputeFunction",
    "FunctionNotFound",
    "PipelineCreationFailed",
    "ShaderCompiler",
    "ShaderCompilerConfig",
    "ShaderNotFound",
    "VULKAN_AVAILABLE",
    "VulkanSentenceTransformer",
    "__version__",
    "configure",
    "get_vulkan_sentence_transformer",
    "info",
    "reset_stats",
    "stats",
]

_HOMES = {
    "VulkanSentenceTransformer": "grilly.sentence_transformer",
    "get_vulkan_sentence_transformer": "grilly.sentence_transformer",
    **dict.fromkeys(("ComputeFunction", "ShaderCompiler", "ShaderCompilerConfig"), "grilly.compiler"),
    **dict.fromkeys(
        ("CompilationFailed", "FunctionNotFound", "PipelineCreationFailed", "ShaderNotFound"), "grilly.errors"
    ),
    "configure": "grilly.devices",
    "info": "grilly.devices",
    "stats": "grilly.devices",
    "reset_stats": "grilly.devices",
    "__version__": "grilly._core",
}
_SUBMODULES = ("backend", "compiler", "devices", "errors", "hub", "quantization", "similarity", "testing", "utils")


def __getattr__(name: str) -> Any:
    value: Any
    if name == "VULKAN_AVAILABLE":
        value = importlib.import_module("grilly.devices").vulkan_available()
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _SUBMODULES:
        return importlib.import_module(f"grilly.{name}")
    else:
        part = None if name.startswith("_") else importlib.import_module("grilly.upstream").part_of(name)
        if part is not None:
            raise AttributeError(f"{name} is part of upstream grilly's {part} and not of this package")
        raise AttributeError(f"module 'grilly' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
