"""How attention runs, fused or unfused: heads before positions (`attend`), or after them (`attend_by_heads`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.arrays import from_vulkan
from grilly.device_array import VulkanTensor, integers_of, wrap
from grilly.errors import InvalidArgumentError
from grilly.functional.attention_parts import default_scale, need_kept_keys, operands_by_heads
from grilly.functional.checks import broadcasts, flag, need_axes, number, whole, wrong_shape
from grilly.functional.dispatch import Operand, Prepared, Result, evaluate, floats, mask_values, offsets
from grilly.functional.positions import angles
from grilly.resources import need


@dataclass(frozen=True)
class Masks:
    """The keys visible to a query, determined by positions only."""

    causal: bool
    window: int
    global_tokens: int
    align_end: bool

    @classmethod
    def of(cls, name: str, causal: bool, window: int, global_tokens: int, align_end: bool) -> Masks:
        """Checks the user's arguments."""
        return cls(
            flag(name, "causal", causal),
            # The core counts in 32 bits, and no text has as many tokens.
            min(whole(name, "window", window, least=0), 2**32 - 1),
            min(whole(name, "global_tokens", global_tokens, least=0), 2**32 - 1),
            flag(name, "align_end", align_end),
        )

    def first_place(self, queries: int, keys: int) -> int:
        """Position of the first query among the keys."""
        return keys - queries if self.align_end else 0

    @property
    def plain(self) -> bool:
        """Whether the `causal` option of softmax alone expresses the mask."""
        return self.window == 0 and not (self.causal and self.align_end)


def distances(masks: Masks, queries: int, keys: int) -> npt.NDArray[np.int64]:
    """Key position minus query position: `[Sq, Sk]`."""
    return np.arange(keys) - (np.arange(queries) + masks.first_place(queries, keys))[:, None]


def visible(masks: Masks, queries: int, keys: int) -> npt.NDArray[np.int32]:
    """1 where a key is visible to a query: `[Sq, Sk]`."""
    need((queries, keys, 4), np.int64, "a mask")  # with what it is made of
    distance, key = distances(masks, queries, keys), np.arange(keys)
    place = key - distance
    seen = np.ones((queries, keys), dtype=bool)
    if masks.window:
        first = (key < masks.global_tokens) | ((place >= 0) & (place < masks.global_tokens))
        seen = (np.abs(distance) <= masks.window) | first
    if masks.causal:
        seen &= distance <= 0
    return seen.astype(np.int32)


