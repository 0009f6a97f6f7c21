"""Rows of an index on the host, in blocks, and copies of these on a device while it has room."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly import _core, fallbacks
from grilly.closed import closed
from grilly.errors import DeviceError, DeviceMemoryError
from grilly.functional.checks import whole

__all__ = ["Block", "Blocks", "Grown", "OnDevice", "opened", "rows_of_block"]

Host = npt.NDArray[Any]
#: The arrays of a block, each with a row for each row of the index. A block that changes is another list.
Block = list[Host]


@closed()
class Grown:
    """Arrays that grow by rows, in memory that doubles when it is full."""

    def __init__(self, arrays: Block) -> None:
        self.arrays = self._memory = arrays

    def add(self, rows: Block, most: int) -> None:
        """Rows after those that are there, `most` in the end at most."""
        held = len(self.arrays[0])
        count = held + len(rows[0])
        if len(self._memory[0]) < count or not self._memory[0].flags.writeable:
            room = max(count, min(2 * held, most))
            larger = [np.empty((room, *array.shape[1:]), array.dtype) for array in rows]
            for new, old in zip(larger, self.arrays, strict=True):
                new[:held] = old
            self._memory = larger
        for array, own in zip(self._memory, rows, strict=True):
            array[held:count] = own
        self.arrays = [array[:count] for array in self._memory]


@closed()
class Blocks:
    """Arrays that grow by rows, read in blocks of `size` rows; a full block never changes."""

    def __init__(self, size: int) -> None:
        self.size, self.rows = size, 0
        self._blocks: list[Grown] = []

    def add(self, arrays: Block) -> None:
        """Rows after those that are there; whole blocks of them are kept as they are, without a copy."""
        start, count = 0, len(arrays[0])
        while start < count:
            held = self.rows % self.size
            taken = min(count - start, self.size - held)
            own = [array[start : start + taken] for array in arrays]
            if held:
                self._blocks[-1].add(own, self.size)
            else:
                self._blocks.append(Grown(own))
            self.rows += taken
            start += taken

    def __iter__(self) -> Iterator[tuple[int, Block]]:
        """Each block, with the number of its first row."""
        return zip(range(0, self.rows, self.size), (block.arrays for block in self._blocks), strict=True)

    def at(self, rows: Host) -> Block:
        """Some rows of each array."""
        first = self._blocks[0].arrays
        found = [np.empty((len(rows), *array.shape[1:]), array.dtype) for array in first]
        blocks = rows // self.size
        for block in np.unique(blocks):
            own = blocks == block
            for to, array in zip(found, self._blocks[block].arrays, strict=True):
                to[own] = array[rows[own] - block * self.size]
        return found


#: Bytes and rows of a block at most: kernels count its scores in 32 bits. A CPU's caches hold a block and its scores.
BLOCK, ROWS = 1 << 30, 1 << 20
BLOCK_OF_CPU, SCORES_OF_CPU = 12 << 20, 1 << 20
#: Rows of full blocks, and those that a GPU is given, are multiples of this: of a device's kernels for products, which
#: have different bits, each takes such numbers of columns.
WHOLE = 64


def rows_of_block(bytes_of_block: int, bytes_of_row: int) -> int:
    """Rows of a full block."""
    return min(max(bytes_of_block // bytes_of_row, WHOLE), ROWS) // WHOLE * WHOLE


@closed()
class OnDevice:
    """Copies of blocks on a device; those that fit in `room` bytes stay there, None for all."""

    def __init__(self, engine: _core.Engine, room: int | None, block_bytes: int | None) -> None:
        self.engine, self.block_bytes = engine, block_bytes or (BLOCK if engine.limits else BLOCK_OF_CPU)
        self.room, self.scores, self.whole = room, SCORES_OF_CPU, 1
        if engine.limits:
            largest, memory = engine.limits
            self.block_bytes = min(self.block_bytes, largest)
            self.room = memory // 2 if room is None else room
            # Scores take a 16th of the memory.
            self.scores, self.whole = min(largest // 4, memory // 64), WHOLE
        self._held: dict[int, tuple[Block, list[_core.Array]]] = {}
        self._bytes = 0

    def arrays(self, first: int, block: Block, missing: int) -> list[_core.Array]:
        """The arrays on the device of the block whose first row has this number, and so many rows of zeros after it."""
        known = self._held.get(first)
        if known is not None and known[0] is block:
            return known[1]
        if known is not None:  # it has grown
            self._forget(first)
        if missing:
            zeros = [np.zeros((missing, *array.shape[1:]), array.dtype) for array in block]
            given = [np.concatenate(pair) for pair in zip(block, zeros, strict=True)]
        else:
            given = block
        try:
            made = self._upload(given)
        except DeviceMemoryError:
            if not self._held:
                raise
            # What is held takes the room that this block needs.
            self.room = self._bytes // 2
            while self._bytes > self.room:
                self._forget(next(reversed(self._held)))
            made = self._upload(given)
        size = sum(array.nbytes for array in made)
        if self.room is None or self._bytes + size <= self.room:
            self._held[first] = block, made
            self._bytes += size
        return made

    def _upload(self, block: Block) -> list[_core.Array]:
        return [self.engine.upload(np.ascontiguousarray(array)) for array in block]

    def _forget(self, first: int) -> None:
        _, arrays = self._held.pop(first)
        self._bytes -= sum(array.nbytes for array in arrays)


def opened(device: str, device_memory: Any, block_bytes: Any) -> OnDevice:
    """The device, or the CPU in place of a GPU that is not there."""
    room = None if device_memory is None else whole("Index", "device_memory", device_memory, 0)
    most = None if block_bytes is None else whole("Index", "block_bytes", block_bytes)
    try:
        engine = _core.engine(device)
    except DeviceError as error:
        if device == "cpu":
            raise
        fallbacks.to_cpu("Index", error)
        engine = _core.engine("cpu")
    return OnDevice(engine, room, most)
