"""`grilly kernels`: names, formulas and options of the kernels."""

import argparse

from grilly import _core
from grilly.commands.table import command

__all__ = ["main"]


@command("kernels")
def main(given: argparse.Namespace) -> int:
    """Prints every kernel, and returns the exit status.

    Example:
        >>> from grilly.commands import kernels
        >>> kernels.main([])  # doctest: +ELLIPSIS
        bias_gelu: gelu(x + bias)
        ...
        0
    """
    for name, formula, options in _core.kernel_rows():
        print(f"{name}: {formula}\n    options: {', '.join(options)}")
    return 0
