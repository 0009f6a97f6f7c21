"""Whitening by mean and covariance, which are kept over batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.functional.checks import fraction, need_axes, need_shape, number, one_of, whole, wrong_shape
from grilly.functional.dispatch import Operand, Result, evaluate, floats
from grilly.functional.hebbian import flat
from grilly.operands import host_array

__all__ = ["streaming_whitening_apply", "streaming_whitening_matrix", "streaming_whitening_update"]

KINDS = ("zca", "pca")


def streaming_whitening_update(
    data: Operand, mean: Operand, covariance: Operand, count: int, momentum: float = 0.0
) -> tuple[Result, Result, int]:
    """Mean and population covariance of all rows so far, with those of a batch of `B` rows more:

    `share = max(B / (count + B), momentum)`, `d = mean of the batch - mean`, `mean = mean + share d`,
    `covariance = (1 - share) covariance + share (covariance of the batch + (1 - share) d d^T)`

    Without momentum these are exactly the moments of all rows, however they are divided into batches. With a momentum
    late batches keep that share, and old ones fade.

    Args:
        data: `(..., K)`, of `B` rows, at least one.
        mean: `(K,)`, at first zeros.
        covariance: `(K, K)`, at first zeros.
        count: The number of rows so far, at first 0; of 0 the moments are those of the batch alone.
        momentum: The least share of a batch, from 0 to 1; default 0.

    Returns:
        The new `(mean, covariance, count)`; the operands are unchanged.

    Raises:
        InvalidArgumentError: Incompatible shapes, no row, or a number out of its range.

    Source: Chan, Golub and LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances (1979).

    Example:
        >>> import numpy as np
        >>> from grilly import functional
        >>> mean, covariance, count = np.zeros(1), np.zeros((1, 1)), 0
        >>> for batch in ([[1.0], [3.0]], [[5.0], [7.0]]):
        ...     mean, covariance, count = functional.streaming_whitening_update(batch, mean, covariance, count)
        >>> mean.tolist(), covariance.tolist(), count
        ([4.0], [[5.0]], 4)
    """
    name = "streaming_whitening_update"
    x, centre, spread = floats(data, "data"), floats(mean, "mean"), floats(covariance, "covariance")
    (columns,) = need_axes(name, "mean", centre, 1, 1)
    need_shape(name, "covariance", spread, (columns, columns))
    rows = flat(x.shape)[0] if need_axes(name, "data", x, 2)[-1] == columns else 0
    if rows == 0:
        raise wrong_shape(name, "data", x.shape, f"at least one row, last axis {columns} (mean {[columns]})")
    total = whole(name, "count", count, least=0) + rows
    share = max(rows / total, fraction(name, "momentum", momentum))

    def body(r: Any, x: Any, mean: Any, covariance: Any) -> tuple[Any, Any]:
        batch = r.wide(x.reshape(flat(x.shape)))
        found = r.each("streaming_moments", r.wide(mean), r.wide(covariance), batch, r.constant(share))
        return r.like(found[0], mean), r.like(found[1], covariance)

    return (*evaluate(name, body, x, centre, spread), total)


def streaming_whitening_matrix(covariance: Operand, kind: str = "zca", eps: float = 1e-6) -> npt.NDArray[np.float64]:
    """The matrix by which rows of a covariance get the identity as theirs, computed on the host in float64:

    `M = diag(e)^(-1/2) U^T` for PCA, and `M = U diag(e)^(-1/2) U^T` for ZCA, with `C = U diag(e) U^T`

    Args:
        covariance: `C (K, K)`, symmetric; its lower triangle is read.
        kind: `"zca"` (default), of all such matrices the one that changes rows least, or `"pca"`, whose results are the
            principal components, that of the largest eigenvalue first; the largest number of each row of `M` is
            positive.
        eps: Eigenvalues below `eps` times the largest count as that much; default 1e-6.

    Returns:
        `M (K, K)` in float64.

    Raises:
        InvalidArgumentError: Not square, not finite, without a positive eigenvalue, or another kind.
        InvalidTypeError: Not numbers.

    Source: Kessy, Lewin and Strimmer, Optimal Whitening and Decorrelation (2018); `numpy.linalg.eigh`.

    Example:
        >>> from grilly import functional
        >>> functional.streaming_whitening_matrix([[4.0, 0.0], [0.0, 0.25]]).tolist()
        [[0.5, 0.0], [0.0, 2.0]]
    """
    name = "streaming_whitening_matrix"
    given = host_array(covariance, "covariance")
    if given.dtype.kind not in "fbiu":
        raise InvalidTypeError(f"{name}: covariance is of type {given.dtype}, expected numbers")
    values = np.asarray(given, np.float64)
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise wrong_shape(name, "covariance", values.shape, "[K, K]")
    one_of(name, "kind", kind, KINDS)
    least = number(name, "eps", eps, least=0)
    if not np.isfinite(values).all():
        raise InvalidArgumentError(f"{name}: covariance has numbers that are not finite")
    sizes, vectors = np.linalg.eigh(values)
    largest = sizes.max(initial=0.0)
    if sizes.size and largest <= 0:
        raise InvalidArgumentError(f"{name}: covariance has no positive eigenvalue, the largest is {largest}")
    sizes = np.maximum(sizes, least * largest)
    if sizes.size and sizes.min() <= 0:
        raise InvalidArgumentError(f"{name}: covariance has the eigenvalue {sizes.min()}; eps above 0 raises it")
    scaled = vectors / np.sqrt(sizes)
    if kind == "zca":
        return np.asarray(scaled @ vectors.T, np.float64)
    signs = np.sign(np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0, keepdims=True), axis=0))
    return np.ascontiguousarray((scaled * signs).T[::-1], np.float64)


def streaming_whitening_apply(data: Operand, mean: Operand, matrix: Operand) -> Result:
    """`(data - mean) M^T`, whose covariance is the identity.

    Args:
        data: `(..., K)`.
        mean: `(K,)`.
        matrix: `M (N, K)`, of `streaming_whitening_matrix`; of the kind `"pca"` also its first `N` rows.

    Returns:
        `(..., N)`.

    Raises:
        InvalidArgumentError: Incompatible shapes.

    Source: Kessy, Lewin and Strimmer (2018).

    Example:
        >>> from grilly import functional
        >>> functional.streaming_whitening_apply([[5.0, 1.0]], [1.0, 1.0], [[0.5, 0.0], [0.0, 2.0]]).tolist()
        [[2.0, 0.0]]
    """
    name = "streaming_whitening_apply"
    x, centre, m = floats(data, "data"), floats(mean, "mean"), floats(matrix, "matrix")
    columns = need_axes(name, "data", x, 1)[-1]
    need_shape(name, "mean", centre, (columns,))
    if need_axes(name, "matrix", m, 2, 2)[1] != columns:
        raise wrong_shape(name, "matrix", m.shape, f"last axis {columns} (data {list(x.shape)})")
    body = lambda r, x, mean, m: r("linear", r("binary", x, mean, kind="subtract"), m)  # noqa: E731
    return evaluate(name, body, x, centre, m)
