"""Counts of operations meant for a device that Python ran on the CPU, and the single warning about it."""

import logging
import threading
from collections import Counter

from grilly import _core

logger = logging.getLogger("grilly")

_lock = threading.Lock()
_operations: Counter[str] = Counter()


def strict() -> bool:
    """Whether `GRILLY_STRICT=1` (or upstream's `GRILLY_BRIDGE_STRICT=1`) forbids falling back to the CPU."""
    return bool(_core.settings()["GRILLY_STRICT"])


def to_cpu(operation: str, error: Exception) -> None:
    """Notes that `operation` runs on the CPU because of `error`, which is raised instead with `GRILLY_STRICT=1`."""
    if strict():
        raise error
    note(operation, error)


def note(operation: str, error: Exception) -> None:
    """Counts a fallback of `operation` to the CPU because of `error`; the first one logs a warning."""
    with _lock:
        first = not _operations
        _operations[operation] += 1
    # The text: a log that keeps its records would keep the arrays of the failed call.
    (logger.warning if first else logger.debug)("%s runs on the CPU: %s", operation, str(error))


def operations() -> dict[str, int]:
    """The counts by operation."""
    return dict(_operations)


def reset() -> None:
    """Sets the counts to zero and allows another warning."""
    with _lock:
        _operations.clear()
