"""Rows of few numbers other than zero: the embeddings of a `SparseEncoder`, in NumPy."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.inputs import as_int
from grilly.outputs import to_tensor
from grilly.tensors import as_array

__all__ = ["SparseRows", "as_dense", "most_active"]

Floats = npt.NDArray[np.floating[Any]]


@closed()
@dataclass(frozen=True, eq=False)
class SparseRows:
    """A matrix `(N, D)`, or a vector `(D,)`, of which only the numbers other than zero are stored, row after row.

    Row i has the numbers `values[starts[i]:starts[i + 1]]` in the columns `columns[starts[i]:starts[i + 1]]`, which
    rise. `scipy.sparse.csr_array((rows.values, rows.columns, rows.starts), rows.shape)` makes SciPy's matrix of one.

    Attributes:
        values: float32 or float16 `(K,)`, none of them zero.
        columns: int64 `(K,)`.
        starts: int64 `(N + 1,)`.
        shape: `(N, D)` or `(D,)`.

    Example:
        >>> import numpy as np
        >>> from grilly.sparse import SparseRows
        >>> rows = SparseRows.of(np.float32([[0, 2, 0, 1], [0, 0, 0, 0]]))
        >>> rows.columns.tolist(), rows.values.tolist(), rows.starts.tolist(), rows[0].shape
        ([1, 3], [2.0, 1.0], [0, 2, 2], (4,))
    """

    values: Floats
    columns: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, dense: Floats) -> SparseRows:
        """The numbers other than zero of an array `(N, D)` or `(D,)`.

        Example:
            >>> SparseRows.of(np.float32([0, 5])).columns.tolist()
            [1]
        """
        if dense.ndim not in (1, 2):
            raise InvalidArgumentError(f"an array of shape {dense.shape} has no rows, expected (N, D) or (D,)")
        rows, columns = np.nonzero(dense if dense.ndim == 2 else dense[None])
        starts = np.searchsorted(rows, np.arange(dense.shape[0] + 1 if dense.ndim == 2 else 2)).astype(np.int64)
        return cls(dense[dense != 0], columns.astype(np.int64), starts, dense.shape)

    @classmethod
    def stack(cls, parts: Sequence[SparseRows]) -> SparseRows:
        """The rows of several matrices with the same number of columns.

        Example:
            >>> rows = SparseRows.of(np.float32([[0, 5]]))
            >>> SparseRows.stack([rows, rows]).shape
            (2, 2)
        """
        ends = np.cumsum([0, *(len(part.values) for part in parts)])
        starts = [part.starts[:-1] + end for part, end in zip(parts, ends[:-1], strict=True)]
        return cls(
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.columns for part in parts]),
            np.concatenate([*starts, ends[-1:]]).astype(np.int64),
            (sum(part.shape[0] for part in parts), parts[0].shape[1]),
        )

    def toarray(self) -> Floats:
        """The whole array, zeros included.

        Example:
            >>> SparseRows.of(np.float32([[0, 5]])).toarray().tolist()
            [[0.0, 5.0]]
        """
        dense = np.zeros((len(self.starts) - 1, self.shape[-1]), self.values.dtype)
        dense[np.repeat(np.arange(len(dense)), np.diff(self.starts)), self.columns] = self.values
        return dense.reshape(self.shape)

    @classmethod
    def from_any(cls, embeddings: Any) -> SparseRows:
        """The rows of an array or a torch tensor; rows as they are.

        Example:
            >>> SparseRows.from_any([0.0, 5.0]).shape
            (2,)
        """
        if isinstance(embeddings, SparseRows):
            return embeddings
        return cls.of(np.asarray(as_array(as_dense(embeddings))))

    def blocks(self, rows: int) -> list[SparseRows]:
        """The rows in matrices of so many each, at least one; a vector is a matrix of one row.

        Example:
            >>> [block.shape for block in SparseRows.of(np.float32([[0, 5], [1, 0], [2, 3]])).blocks(2)]
            [(2, 2), (1, 2)]
        """
        matrix = self if len(self.shape) == 2 else SparseRows(self.values, self.columns, self.starts, (1, *self.shape))
        return [matrix[start : start + rows] for start in range(0, max(len(matrix), 1), rows)]

    def to_torch(self, dtype: str | None = None) -> Any:
        """A coalesced torch tensor in the layout COO, of an element type by name, where torch is installed.

        Raises:
            ImportError: torch is not installed.
        """
        torch = importlib.import_module("torch")
        places = [self.columns]
        if len(self.shape) == 2:
            places.insert(0, np.repeat(np.arange(self.shape[0]), np.diff(self.starts)))
        tensors = to_tensor(np.stack(places)), to_tensor(self.values, dtype)
        return torch.sparse_coo_tensor(*tensors, self.shape, is_coalesced=True)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, place: int | slice) -> SparseRows:
        """A row `(D,)`, or the rows of a slice `(M, D)`."""
        if len(self.shape) != 2:
            raise InvalidTypeError("one row has no rows; toarray() gives its numbers")
        if not isinstance(place, slice):
            number = as_int(place, "the number of a row")
            if not -len(self) <= number < len(self):
                raise IndexError(f"there is no row {number} of {len(self)}")
            start, end = self.starts[number % len(self)], self.starts[number % len(self) + 1]
            return SparseRows(
                self.values[start:end], self.columns[start:end], np.array([0, end - start]), self.shape[1:]
            )
        chosen = range(len(self))[place]
        if chosen.step != 1:
            return SparseRows.stack([self[:0], *(self[number : number + 1] for number in chosen)])
        starts = self.starts[chosen.start : max(chosen.start, chosen.stop) + 1]
        kept = slice(starts[0], starts[-1])
        return SparseRows(self.values[kept], self.columns[kept], starts - starts[0], (len(chosen), self.shape[1]))

    def __iter__(self) -> Iterator[SparseRows]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        return f"SparseRows(shape={self.shape}, {len(self.values)} of {self.values.dtype})"


def most_active(dense: Floats, most: int) -> Floats:
    """The `most` numbers of each row that are farthest from zero, all others zero; of equal ones the first count.

    Example:
        >>> import numpy as np
        >>> from grilly.sparse import most_active
        >>> most_active(np.float32([[3, 1, -2, 1]]), 3).tolist()
        [[3.0, 1.0, -2.0, 0.0]]
    """
    kept = np.zeros_like(dense)
    for row, result in zip(dense, kept, strict=True):
        active = np.flatnonzero(row)
        active = active[np.argsort(-np.abs(row[active]), kind="stable")[:most]]
        result[active] = row[active]
    return kept


def as_dense(embeddings: Any) -> Any:
    """An array, a torch tensor or rows, as they are but with their zeros.

    Example:
        >>> import numpy as np
        >>> from grilly.sparse import SparseRows, as_dense
        >>> as_dense(SparseRows.of(np.float32([0, 5]))).tolist()
        [0.0, 5.0]
    """
    if isinstance(embeddings, SparseRows):
        return embeddings.toarray()
    if isinstance(embeddings, list | tuple) and embeddings and isinstance(embeddings[0], SparseRows):
        return np.stack([row.toarray() for row in embeddings])
    return embeddings.to_dense() if getattr(embeddings, "is_sparse", False) else embeddings
