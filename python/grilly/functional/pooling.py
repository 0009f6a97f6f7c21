"""Pooling of token vectors to one vector per text."""

from __future__ import annotations

import math
from typing import Any

from grilly.errors import InvalidArgumentError
from grilly.functional.checks import need_axes, need_shape, one_of
from grilly.functional.dispatch import Operand, Result, evaluate, floats, optional

__all__ = ["embedding_pool", "mean_pool"]

MODES = ("mean", "max", "sum")


def mean_pool(embeddings: Operand, mask: Operand | None = None, mode: str = "mean") -> Result:
    """Pools token vectors by weights: `sum(m x) / max(sum(m), 1e-9)`, `sum(m x)`, or the maximum where `m > 0`.

    Args:
        embeddings: `(..., S, D)`.
        mask: `(..., S)`: weights, usually 1 for tokens and 0 for padding; default ones.
        mode: `"mean"`, `"max"` or `"sum"`; default `"mean"`.

    Returns:
        `(..., D)`; zeros where the mask has no weight above 0. Without a mask, the mean of no vectors is NumPy's NaN.

    Raises:
        InvalidArgumentError: Incompatible shapes, or an unknown mode.

    Source: upstream's `Compute.pooling.mean_pool`, which treated weights above 0.5 as 1.

    Example:
        >>> from grilly import functional
        >>> functional.mean_pool([[[1.0], [3.0], [9.0]]], [[1, 1, 0]]).tolist()
        [[2.0]]
    """
    kind = one_of("mean_pool", "mode", mode, MODES)
    x = floats(embeddings, "embeddings")
    axes = need_axes("mean_pool", "embeddings", x, 2)
    weights = optional(mask, "mask")
    need_shape("mean_pool", "mask", weights, axes[:-1])

    if kind == "max":
        need_places("mean_pool", axes)

    def body(r: Any, x: Any, weights: Any) -> Any:
        return r("reduce", x, *([] if weights is None else [weights]), axis=len(axes) - 2, kind=kind)

    return evaluate("mean_pool", body, x, weights)


def embedding_pool(embeddings: Operand, pool_type: str = "mean") -> Result:
    """Pools token vectors, with equal weights.

    Args:
        embeddings: `(..., S, D)`.
        pool_type: `"mean"`, `"max"` or `"sum"`; default `"mean"`.

    Returns:
        `(..., D)`.

    Raises:
        InvalidArgumentError: Fewer than 2 axes, or an unknown type.

    Source: upstream's `functional.embedding_pool`.

    Example:
        >>> from grilly import functional
        >>> functional.embedding_pool([[[1.0], [3.0]]], "sum").tolist()
        [[4.0]]
    """
    kind = one_of("embedding_pool", "pool_type", pool_type, MODES)
    x = floats(embeddings, "embeddings")
    axes = need_axes("embedding_pool", "embeddings", x, 2)
    if kind == "max":
        need_places("embedding_pool", axes)
    return evaluate("embedding_pool", lambda r, x: r("reduce", x, axis=len(axes) - 2, kind=kind), x)


def need_places(name: str, axes: tuple[int, ...]) -> None:
    """Rejects the maximum over an empty axis."""
    if not axes[-2] and math.prod(axes[:-2]) * axes[-1]:
        raise InvalidArgumentError(f"{name}: embeddings has shape {list(axes)}, and no vectors have no maximum")
