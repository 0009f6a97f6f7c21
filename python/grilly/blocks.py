"""Blocks of a shader's buffers, as dicts of their members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from grilly import _core
from grilly.closed import closed
from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.operands import host_array

__all__ = ["Block"]

#: Name, kind of number, first byte, and the axes with their strides, of a member.
Row = tuple[str, str, int, list[tuple[int | None, int]]]


@closed()
class Block(Mapping[Any, Any]):
    """What a dispatch wrote to a block: its members by name. Given to another dispatch, it stays on the device.

    The members are read from the device together, when one is first looked up.
    """

    __slots__ = ("_array", "_layout", "_members", "_rows")

    def __init__(self, layout: _core.Block, array: _core.Array) -> None:
        self._layout, self._array = layout, array
        self._rows: dict[str, Row] = {row[0]: row for row in layout.members}
        self._members: dict[Any, Any] | None = None

    def __getitem__(self, name: Any) -> Any:
        if self._members is None:
            memory = self._array.numpy().tobytes()
            self._members = tree({row[0]: self._read(memory, row) for row in self._rows.values()})
        return self._members[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(tree(dict.fromkeys(self._rows)))

    def __len__(self) -> int:
        return len(tree(dict.fromkeys(self._rows)))

    def __repr__(self) -> str:
        return f"Block({list(self)})"

    def _read(self, memory: bytes, row: Row) -> Any:
        name, kind, _, axes = row
        numbers = np.frombuffer(self._layout.unpack(memory, name), np.dtype(kind))
        # Without elements at the end -1 could be any size.
        fixed, stride = self._layout.size
        elements = (len(memory) - fixed) // (stride or 1)
        return numbers.reshape([elements if size is None else size for size, _ in axes]).copy()[()]


def tree(leaves: Mapping[str, Any]) -> dict[Any, Any]:
    """Nested dicts of members named like `lights.color`; the numbers of members without names are int.

    Example:
        >>> from grilly.blocks import tree
        >>> tree({"n": 1, "lights.color": 2, "lights.0": 3})
        {'n': 1, 'lights': {'color': 2, 0: 3}}
    """
    found: dict[Any, Any] = {}
    for path, leaf in leaves.items():
        *outer, name = [int(part) if part.isdecimal() else part for part in path.split(".")]
        within = found
        for part in outer:
            within = within.setdefault(part, {})
        within[name] = leaf
    return found


def packed(engine: _core.Engine, layout: _core.Block, given: Mapping[Any, Any], what: str) -> _core.Array:
    """The memory of a block on a device, of its members as a dict."""
    if isinstance(given, Block) and given._array.engine == engine:
        own = given._layout
        if (own.members, own.size) == (layout.members, layout.size):
            return given._array
    rows = {row[0]: row for row in layout.members}
    leaves = dict(_leaves(given, tree(dict.fromkeys(rows)), what, ""))
    elements: dict[str, int] = {}
    members = {name: _bytes(leaves[name], row, what, elements) for name, row in rows.items()}
    if len(set(elements.values())) > 1:
        raise InvalidArgumentError(f"{what}: members of one array have different numbers of elements, {elements}")
    return engine.upload(np.frombuffer(layout.pack(members), np.uint8))


def _leaves(given: Any, expected: Mapping[Any, Any], what: str, outer: str) -> Iterator[tuple[str, Any]]:
    """Names and values of the members of a struct that are no structs."""
    if not isinstance(given, Mapping):
        where = outer[:-1] or "the block"
        raise InvalidTypeError(
            f"{what}: {where} is of type {type(given).__name__}, expected a dict of {list(expected)}"
        )
    for name in [*given, *expected]:
        if name not in expected or name not in given:
            problem = "is missing" if name in expected else f"is none of the members, {list(expected)}"
            raise InvalidArgumentError(f"{what}: {outer}{name} {problem}")
    for name, inner in expected.items():
        if inner is None:
            yield f"{outer}{name}", given[name]
        else:
            yield from _leaves(given[name], inner, what, f"{outer}{name}.")


def _bytes(value: Any, row: Row, what: str, elements: dict[str, int]) -> bytes:
    """The elements of a member; `elements` gets the size of an array at the end."""
    name, kind, _, axes = row
    array, dtype = host_array(value, f"{what}: {name}"), np.dtype(kind)
    expected = [size for size, _ in axes]
    if array.ndim != len(axes) or any(
        size not in (None, found) for size, found in zip(expected, array.shape, strict=True)
    ):
        shape = _shown(expected)
        raise InvalidArgumentError(f"{what}: {name} has shape {array.shape}, expected {shape}")
    if expected and expected[0] is None:
        elements[name] = array.shape[0]
    numbers = "fbiu" if dtype.kind == "f" else "biu"
    if array.dtype.kind not in numbers and not (array.size == 0 and array.dtype.kind == "f"):
        raise InvalidTypeError(f"{what}: {name} is {array.dtype}, and the shader reads {dtype}")
    if dtype.kind in "iu" and array.dtype.kind in "iu" and array.size:
        limits, least, most = np.iinfo(dtype), int(array.min()), int(array.max())
        if least < limits.min or most > limits.max:
            wrong = least if least < limits.min else most
            raise InvalidArgumentError(f"{what}: {name} has the value {wrong}, which {dtype} does not hold")
    with np.errstate(over="ignore"):
        return np.asarray(array, dtype.newbyteorder("<")).tobytes()


def _shown(sizes: Sequence[int | None]) -> str:
    return (
        "(" + ", ".join("any" if size is None else str(size) for size in sizes) + ("," if len(sizes) == 1 else "") + ")"
    )
