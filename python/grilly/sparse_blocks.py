"""Functions of dense rows for sparse ones: so many rows at a time have their zeros in memory."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from grilly.sparse import SparseRows, is_sparse
from grilly.sparse_products import BLOCK
from grilly.tensors import as_array, holds_tensors

__all__ = ["every_row_with_every_row", "row_with_row"]

Function = TypeVar("Function", bound=Callable[..., Any])


def every_row_with_every_row(function: Function) -> Function:
    """Lets a function `(N, D)`, `(M, D)` to `(N, M)` take `SparseRows` and tensors in COO layout.

    Example:
        >>> import numpy as np
        >>> from grilly.sparse import SparseRows
        >>> from grilly.sparse_blocks import every_row_with_every_row
        >>> rows = SparseRows.of(np.float32([[0, 2], [0, 0]]))
        >>> every_row_with_every_row(lambda a, b: a @ b.T)(rows, rows).tolist()
        [[4.0, 0.0], [0.0, 0.0]]
    """

    @functools.wraps(function)
    def wrapped(a: Any, b: Any) -> Any:
        if not is_sparse(a) and not is_sparse(b):
            return function(a, b)
        left, right = blocks(a), blocks(b)
        result = [[function(np.asarray(rows), np.asarray(others)) for others in right] for rows in left]
        return like(np.block(result), a, b)

    return wrapped  # type: ignore[return-value]


def row_with_row(function: Function) -> Function:
    """Lets a function `(N, D)`, `(N, D)` to `(N,)` take `SparseRows` and tensors in COO layout.

    Example:
        >>> import numpy as np
        >>> from grilly.sparse import SparseRows
        >>> from grilly.sparse_blocks import row_with_row
        >>> rows = SparseRows.of(np.float32([[0, 2], [0, 0]]))
        >>> row_with_row(lambda a, b: (a * b).sum(axis=-1))(rows, rows).tolist()
        [4.0, 0.0]
    """

    @functools.wraps(function)
    def wrapped(a: Any, b: Any) -> Any:
        if not is_sparse(a) and not is_sparse(b):
            return function(a, b)
        pair = [stored(rows) for rows in (a, b)]
        if any(np.ndim(rows) != 2 for rows in pair) or len(pair[0]) != len(pair[1]):
            return like(function(*map(np.asarray, pair)), a, b)
        starts = range(0, max(len(pair[0]), 1), BLOCK)
        parts = [function(*(np.asarray(rows[start : start + BLOCK]) for rows in pair)) for start in starts]
        return like(np.concatenate(parts), a, b)

    return wrapped  # type: ignore[return-value]


def stored(rows: Any) -> Any:
    """Sparse rows as `SparseRows`, others as an array."""
    return SparseRows.from_any(rows) if is_sparse(rows) else np.asarray(as_array(rows))


def blocks(rows: Any) -> list[Any]:
    """Rows as matrices, sparse ones in blocks."""
    held = stored(rows)
    return held.blocks(BLOCK) if isinstance(held, SparseRows) else [held]


def like(result: Any, *operands: Any) -> Any:
    """A result as a tensor if one of the operands is one."""
    return sys.modules["torch"].as_tensor(result) if any(map(holds_tensors, operands)) else result
