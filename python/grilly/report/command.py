"""`python -m grilly report`: what a device and its driver are, what kernels compute there and how fast, in one file.

The file is JSON, because a maintainer loads it and compares it with others. Its first entry, `summary`, is lines of
text, and each row after it stands on a line, so that its owner reads it in any editor. It is written again after every
row: what ends the program, or the machine, loses no more than one.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator
from typing import Any

from grilly import _core
from grilly.commands.table import command
from grilly.errors import InvalidArgumentError
from grilly.report.machine import environment, versions
from grilly.report.parts import PARTS
from grilly.report.processes import rows_of
from grilly.report.summary import failures, summary

__all__ = ["collect", "main", "text_of"]

#: Seconds of all parts together.
SECONDS = 110.0


@command("report")
def main(given: argparse.Namespace) -> int:
    """Writes the report and prints its summary; returns 1 where something failed.

    Example:
        >>> from grilly.report import command
        >>> command.main(["--out", "README.md/no.json"])
        1
    """
    if not re.fullmatch(r"auto|cpu|vulkan(:\d+)?", given.device):
        raise InvalidArgumentError(f"device is {given.device!r}, expected auto, cpu, vulkan or vulkan:N")
    if given.out.exists() and not given.overwrite:
        raise InvalidArgumentError(f"{given.out} is there already; --overwrite replaces it")
    report: dict[str, Any] = {}
    for report in collect(given.device, SECONDS):
        _core.write_files(given.out.parent, [(given.out.name, text_of(report).encode())], True)
    print("\n".join(summary(report)))
    print(f"\nWrote {given.out}: please attach it to an issue.")
    return 1 if failures(report) else 0


def collect(device: str, seconds: float) -> Iterator[dict[str, Any]]:
    """The report as far as it is known, again after every row, at last with `finished` set.

    Args:
        device: `"auto"`, `"vulkan"`, `"vulkan:N"` or `"cpu"`.
        seconds: After so many no further row begins.

    Returns:
        An iterator over one dict that grows.

    Example:
        >>> from grilly.report.command import collect
        >>> *_, report = collect("cpu", seconds=0)
        >>> report["checks"]["softmax-3x1025"]
        {'not_run': 'out of time'}
    """
    end = time.monotonic() + seconds
    report: dict[str, Any] = {"asked": device, "finished": False, "versions": versions(), "environment": environment()}
    yield report
    for part in PARTS:
        report[part] = {}
        for name, row in rows_of(part, "vulkan" if device == "auto" else device, end):
            report[part][name] = row
            yield report
    report["finished"] = True
    yield report


def text_of(report: dict[str, Any]) -> str:
    """The file of a report: JSON with its summary first, and a line for each row.

    Example:
        >>> import json
        >>> from grilly.report.command import collect, text_of
        >>> list(json.loads(text_of(next(collect("cpu", 0.0)))))
        ['summary', 'asked', 'finished', 'versions', 'environment']
    """
    entries = []
    for name, value in {"summary": summary(report), **report}.items():
        if isinstance(value, list):
            rows = ",\n".join(f"    {json.dumps(row)}" for row in value)
            entries.append(f'  "{name}": [\n{rows}\n  ]')
        elif isinstance(value, dict):
            rows = ",\n".join(f"    {json.dumps(key)}: {json.dumps(row)}" for key, row in value.items())
            entries.append(f'  "{name}": {{\n{rows}\n  }}')
        else:
            entries.append(f'  "{name}": {json.dumps(value)}')
    return "{\n" + ",\n".join(entries) + "\n}\n"
