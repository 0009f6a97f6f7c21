"""Attention in one piece."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly.device_array import VulkanTensor, integers_of, wrap
from grilly.errors import InvalidArgumentError
from grilly.functional.dispatch import (
    Operand,
    Prepared,
    Result,
    count,
    evaluate,
    flag,
    floats,
    mask_values,
    need_axes,
    number,
    shape,
    whole,
)
from grilly.functional.kept import offsets
from grilly.functional.rotary import rope_table

__all__ = ["attention", "embedding_attention", "flash_attention2"]


def attention(
    query: Operand,
    key: Operand,
    value: Operand,
    mask: Operand | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    need_weights: bool = True,
) -> tuple[Result, Result | None]:
    """Scaled dot-product attention: `softmax(scale q k^T + mask) v`.

    Args:
        query: `(..., Sq, D)`; the axes before are batches and heads, and the same in all three.
        key: `(..., Sk, D)`.
        value: `(..., Sk, Dv)`.
        mask: Broadcasts to `(..., Sq, Sk)`. Bool or integers: True, or not 0, keeps; a query without keys has weights
            and output 0. Floats are added to the scores. Default none.
        causal: Whether a query sees only keys at its own place and before; default False.
        scale: Factor on the scores; default `1 / sqrt(D)`.
        need_weights: Whether to return the weights; default True. Without them and without a mask the fused kernel
            runs.

    Returns:
        `(output, weights)` of shapes `(..., Sq, Dv)` and `(..., Sq, Sk)`; `weights` is None without `need_weights`.

    Raises:
        InvalidArgumentError: Shapes that do not belong together.

    Source: upstream's `functional.attention`; `torch.nn.functional.scaled_dot_product_attention`.

    Example:
        >>> from grilly import functional
        >>> output, weights = functional.attention([[1.0]], [[0.0], [0.0]], [[2.0], [4.0]])
        >>> output.tolist(), weights.tolist()
        ([[3.0]], [[0.5, 0.5]])
    """
    return attend("attention", (query, key, value), mask, causal, scale, need_weights, use_rope=False)


def flash_attention2(
    query: Operand,
    key: Operand,
    value: Operand,
    use_rope: bool = False,
    *,
    mask: Operand | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Result:
    """`attention` by the fused kernel, which never stores the weights; with a mask by its parts.

    Args:
        query: `(..., Sq, D)`.
        key: `(..., Sk, D)`.
        value: `(..., Sk, Dv)`.
        use_rope: Whether queries and keys are rotated by their places first, as `apply_rope` does; default False.
        mask: As in `attention`; default none.
        causal: As in `attention`; default False.
        scale: Factor on the scores; default `1 / sqrt(D)`.

    Returns:
        `(..., Sq, Dv)`.

    Raises:
        InvalidArgumentError: Shapes that do not belong together.

    Source: upstream's `functional.flash_attention2`; Dao, FlashAttention-2 (2023).

    Example:
        >>> from grilly import functional
        >>> functional.flash_attention2([[1.0]], [[0.0], [0.0]], [[2.0], [4.0]]).tolist()
        [[3.0]]
    """
    return attend("flash_attention2", (query, key, value), mask, causal, scale, False, use_rope=use_rope)[0]


def attend(
    name: str,
    operands: tuple[Operand, Operand, Operand],
    mask: Operand | None,
    causal: bool,
    scale: float | None,
    need_weights: bool,
    *,
    use_rope: bool,
) -> tuple[Result, Result | None]:
    q, k, v = (floats(x, label) for x, label in zip(operands, ("query", "key", "value"), strict=True))
    *batch, queries, width = need_axes(name, "query", q, 2)
    *key_batch, keys, key_width = need_axes(name, "key", k, 2)
    *value_batch, values, value_width = need_axes(name, "value", v, 2)
    if key_batch != batch or key_width != width:
        raise InvalidArgumentError(f"{name}: key has shape {list(shape(k))}, expected {[*batch, 'Sk', width]}")
    if value_batch != batch or values != keys:
        raise InvalidArgumentError(f"{name}: value has shape {list(shape(v))}, expected {[*batch, keys, 'Dv']}")
    if flag(name, "use_rope", use_rope) and width % 2:
        raise InvalidArgumentError(f"{name}: query has {width} columns, and rotation needs an even number")
    factor, causal = default_scale(name, scale, width), flag(name, "causal", causal)
    rows, scores_shape = count(batch), (*batch, queries, keys)
    given, keep, add = mask_operand(name, mask, scores_shape)
    need_weights = flag(name, "need_weights", need_weights)
    fused = given is None and not need_weights and value_width == width

    def rotate(r: Any, x: Any, places: int) -> Any:
        tables = [r.kept(rope_table, part, places, width, 10000.0, 1.0) for part in (0, 1)]
        return r("rope", x.reshape([rows, places, 1, width]), *tables)

    def body(r: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
        if use_rope:
            q, k = rotate(r, q, queries), rotate(r, k, keys)
        if fused:
            packed = [x.reshape([rows * length, width]) for x, length in ((q, queries), (k, keys), (v, keys))]
            bounds = [r.kept(offsets, rows, length) for length in (queries, keys)]
            sizes = {"heads": 1, "kv_heads": 1, "head_dim": width, "scale": factor, "causal": causal}
            return r("attention", *packed, *bounds, **sizes).reshape([*batch, queries, width])
        q, k = q.reshape([rows, queries, width]), k.reshape([rows, keys, width])
        scores = r("matmul", q, k, transpose_b=True, scale=factor)
        short = scores_shape if len(scores_shape) <= 4 else (rows, queries, keys)
        scores = scores.reshape(list(short))
        if add:
            scores = r("binary", scores, mask, kind="add")
        weights = r("softmax", scores, *([mask] if keep else []), causal=causal)
        weights = weights.reshape([rows, queries, keys])
        output = r("matmul", weights, v.reshape([rows, keys, value_width])).reshape([*batch, queries, value_width])
        return output, weights.reshape(list(scores_shape)) if need_weights else None

    found = evaluate(name, body, q, k, v, given)
    return (found, None) if fused else (found[0], found[1])


def default_scale(name: str, scale: float | None, width: int) -> float:
    return (width**-0.5 if width else 1.0) if scale is None else number(name, "scale", scale)


def mask_operand(name: str, mask: Operand | None, scores: tuple[int, ...]) -> tuple[Prepared | None, bool, bool]:
    """A mask that broadcasts to the scores' last axes, at most 4, and whether it keeps or is added."""
    if mask is None:
        return None, False, False
    prepared, keep = mask_values(mask, "mask")
    axes = shape(prepared)
    try:
        fits = np.broadcast_shapes(axes, scores) == scores
    except ValueError:
        fits = False
    if not fits:
        raise InvalidArgumentError(
            f"{name}: mask has shape {list(axes)}, expected one that broadcasts to {list(scores)}"
        )
    if len(scores) > 4 and len(axes) > 2:
        whole_shape = (count(scores[:-2]), *scores[-2:])
        if isinstance(prepared, VulkanTensor):
            host = integers_of(prepared) if keep else prepared.numpy()
            return place(prepared, np.broadcast_to(host, scores).reshape(whole_shape)), keep, not keep
        prepared = np.asarray(np.broadcast_to(prepared, scores).reshape(whole_shape), order="C")
    return prepared, keep, not keep


