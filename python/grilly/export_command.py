"""`python -m grilly export`: a kernel in another language, and its interface, as files."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from grilly import kernels
from grilly.errors import GrillyError, InvalidArgumentError

__all__ = ["main"]

OPERAND = re.compile(r"(\w+):(\d+(?:x\d+)*)")


def main(arguments: list[str]) -> int:
    """Exports a kernel or an operation and returns the exit status.

    Example:
        >>> from grilly import export_command
        >>> export_command.main(["swiglu", "--target", "wgsl", "--out", "/proc/none/swiglu.wgsl"])
        1
    """
    parser = argparse.ArgumentParser(
        prog="python -m grilly export",
        description="Writes the code of a kernel, and beside it, as JSON, what a launch needs.",
    )
    parser.add_argument("name", help="a kernel (python -m grilly kernels), or with --operand any operation")
    parser.add_argument("--target", default="spirv", help="spirv, wgsl, msl, hlsl, cuda or ptx; default spirv")
    parser.add_argument("--out", type=Path, required=True, help="the file of the code; the interface is put beside it")
    parser.add_argument("--rows", type=int, default=1, help="rows of a kernel's operands; default 1")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="an option or attribute")
    parser.add_argument(
        "--operand", action="append", default=[], metavar="TYPE:SHAPE", help="of an operation, for example float32:3x64"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace files of these names")
    given = parser.parse_args(arguments)
    try:
        options = dict(_option(text) for text in given.option)
        if given.operand:
            compiled = kernels.compile_op(
                given.name, [_operand(text) for text in given.operand], given.target, **options
            )
        else:
            compiled = kernels.get(given.name, **options).compile(given.target, given.rows)
        files = compiled.write(given.out, given.overwrite)
    except GrillyError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(map(str, files)))
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
