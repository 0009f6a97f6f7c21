"""Arguments of training as the library takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["as_bytes", "as_integers", "as_plain", "as_windows"]


def as_bytes(text: Any) -> bytes:
    """The bytes of a text.

    Example:
        >>> from grilly.train.arguments import as_bytes
        >>> as_bytes("é!")
        b'\\xc3\\xa9!'
    """
    if isinstance(text, str):
        return text.encode()
    if not isinstance(text, bytes | bytearray):
        raise InvalidTypeError(f"the text is of type {type(text).__name__}, expected bytes or str")
    return bytes(text)


def as_integers(values: Any, name: str, axes: int) -> np.ndarray:
    """An array of integers from 0 to 2^32 - 1 with so many axes.

    Example:
        >>> from grilly.train.arguments import as_integers
        >>> as_integers([3, 1], "tokens", 1).tolist()
        [3, 1]
    """
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.uint32)
    if array.ndim != axes or array.dtype.kind not in "iu":
        raise InvalidArgumentError(f"{name} has shape {array.shape} of {array.dtype}, expected {axes} axes of integers")
    if array.size and not 0 <= int(array.min()) <= int(array.max()) < 2**32:
        raise InvalidArgumentError(f"{name} has {array.min()} to {array.max()}, expected integers from 0 below 2^32")
    return array


def as_windows(tokens: Any) -> list[list[int]]:
    """Windows of tokens as lists.

    Example:
        >>> from grilly.train.arguments import as_windows
        >>> as_windows(((1, 2), (3, 4)))
        [[1, 2], [3, 4]]
    """
    windows: list[list[int]] = as_integers(tokens, "tokens", 2).tolist()
    return windows


def as_plain(value: Any) -> Any:
    """A NumPy number as Python's, for JSON.

    Example:
        >>> import numpy as np
        >>> from grilly.train.arguments import as_plain
        >>> as_plain(np.int64(3))
        3
    """
    if isinstance(value, np.generic):
        return value.item()
    raise InvalidTypeError(f"a setting is of type {type(value).__name__}, expected numbers, None and plain containers")
