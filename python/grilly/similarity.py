"""Similarity of embeddings: the four functions of sentence-transformers, in NumPy; tensors give tensors.

Other results are arrays with a tensor's methods (`grilly.numbers.Numbers`).

Sparse rows and sparse tensors count with their zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError
from grilly.resources import LARGE, need, row_products
from grilly.sparse import SparseRows
from grilly.sparse_blocks import by_products, in_blocks, row_with_row
from grilly.tensors import need_columns, takes_tensors

__all__ = [
    "SIMILARITIES",
    "cos_sim",
    "dot_score",
    "euclidean_sim",
    "manhattan_sim",
    "pairwise_angle_sim",
    "pairwise_cos_sim",
    "pairwise_dot_score",
    "pairwise_euclidean_sim",
    "pairwise_manhattan_sim",
]

Array = npt.NDArray[np.floating[Any]]
Similarity = Callable[[npt.ArrayLike, npt.ArrayLike], Array]
# Maximum elements of a block of differences, so that distances need megabytes and not N x M x D elements.
BLOCK = 1 << 21


@by_products(lambda rows: unit_factor(factor(rows)))
@takes_tensors
def cos_sim(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """Cosine of the angle between every `a[i]` and every `b[j]`: `a.b / (max(|a|, 1e-12) max(|b|, 1e-12))`.

    `(N, D)`, `(M, D)` give `(N, M)`; a vector counts as one row.

    Example:
        >>> from grilly.similarity import cos_sim
        >>> cos_sim([3.0, 0.0], [[2.0, 0.0], [0.0, 5.0], [-1.0, 0.0]]).tolist()
        [[1.0, 0.0, -1.0]]
    """
    a, b = matrices(a, b)
    return row_products(unit(a), unit(b))


@by_products(lambda rows: factor(rows))
@takes_tensors
def dot_score(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """Dot product of every `a[i]` with every `b[j]`: `(N, D)`, `(M, D)` give `(N, M)`; a vector counts as one row.

    Example:
        >>> from grilly.similarity import dot_score
        >>> dot_score([[1.0, 2.0]], [[3.0, 4.0], [0.0, 1.0]]).tolist()
        [[11.0, 2.0]]
    """
    return row_products(*matrices(a, b))


@in_blocks
@takes_tensors
def euclidean_sim(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """Minus the distance `sqrt(sum (a[i] - b[j])^2)`: `(N, D)`, `(M, D)` give `(N, M)`; a vector counts as one row.

    Example:
        >>> from grilly.similarity import euclidean_sim
        >>> euclidean_sim([[0.0, 0.0]], [[3.0, 4.0], [0.0, 1.0]]).tolist()
        [[-5.0, -1.0]]
    """
    return distances(*matrices(a, b), lambda difference: np.sqrt(np.square(difference).sum(axis=-1)))


@in_blocks
@takes_tensors
def manhattan_sim(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """Minus the distance `sum |a[i] - b[j]|`: `(N, D)`, `(M, D)` give `(N, M)`; a vector counts as one row.

    Example:
        >>> from grilly.similarity import manhattan_sim
        >>> manhattan_sim([[0.0, 0.0]], [[3.0, 4.0], [0.0, 1.0]]).tolist()
        [[-7.0, -1.0]]
    """
    return distances(*matrices(a, b), lambda difference: np.abs(difference).sum(axis=-1))


@row_with_row
@takes_tensors
def pairwise_cos_sim(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """Cosine of the angle between `a[i]` and `b[i]`: `(N, D)`, `(N, D)` give `(N,)`.

    Example:
        >>> from grilly.similarity import pairwise_cos_sim
        >>> pairwise_cos_sim([[3.0, 0.0], [1.0, 0.0]], [[6.0, 0.0], [0.0, 2.0]]).tolist()
        [1.0, 0.0]
    """
    a, b = pairs(a, b)
    return np.asarray((unit(a) * unit(b)).sum(axis=-1))


@row_with_row
@takes_tensors
def pairwise_dot_score(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """Dot product of `a[i]` with `b[i]`: `(N, D)`, `(N, D)` give `(N,)`.

    Example:
        >>> from grilly.similarity import pairwise_dot_score
        >>> pairwise_dot_score([[1.0, 2.0]], [[3.0, 4.0]]).tolist()
        [11.0]
    """
    a, b = pairs(a, b)
    return np.asarray((a * b).sum(axis=-1))


@row_with_row
@takes_tensors
def pairwise_euclidean_sim(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """Minus the distance `sqrt(sum (a[i] - b[i])^2)`: `(N, D)`, `(N, D)` give `(N,)`.

    Example:
        >>> from grilly.similarity import pairwise_euclidean_sim
        >>> pairwise_euclidean_sim([[0.0, 0.0]], [[3.0, 4.0]]).tolist()
        [-5.0]
    """
    a, b = pairs(a, b)
    return np.asarray(-np.sqrt(np.square(a - b).sum(axis=-1)))


@row_with_row
@takes_tensors
def pairwise_manhattan_sim(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """Minus the distance `sum |a[i] - b[i]|`: `(N, D)`, `(N, D)` give `(N,)`.

    Example:
        >>> from grilly.similarity import pairwise_manhattan_sim
        >>> pairwise_manhattan_sim([[0.0, 0.0]], [[3.0, 4.0]]).tolist()
        [-7.0]
    """
    a, b = pairs(a, b)
    return np.asarray(-np.abs(a - b).sum(axis=-1))


@row_with_row
@takes_tensors
def pairwise_angle_sim(x: npt.ArrayLike, y: npt.ArrayLike) -> Array:
    """`|cos + sin|` of `x[i]` and `y[i]` divided by their norms: `(N, D)`, `(N, D)` give `(N,)`.

    The sine is that of columns k and k + D/2 as the parts of complex numbers: `sum x''_k y'_k - x'_k y''_k`. An odd D
    is D + 1 with zeros.

    Source: AnglE (arXiv:2309.12871), and `sentence_transformers.util.pairwise_angle_sim`, version 6.2.

    Example:
        >>> from grilly.similarity import pairwise_angle_sim
        >>> pairwise_angle_sim([[3.0, 0.0], [0.0, 1.0]], [[6.0, 0.0], [2.0, 0.0]]).tolist()
        [1.0, 1.0]
    """
    a, b = pairs(x, y)
    a, b = (unit(np.pad(np.atleast_2d(rows), ((0, 0), (0, rows.shape[-1] % 2)))) for rows in (a, b))
    half = a.shape[1] // 2
    sines = (a[:, half:] * b[:, :half] - a[:, :half] * b[:, half:]).sum(axis=-1)
    return np.asarray(np.abs((a * b).sum(axis=-1) + sines))


#: Name -> (every row with every row, row with row).
SIMILARITIES: dict[str, tuple[Similarity, Similarity]] = {
    "cosine": (cos_sim, pairwise_cos_sim),
    "dot": (dot_score, pairwise_dot_score),
    "euclidean": (euclidean_sim, pairwise_euclidean_sim),
    "manhattan": (manhattan_sim, pairwise_manhattan_sim),
}


def floats(values: npt.ArrayLike) -> Array:
    """Float32, or float64 where the input is an array of that type, or a list of such arrays."""
    array = np.asarray(values)
    first = values[0] if isinstance(values, list | tuple) and values else values
    wide = array.dtype == np.float64 and hasattr(first, "dtype")
    return array if wide or array.dtype == np.float32 else array.astype(np.float32)


def matrices(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[Array, Array]:
    """Both as matrices of the same width."""
    first, second = np.atleast_2d(floats(a)), np.atleast_2d(floats(b))
    need_columns(first, second)
    return first, second


def factor(rows: Any) -> Any:
    """Rows as a matrix, of the type that they are multiplied in."""
    return rows.matrix() if isinstance(rows, SparseRows) else np.atleast_2d(floats(rows))


def unit_factor(rows: Any) -> Any:
    """A matrix of rows divided by their norms."""
    return rows.unit() if isinstance(rows, SparseRows) else unit(rows)


def pairs(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[Array, Array]:
    """Both as arrays whose shapes broadcast."""
    first, second = floats(a), floats(b)
    try:
        np.broadcast_shapes(first.shape, second.shape)
    except (ValueError, RuntimeError):  # of more than 32 axes
        raise InvalidArgumentError(
            f"embeddings have shapes {first.shape} and {second.shape}, expected (N, D) twice"
        ) from None
    return first, second


def unit(rows: Array) -> Array:
    """Rows divided by `max(norm, 1e-12)`."""
    need(rows.shape, rows.dtype, "embeddings of length 1")
    if rows.ndim < 2 or len(rows) < 2 or rows.size <= LARGE:
        norms = np.sqrt(np.square(rows).sum(axis=-1, keepdims=True))
        return np.asarray(rows / np.maximum(norms, 1e-12), dtype=rows.dtype)
    made = np.empty(rows.shape, rows.dtype)
    step = max(1, LARGE * len(rows) // rows.size)
    for start in range(0, len(rows), step):
        made[start : start + step] = unit(rows[start : start + step])
    return made


def distances(a: Array, b: Array, measure: Callable[[Array], Array]) -> Array:
    """Minus `measure` of every difference, in blocks of rows of `a`."""
    need((len(a), len(b)), np.result_type(a, b), f"similarities of {len(a)} and {len(b)} rows")
    result = np.empty((len(a), len(b)), dtype=np.result_type(a, b))
    rows = max(1, BLOCK // max(1, b.size))
    for start in range(0, len(a), rows):
        block = a[start : start + rows, None, :] - b[None, :, :]
        result[start : start + rows] = -measure(block)
    return result
