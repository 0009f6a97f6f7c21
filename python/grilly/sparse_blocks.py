"""Functions of dense rows for sparse ones."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from grilly.sparse import SparseRows, is_sparse
from grilly.sparse_products import row_products
from grilly.tensors import as_array, like, need_columns

__all__ = ["by_products", "in_blocks", "row_with_row"]

Function = TypeVar("Function", bound=Callable[..., Any])

# Rows that have their zeros in memory at a time.
BLOCK = 1024


def where_sparse(instead: Callable[[Any, Any, Any], Any]) -> Callable[[Function], Function]:
    """Lets a function of two operands run as `instead(function, a, b)` where one of them is sparse."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def wrapped(a: Any, b: Any) -> Any:
            return instead(function, a, b) if is_sparse(a) or is_sparse(b) else function(a, b)

        return wrapped  # type: ignore[return-value]

    for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(decorate, attribute, getattr(instead, attribute))
    return decorate


def by_products(prepared: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """Lets a function whose results are products of rows take `SparseRows` and tensors in COO layout.

    Args:
        prepared: What makes factors of rows: matrices, of an array an array.

    Example:
        >>> import numpy as np
        >>> from grilly.sparse import SparseRows
        >>> from grilly.sparse_blocks import by_products
        >>> rows = SparseRows.of(np.float32([[0, 2], [0, 0]]))
        >>> by_products(lambda rows: rows.unit())(np.dot)(rows, rows).tolist()
        [[1.0, 0.0], [0.0, 0.0]]
    """

    @where_sparse
    def product(_: Any, a: Any, b: Any) -> Any:
        first, second = (prepared(stored(rows)) for rows in (a, b))
        need_columns(first, second)
        return like(row_products(first, second), a, b)

    return product


@where_sparse
def in_blocks(function: Any, a: Any, b: Any) -> Any:
    """Lets a function `(N, D)`, `(M, D)` to `(N, M)` take `SparseRows` and tensors in COO layout.

    Example:
        >>> import numpy as np
        >>> from grilly.sparse import SparseRows
        >>> from grilly.sparse_blocks import in_blocks
        >>> rows = SparseRows.of(np.float32([[0, 2], [0, 0]]))
        >>> in_blocks(lambda a, b: a @ b.T)(rows, rows).tolist()
        [[4.0, 0.0], [0.0, 0.0]]
    """

    left, right = blocks(a), blocks(b)
    result = [[function(np.asarray(rows), np.asarray(others)) for others in right] for rows in left]
    return like(np.block(result), a, b)


@where_sparse
def row_with_row(function: Any, a: Any, b: Any) -> Any:
    """Lets a function `(N, D)`, `(N, D)` to `(N,)` take `SparseRows` and tensors in COO layout.

    Example:
        >>> import numpy as np
        >>> from grilly.sparse import SparseRows
        >>> from grilly.sparse_blocks import row_with_row
        >>> rows = SparseRows.of(np.float32([[0, 2], [0, 0]]))
        >>> row_with_row(lambda a, b: (a * b).sum(axis=-1))(rows, rows).tolist()
        [4.0, 0.0]
    """

    pair = [stored(rows) for rows in (a, b)]
    if any(np.ndim(rows) != 2 for rows in pair) or len(pair[0]) != len(pair[1]):
        return like(function(*map(np.asarray, pair)), a, b)
    starts = range(0, max(len(pair[0]), 1), BLOCK)
    parts = [function(*(np.asarray(rows[start : start + BLOCK]) for rows in pair)) for start in starts]
    return like(np.concatenate(parts), a, b)


def stored(rows: Any) -> Any:
    """Sparse rows as `SparseRows`, others as an array."""
    return SparseRows.from_any(rows) if is_sparse(rows) else np.asarray(as_array(rows))


def blocks(rows: Any) -> list[Any]:
    """Rows as matrices, sparse ones in blocks."""
    held = stored(rows)
    return held.blocks(BLOCK) if isinstance(held, SparseRows) else [held]
