"""Gradients of attention as layers run it."""

from __future__ import annotations

import math
from typing import Any

from grilly.errors import InvalidArgumentError
from grilly.functional.attending import rotated
from grilly.functional.attention_parts import operands_by_heads
from grilly.functional.dispatch import Operand, Result, evaluate, floats
from grilly.functional.kept import offsets

__all__ = ["attend_by_heads_backward"]


def attend_by_heads_backward(
    name: str,
    grad_output: Operand,
    operands: tuple[Operand, Operand, Operand],
    num_heads: int | None,
    head_dim: int | None,
    *,
    causal: bool = False,
    rope: tuple[float, float] | None = None,
) -> tuple[Result, Result, Result]:
    """The gradients of attention head by head, as layers run it without a mask, in queries, keys and values.

    Args:
        name: The layer, for errors.
        grad_output: Gradient with respect to the output, which has as many elements: `(B, Sq, H * D)`.
        operands: Queries `(B, Sq, H * D)`, keys and values `(B, Sk, G * D)`; `G` divides `H`. Or with an axis of heads.
        num_heads: `H`; default as in the queries, which then have 4 axes.
        head_dim: `D`; default likewise.
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
        raise InvalidArgumentError(f"{name}: grad_output has shape {list(g.shape)}, expected {first}")
    # The inverse of a rotation, which is its derivative's, is the rotation by the negative angles.
    back = None if rope is None else (rope[0], -rope[1])

    def body(r: Any, q: Any, k: Any, v: Any, g: Any) -> Any:
        q, k, v = rotated(r, q, first, rope), rotated(r, k, second, rope), v.reshape(second)
        packed = [x.reshape([batch * x.shape[1], x.shape[2] * width]) for x in (q, k, v)]
        bounds = [r.kept(offsets, batch, side[1]) for side in (first, second)]
        given = {"heads": heads, "kv_heads": second[2], "head_dim": width, "scale": width**-0.5, "causal": causal}
        by_q, by_k, by_v, *_ = r.vjp(
            "attention", g.reshape([batch * queries, heads * width]), *packed, *bounds, **given
        )
        by_q, by_k = rotated(r, by_q, first, back), rotated(r, by_k, second, back)
        return tuple(x.reshape(shape) for x, shape in zip((by_q, by_k, by_v), shapes, strict=True))

    found: tuple[Result, Result, Result] = evaluate(name, body, q, k, v, g, alike=4)
    return found
