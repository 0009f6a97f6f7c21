"""The modules of the package."""

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import grilly


def modules() -> Iterator[ModuleType]:
    """All but `__main__` and the compiled one; of `grilly.integrations` those whose libraries are installed."""
    for info in pkgutil.walk_packages(grilly.__path__, "grilly."):
        if info.name.endswith(("__main__", "_core")):
            continue
        try:
            module = importlib.import_module(info.name)
        except ImportError:
            if not info.name.startswith("grilly.integrations."):
                raise
            continue
        yield module
