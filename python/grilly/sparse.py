"""Rows of few numbers other than zero: the embeddings of a `SparseEncoder`, in NumPy."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.errors import InvalidArgumentError
from grilly.inputs import as_int
from grilly.numbers import Numbers
from grilly.resources import need
from grilly.sparse_products import Products
from grilly.tensors import as_array, stored, to_tensor

__all__ = ["SparseRows", "as_dense", "is_sparse", "most_active"]

Floats = npt.NDArray[np.floating[Any]]


@closed()
@dataclass(frozen=True, eq=False, repr=False)
class SparseRows(Products):
    """A matrix `(N, D)`, or a vector `(D,)`, of which only the numbers other than zero are stored, row after row.

    Row i has the numbers `values[starts[i]:starts[i + 1]]` in the columns `columns[starts[i]:starts[i + 1]]`, which
    rise. `tocsr()` makes SciPy's matrix of one, `toarray()` an array and `to_torch()` a tensor. What code for sparse
    tensors calls is here, too: `coalesce()`, `indices()`, `values()`, `to_dense()`, `size()`, `cpu()`, `@`, `T`.

    Attributes:
        values: float32 or float16 `(K,)`, none of them zero; also as a method, `values()`.
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

    values: Any
    columns: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", np.asarray(self.values).view(Numbers))

    @classmethod
    def of(cls, dense: Floats, dtype: str | None = None) -> SparseRows:
        """The numbers other than zero of an array `(N, D)` or `(D,)`, in a model's element type if one is given.

        Example:
            >>> SparseRows.of(np.float32([0, 5])).columns.tolist()
            [1]
        """
        if dense.ndim not in (1, 2):
            raise InvalidArgumentError(f"an array of shape {dense.shape} has no rows, expected (N, D) or (D,)")
        count, width = dense.shape if dense.ndim == 2 else (1, *dense.shape)
        # Of booleans and of few numbers, which NumPy finds and rounds many times faster than all of them.
        places = np.flatnonzero(dense != 0)
        values = dense.reshape(-1)[places]
        if dtype is not None:
            values = stored(values, dtype)
            places, values = places[values != 0], values[values != 0]  # the least are rounded to zero
        starts = np.searchsorted(places, np.arange(count + 1) * width).astype(np.int64)
        columns = places - np.repeat(np.arange(count) * width, np.diff(starts))
        return cls(values, columns.astype(np.int64), starts, dense.shape)

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
        need(self.shape, self.values.dtype, "sparse rows with their zeros")
        dense = np.zeros((len(self.starts) - 1, self.shape[-1]), self.values.dtype)
        dense[self.row_numbers(), self.columns] = self.values
        return dense.reshape(self.shape)

    @classmethod
    def from_any(cls, embeddings: Any) -> SparseRows:
        """The rows of an array, a torch tensor, or a list of either or of rows; rows as they are.

        Example:
            >>> SparseRows.from_any([0.0, 5.0]).shape
            (2,)
        """
        if isinstance(embeddings, SparseRows):
            return embeddings
        if isinstance(embeddings, list | tuple) and is_sparse(embeddings):
            return cls.stack([cls.from_any(row).matrix() for row in embeddings])
        if not is_sparse(embeddings):
            array = np.asarray(as_array(embeddings))
            return cls.of(array if array.dtype.kind == "f" else array.astype(np.float32))
        tensor = embeddings.detach().cpu().coalesce()
        places, values = tensor.indices().numpy(), as_array(tensor.values())
        shape = tuple(tensor.shape)
        if len(shape) not in (1, 2):
            raise InvalidArgumentError(f"a tensor of shape {shape} has no rows, expected (N, D) or (D,)")
        numbers = places[0] if len(shape) == 2 else np.zeros(len(values), np.int64)
        starts = np.searchsorted(numbers, np.arange((shape[0] if len(shape) == 2 else 1) + 1)).astype(np.int64)
        stored = cls(values, places[-1], starts, shape)
        return stored if (values != 0).all() else stored._like(stored.values)

    def matrix(self) -> SparseRows:
        """The rows, or a vector as a matrix `(1, D)`.

        Example:
            >>> SparseRows.of(np.float32([0, 5])).matrix().shape
            (1, 2)
        """
        return self if len(self.shape) == 2 else SparseRows(self.values, self.columns, self.starts, (1, *self.shape))

    def blocks(self, rows: int) -> list[SparseRows]:
        """The rows in matrices of so many each, at least one; a vector is a matrix of one row.

        Example:
            >>> [block.shape for block in SparseRows.of(np.float32([[0, 5], [1, 0], [2, 3]])).blocks(2)]
            [(2, 2), (1, 2)]
        """
        matrix = self.matrix()
        return [matrix[start : start + rows] for start in range(0, max(len(matrix), 1), rows)]

    def to_torch(self, dtype: str | None = None) -> Any:
        """A coalesced torch tensor in the layout COO, of an element type by name, where torch is installed.

        Raises:
            ImportError: torch is not installed.
        """
        torch = importlib.import_module("torch")
        tensors = to_tensor(self.indices().numpy()), to_tensor(self.values.numpy(), dtype)
        return torch.sparse_coo_tensor(*tensors, self.shape, is_coalesced=True, check_invariants=False)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, place: Any) -> Any:
        """A row `(D,)`; the rows of a slice, of a list of numbers or of a mask; a number of a vector, or at a pair."""
        if isinstance(place, tuple) and len(place) == 2:
            rows = self[place[0]]
            if isinstance(place[1], slice) and place[1] == slice(None):
                return rows
            if not isinstance(rows, SparseRows) or len(rows.shape) != 1:
                raise InvalidArgumentError("a part of the columns is one of the whole array: toarray()[...]")
            return rows[place[1]]
        if len(self.shape) != 2:
            if isinstance(place, slice) or np.ndim(place):
                raise InvalidArgumentError(f"a part of a row of shape {self.shape} is one of its array: toarray()[...]")
            return self._number(as_int(place, "the number of a column"))
        if not isinstance(place, slice) and np.ndim(as_array(place)) == 1:
            chosen = np.asarray(as_array(place))
            chosen = np.flatnonzero(chosen) if chosen.dtype == bool and len(chosen) == len(self) else chosen
            return SparseRows.stack([self[:0], *(self[number].matrix() for number in chosen)])
        if not isinstance(place, slice):
            number = as_int(place, "the number of a row")
            if not -len(self) <= number < len(self):
                raise IndexError(f"there is no row {number} of {len(self)}")
            start, end = self.starts[number % len(self)], self.starts[number % len(self) + 1]
            return SparseRows(
                self.values[start:end], self.columns[start:end], np.array([0, end - start]), self.shape[1:]
            )
        run = range(len(self))[place]
        if run.step != 1:
            return self[list(run)]
        starts = self.starts[run.start : max(run.start, run.stop) + 1]
        kept = slice(starts[0], starts[-1])
        return SparseRows(self.values[kept], self.columns[kept], starts - starts[0], (len(run), self.shape[1]))

    def _number(self, column: int) -> np.floating[Any]:
        """The number of a vector in a column."""
        width = self.shape[0]
        if not -width <= column < width:
            raise IndexError(f"there is no column {column} of {width}")
        place = np.searchsorted(self.columns, column % width)
        found = place < len(self.columns) and self.columns[place] == column % width
        number: np.floating[Any] = self.values[place] if found else self.dtype.type(0)
        return number

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        return f"SparseRows(shape={self.shape}, {len(self.values)} of {self.values.dtype})"


