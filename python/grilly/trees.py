"""Trees of dicts, lists and arrays as JSON, with the arrays apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.operands import host_array

__all__: list[str] = []

#: The most dicts and lists in each other, far below what Python's stack holds.
DEEPEST = 100


def plain(value: Any, name: str, arrays: list[Any]) -> Any:
    """A value for JSON; the arrays in it are appended to `arrays`, and their places stand in it.

    Raises:
        InvalidArgumentError: A value that contains itself, or is nested too deeply.
        InvalidTypeError: A value or a key of another type.

    Example:
        >>> from grilly.trees import plain
        >>> plain({"a": [1, None], 3: np.zeros(2)}, "state", found := []), len(found)
        ({'dict': {'sa': {'list': [1, None]}, 'i3': {'array': 0}}}, 1)
    """
    made = _plain(value, name, arrays, DEEPEST)
    try:
        json.dumps(made)
    except ValueError as error:  # a number of thousands of digits
        raise InvalidArgumentError(f"save_checkpoint: {name} cannot be saved: {error}") from None
    return made


def _plain(value: Any, name: str, arrays: list[Any], levels: int) -> Any:
    if levels == 0:
        raise InvalidArgumentError(f"save_checkpoint: {name[:80]}... is nested more than {DEEPEST} deep, or in itself")
    if isinstance(value, Mapping):
        keys = {key: _key(key, name) for key in value}
        if len(set(keys.values())) < len(keys):
            raise InvalidArgumentError(f"save_checkpoint: {name} has a key twice")
        return {"dict": {keys[key]: _plain(item, f"{name}.{key}", arrays, levels - 1) for key, item in value.items()}}
    if isinstance(value, list | tuple):
        items = [_plain(item, f"{name}.{place}", arrays, levels - 1) for place, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    if isinstance(value, np.generic) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        return value.item()
    if value is None or isinstance(value, bool):
        return value
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value) if kind is not str else str.__str__(value)
    masked, what = isinstance(value, np.ma.MaskedArray), f"save_checkpoint: {name}"
    if masked or not hasattr(value, "__array__") or (held := host_array(value, what)).dtype.kind not in "biuf":
        kind_of = type(value).__name__
        expected = "expected arrays, numbers, texts, lists, dicts"
        raise InvalidTypeError(f"save_checkpoint: {name} is of type {kind_of}, {expected}")
    arrays.append(np.asarray(held))
    return {"array": len(arrays) - 1}


def _key(key: Any, name: str) -> str:
    """A key of a dict as text; its first letter is its type."""
    if key is None:
        return "n"
    if isinstance(key, bool | np.bool_):
        return f"b{int(key)}"
    if isinstance(key, int | np.integer):
        return f"i{int(key)}"
    if isinstance(key, str):
        return "s" + str.__str__(key)
    if isinstance(key, float | np.floating):
        return f"f{float(key)!r}"
    kind = type(key).__name__
    raise InvalidTypeError(
        f"save_checkpoint: a key in {name} is of type {kind}, expected str, int, float, bool or None"
    )


READ: dict[str, Callable[[str], Any]] = {
    "n": lambda text: {"": None}[text],
    "b": lambda text: {"0": False, "1": True}[text],
    "i": int,
    "s": str,
    "f": float,
}


def restored(value: Any, array: Callable[[Any], Any]) -> Any:
    """What `plain` was made from.

    Args:
        value: What `plain` returned.
        array: The array of a place.

    Example:
        >>> from grilly.trees import restored
        >>> restored({"dict": {"i3": {"tuple": [1, {"array": 0}]}}}, ["the array"].__getitem__)
        {3: (1, 'the array')}
    """
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    if kind == "dict":
        return {READ[key[0]](key[1:]): restored(item, array) for key, item in held.items()}
    if kind == "array":
        return array(held)
    items = [restored(item, array) for item in held]
    return {"list": list, "tuple": tuple}[kind](items)
