"""Upstream's backend: `Compute` and what it is made of."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from grilly.compat.upstream.names import missing

if TYPE_CHECKING:
    from grilly.compat.upstream.backend.compute import Compute, VulkanCompute

__all__ = ["Compute", "VulkanCompute"]

_SUBMODULES = ("_bridge", "compute", "shader_registry")


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("grilly.compat.upstream.backend.compute"), name)
    if name in _SUBMODULES:
        return importlib.import_module(f"grilly.compat.upstream.backend.{name}")
    raise missing("module 'grilly.backend'", name)
