"""`grilly models`: what loads, by `model_type` in config.json."""

import argparse

from grilly import _core
from grilly.commands.table import command

__all__ = ["main"]


@command("models")
def main(given: argparse.Namespace) -> int:
    """Prints the families with their classes and examples, and the modules; returns the exit status.

    Example:
        >>> from grilly.commands import models
        >>> models.main([])  # doctest: +ELLIPSIS
        model_type in config.json: classes in transformers; for example
        ...
        0
    """
    print("model_type in config.json: classes in transformers; for example")
    for family, start, examples in _core.model_rows():
        print(f"{family}: {start}Model, {start}For...; {examples}")
    print("\nmodules in modules.json: modes or activations")
    for module, choices in _core.module_rows():
        print(module + (f": {', '.join(choices)}" if choices else ""))
    return 0
