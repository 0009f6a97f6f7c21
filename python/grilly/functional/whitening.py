"""Whitening: columns with mean 0 and standard deviation 1."""

from __future__ import annotations

from typing import Any

from grilly.functional.checks import need_axes, need_shape
from grilly.functional.dispatch import Operand, Prepared, Result, evaluate, floats, optional

__all__ = ["whitening_apply", "whitening_batch_stats", "whitening_transform"]


def whitening_transform(
    data: Operand, mean: Operand | None = None, std: Operand | None = None
) -> tuple[Result, Result, Result]:
    """`(data - mean) / (std + 1e-8)`, with statistics over the first axis unless given.

    Args:
        data: `(N, ...)`.
        mean: `(...)`; default the mean over `N`.
        std: `(...)`; default the population standard deviation over `N`.

    Returns:
        `(whitened, mean, std)`.

    Raises:
        InvalidArgumentError: Incompatible shapes.

    Source: upstream's `functional.whitening_transform`.

    Example:
        >>> from grilly import functional
        >>> whitened, mean, std = functional.whitening_transform([[1.0], [3.0]])
        >>> whitened.tolist(), mean.tolist(), std.tolist()
        ([[-1.0], [1.0]], [2.0], [1.0])
    """
    x, centre, spread = floats(data, "data"), optional(mean, "mean"), optional(std, "std")
    check("whitening_transform", x, centre, spread)

    def body(r: Any, x: Any, mean: Any, std: Any) -> tuple[Any, Any, Any]:
        mean = r("reduce", x, axis=0, kind="mean") if mean is None else mean
        std = r("reduce", x, axis=0, kind="deviation") if std is None else std
        return r("whiten", x, mean, std), mean, std

    return evaluate("whitening_transform", body, x, centre, spread)


def whitening_apply(data: Operand, mean: Operand, std: Operand) -> Result:
    """`(data - mean) / (std + 1e-8)` with given statistics.

    Args:
        data: `(N, ...)`.
        mean: `(...)`.
        std: `(...)`.

    Returns:
        `data`'s shape.

    Raises:
        InvalidArgumentError: Incompatible shapes.

    Source: upstream's `functional.whitening_apply`.

    Example:
        >>> from grilly import functional
        >>> functional.whitening_apply([[5.0]], [3.0], [2.0]).tolist()
        [[1.0]]
    """
    x, centre, spread = floats(data, "data"), floats(mean, "mean"), floats(std, "std")
    check("whitening_apply", x, centre, spread)
    return evaluate("whitening_apply", lambda r, *given: r("whiten", *given), x, centre, spread)


def whitening_batch_stats(data: Operand) -> tuple[Result, Result]:
    """Mean and population standard deviation over the first axis.

    Args:
        data: `(N, ...)`.

    Returns:
        `(mean, std)`, each `(...)`.

    Raises:
        InvalidArgumentError: No axis.

    Source: upstream's `functional.whitening_batch_stats`.

    Example:
        >>> from grilly import functional
        >>> [x.tolist() for x in functional.whitening_batch_stats([[1.0], [3.0]])]
        [[2.0], [1.0]]
    """
    x = floats(data, "data")
    need_axes("whitening_batch_stats", "data", x, 1)

    def body(r: Any, x: Any) -> tuple[Any, Any]:
        return r("reduce", x, axis=0, kind="mean"), r("reduce", x, axis=0, kind="deviation")

    return evaluate("whitening_batch_stats", body, x)


def check(name: str, x: Prepared, mean: Prepared | None, std: Prepared | None) -> None:
    columns = need_axes(name, "data", x, 1)[1:]
    need_shape(name, "mean", mean, columns)
    need_shape(name, "std", std, columns)
