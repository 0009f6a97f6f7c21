"""Libraries that are no dependencies of this package."""

from __future__ import annotations

import importlib
from typing import Any

from grilly.errors import MissingLibraryError

__all__ = ["imported"]


def imported(module: str, told: str) -> Any:
    """A module of another library.

    Args:
        module: Its name.
        told: What an error says, which names the package to install.

    Raises:
        MissingLibraryError: It cannot be imported.

    Example:
        >>> from grilly.libraries import imported
        >>> imported("json", "pip install json").dumps([1])
        '[1]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingLibraryError(told, name=error.name) from error
