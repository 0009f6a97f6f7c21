"""Small constants of the operations, cached on each device so that a chain of operations transfers nothing."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly import _core

__all__ = ["filled", "kept", "offsets"]

#: Maximum size of the cache in bytes, over all devices.
MOST = 16 << 20

_held: OrderedDict[Any, _core.Array] = OrderedDict()
_lock = threading.Lock()


def _begin_anew() -> None:
    """Resets the cache: a forked process cannot use its parent's arrays, nor a lock that a parent's thread held."""
    global _lock
    _lock = threading.Lock()
    _held.clear()


os.register_at_fork(after_in_child=_begin_anew)


def kept(engine: _core.Engine, make: Callable[..., npt.NDArray[Any]], *key: Any) -> _core.Array:
    """Returns `make(*key)` on a device, from the cache if present; eviction is least recently used first.

    Example:
        >>> from grilly import _core
        >>> from grilly.functional.kept import filled, kept
        >>> kept(_core.engine("cpu"), filled, 1.0, 3).numpy().tolist()
        [1.0, 1.0, 1.0]
    """
    place = (engine, make, key)
    with _lock:
        if place in _held:
            _held.move_to_end(place)
            return _held[place]
    array = engine.upload(np.asarray(make(*key), order="C"))
    if array.nbytes > MOST // 4:
        return array
    with _lock:
        _held[place] = array
        while sum(other.nbytes for other in _held.values()) > MOST:
            _held.popitem(last=False)
    return array


def filled(value: float, shape: int | tuple[int, ...] = ()) -> npt.NDArray[np.float32]:
    """An array filled with one number.

    Example:
        >>> from grilly.functional.kept import filled
        >>> filled(2.0, 2).tolist()
        [2.0, 2.0]
    """
    return np.full(shape, value, np.float32)


def offsets(rows: int, length: int) -> npt.NDArray[np.int32]:
    """Boundaries of rows of equal length: the start of each, and the end of the last.

    Example:
        >>> from grilly.functional.kept import offsets
        >>> offsets(2, 3).tolist()
        [0, 3, 6]
    """
    return np.arange(rows + 1, dtype=np.int32) * length
