"""Runs the parts of a report in processes of their own, so that a driver that ends or stops one takes a row alone.

A process writes each row as it is known; the next one goes on after the row at which the last one ended.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import IO, Any

from grilly.report.machine import clean
from grilly.report.parts import PARTS

__all__ = ["rows_of"]

#: What runs a part; its name, the device and the first row's place follow.
COMMAND = [sys.executable, "-m", "grilly.report.parts"]
#: The longest wait for a row, in seconds, and how many processes a part may take.
ROW_SECONDS, MOST_PROCESSES = 40.0, 6
#: Characters of what a process said last.
LAST = 600


def rows_of(part: str, device: str, end: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row of a part: its name, and what was found, or why it failed.

    Args:
        part: One of `PARTS`.
        device: `"vulkan"`, `"vulkan:N"` or `"cpu"`.
        end: The time by `time.monotonic()` after which no row goes on.

    Returns:
        An iterator over all rows of the part; those that did not run have `not_run`, which says why.

    Example:
        >>> from grilly.report.processes import rows_of
        >>> dict(rows_of("timings", "cpu", 0.0))["copy"]
        {'not_run': 'out of time'}
    """
    names = list(PARTS[part])
    done = started = 0
    while done < len(names):
        if time.monotonic() >= end or started == MOST_PROCESSES:
            why = "out of time" if time.monotonic() >= end else f"{started} processes ended"
            yield from ((name, {"not_run": why}) for name in names[done:])
            return
        started += 1
        with tempfile.TemporaryFile() as said:
            command = [*COMMAND, part, device, str(done)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said) as process:
                try:
                    for row in _rows(process, end, len(names) - done):
                        yield names[done], row
                        done += 1
                finally:
                    if done < len(names):
                        process.kill()
            if done < len(names) and time.monotonic() < end:
                yield names[done], {"failed": _why(process.returncode, said)}
                done += 1


def _rows(process: subprocess.Popen[bytes], end: float, count: int) -> Iterator[dict[str, Any]]:
    """The rows that a process writes, until it ends or takes too long for one."""
    assert process.stdout is not None
    for _ in range(count):
        # A process that is killed ends the wait for its line.
        limit = threading.Timer(max(0.0, min(ROW_SECONDS, end - time.monotonic())), process.kill)
        limit.start()
        line = process.stdout.readline()
        limit.cancel()
        if not line.endswith(b"\n"):
            process.wait()
            return
        yield json.loads(line)


def _why(status: int, said: IO[bytes]) -> str:
    said.seek(0)
    last = said.read().decode(errors="replace").strip()[-LAST:]
    ended = f"by signal {-status}" if status < 0 else f"with {status}"
    return clean(f"the process ended {ended}: {last}" if last else f"the process ended {ended}")
