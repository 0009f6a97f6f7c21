"""`grilly completion`: what a shell completes, from the table of commands."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from typing import Any

from grilly.commands.table import arguments_of, command, known

__all__ = ["main", "script"]

BASH = """_grilly() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{commands}" -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}} $before" in
{choices}
  esac
  if [ -z "$words" ]; then
    case "$current" in
      -*) case "${{COMP_WORDS[1]}}" in
{options}
      esac ;;
    esac
  fi
  if [ -n "$words" ]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F _grilly grilly"""
ZSH = """#compdef grilly
_grilly() {{
  local -a commands=(
{commands}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{options}
  esac
}}
if [ "$funcstack[1]" = _grilly ]; then _grilly "$@"; else compdef _grilly grilly; fi"""


@command("completion")
def main(given: argparse.Namespace) -> int:
    """Prints the script for a shell, and returns the exit status.

    Example:
        >>> from grilly.commands import completion
        >>> completion.main(["bash"])  # doctest: +ELLIPSIS
        _grilly() {
        ...
        0
    """
    print(script(given.shell))
    return 0


def script(shell: str) -> str:
    """The script for `"bash"`, `"zsh"` or `"fish"`.

    Example:
        >>> from grilly.commands.completion import script
        >>> script("fish").splitlines()[0]
        'complete -c grilly -f -n __fish_use_subcommand -s h -l help -d "the commands"'
    """
    lines = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]
    return lines()


def _options(name: str) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """The options of a command, each by its names; a positional argument by its own."""
    yield ["-h", "--help"], {"action": "store_true", "help": "the options, and examples"}
    for names, option in arguments_of(name).items():
        yield names.split(), option


def _is_flag(option: dict[str, Any]) -> bool:
    return option.get("action") in ("store_true", "yes or no")


def _help(option: dict[str, Any]) -> str:
    """What an option does."""
    return _plain(str(option.get("help", "")).replace("%(default)s", str(option.get("default", ""))))


def _plain(text: str) -> str:
    """A text in the characters that no shell changes."""
    return "".join(letter for letter in text if letter not in "\"'`$\\[]:")


def _bash() -> str:
    commands, choices, options = known()["commands"], [], []
    for name in commands:
        longs = [each for names, _ in _options(name) for each in names if each.startswith("--")]
        options.append(f'        {name}) words="{" ".join(longs)}" ;;')
        for names, option in _options(name):
            if "choices" in option:
                # A positional argument stands after the command.
                places = [f'"{name} {each if each.startswith("-") else name}"' for each in names]
                choices.append(f'    {"|".join(places)}) words="{" ".join(option["choices"])}" ;;')
    return BASH.format(commands=" ".join(commands), choices="\n".join(choices), options="\n".join(options))


def _zsh() -> str:
    told = [f"{name}:{_plain(own['summary'])}" for name, own in known()["commands"].items()]
    commands = "\n".join(f"    {shlex.quote(line)}" for line in told)
    options = []
    for name in known()["commands"]:
        words = []
        for names, option in _options(name):
            values = f":({' '.join(option['choices'])})" if "choices" in option else ":_files"
            if not names[0].startswith("-"):
                words.append(f"*:{names[0]}{values}")
            for each in (each for each in names if each.startswith("-")):
                repeated = "*" if option.get("action") == "append" else ""
                value = "" if _is_flag(option) else f":value{values}"
                words.append(f"{repeated}{each}[{_help(option)}]{value}")
        # One pattern for all positional arguments: the last one that has choices, else files.
        positional = [word for word in words if word.startswith("*:")]
        words = [word for word in words if not word.startswith("*:")] + (positional[-1:] or ["*:file:_files"])
        options.append(f"    {name}) _arguments {' '.join(map(shlex.quote, words))} ;;")
    return ZSH.format(commands=commands, options="\n".join(options))


def _fish() -> str:
    lines = ['complete -c grilly -f -n __fish_use_subcommand -s h -l help -d "the commands"']
    for name, own in known()["commands"].items():
        lines.append(f'complete -c grilly -f -n __fish_use_subcommand -a {name} -d "{_plain(own["summary"])}"')
        for names, option in _options(name):
            start = f'complete -c grilly -n "__fish_seen_subcommand_from {name}"'
            values = f' -f -a "{" ".join(option["choices"])}"' if "choices" in option else ""
            if not names[0].startswith("-"):
                lines += [start + values] if values else []
                continue
            flags = " ".join(f"-l {each[2:]}" if each.startswith("--") else f"-s {each[1:]}" for each in names)
            value = "" if _is_flag(option) else " -r"
            lines.append(f'{start} {flags}{value}{values} -d "{_help(option)}"')
    return "\n".join(lines)
