"""Gradients of attention as layers run it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.functional.attending import four_axes, rotated
from grilly.functional.attention_parts import operands_by_heads
from grilly.functional.checks import wrong_shape
from grilly.functional.dispatch import Operand, Result, evaluate, floats, offsets

__all__ = ["attend_by_heads_backward"]


def attend_by_heads_backward(
    name: str,
    grad_output: Operand,
    operands: tuple[Operand, Operand, Operand],
    num_heads: int | None,
    head_dim: int | None,
    *,
    mask: Operand | None = None,
    causal: bool = False,
    rope: tuple[float, float] | None = None,
) -> tuple[Result, Result, Result]:
    """The gradients of `attend_by_heads` in queries, keys and values; with a mask unfused, as the call itself.

    Args:
        name: The layer, for errors.
        grad_output: Gradient with respect to the output, which has as many elements: `(B, Sq, H * D)`.
        operands: Queries `(B, Sq, H * D)`, keys and values `(B, Sk, G * D)`; `G` divides `H`. Or with an axis of heads.
        num_heads: `H`; default as in the queries, which then have 4 axes.
        head_dim: `D`; default likewise.
        mask: As in the call; default none.
        causal: Whether keys after the query's position are hidden; default False.
        rope: Base and scaling of the rotation of queries and keys by their positions; default none.

    Raises:
        InvalidArgumentError: Incompatible shapes.

    Source: the derivative of `functional.attention`; Dao, FlashAttention-2 (2023).

    Example:
        >>> from grilly.functional.attending_gradients import attend_by_heads_backward
        >>> x, one = [[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]], [[[1.0, 1.0, 1.0, 1.0]]]
        >>> attend_by_heads_backward("example", x, (x, one, one), 1, 4)[2].tolist()
        [[[6.0, 8.0, 10.0, 12.0]]]
    """
    (q, k, v), first, second = operands_by_heads(name, operands, num_heads, head_dim)
    g, shapes = floats(grad_output, "grad_output"), [list(x.shape) for x in (q, k, v)]
    batch, queries, heads, width = first
    if math.prod(g.shape) != math.prod(first):
        raise wrong_shape(name, "grad_output", g.shape, first)
    given, keep = (None, False) if mask is None else four_axes(name, mask, batch, queries, second[1], heads)
    # The inverse of a rotation, which is its derivative's, is the rotation by the negative angles.
    back = None if rope is None else (rope[0], -rope[1])

    def body(r: Any, q: Any, k: Any, v: Any, g: Any, mask: Any) -> tuple[Any, Any, Any]:
        operands = (rotated(r, q, first, rope), rotated(r, k, second, rope), v)
        if mask is None:
            by_q, by_k, by_v = _fused(r, operands, g, (first, second), causal)
        else:
            by_q, by_k, by_v = _unfused(r, operands, g, (first, second), causal, (mask, keep))
        by_q, by_k = rotated(r, by_q, first, back), rotated(r, by_k, second, back)
        return tuple(x.reshape(shape) for x, shape in zip((by_q, by_k, by_v), shapes, strict=True))

    return evaluate(name, body, q, k, v, g, given, alike=4)


def _fused(r: Any, operands: tuple[Any, Any, Any], g: Any, sides: tuple[list[int], list[int]], causal: bool) -> Any:
    """The gradients by the derivative of the fused kernel, each of as many elements as its operand."""
    (batch, queries, heads, width), (_, _, groups, _) = sides
    packed = [x.reshape([math.prod(axes[:2]), axes[2] * width]) for x, axes in zip(operands, _each(sides), strict=True)]
    bounds = [r.kept(offsets, batch, side[1]) for side in sides]
    given = {"heads": heads, "kv_heads": groups, "head_dim": width, "scale": width**-0.5, "causal": causal}
    return r.vjp("attention", g.reshape([batch * queries, heads * width]), *packed, *bounds, **given)[:3]


def _unfused(
    r: Any,
    operands: tuple[Any, Any, Any],
    g: Any,
    sides: tuple[list[int], list[int]],
    causal: bool,
    masked: tuple[Any, bool],
) -> Any:
    """The gradients by those of scores, softmax and weighted sums; heads that share keys are rows of one product."""
    (batch, queries, heads, width), (_, keys, groups, _) = sides
    mask, keep = masked

    def heads_first(x: Any, axes: list[int]) -> Any:
        rows = r("embedding_sum", r.kept(turned, *axes[:3]), x.reshape([math.prod(axes[:3]), width]))
        return rows.reshape([batch * groups, axes[1] * axes[2] // groups, width])

    def heads_last(x: Any, axes: list[int]) -> Any:
        rows = x.reshape([math.prod(axes[:3]), width])
        return r("embedding_sum", r.kept(turned, axes[0], axes[2], axes[1]), rows)

    q, k, v = (heads_first(x, axes) for x, axes in zip(operands, _each(sides), strict=True))
    product = {"transpose_b": True, "scale": width**-0.5}
    scores = r("matmul", q, k, **product).reshape([batch, heads, queries, keys])
    given = (scores, mask) if keep else (r("binary", r.wide(scores), r.wide(mask), kind="add"),)
    softmax = {"causal": causal, "masked": not keep}
    weights = r.like(r("softmax", *given, **softmax), scores).reshape([batch * groups, heads // groups * queries, keys])
    by_weights, by_v = r.vjp("matmul", heads_first(g, sides[0]), weights, v)
    by_scores, *_ = r.vjp("softmax", by_weights.reshape([batch, heads, queries, keys]), *given, **softmax)
    by_q, by_k = r.vjp(
        "matmul", r.like(by_scores, scores).reshape([batch * groups, heads // groups * queries, keys]), q, k, **product
    )
    return tuple(heads_last(x, axes) for x, axes in zip((by_q, by_k, by_v), _each(sides), strict=True))


def _each(sides: tuple[list[int], list[int]]) -> tuple[list[int], list[int], list[int]]:
    """The axes of queries, keys and values."""
    return sides[0], sides[1], sides[1]


def turned(batch: int, rows: int, columns: int) -> npt.NDArray[np.int32]:
    """For each place of `(batch, columns, rows)`, in order, that of `(batch, rows, columns)`."""
    places = np.arange(batch * rows * columns, dtype=np.int32).reshape(batch, rows, columns)
    return np.ascontiguousarray(places.transpose(0, 2, 1)).reshape(-1)
