"""What commands share: table.json has their names, options and examples; here they are parsed, listed and ended."""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from grilly.errors import GrillyError
from grilly.nearest import nearest

__all__ = ["arguments_of", "command", "known", "overview", "parser_of", "run", "told"]


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
    """The options that several commands have, and of each command its module, group, description, arguments, examples.

    Example:
        >>> from grilly.commands.table import known
        >>> known()["commands"]["compile"]["module"]
        'grilly.commands.compile'
    """
    found: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return found


def arguments_of(name: str) -> dict[str, dict[str, Any]]:
    """The arguments of a command: its own, then the shared ones that it names.

    Example:
        >>> from grilly.commands.table import arguments_of
        >>> list(arguments_of("similarity"))[:2]
        ['texts', '--model']
    """
    described: dict[str, Any] = known()["commands"][name]
    own: dict[str, dict[str, Any]] = described["arguments"]
    shared = {option: known()["shared"][option] for option in described.get("shared", [])}
    return own | shared


def overview() -> str:
    """The commands by group, a line each.

    Example:
        >>> from grilly.commands.table import overview
        >>> overview().splitlines()[0]
        'usage: grilly COMMAND [OPTIONS]'
    """
    commands = known()["commands"]
    width = max(map(len, commands))
    lines = ["usage: grilly COMMAND [OPTIONS]"]
    for group in dict.fromkeys(own["group"] for own in commands.values()):
        lines += ["", f"{group}:"]
        lines += [f"  {name:<{width}}  {own['summary']}" for name, own in commands.items() if own["group"] == group]
    return "\n".join([*lines, "", "grilly COMMAND --help has the options, and examples; grilly --version the version."])


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are two lines, and name the nearest option."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n{self.prog} --help lists the options\n")


def parser_of(name: str) -> argparse.ArgumentParser:
    """What parses the options of a command.

    Example:
        >>> from grilly.commands.table import parser_of
        >>> parser_of("bench").parse_args(["--texts", "8"]).texts
        8
    """
    described = known()["commands"][name]
    examples = "\n".join(f"  {line}" for line in described["examples"])
    parser = _Parser(
        prog=f"grilly {name}",
        description=described["description"],
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for names, option in arguments_of(name).items():
        kinds = {"type": TYPES.get(str(option.get("type"))), "action": ACTIONS.get(str(option.get("action")))}
        parser.add_argument(*names.split(), **option | {key: kind for key, kind in kinds.items() if kind is not None})
    return parser


def _parsed(name: str, arguments: list[str]) -> argparse.Namespace:
    """The options of a command line; argparse would say of an unknown one first what else is missing."""
    parser = parser_of(name)
    options = [option for names in arguments_of(name) for option in names.split() if option.startswith("--")]
    options += [
        "--help",
        *(f"--no-{option[2:]}" for option in options if "action" in arguments_of(name).get(option, {})),
    ]
    for word in (word.partition("=")[0] for word in arguments):
        if word == "--":
            break
        if word.startswith("--") and not any(option.startswith(word) for option in options):
            parser.error(f"there is no option {word}{nearest(word, options)}")
    return parser.parse_args(arguments)


def run(name: str, arguments: list[str]) -> int:
    """Runs a command by its name with its options, and returns the exit status.

    Example:
        >>> from grilly.commands.table import run
        >>> run("compile", ["no/such/folder"])
        1
    """
    status: int = importlib.import_module(known()["commands"][name]["module"]).main(arguments)
    return status


def told(error: Exception) -> str:
    """What is printed of an error; of the system's the file and the reason, without its number.

    Example:
        >>> from grilly.commands.table import told
        >>> told(FileNotFoundError(2, "No such file or directory", "a.txt"))
        'a.txt: No such file or directory'
    """
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


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
            given = _parsed(name, arguments)
            try:
                return run(given)
            except BrokenPipeError:
                raise
            except (OSError, UnicodeDecodeError, GrillyError) as error:
                print(told(error), file=sys.stderr)
                return 1

        for attribute in ("__module__", "__qualname__", "__doc__"):
            setattr(main, attribute, getattr(run, attribute))
        return main

    return decorate