def attend(
    name: str,
    operands: tuple[Operand, Operand, Operand],
    mask: Operand | None,
    masks: Masks,
    bias: Operand | None,
    factors: tuple[float | None, float],
    need_weights: bool,
    *,
    use_rope: bool,
) -> tuple[Result, Result | None]:
    """`(output, weights)` of `functional.attention`; queries and keys are rotated first if `use_rope`.

    `factors` are the scale and the soft cap.
    """
    q, k, v = (floats(x, label) for x, label in zip(operands, ("query", "key", "value"), strict=True))
    *batch, queries, width = need_axes(name, "query", q, 2)
    *key_batch, keys, key_width = need_axes(name, "key", k, 2)
    *value_batch, values, value_width = need_axes(name, "value", v, 2)
    share = heads_to_a_key(batch, key_batch)
    if not share or key_width != width:
        raise wrong_shape(name, "key", k.shape, f"{[*batch, 'Sk', width]}, or a divisor of the heads")
    if value_batch != key_batch or values != keys:
        raise wrong_shape(name, "value", v.shape, [*key_batch, keys, "Dv"])
    if flag(name, "use_rope", use_rope) and width % 2:
        raise InvalidArgumentError(f"{name}: query has {width} columns, and rotation needs an even number")
    factor, need_weights = default_scale(name, factors[0], width), flag(name, "need_weights", need_weights)
    soft_cap = number(name, "soft_cap", factors[1], least=0)
    # Each head is a separate text; heads that share keys are adjacent.
    rows, groups, heads = math.prod(batch), math.prod(key_batch), (batch or [1])[-1]
    scores_shape = (*batch, queries, keys)
    table = bias_operand(name, bias, heads)
    fused = mask is None and not need_weights and value_width == width
    given, keep = mask_operand(name, mask, scores_shape)
    if keep and not masks.plain and given is not None:
        given = changed(given, lambda mask: (mask != 0) & visible(masks, queries, keys))
    # Operations broadcast over 4 axes at most.
    merged = [math.prod(batch[:-1]), heads, queries, keys]

    def rotate(r: Any, x: Any, texts: int, first: int, places: int) -> Any:
        return r("rope", x.reshape([texts, places, 1, width]), *angles(r, places, width, 10000.0, first=first))

    def body(r: Any, q: Any, k: Any, v: Any, mask: Any, table: Any) -> tuple[Any, Any]:
        if use_rope:
            q = rotate(r, q, rows, masks.first_place(queries, keys), queries)
            k = rotate(r, k, groups, 0, keys)
        if fused:
            packed = [q.reshape([rows * queries, width]), *(x.reshape([groups * keys, width]) for x in (k, v))]
            sizes = {"heads": 1, "kv_heads": 1, "head_dim": width, "scale": factor, "shared_by": share}
            sizes["soft_cap"] = soft_cap
            sides = (rows, queries), (groups, keys)
            output = attend_packed(r, packed, sides, table, **sizes, **asdict(masks))
            return output.reshape([*batch, queries, width]), None
        q, k = q.reshape([groups, share * queries, width]), k.reshape([groups, keys, width])
        scores = r("matmul", q, k, transpose_b=True, scale=factor / (soft_cap or 1.0)).reshape(merged)
        if soft_cap:
            cap = r.constant(np.full(1, soft_cap, np.float32))
            scores = r("binary", r("activation", scores, kind="tanh"), cap, kind="multiply")
        if table is not None:
            scores = r("binary", scores, r.constant(bias_matrix(table.numpy(), masks, queries, keys)), kind="add")
        seen = mask if keep else None
        if not keep and not masks.plain:
            seen = r.kept(visible, masks, queries, keys)
        weights = weigh(r, scores, None if keep else mask, seen, masks.causal and masks.plain)
        weights = weights.reshape([groups, share * queries, keys])
        output = r("matmul", weights, v.reshape([groups, keys, value_width])).reshape([*batch, queries, value_width])
        return output, weights.reshape(list(scores_shape)) if need_weights else None

    return evaluate(name, body, q, k, v, given, table, alike=3)


def weigh(r: Any, scores: Any, added: Any, keep: Any, causal: bool) -> Any:
    """Softmax of the scores and a mask that is added to them, over the keys that the others leave."""
    if added is None:
        return r("softmax", scores, keep, causal=causal)
    # In float32: -1e9 is infinite in float16. A query whose sums are all negative infinity sees nothing.
    total = r("binary", r.wide(scores), r.wide(added), kind="add")
    return r.like(r("softmax", total, keep, causal=causal, masked=True), scores)


def attend_packed(
    r: Any, packed: Sequence[Any], sides: Sequence[tuple[int, int]], table: Any = None, **attributes: Any
) -> Any:
    """Attention by the fused kernel on rows of queries, keys and values.

    `sides` are the number of texts and their common length, of the queries and of the keys.
    """
    bounds = [r.kept(offsets, *side) for side in sides]
    return r("attention", *packed, *bounds, table, bias=table is not None, **attributes)


def heads_to_a_key(batch: list[int], key_batch: list[int]) -> int:
    """Query heads per key head (heads are the last axis before position and column); 0 if the shapes do not match."""
    if batch == key_batch:
        return 1
    if not batch or len(batch) != len(key_batch) or batch[:-1] != key_batch[:-1] or not key_batch[-1]:
        return 0
    return 0 if batch[-1] % key_batch[-1] else batch[-1] // key_batch[-1]


def bias_operand(name: str, bias: Operand | None, heads: int) -> Prepared | None:
    """A table of biases by distance: one row per head, or one for all."""
    if bias is None:
        return None
    table = floats(bias, "bias")
    *rows, columns = need_axes(name, "bias", table, 1, 2)
    if rows not in ([], [1], [heads]) or columns % 2 == 0:
        raise wrong_shape(name, "bias", table.shape, f"{[heads, '2 R + 1']} or ['2 R + 1']")
    return table.reshape((math.prod(rows), columns))


