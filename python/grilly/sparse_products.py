"""Products and transposes of sparse rows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError
from grilly.inputs import as_int
from grilly.resources import need
from grilly.sparse_tensors import TensorNames
from grilly.tensors import as_array, holds_tensors

if TYPE_CHECKING:
    from grilly.sparse import SparseRows

__all__ = ["Products", "row_products"]

# Rows that have their zeros in memory while they are multiplied, and products that are added at a time.
BLOCK = 128
TERMS = 1 << 22


class Products(TensorNames):
    """Sparse rows that are multiplied and transposed."""

    def __array_ufunc__(self, function: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        """NumPy's functions see the whole array, but for products, which are those of `@` and `*`."""
        if method == "__call__" and function in (np.matmul, np.multiply) and not options:
            first, second = operands
            own, other = (first, second) if isinstance(first, Products) else (second, first)
            if function is np.multiply:
                return own * other
            return own @ other if own is first else own.__rmatmul__(other)
        whole = [np.asarray(each) if isinstance(each, Products) else each for each in operands]
        return getattr(function, method)(*whole, **options)

    @property
    def T(self) -> SparseRows:  # noqa: N802
        """The transpose `(D, N)` of `(N, D)`; a vector as it is."""
        if self.ndim == 1:
            return self._rows
        order = np.argsort(self.columns, kind="stable")
        height, width = self.shape
        starts = np.searchsorted(self.columns[order], np.arange(width + 1)).astype(np.int64)
        return type(self._rows)(self.values[order], self.row_numbers()[order], starts, (width, height))

    def t(self) -> SparseRows:
        """The same as `T`.

        Example:
            >>> rows.t().shape
            (4, 2)
        """
        return self.T

    def transpose(self, dim0: int = 0, dim1: int = 1) -> SparseRows:
        """The same as `T`, for its two axes.

        Example:
            >>> rows.transpose(0, 1).shape
            (4, 2)
        """
        axes = {as_int(axis, "dim") % self.ndim for axis in (dim0, dim1)}
        return self._rows if len(axes) == 1 else self.T

    def __matmul__(self, other: Any) -> Any:
        """The product with rows, which are then `SparseRows`, or with an array or a tensor, which are then dense."""
        kind, sparse = type(self._rows), getattr(other, "is_sparse", False)
        columns = kind.from_any(other).T if sparse else np.asarray(as_array(other)).T  # (M, D) or (D,)
        if columns.ndim not in (1, 2) or self.shape[-1] != columns.shape[-1]:
            raise InvalidArgumentError(f"a product of rows {self.shape} and {tuple(np.shape(other))}: the sizes differ")
        right = columns.matrix() if isinstance(columns, kind) else np.atleast_2d(columns)
        product = row_products(self._rows.matrix(), right)
        product = product[:, 0] if columns.ndim == 1 else product
        product = product[0] if self.ndim == 1 else product
        if sparse:
            return kind.of(product) if product.ndim else product
        return sys.modules["torch"].as_tensor(product) if holds_tensors(other) else product

    def __rmatmul__(self, other: Any) -> Any:
        product = self.T @ (other.T if np.ndim(other) == 2 else other)
        return product.T if product.ndim == 2 else product

    def unit(self) -> SparseRows:
        """Rows divided by their norms; a row of zeros stays one.

        Example:
            >>> round(float(np.square(rows.unit().values).sum()), 5)
            1.0
        """
        squares = np.bincount(
            self.row_numbers(), np.square(self.values.numpy(), dtype=np.float64), len(self.starts) - 1
        )
        norms = np.sqrt(squares)[self.row_numbers()]
        return self._like(np.asarray(self.values / np.maximum(norms, 1e-12), self.dtype))

    def __mul__(self, other: Any) -> SparseRows:
        """Times a number, or element by element times rows or an array of the same shape."""
        if np.ndim(as_array(other)) == 0:
            return self._like(np.asarray(self.values * as_array(other), self.dtype))
        if np.shape(other) != self.shape:
            raise InvalidArgumentError(f"rows of shape {self.shape} times {np.shape(other)}: the sizes differ")
        others = type(self._rows).from_any(other)
        width = self.shape[-1]
        mine, theirs = (each.row_numbers() * width + each.columns for each in (self, others))
        _, here, there = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
        numbers = np.zeros_like(self.values)
        numbers[here] = self.values[here] * others.values[there]
        return self._like(numbers)

    __rmul__ = __mul__

    def __truediv__(self, number: Any) -> SparseRows:
        return self._like(np.asarray(self.values / number, self.dtype))


def row_products(a: Any, b: Any) -> npt.NDArray[np.floating[Any]]:
    """`a @ b.T` of matrices of rows `(N, D)` and `(M, D)`, arrays or sparse, of which at least one is sparse.

    Example:
        >>> from grilly.sparse_products import row_products
        >>> row_products(rows, np.float32([[1, 1, 0, 0]])).tolist()
        [[2.0], [0.0]]
    """
    if not isinstance(b, Products) or (isinstance(a, Products) and a.nnz * len(b._rows) < b.nnz * len(a._rows)):
        return np.transpose(row_products(b, a))
    dtype = np.promote_types(np.promote_types(a.dtype, b.dtype), np.float32)
    need((len(a), len(b._rows)), dtype, f"products of {len(a)} and {len(b._rows)} rows")
    result = np.zeros((len(a), len(b._rows)), dtype)
    filled = np.flatnonzero(np.diff(b.starts))  # `reduceat` has no sum of nothing
    starts, ends = b.starts[filled], b.starts[filled + 1]
    for start in range(0, len(a), BLOCK):
        whole = np.ascontiguousarray(np.asarray(a[start : start + BLOCK], dtype).T)  # (D, rows of the block)
        first = 0
        while first < len(filled):
            last = int(np.searchsorted(ends, starts[first] + TERMS // whole.shape[1], side="right"))
            some = slice(first, max(first + 1, last))
            stored = slice(starts[first], ends[some][-1])
            terms = whole[b.columns[stored]] * b.values.numpy()[stored, None]
            sums = np.add.reduceat(terms, starts[some] - starts[first], axis=0)
            result[start : start + BLOCK, filled[some]] = sums.T
            first = some.stop
    return result
