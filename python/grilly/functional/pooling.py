"""Pooling of token vectors to one vector per text."""

from __future__ import annotations

import math

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
    return _pooled("mean_pool", embeddings, mask, "mode", mode)


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
    return _pooled("embedding_pool", embeddings, None, "pool_type", pool_type)


def _pooled(name: str, embeddings: Operand, mask: Operand | None, label: str, mode: str) -> Result:
    kind = one_of(name, label, mode, MODES)
    x = floats(embeddings, "embeddings")
    axes = need_axes(name, "embeddings", x, 2)
    weights = optional(mask, "mask")
    need_shape(name, "mask", weights, axes[:-1])
    if kind == "max" and not axes[-2] and math.prod(axes[:-2]) * axes[-1]:
        raise InvalidArgumentError(f"{name}: embeddings has shape {list(axes)}, and no vectors have no maximum")
    return evaluate(name, lambda r, x, weights: r("reduce", x, weights, axis=len(axes) - 2, kind=kind), x, weights)
