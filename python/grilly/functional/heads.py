"""Attention in the layout (batch, position, head, column): what layers and `Compute` use."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly.arrays import from_vulkan
from grilly.errors import InvalidArgumentError
from grilly.functional.attending import attend_packed, default_scale
from grilly.functional.attention_parts import by_heads, check_groups, need_heads, sizes
from grilly.functional.checks import broadcasts, flag
from grilly.functional.dispatch import Operand, Prepared, Result, evaluate, floats, mask_values
from grilly.functional.positions import angles


def attend_by_heads(
    name: str,
    operands: tuple[Operand, Operand, Operand],
    num_heads: int | None,
    head_dim: int | None,
    *,
    scale: float | None = None,
    mask: Operand | None = None,
    causal: bool = False,
    need_weights: bool = False,
    rope: tuple[float, float] | None = None,
) -> tuple[Result, Result | None]:
    """`softmax(scale q k^T + mask) v`, head by head; `(output, weights)`.

    Queries are `(B, Sq, H, D)` or `(B, Sq, H * D)`, keys and values `(B, Sk, G, D)` or `(B, Sk, G * D)`; the output is
    `(B, Sq, H, D)`. Without a mask and weights the fused kernel runs. `rope` is a pair of base and scaling: queries and
    keys are then rotated by their positions first.
    """
    heads, width = sizes(name, num_heads, head_dim)
    q, k, v = (floats(x, label) for x, label in zip(operands, ("queries", "keys", "values"), strict=True))
    first = by_heads(name, "queries", q, heads, width)
    need_heads(name, "queries", first[2], heads)
    second, third = by_heads(name, "keys", k, heads, first[3]), by_heads(name, "values", v, heads, first[3])
    check_groups(name, "keys", second, first[0], first[2])
    if second != third:
        raise InvalidArgumentError(f"{name}: values has shape {third}, expected {second} as keys")
    batch, queries, heads, width = first
    factor, causal = default_scale(name, scale, width), flag(name, "causal", causal)
    given, keep = (None, False) if mask is None else four_axes(name, mask, batch, queries, second[1], heads)

    def rotated(r: Any, x: Any, axes: list[int]) -> Any:
        x = x.reshape(axes)
        return x if rope is None else r("rope", x, *angles(r, axes[1], width, *rope))

    def body(r: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
        q, k, v = rotated(r, q, first), rotated(r, k, second), v.reshape(second)
        if mask is None and not need_weights:
            packed = [x.reshape([batch * x.shape[1], x.shape[2] * width]) for x in (q, k, v)]
            given = {"heads": heads, "kv_heads": second[2], "head_dim": width, "scale": factor, "causal": causal}
            return attend_packed(r, packed, [(batch, queries), (batch, second[1])], **given).reshape(first), None
        scores = r("attention_scores", q, k, scale=factor)
        if mask is not None and not keep:
            scores = r("binary", scores, mask, kind="add")
        weights = r("softmax", scores, mask if keep else None, causal=causal)
        return r("attention_output", weights, v), weights if need_weights else None

    found: tuple[Result, Result | None] = evaluate(name, body, q, k, v, given, alike=3)
    return found


def four_axes(name: str, mask: Operand, batch: int, queries: int, keys: int, heads: int) -> tuple[Prepared, bool]:
    """A mask that broadcasts to `(B, H, Sq, Sk)`, and whether it is a keep mask or added.

    Two axes are (batch, key) or (query, key), three are (batch, query, key).
    """
    prepared, keep = mask_values(mask, "mask")
    axes = prepared.shape
    if len(axes) == 2 and axes == (batch, keys) == (queries, keys) and batch > 1:
        raise InvalidArgumentError(
            f"{name}: a mask of shape {list(axes)} may mean (batch, key) or (query, key); give it as "
            f"{[batch, 1, 1, keys]} or {[1, 1, queries, keys]}"
        )
    wanted: tuple[int, ...]
    if len(axes) == 2 and axes == (batch, keys):
        wanted = (batch, 1, 1, keys)
    elif len(axes) == 3:
        wanted = (axes[0], 1, *axes[1:])
    else:
        wanted = (*[1] * (4 - len(axes)), *axes)
    if not broadcasts(wanted, (batch, heads, queries, keys)):
        raise InvalidArgumentError(
            f"{name}: mask has shape {list(axes)}, expected one that broadcasts to {[batch, heads, queries, keys]}, "
            f"{[batch, keys]} or {[queries, keys]}"
        )
    return prepared.reshape(wanted), keep


def key_mask(mask: Operand, batch: int, keys: int) -> Operand:
    """Converts upstream's (B, Sk) masks of any type to keep masks (kept where not 0); other masks are unchanged."""
    prepared, keep = mask_values(mask, "mask")
    if prepared.shape != (batch, keys):
        return mask
    if not keep:
        prepared = np.asarray(from_vulkan(prepared) != 0, dtype=np.int32)
    return prepared.reshape((batch, 1, 1, keys))
