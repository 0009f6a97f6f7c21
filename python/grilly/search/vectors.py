"""Vectors of an index, a row each, and their scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly import _core
from grilly.closed import closed
from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.search.blocks import Block, Blocks
from grilly.search.rows import KINDS, Call, on_host
from grilly.tensors import as_array

__all__ = ["Vectors", "checked"]

Host = npt.NDArray[Any]


@closed()
class Vectors:
    """Rows `(N, D)` of an element type; normalised first if they are compared by cosine."""

    def __init__(self, columns: int, dtype: str, cosine: bool, call: Call, size: int) -> None:
        self.columns, self.kind, self.cosine, self.call = columns, KINDS[dtype], cosine, call
        self.blocks = Blocks(size)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.blocks.rows

    def add(self, vectors: Any) -> None:
        """Rows after those that are there."""
        rows = checked(vectors, self.columns, "vectors")
        if len(rows):
            self.blocks.add(self.kind.encode(self.call, self._unit(rows)))

    def _unit(self, rows: Host) -> Host:
        return on_host(self.call, "normalize", rows)[0] if self.cosine and len(rows) else rows

    def queries(self, queries: Any) -> tuple[list[Block], int]:
        """Queries in float32, and as they are compared, and how many there are."""
        rows = self._unit(checked(queries, self.columns, "queries"))
        return [[rows], self.kind.query(self.call, rows)], len(rows)

    def ready(self, queries: list[_core.Array]) -> list[_core.Array]:
        """Queries on a device, in the type in which they are compared."""
        return [self.kind.ready(self.call, queries[0]), *queries[1:]]

    @property
    def largest(self) -> int:
        """Scores of a query with a block, at most."""
        return min(self.blocks.size, self.count)

    def parts(self, queries: Block, most: int) -> Iterator[Block]:
        """Queries in parts of so many, at least one."""
        for first in range(0, len(queries[0]), max(1, most)):
            yield [array[first : first + max(1, most)] for array in queries]

    def add_block(self, block: Block) -> None:
        """Rows as a block has them."""
        if len(block[0]):
            self.blocks.add(block)

    def __iter__(self) -> Iterator[tuple[int, int, Block]]:
        """The number of the first row of each block, how many it has, and its arrays."""
        return ((first, len(block[0]), block) for first, block in self.blocks)

    def scores(self, queries: list[_core.Array], block: list[_core.Array]) -> _core.Array:
        """Scores of all queries with the rows of a block `(Q, N)`."""
        return self.kind.scores(self.call, queries, block)

    def scores_of(self, queries: Host, rows: Host) -> Host:
        """Products of float32 queries `(Q, D)` with some rows each `(Q, M)`, on the CPU."""
        engine = _core.engine("cpu")
        block = [engine.upload(array) for array in self.blocks.at(rows.reshape(-1))]
        found = self.kind.decode(self.call, block, self.columns).reshape([*rows.shape, self.columns])
        given = engine.upload(queries[:, None])
        scores: Host = self.call("matmul", given, found, transpose_b=True)[0].numpy()
        return scores[:, 0]


def checked(vectors: Any, columns: int, name: str, finite: bool = True) -> npt.NDArray[np.float32]:
    """Vectors as float32 `(N, D)`; one of them alone is a row."""
    array = np.asarray(as_array(vectors))
    if array.dtype.kind not in "fiu":
        raise InvalidTypeError(f"{name} are of type {array.dtype}, expected numbers")
    array = array[None] if array.ndim == 1 and array.size else array.reshape(0, columns) if not array.size else array
    if array.ndim != 2 or array.shape[1] != columns:
        raise InvalidArgumentError(f"{name} have shape {array.shape}, expected (N, {columns})")
    with np.errstate(over="ignore"):  # it is refused below
        rows = np.ascontiguousarray(array, dtype=np.float32)
    if finite and not np.isfinite(rows).all():
        row = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise InvalidArgumentError(f"row {row} of {name} has a number that is infinite, or not a number, in float32")
    return rows
