"""Sentence embeddings with sentence-transformers' numbers on any Vulkan GPU, with fallback to the CPU.

Nothing is loaded, and no device is touched, before a name is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grilly._core import __version__
    from grilly.arrays import (
        VulkanTensor,
        ensure_vulkan_compatible,
        from_dlpack,
        from_vulkan,
        to_vulkan,
        to_vulkan_batch,
        to_vulkan_gpu,
    )
    from grilly.backend.compute import Compute
    from grilly.compiler import ComputeFunction, ShaderCompiler, ShaderCompilerConfig
    from grilly.devices import configure, info, reset_stats, stats
    from grilly.errors import CompilationFailed, FunctionNotFound, PipelineCreationFailed, ShaderNotFound
    from grilly.profiling import profile
    from grilly.sentence_transformer import (
        SentenceTransformer,
        VulkanSentenceTransformer,
        get_vulkan_sentence_transformer,
    )
    from grilly.util import SimilarityFunction

    VULKAN_AVAILABLE: bool

__all__ = [
    "CompilationFailed",
    "Compute",
    "ComputeFunction",
    "FunctionNotFound",
    "PipelineCreationFailed",
    "SentenceTransformer",
    "ShaderCompiler",
    "ShaderCompilerConfig",
    "ShaderNotFound",
    "SimilarityFunction",
    "VULKAN_AVAILABLE",
    "VulkanSentenceTransformer",
    "VulkanTensor",
    "__version__",
    "configure",
    "ensure_vulkan_compatible",
    "from_dlpack",
    "from_vulkan",
    "get_vulkan_sentence_transformer",
    "info",
    "profile",
    "reset_stats",
    "stats",
    "to_vulkan",
    "to_vulkan_batch",
    "to_vulkan_gpu",
]

# Name -> the module that has it.
_HOMES = {
    name: home
    for home, names in {
        "grilly._core": "__version__",
        "grilly.arrays": (
            "VulkanTensor ensure_vulkan_compatible from_dlpack from_vulkan to_vulkan to_vulkan_batch to_vulkan_gpu"
        ),
        "grilly.backend.compute": "Compute",
        "grilly.compiler": "ComputeFunction ShaderCompiler ShaderCompilerConfig",
        "grilly.devices": "configure info reset_stats stats",
        "grilly.errors": "CompilationFailed FunctionNotFound PipelineCreationFailed ShaderNotFound",
        "grilly.profiling": "profile",
        "grilly.sentence_transformer": (
            "SentenceTransformer VulkanSentenceTransformer get_vulkan_sentence_transformer"
        ),
        "grilly.util": "SimilarityFunction",
    }.items()
    for name in names.split()
}
_SUBMODULES = (
    "arrays",
    "backend",
    "compiler",
    "devices",
    "errors",
    "functional",
    "hub",
    "kernels",
    "nn",
    "profiling",
    "quantization",
    "similarity",
    "testing",
    "util",
    "utils",
)


def __getattr__(name: str) -> Any:
    value: Any
    if name == "VULKAN_AVAILABLE":
        value = importlib.import_module("grilly.devices").vulkan_available()
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _SUBMODULES:
        return importlib.import_module(f"grilly.{name}")
    else:
        raise importlib.import_module("grilly.upstream").missing("module 'grilly'", name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
