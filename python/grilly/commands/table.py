"""What the commands of `python -m grilly` share: table.json has their options, and here is how they end."""

import argparse
import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grilly.errors import GrillyError

__all__ = ["command", "known"]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a positive number")
    return number


#: What table.json calls types and actions, and what argparse takes.
TYPES = {"count": _positive, "float": float, "int": int, "json": json.loads, "path": Path, "str": str}
ACTIONS = {"yes or no": argparse.BooleanOptionalAction}


@functools.cache
def known() -> dict[str, Any]:
    """The lines about all commands, and of each command its module, its description and its arguments.

    Example:
        >>> from grilly.commands.table import known
        >>> known()["commands"]["compile"]["module"]
        'grilly.commands.compile'
    """
    found: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return found


def _parser(name: str) -> argparse.ArgumentParser:
    described = known()["commands"][name]
    parser = argparse.ArgumentParser(prog=f"python -m grilly {name}", description=described["description"])
    for names, option in described["arguments"].items():
        kinds = {"type": TYPES.get(option.get("type")), "action": ACTIONS.get(option.get("action"))}
        parser.add_argument(*names.split(), **option | {key: kind for key, kind in kinds.items() if kind is not None})
    return parser


def command(name: str) -> Callable[[Callable[[argparse.Namespace], int]], Callable[[list[str]], int]]:
    """Lets a function of the parsed options be called with a command line; an error of ours is printed, and gives 1.

    Example:
        >>> from grilly.commands.table import command
        >>> @command("compile")
        ... def main(given):
        ...     print(given.folder, given.target_env)
        ...     return 0
        >>> main(["shaders"])
        shaders vulkan1.3
        0
    """

    def decorate(run: Callable[[argparse.Namespace], int]) -> Callable[[list[str]], int]:
        def main(arguments: list[str]) -> int:
            given = _parser(name).parse_args(arguments)
            try:
                return run(given)
            except (OSError, UnicodeDecodeError, GrillyError) as error:
                print(error, file=sys.stderr)
                return 1

        for attribute in ("__module__", "__qualname__", "__doc__"):
            setattr(main, attribute, getattr(run, attribute))
        return main

    return decorate
