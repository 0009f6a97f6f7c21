"""Products and transposes of sparse rows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from grilly.errors import InvalidArgumentError
from grilly.inputs import as_int
from grilly.sparse_tensors import TensorNames
from grilly.tensors import as_array, holds_tensors

if TYPE_CHECKING:
    from grilly.sparse import SparseRows

__all__ = ["BLOCK", "Products"]

# Rows that are multiplied at a time with their zeros.
BLOCK = 1024


class Products(TensorNames):
    """Sparse rows that are multiplied and transposed."""

    #: NumPy leaves `array @ rows` and `array * rows` to the rows.
    __array_ufunc__ = None

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
        right = columns.blocks(BLOCK) if isinstance(columns, kind) else [np.atleast_2d(columns)]
        blocks = [[left.toarray() @ np.asarray(each).T for each in right] for left in self._rows.blocks(BLOCK)]
        product = np.block(blocks)
        product = product[:, 0] if columns.ndim == 1 else product
        product = product[0] if self.ndim == 1 else product
        if sparse:
            return kind.of(product) if product.ndim else product
        return sys.modules["torch"].as_tensor(product) if holds_tensors(other) else product

    def __rmatmul__(self, other: Any) -> Any:
        product = self.T @ (other.T if np.ndim(other) == 2 else other)
        return product.T if product.ndim == 2 else product

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
