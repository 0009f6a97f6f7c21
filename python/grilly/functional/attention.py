"""Complete attention."""

from __future__ import annotations

import math
from typing import Any

from grilly.errors import InvalidArgumentError
from grilly.functional.attending import Masks, attend, attend_packed
from grilly.functional.attention_parts import default_scale
from grilly.functional.checks import need_axes, whole
from grilly.functional.dispatch import Operand, Result, evaluate, floats

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
    window: int = 0,
    global_tokens: int = 0,
    align_end: bool = False,
    bias: Operand | None = None,
    soft_cap: float = 0.0,
) -> tuple[Result, Result | None]:
    """Scaled dot-product attention: `softmax(scale q k^T + bias + mask) v` over the keys visible to a query.

    Query `i` has position `p = i` among the keys, with `align_end` `p = i + Sk - Sq`.

    Args:
        query: `(..., H, Sq, D)`, or `(Sq, D)`; the axes before `H` are batch axes, equal in all three operands.
        key: `(..., G, Sk, D)`, or `(Sk, D)`; `G` divides `H`, and query head `h` uses key head `h // (H // G)`, as with
            `enable_gqa` in PyTorch.
        value: `(..., G, Sk, Dv)`, or `(Sk, Dv)`.
        mask: Broadcasts to `(..., H, Sq, Sk)`. Bool or integers: a key is kept where True or not 0. Floats are added to
            the scores, and negative infinity hides a key. A query without keys has weights and output 0. Default none.
        causal: Whether a query attends only to keys up to its own position; default False.
        scale: Factor on the scores; default `1 / sqrt(D)`.
        need_weights: Whether to return the weights; default True. Without them and without a mask the fused kernel
            runs.
        window: A query attends to keys `j` with `|p - j| <= window`; default 0, any distance.
        global_tokens: With a window, the number of leading positions that attend to all keys and are attended to by all
            queries (`causal` still applies); default 0.
        align_end: Whether the last query is aligned with the last key, as in decoding with a cache; default False: the
            first with the first. A query that then has no visible key has weights and output 0.
        bias: `(H, 2 R + 1)`, or `(2 R + 1,)` or `(1, 2 R + 1)` for all heads: `bias[h, clamp(j - p, -R, R) + R]`
            is added to the scaled score of key `j`. Finite numbers. `alibi_bias` and `relative_bias` create such
            tables. Default none.
        soft_cap: Bound `c` that scores approach smoothly: `c tanh(s / c)` in place of a scaled score `s`, before biases
            and masks; default 0, none.

    Returns:
        `(output, weights)` of shapes `(..., H, Sq, Dv)` and `(..., H, Sq, Sk)`; `weights` is None without
        `need_weights`.

    Raises:
        InvalidArgumentError: Incompatible shapes, or a soft cap below 0.

    Source: upstream's `functional.attention`; `torch.nn.functional.scaled_dot_product_attention`; windows and global
        positions of Beltagy et al., Longformer (2020); the soft cap of Gemma 2 (2024).

    Example:
        >>> from grilly import functional
        >>> output, weights = functional.attention([[1.0]], [[0.0], [0.0]], [[2.0], [4.0]])
        >>> output.tolist(), weights.tolist()
        ([[3.0]], [[0.5, 0.5]])
        >>> functional.attention([[1.0]], [[0.0], [0.0]], [[2.0], [4.0]], causal=True, align_end=True)[0].tolist()
        [[3.0]]
    """
    masks = Masks.of("attention", causal, window, global_tokens, align_end)
    return attend("attention", (query, key, value), mask, masks, bias, (scale, soft_cap), need_weights, use_rope=False)


def flash_attention2(
    query: Operand,
    key: Operand,
    value: Operand,
    use_rope: bool = False,
    *,
    mask: Operand | None = None,
    causal: bool = False,
    scale: float | None = None,
    window: int = 0,
    global_tokens: int = 0,
    align_end: bool = False,
    bias: Operand | None = None,
    soft_cap: float = 0.0,
) -> Result:
    """`attention` by the fused kernel, which never stores the weights; with a mask, unfused.

    Args:
        query: `(..., H, Sq, D)`, or `(Sq, D)`.
        key: `(..., G, Sk, D)`, or `(Sk, D)`; `G` divides `H`.
        value: `(..., G, Sk, Dv)`, or `(Sk, Dv)`.
        use_rope: Whether queries and keys are rotated by their positions first, as `apply_rope` does; default False.
        mask: As in `attention`; default none.
        causal: As in `attention`; default False.
        scale: Factor on the scores; default `1 / sqrt(D)`.
        window: As in `attention`; default 0, any distance.
        global_tokens: As in `attention`; default 0.
        align_end: As in `attention`; default False.
        bias: As in `attention`; default none.
        soft_cap: As in `attention`; default 0, none.

    Returns:
        `(..., H, Sq, Dv)`.

    Raises:
        InvalidArgumentError: Incompatible shapes.

    Source: upstream's `functional.flash_attention2`; Dao, FlashAttention-2 (2023).

    Example:
        >>> from grilly import functional
        >>> functional.flash_attention2([[1.0]], [[0.0], [0.0]], [[2.0], [4.0]]).tolist()
        [[3.0]]
        >>> functional.flash_attention2([[1.0]], [[0.0], [0.0]], [[2.0], [4.0]], bias=[0.0, 0.0, -99.0]).tolist()
        [[2.0]]
    """
    masks = Masks.of("flash_attention2", causal, window, global_tokens, align_end)
    factors = (scale, soft_cap)
    return attend("flash_attention2", (query, key, value), mask, masks, bias, factors, False, use_rope=use_rope)[0]


def embedding_attention(embeddings: Operand, num_heads: int = 8, head_dim: int | None = None) -> Result:
    """Self-attention without projections: queries, keys and values are `embeddings`, split into heads.

    Args:
        embeddings: `(..., S, D)`.
        num_heads: Heads; default 8.
        head_dim: Columns of a head; default `D / num_heads`, the only valid value.

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
    texts = math.prod(batch)

    def body(r: Any, x: Any) -> Any:
        packed = x.reshape([texts * places, columns])
        sizes = {"heads": heads, "kv_heads": heads, "head_dim": width, "scale": default_scale("", None, width)}
        return attend_packed(r, [packed] * 3, [(texts, places)] * 2, **sizes).reshape([*batch, places, columns])

    return evaluate("embedding_attention", body, x)