def bias_matrix(table: npt.NDArray[Any], masks: Masks, queries: int, keys: int) -> npt.NDArray[Any]:
    """The biases of all scores, `(H, Sq, Sk)` or `(1, Sq, Sk)`."""
    reach = table.shape[-1] // 2
    return np.asarray(table[:, np.clip(distances(masks, queries, keys), -reach, reach) + reach])


def changed(mask: Prepared, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Prepared:
    """A mask after a change of its values on the host; on the device where it was."""
    if isinstance(mask, VulkanTensor):
        host = integers_of(mask) if mask._array.dtype == "int32" else mask.numpy()
        return wrap(mask._array.engine.upload(np.asarray(change(host), order="C")))
    return np.asarray(change(mask), order="C")


def mask_operand(name: str, mask: Operand | None, scores: tuple[int, ...]) -> tuple[Prepared | None, bool]:
    """A mask that broadcasts to the scores' last axes, at most 4, and whether it is a keep mask or added."""
    if mask is None:
        return None, False
    prepared, keep = mask_values(mask, "mask")
    axes = prepared.shape
    if not broadcasts(axes, scores):
        raise wrong_shape(name, "mask", axes, f"one that broadcasts to {list(scores)}")
    if len(scores) > 4 and len(axes) > 3:
        merged = (math.prod(scores[:-3]), *scores[-3:])
        prepared = changed(prepared, lambda mask: np.broadcast_to(mask, scores).reshape(merged))
    return prepared, keep


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
    """`softmax(scale q k^T + mask) v`, head by head, for layers and `Compute`; `(output, weights)`.

    Queries are `(B, Sq, H, D)` or `(B, Sq, H * D)`, keys and values `(B, Sk, G, D)` or `(B, Sk, G * D)`; the output is
    `(B, Sq, H, D)`. Without a mask and weights the fused kernel runs. `rope` is a pair of base and scaling: queries and
    keys are then rotated by their positions first.
    """
    (q, k, v), first, second = operands_by_heads(name, operands, num_heads, head_dim)
    batch, queries, heads, width = first
    factor, causal = default_scale(name, scale, width), flag(name, "causal", causal)
    given, keep = (None, False) if mask is None else four_axes(name, mask, batch, queries, second[1], heads)

    def body(r: Any, q: Any, k: Any, v: Any, mask: Any) -> tuple[Any, Any]:
        q, k, v = rotated(r, q, first, rope), rotated(r, k, second, rope), v.reshape(second)
        if mask is None and not need_weights:
            packed = [x.reshape([batch * x.shape[1], x.shape[2] * width]) for x in (q, k, v)]
            given = {"heads": heads, "kv_heads": second[2], "head_dim": width, "scale": factor, "causal": causal}
            return attend_packed(r, packed, [(batch, queries), (batch, second[1])], **given).reshape(first), None
        scores = r("attention_scores", q, k, scale=factor)
        weights = weigh(r, scores, None if keep else mask, mask if keep else None, causal)
        return r("attention_output", weights, v), weights if need_weights else None

    return evaluate(name, body, q, k, v, given, alike=3)


def rotated(r: Any, x: Any, axes: list[int], rope: tuple[float, float] | None) -> Any:
    """Heads after rotation by their positions, if there is one."""
    x = x.reshape(axes)
    return x if rope is None else r("rope", x, *angles(r, axes[1], axes[3], *rope))


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
        fitting = f"{[batch, heads, queries, keys]}, {[batch, keys]} or {[queries, keys]}"
        raise wrong_shape(name, "mask", axes, f"one that broadcasts to {fitting}")
    return prepared.reshape(wanted), keep


def key_mask(name: str, mask: Operand, batch: int, keys: int) -> Operand:
    """Converts upstream's (B, Sk) masks of any type to keep masks (kept where not 0); other masks are unchanged."""
    prepared, keep = mask_values(mask, "mask")
    if prepared.shape != (batch, keys):
        return mask
    if not keep:
        added = from_vulkan(prepared)
        need_kept_keys(name, "mask", added)
        prepared = np.asarray(added != 0, dtype=np.int32)
    return prepared.reshape((batch, 1, 1, keys))