def place(beside: VulkanTensor, values: Any) -> VulkanTensor:
    """Values on the device of another array."""
    return wrap(beside._array.engine.upload(np.asarray(values, order="C")))


def embedding_attention(embeddings: Operand, num_heads: int = 8, head_dim: int | None = None) -> Result:
    """Self-attention of token vectors as they are: queries, keys and values are `embeddings`, cut into heads.

    Args:
        embeddings: `(..., S, D)`.
        num_heads: Heads; default 8.
        head_dim: Columns of a head; default `D / num_heads`, and no other fits.

    Returns:
        The same shape.

    Raises:
        InvalidArgumentError: The heads do not fill `D`.

    Source: upstream's `functional.embedding_attention`.

    Example:
        >>> from grilly import functional
        >>> functional.embedding_attention([[[1.0, 2.0], [1.0, 2.0]]], num_heads=2).tolist()
        [[[1.0, 2.0], [1.0, 2.0]]]
    """
    x = floats(embeddings, "embeddings")
    *batch, places, columns = need_axes("embedding_attention", "embeddings", x, 2)
    heads = whole("embedding_attention", "num_heads", num_heads)
    width = columns // heads if head_dim is None else whole("embedding_attention", "head_dim", head_dim)
    if heads * width != columns:
        raise InvalidArgumentError(
            f"embedding_attention: {heads} heads of {width} columns do not fill {columns} columns"
        )
    texts = count(batch)

    def body(r: Any, x: Any) -> Any:
        packed = x.reshape([texts * places, columns])
        bounds = r.kept(offsets, texts, places)
        sizes = {"heads": heads, "kv_heads": heads, "head_dim": width, "scale": default_scale("", None, width)}
        return r("attention", packed, packed, packed, bounds, bounds, **sizes).reshape([*batch, places, columns])

    return evaluate("embedding_attention", body, x)
