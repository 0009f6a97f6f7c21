"""Attention of one text in blocks of 64 keys: exact sums, exponentials as numbers near 1 and powers of two."""

import numpy as np

from .arithmetic import INFINITY, NAN, F, add, canonical, div, floats, mul, quiet, settle
from .functions import hyperbolic_tangent, is_nan, parts
from .integers import CARRY, LARGEST, Rows, assemble, dots, halves, integers, product, rounded

BLOCK = 64
#: The power of two before any key.
NONE = -(2**30)


def by_heads(x, heads: int) -> np.ndarray:
    """[tokens, heads * size] as [heads, tokens, size]."""
    x = floats(x)
    return x.reshape(len(x), heads, -1).swapaxes(0, 1)


def visible(queries: int, keys: int, causal=False, window=0, align_end=False, global_tokens=0) -> np.ndarray:
    """Which keys each query sees, [queries, keys]."""
    place = np.arange(queries)[:, None] + (keys - queries if align_end else 0)
    key = np.arange(keys)[None]
    seen = np.ones((queries, keys), bool)
    if window:
        leading = (place >= 0) & (place < global_tokens) | (key < global_tokens)
        seen &= (np.abs(place - key) <= window) | leading
    return seen & (key <= place) if causal else seen


@quiet
def shift(v: np.ndarray, power: np.ndarray) -> np.ndarray:
    """`v 2^power`, power at most 0; v itself if it is not finite."""
    held = power >= -126
    moved = np.where(held, settle(v * np.ldexp(F(1), np.where(held, power, 0).astype(np.int32))), F(0))
    return np.where(np.isfinite(v), moved, v)


def by_distance(scores, q, k, tables, distance) -> np.ndarray:
    """Scores with the products of queries, and then of keys, with rows of tables [heads, 2 R + 1, size] by distance."""
    of_queries, of_keys = tables
    reach = (len(next(table for table in tables if table is not None)[0]) - 1) // 2
    row = np.clip(distance, -reach, reach) + reach
    if of_queries is not None:
        met = settle(product(integers(q), integers(of_queries)))
        scores = add(scores, np.take_along_axis(met, row[None], axis=2))
    if of_keys is not None:
        met = settle(product(integers(k), integers(of_keys)))
        scores = add(scores, np.take_along_axis(met, row.T[None], axis=2).swapaxes(1, 2))
    return settle(scores)


def attention(q, k, v, scale, seen=None, soft_cap=0.0, bias=None, tables=(None, None), distance=None) -> np.ndarray:
    """`softmax(cap(scale q k^T) + bias) v` of queries [heads, n, size], keys and values [kv_heads, m, size].

    `seen [n, m]` says which keys a query sees, `distance [n, m]` how far each lies after it; `bias` is [heads, n, m],
    and `tables` are two of [kv_heads, 2 R + 1, size] or None, for terms that are added before the scale. A query that
    sees nothing is 0.
    """
    q, k, v = floats(q), floats(k), floats(v)
    heads, queries, size = q.shape
    keys = k.shape[1]
    k, v, *tables = (None if x is None else np.repeat(floats(x), heads // len(x), axis=0) for x in (k, v, *tables))
    seen = np.broadcast_to(True if seen is None else np.asarray(seen, bool), (heads, queries, keys))
    value = integers(v)
    s = settle(product(integers(q), integers(k)))
    if distance is not None and any(table is not None for table in tables):
        s = by_distance(s, q, k, tables, distance)
    s = mul(s, settle(scale))
    if soft_cap:
        s = mul(settle(soft_cap), hyperbolic_tangent(div(s, settle(soft_cap))))
    if bias is not None:
        s = add(s, settle(bias))
    seen = seen & (s != -INFINITY)
    wrong = (seen & (is_nan(s) | value.bad[:, None])).any(axis=-1)
    # Relative to the largest of a query's scores where that lies beyond 2^20.
    counted = seen & ~is_nan(s) & ~value.bad[:, None]
    largest = np.where(counted, s, -INFINITY).max(axis=-1, keepdims=True, initial=-INFINITY)
    far = (np.abs(largest) > 2**20) & (largest != -INFINITY)
    most_finite = np.finfo(F).max
    e, n = parts(add(s, -np.where(far, np.clip(largest, -most_finite, most_finite), F(0))))
    most, below, above = np.full(s.shape[:2], NONE), np.zeros(s.shape[:2], F), np.zeros(q.shape, F)
    for first in range(0, keys, BLOCK):
        block = np.s_[..., first : first + BLOCK]
        rows = Rows(value.q[:, first : first + BLOCK], value.exponent[block], value.bad[block])
        most, below, above = with_block(seen[block], e[block], n[block], rows, most, below, above)
    y = mul(above, div(F(1), below)[..., None])
    y = np.where(wrong[..., None], NAN, y)
    return canonical(np.where(seen.any(axis=-1)[..., None], y, F(0)))


@quiet
def with_block(seen, e, n, value: Rows, most, below, above):
    """The power, the denominator and the numerator after one more block of keys."""
    any_seen = seen.any(axis=-1)
    own = np.where(seen, n, NONE).max(axis=-1)
    new = np.maximum(most, own)
    u = np.where(seen, rounded(e, n - own[..., None] + 30), 0)
    own_below = u.sum(axis=-1).astype(F) * F(2.0**-30)
    # Powers of e 2^n v, and the integers of e 2^n 2^exponent.
    power = n + value.exponent[..., None, :]
    some = seen & (value.q != 0).any(axis=-1)[..., None, :]
    carried = power + ((e.view(np.uint32).astype(np.int64) + CARRY) >> 23) - 127
    g = np.where(some, carried, -(2**40)).max(axis=-1)
    p = np.where(some, rounded(np.where(some, e, F(0)), np.where(some, power + 22 - g[..., None], 0)), 0)
    assert np.abs(p).max(initial=0) <= LARGEST
    sums = dots(p, halves(value.q.swapaxes(-1, -2)))
    own_above = settle(assemble(sums, np.where(some.any(axis=-1), g - 44 - new, 0)[..., None]))
    next_below = add(shift(below, most - new), shift(own_below, own - new))
    next_above = add(shift(above, (most - new)[..., None]), own_above)
    return (
        np.where(any_seen, new, most),
        np.where(any_seen, next_below, below),
        np.where(any_seen[..., None], next_above, above),
    )