def most_active(dense: Floats, most: int) -> Floats:
    """The `most` numbers of each row with the largest magnitudes, all others zero; a tie goes to the first.

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


def is_sparse(embeddings: Any) -> bool:
    """Whether embeddings are `SparseRows` or a torch tensor in COO layout, or a list of either.

    Example:
        >>> import numpy as np
        >>> from grilly.sparse import SparseRows, is_sparse
        >>> is_sparse([SparseRows.of(np.float32([0, 5]))]), is_sparse(np.ones(2))
        (True, False)
    """
    first = embeddings[0] if isinstance(embeddings, list | tuple) and embeddings else embeddings
    return getattr(first, "is_sparse", False) is True


def as_dense(embeddings: Any) -> Any:
    """An array, a torch tensor or rows, as they are but with their zeros.

    Example:
        >>> import numpy as np
        >>> from grilly.sparse import SparseRows, as_dense
        >>> as_dense(SparseRows.of(np.float32([0, 5]))).tolist()
        [0.0, 5.0]
    """
    if isinstance(embeddings, list | tuple) and is_sparse(embeddings):
        return np.stack([as_array(as_dense(row)) for row in embeddings])
    if isinstance(embeddings, SparseRows):
        return embeddings.toarray()
    return embeddings.to_dense() if is_sparse(embeddings) else embeddings
