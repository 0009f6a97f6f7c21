"""Sentence embeddings with sentence-transformers' numbers on any Vulkan GPU, with fallback to the CPU.

Nothing is loaded, and no device is touched, before a name is used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from grilly import names as _places

# For type checkers, to which `import X as X` and `import *` say that names are public.
if TYPE_CHECKING:
    from grilly._core import __version__ as __version__
    from grilly.arrays import *
    from grilly.compat.sentence_transformers import install_as_sentence_transformers as install_as_sentence_transformers
    from grilly.compat.upstream.backend.compute import Compute as Compute
    from grilly.compiler import ComputeFunction as ComputeFunction
    from grilly.compiler import ShaderCompiler as ShaderCompiler
    from grilly.compiler import ShaderCompilerConfig as ShaderCompilerConfig
    from grilly.cross_encoder import CrossEncoder as CrossEncoder
    from grilly.devices import configure as configure
    from grilly.devices import info as info
    from grilly.devices import reset_stats as reset_stats
    from grilly.devices import stats as stats
    from grilly.distillation import distill as distill
    from grilly.errors import CompilationFailed as CompilationFailed
    from grilly.errors import FunctionNotFound as FunctionNotFound
    from grilly.errors import PipelineCreationFailed as PipelineCreationFailed
    from grilly.errors import ShaderNotFound as ShaderNotFound
    from grilly.hybrid_encoder import HybridEncoder as HybridEncoder
    from grilly.multi_vector_encoder import MultiVectorEncoder as MultiVectorEncoder
    from grilly.profiling import profile as profile
    from grilly.search import Index as Index
    from grilly.sentence_transformer import *
    from grilly.sparse_encoder import SparseEncoder as SparseEncoder
    from grilly.util import SimilarityFunction as SimilarityFunction

    VULKAN_AVAILABLE: bool

_places.install()
_left_out = _places.left_out("grilly")

# Name -> the module that has it.
_HOMES = _places.by_name(
    {
        "grilly._core": "__version__",
        "grilly.arrays": (
            "VulkanTensor ensure_vulkan_compatible from_dlpack from_vulkan to_vulkan to_vulkan_batch to_vulkan_gpu"
        ),
        "grilly.compat.sentence_transformers": "install_as_sentence_transformers",
        "grilly.compat.upstream.backend.compute": "Compute",
        "grilly.compiler": "ComputeFunction ShaderCompiler ShaderCompilerConfig",
        "grilly.cross_encoder": "CrossEncoder",
        "grilly.devices": "configure info reset_stats stats",
        "grilly.distillation": "distill",
        "grilly.errors": "CompilationFailed FunctionNotFound PipelineCreationFailed ShaderNotFound",
        "grilly.hybrid_encoder": "HybridEncoder",
        "grilly.multi_vector_encoder": "MultiVectorEncoder",
        "grilly.search": "Index",
        "grilly.profiling": "profile",
        "grilly.sentence_transformer": "SentenceTransformer VulkanSentenceTransformer get_vulkan_sentence_transformer",
        "grilly.sparse_encoder": "SparseEncoder",
        "grilly.util": "SimilarityFunction",
    }
)
_NAMES = sorted([*_HOMES, "VULKAN_AVAILABLE"])
# Type checkers reject a computed list.
if not TYPE_CHECKING:
    __all__ = _NAMES

_SUBMODULES = (
    "arrays",
    "backend",
    "compat",
    "compiler",
    "cross_encoder",
    "devices",
    "distillation",
    "errors",
    "evaluation",
    "functional",
    "hub",
    "hybrid_encoder",
    "kernels",
    "multi_vector_encoder",
    "nn",
    "optim",
    "profiling",
    "quant",
    "quantization",
    "similarity",
    "sparse",
    "sparse_encoder",
    "testing",
    "train",
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
        return _left_out(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, *_SUBMODULES})
