"""The separate steps of attention, in the layout (batch, position, head, column)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly import _core
from grilly.arrays import from_vulkan
from grilly.errors import InvalidArgumentError
from grilly.functional.checks import flag, need_axes, need_shape, number, whole, wrong_shape
from grilly.functional.dispatch import Operand, Prepared, Result, evaluate, floats, mask_values

__all__ = ["attention_concat_heads", "attention_mask", "attention_output", "attention_scores"]

# Options of sparse attention.
PATTERN = ("window", "global_tokens", "random_blocks", "block", "seed")


def by_heads(name: str, label: str, x: Prepared, heads: int | None, width: int | None) -> list[int]:
    """`[B, S, H, D]` of an operand in that shape or `[B, S, H * D]`; the head count of keys may be a divisor."""
    axes = need_axes(name, label, x, 3, 4)
    if len(axes) == 4:
        if width is not None and axes[3] != width:
            raise wrong_shape(name, label, axes, f"{width} columns a head")
        return list(axes)
    if width is None and heads is not None:
        width = axes[2] // max(heads, 1)
    if width is None or width <= 0 or axes[2] % width:
        raise wrong_shape(name, label, axes, f"[B, S, heads * {width or 'head_dim'}]")
    return [axes[0], axes[1], axes[2] // width, width]


def sizes(name: str, heads: int | None, width: int | None) -> tuple[int | None, int | None]:
    return (
        None if heads is None else whole(name, "num_heads", heads),
        None if width is None else whole(name, "head_dim", width),
    )


def need_heads(name: str, label: str, found: int, expected: int | None) -> None:
    if expected is not None and found != expected:
        raise InvalidArgumentError(f"{name}: {label} has {found} heads, expected {expected}")


def default_scale(name: str, scale: float | None, width: int) -> float:
    return (width**-0.5 if width else 1.0) if scale is None else number(name, "scale", scale)


def attention_scores(
    queries: Operand,
    keys: Operand,
    num_heads: int | None = None,
    head_dim: int | None = None,
    scale: float | None = None,
) -> Result:
    """Scores of every query with every key: `scale q . k`, head by head.

    Args:
        queries: `(B, Sq, H, D)` or `(B, Sq, H * D)`.
        keys: `(B, Sk, G, D)` or `(B, Sk, G * D)`; `G` divides `H`, and `H / G` query heads share a key head.
        num_heads: `H`; default as in `queries`, which then has 4 axes.
        head_dim: `D`; default likewise.
        scale: Default `1 / sqrt(D)`.

    Returns:
        `(B, H, Sq, Sk)`.

    Raises:
        InvalidArgumentError: Incompatible shapes.

    Source: upstream's `Compute.attention.attention_scores`.

    Example:
        >>> from grilly import functional
        >>> functional.attention_scores([[[2.0, 3.0]]], [[[4.0, 5.0]]], num_heads=2, head_dim=1).tolist()
        [[[[8.0]], [[15.0]]]]
    """
    heads, width = sizes("attention_scores", num_heads, head_dim)
    q, k = floats(queries, "queries"), floats(keys, "keys")
    first = by_heads("attention_scores", "queries", q, heads, width)
    second = by_heads("attention_scores", "keys", k, heads, first[3])
    need_heads("attention_scores", "queries", first[2], heads)
    check_groups("attention_scores", "keys", second, first[0], first[2])
    factor = default_scale("attention_scores", scale, first[3])

    def body(r: Any, q: Any, k: Any) -> Any:
        return r("attention_scores", q.reshape(first), k.reshape(second), scale=factor)

    return evaluate("attention_scores", body, q, k, alike=2)


def check_groups(name: str, label: str, axes: list[int], batch: int, heads: int) -> None:
    if axes[0] != batch:
        raise wrong_shape(name, label, axes, f"{batch} texts")
    if axes[2] == 0 or heads % axes[2]:
        raise InvalidArgumentError(f"{name}: {label} has {axes[2]} heads, expected a divisor of {heads}")


def operands_by_heads(
    name: str, operands: tuple[Operand, Operand, Operand], num_heads: int | None, head_dim: int | None
) -> tuple[tuple[Prepared, ...], list[int], list[int]]:
    """Queries, keys and values, the shape of the queries with an axis of heads, and that of the others."""
    heads, width = sizes(name, num_heads, head_dim)
    q, k, v = (floats(x, label) for x, label in zip(operands, ("queries", "keys", "values"), strict=True))
    first = by_heads(name, "queries", q, heads, width)
    need_heads(name, "queries", first[2], heads)
    second, third = by_heads(name, "keys", k, heads, first[3]), by_heads(name, "values", v, heads, first[3])
    check_groups(name, "keys", second, first[0], first[2])
    if second != third:
        raise wrong_shape(name, "values", third, f"{second} as keys")
    return (q, k, v), first, second


def need_kept_keys(name: str, label: str, mask: npt.NDArray[Any]) -> None:
    """Rejects a `(B, Sk)` mask that is to be added: as one that keeps keys where it is not 0, it means the opposite."""
    if (mask < 0).any():
        batch, keys = mask.shape
        raise InvalidArgumentError(
            f"{name}: {label} has negative numbers, and a mask of shape {[batch, keys]} keeps keys where it is not 0; "
            f"add it to the scores, by a mask of shape {[batch, 1, 1, keys]} where one is taken"
        )


def attention_mask(
    attention_scores: Operand, use_causal: bool = True, mask_value: float = -1e9, custom_mask: Operand | None = None
) -> Result:
    """Adds `mask_value` to the scores that are masked: keys after the query, and keys that `custom_mask` excludes.

    Args:
        attention_scores: `(B, H, Sq, Sk)` or `(B, Sq, Sk)`.
        use_causal: Whether keys after the query's position are masked; default True.
        mask_value: Default -1e9.
        custom_mask: `(B, Sk)`, not 0 where a key is kept; default all.

    Returns:
        The same shape.

    Raises:
        InvalidArgumentError: Incompatible shapes, or a mask with negative numbers, as masks that are added have.

    Source: upstream's `Compute.attention.attention_mask`.

    Example:
        >>> from grilly import functional
        >>> functional.attention_mask([[[[1.0, 2.0], [3.0, 4.0]]]], mask_value=-100.0).tolist()
        [[[[1.0, -98.0], [3.0, 4.0]]]]
    """
    scores = floats(attention_scores, "attention_scores")
    axes = need_axes("attention_mask", "attention_scores", scores, 3, 4)
    mask: Prepared | None = None
    if custom_mask is not None:
        found, bits = mask_values(custom_mask, "custom_mask")
        mask = floats(found, "custom_mask") if bits else found
        need_shape("attention_mask", "custom_mask", mask, (axes[0], axes[-1]))
        if not bits:
            need_kept_keys("attention_mask", "custom_mask", from_vulkan(found))
    causal = flag("attention_mask", "use_causal", use_causal)
    given = {"causal": causal, "mask_value": number("attention_mask", "mask_value", mask_value)}
    return evaluate("attention_mask", lambda r, scores, mask: r("attention_mask", scores, mask, **given), scores, mask)


def attention_output(
    attention_weights: Operand,
    values: Operand,
    num_heads: int | None = None,
    head_dim: int | None = None,
    *,
    architecture: str | None = None,
    **pattern: int,
) -> Result:
    """Weighted sums of the values: `weights v`, head by head.

    Args:
        attention_weights: `(B, H, Sq, Sk)`.
        values: `(B, Sk, G, D)` or `(B, Sk, G * D)`; `G` divides `H`.
        num_heads: `H`, for a check; default none.
        head_dim: `D`; default as in `values`, which then has 4 axes, or by `num_heads`.
        architecture: The architecture whose shader runs, from `grilly.backend.shader_registry`; default the generic
            one.
        **pattern: `window`, `global_tokens`, `random_blocks`, `block` and `seed` of sparse attention.

    Returns:
        `(B, Sq, H, D)`.

    Raises:
        InvalidArgumentError: Incompatible shapes, or a pattern option that the architecture's shader does not support.

    Source: upstream's `Compute.attention.attention_output`.

    Example:
        >>> from grilly import functional
        >>> functional.attention_output([[[[0.25, 0.75]]]], [[[4.0], [8.0]]], num_heads=1, head_dim=1).tolist()
        [[[[7.0]]]]
    """
    heads, width = sizes("attention_output", num_heads, head_dim)
    weights, v = floats(attention_weights, "attention_weights"), floats(values, "values")
    axes = need_axes("attention_output", "attention_weights", weights, 4, 4)
    need_heads("attention_output", "attention_weights", axes[1], heads)
    second = by_heads("attention_output", "values", v, axes[1], width)
    check_groups("attention_output", "values", second, axes[0], axes[1])
    if second[1] != axes[3]:
        raise wrong_shape("attention_output", "values", second, f"{axes[3]} keys")
    check_pattern(pattern, architecture or "")
    given: dict[str, Any] = {**pattern, "architecture": architecture or ""}
    return evaluate(
        "attention_output", lambda r, w, v: r("attention_output", w, v.reshape(second), **given), weights, v, alike=2
    )


def check_pattern(pattern: Mapping[str, Any], architecture: str) -> None:
    """Rejects unknown options, and options that the shader of an architecture ignores."""
    for label, size in pattern.items():
        if label not in PATTERN:
            raise InvalidArgumentError(f"attention_output: no option is called {label!r}")
        whole("attention_output", label, size, least=0)
    shaders = _core.ShaderTable(True)
    read = shaders.options(architecture)
    unread = [] if read is None else [label for label in pattern if label not in read]
    if unread:
        shader = shaders.find("attention-output", architecture)
        raise InvalidArgumentError(
            f"attention_output: the shader {shader} has no {', '.join(unread)}; choose one that has by architecture"
        )


def attention_concat_heads(attention_output: Operand) -> Result:
    """Concatenates heads: `(B, S, H, D)` to `(B, S, H * D)`.

    Args:
        attention_output: `(B, S, H, D)`.

    Returns:
        `(B, S, H * D)`; on a device it shares the memory.

    Raises:
        InvalidArgumentError: Not 4 axes.

    Source: upstream's `Compute.attention.attention_concat_heads`.

    Example:
        >>> from grilly import functional
        >>> functional.attention_concat_heads([[[[1.0], [2.0]]]]).tolist()
        [[[1.0, 2.0]]]
    """
    x = floats(attention_output, "attention_output")
    batch, places, heads, width = need_axes("attention_concat_heads", "attention_output", x, 4, 4)
    joined = x.reshape((batch, places, heads * width))
    return joined.copy() if isinstance(joined, np.ndarray) else joined
