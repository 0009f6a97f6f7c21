"""Texts of an index that have a vector for each token, and their scores by MaxSim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly import _core
from grilly.closed import closed
from grilly.search.blocks import Block, Grown, OnDevice, rows_of_block
from grilly.search.rows import KINDS, Call
from grilly.search.vectors import checked
from grilly.token_matrices import matrices

__all__ = ["Texts", "max_sim_on"]

Host = npt.NDArray[Any]
#: Vectors of a query, for an estimate of memory.
LONG = 32
#: Queries that a GPU compares at a time: workgroups along an axis.
MOST_QUERIES = 32_768


@closed()
class Texts:
    """Matrices `(T, D)` of an element type, end to end; the last array of a block has where each one's rows begin."""

    def __init__(self, columns: int, dtype: str, call: Call, size: int) -> None:
        self.columns, self.kind, self.call, self.size = columns, KINDS[dtype], call, size
        # Of each block its vectors, and the block.
        self._rows: list[Grown] = []
        self._blocks: list[Block] = []

    @property
    def count(self) -> int:
        """How many texts there are."""
        return sum(len(block[-1]) - 1 for block in self._blocks)

    def add(self, texts: Any, finite: bool = True) -> None:
        """Texts after those that are there."""
        rows, starts = packed(texts, self.columns, "vectors", finite)
        if len(starts) > 1:
            self.add_block([*self.kind.encode(self.call, rows), starts])

    def add_block(self, block: Block) -> None:
        """Texts as a block has them, in blocks of at most `size` rows; a text is never cut."""
        starts, first = block[-1], 0

        def fits(rows: int) -> int:
            """The end of the texts from `first` on that have at most so many rows together."""
            return int(np.searchsorted(starts, starts[first] + rows, side="right")) - 1

        while first < len(starts) - 1:
            held = int(self._blocks[-1][-1][-1]) if self._blocks else self.size
            grows = fits(self.size - held) > first and held < self.size
            end = fits(self.size - held) if grows else max(fits(self.size), first + 1)
            part = [array[starts[first] : starts[end]] for array in block[:-1]]
            begins = (starts[first : end + 1] - starts[first]).astype(np.int32)
            if grows:
                self._rows[-1].add(part, self.size)
                begins = np.concatenate([self._blocks.pop()[-1], np.int32(held) + begins[1:]])
            else:
                self._rows.append(Grown(part))
            self._blocks.append([*self._rows[-1].arrays, begins])
            first = end

    def queries(self, queries: Any, finite: bool = True) -> tuple[list[Block], int]:
        """Queries as they are compared, and how many there are."""
        rows, starts = packed(queries, self.columns, "queries", finite)
        return [[rows, starts.astype(np.int32)]], len(starts) - 1

    def ready(self, queries: list[_core.Array]) -> list[_core.Array]:
        """Queries on a device, in the type in which they are compared."""
        return [self.kind.ready(self.call, queries[0]), *queries[1:]]

    @property
    def largest(self) -> int:
        """Numbers in memory for a query and a block, at most."""
        products = max((int(block[-1][-1]) for block in self._blocks), default=0)
        return (
            LONG * products if self.call.is_everywhere else max((len(block[-1]) for block in self._blocks), default=0)
        )

    def parts(self, queries: Block, most: int) -> Iterator[Block]:
        """Queries in parts of so many, at least one."""
        *rows, starts = queries
        most = min(most, MOST_QUERIES)
        for first in range(0, len(starts) - 1, max(1, most)):
            own = starts[first : first + max(1, most) + 1]
            yield [*(array[own[0] : own[-1]] for array in rows), own - own[0]]

    def __iter__(self) -> Iterator[tuple[int, int, Block]]:
        """The number of the first text of each block, how many it has, and its arrays."""
        first = 0
        for block in self._blocks:
            yield first, len(block[-1]) - 1, block
            first += len(block[-1]) - 1

    def scores(self, queries: list[_core.Array], block: list[_core.Array]) -> _core.Array:
        """Scores of all queries with the texts of a block `(Q, N)`."""
        *rows, starts = block
        documents = self.kind.decode(self.call, rows, self.columns)
        return self.call("max_sim", queries[0], documents, queries[1], starts)[0]


def max_sim_on(
    engine: _core.Engine, columns: int, narrow: bool, queries: Sequence[Host], documents: Sequence[Host]
) -> npt.NDArray[np.float32]:
    """Scores `(Q, N)` of matrices with matrices, on a device, in float16 if `narrow`; any of them may have no rows."""
    call, device = Call(_core.numerics_name()), OnDevice(engine, 0, None)
    dtype = "float16" if narrow and not call.is_everywhere else "float32"
    store = Texts(columns, dtype, call, rows_of_block(device.block_bytes, KINDS[dtype].row_bytes(columns)))
    store.add(documents, finite=False)
    forms, count = store.queries(queries, finite=False)
    given = store.ready([engine.upload(array) for array in forms[-1]])
    parts = [store.scores(given, device.arrays(first, block, 0)).numpy() for first, _, block in store]
    return np.concatenate([np.empty((count, 0), np.float32), *parts], axis=1)


def packed(
    texts: Any, columns: int, name: str, finite: bool = True
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Texts, as `matrices` takes them, as one `(T, D)`, float32, and where each one's rows begin."""
    rows = [
        checked(text, columns, f"{name}[{place}]", finite) for place, text in enumerate(matrices(texts, None, name))
    ]
    starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return np.concatenate([np.empty((0, columns), np.float32), *rows]), starts
