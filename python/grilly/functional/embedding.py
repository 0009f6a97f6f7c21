"""Embeddings: lookup in a table and its derivative, pooling to one vector per text, and vectors of length 1."""

from __future__ import annotations

import math
from typing import Any

from grilly.errors import InvalidArgumentError
from grilly.functional.checks import need_axes, need_shape, number, one_of, whole
from grilly.functional.dispatch import Operand, Result, evaluate, floats, ids, optional

__all__ = ["embedding_backward", "embedding_lookup", "embedding_normalize", "embedding_pool", "mean_pool"]

MODES = ("mean", "max", "sum")


def embedding_lookup(weight: Operand, indices: Operand) -> Result:
    """Rows of a table: `weight[indices]`.

    Args:
        weight: `(V, D)`.
        indices: Integers of any type and shape.

    Returns:
        `indices`' shape and `(D,)`; float16 when `weight` is.

    Raises:
        IndexOutOfRangeError: An index outside `0 .. V - 1`.
        InvalidTypeError: Indices that are not integers.

    Source: upstream's `functional.embedding_lookup`; `torch.nn.functional.embedding`.

    Example:
        >>> from grilly import functional
        >>> functional.embedding_lookup([[1.0], [2.0]], [1, 0, 1]).tolist()
        [[2.0], [1.0], [2.0]]
    """
    table = floats(weight, "weight")
    rows = need_axes("embedding_lookup", "weight", table, 2, 2)[0]
    places, _ = ids(indices, "indices", rows)
    return evaluate(
        "embedding_lookup", lambda r, table, places: r.like(r("embedding_sum", places, table), table), table, places
    )


def embedding_backward(grad_output: Operand, token_ids: Operand, vocab_size: int, embedding_dim: int) -> Result:
    """Derivative of `embedding_lookup` with respect to its table: row `v` sums the gradients of index `v`.

    Sums run in index order, so that the result is bit-identical every time.

    Args:
        grad_output: `token_ids`' shape and `(embedding_dim,)`.
        token_ids: Integers of any type and shape.
        vocab_size: Rows of the table.
        embedding_dim: Columns of the table.

    Returns:
        `(vocab_size, embedding_dim)`.

    Raises:
        IndexOutOfRangeError: An index outside the table.
        InvalidArgumentError: Incompatible shapes.

    Source: upstream's `Compute.learning.embedding_backward`.

    Example:
        >>> from grilly import functional
        >>> functional.embedding_backward([[1.0], [2.0], [4.0]], [1, 0, 1], 3, 1).tolist()
        [[2.0], [5.0], [0.0]]
    """
    rows = whole("embedding_backward", "vocab_size", vocab_size, least=0)
    columns = whole("embedding_backward", "embedding_dim", embedding_dim, least=0)
    g = floats(grad_output, "grad_output")
    places, host = ids(token_ids, "token_ids", rows)
    need_shape("embedding_backward", "grad_output", g, (*host.shape, columns))

    def body(r: Any, g: Any, places: Any) -> Any:
        order, starts = r.each("sort_indices", places.reshape([host.size]), rows=rows)
        return r("embedding_backward", g.reshape([host.size, columns]), order, starts)

    return evaluate("embedding_backward", body, g, places)


def embedding_normalize(embeddings: Operand, eps: float = 1e-8) -> Result:
    """Vectors of length 1: `x / (|x| + eps)` along the last axis.

    Args:
        embeddings: `(..., D)`.
        eps: Default 1e-8.

    Returns:
        The same shape.

    Raises:
        InvalidArgumentError: No axis.

    Source: upstream's `functional.embedding_normalize`.

    Example:
        >>> from grilly import functional
        >>> functional.embedding_normalize([[3.0, 4.0], [0.0, 0.0]]).round(4).tolist()
        [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    x = floats(embeddings, "embeddings")
    need_axes("embedding_normalize", "embeddings", x, 1)
    small = number("embedding_normalize", "eps", eps)
    return evaluate("embedding_normalize", lambda r, x: r("normalize", x, eps=small, floor="add"), x)


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
