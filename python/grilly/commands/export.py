"""`python -m grilly export`: a kernel in another language, and its interface, or a library for Metal, as files."""

import argparse
import json
import re
from typing import Any

from grilly import kernels, metal
from grilly.commands.table import command
from grilly.errors import InvalidArgumentError

__all__ = ["main"]

OPERAND = re.compile(r"(\w+):(\d+(?:x\d+)*)")


@command("export")
def main(given: argparse.Namespace) -> int:
    """Exports a kernel, an operation or the library for Metal, and returns the exit status.

    Example:
        >>> from grilly.commands import export
        >>> export.main(["swiglu", "--target", "wgsl", "--out", "/proc/none/swiglu.wgsl"])
        1
    """
    if given.metal is not None:
        if given.name is not None or given.out is not None or given.option or given.operand:
            raise InvalidArgumentError(
                "--metal writes whole files: give no kernel, --out, --option or --operand with it"
            )
        print("\n".join(map(str, metal.write(given.metal, given.overwrite))))
        return 0
    if given.name is None or given.out is None:
        raise InvalidArgumentError("expected a kernel and --out FILE, or --metal FOLDER")
    options = dict(_option(text) for text in given.option)
    matrices = given.matrix_cores
    if given.operand:
        operands = [_operand(text) for text in given.operand]
        compiled = kernels.compile_op(given.name, operands, given.target, matrix_cores=matrices, **options)
    else:
        kernel = kernels.get(given.name, **options)
        compiled = kernel.compile(given.target, given.rows, given.architecture, matrix_cores=matrices)
    print("\n".join(map(str, compiled.write(given.out, given.overwrite))))
    return 0


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidArgumentError(f"--option {text}: expected NAME=VALUE")
    try:
        return name, json.loads(value.lower() if value in ("True", "False") else value)
    except json.JSONDecodeError:
        return name, value


def _operand(text: str) -> tuple[str, tuple[int, ...]]:
    found = OPERAND.fullmatch(text)
    if not found:
        raise InvalidArgumentError(f"--operand {text}: expected a type and a shape, for example float32:3x64")
    return found[1], tuple(map(int, found[2].split("x")))
