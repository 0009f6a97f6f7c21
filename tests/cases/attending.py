"""Attention of packed texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cases.bounds import IN_HALF, TINY, U, bounded, summed
from cases.elementwise import philox
from cases.reference import Attributes, Operands, evaluate, reference
from cases.softmaxes import softmax
from cases.table import OpCase, shape_name


def heads_of(x: np.ndarray, column: int, heads: int, width: int) -> np.ndarray:
    """`[heads, T, width]` out of packed columns."""
    return x[:, column : column + heads * width].reshape(len(x), heads, width).transpose(1, 0, 2)


def seen(attributes: Attributes, queries: int, keys: int) -> tuple[np.ndarray, np.ndarray]:
    """Which keys queries see, and how far these lie after them."""
    place = np.arange(queries)[:, None] + (keys - queries if attributes.get("align_end") else 0)
    key, window, first = np.arange(keys), attributes.get("window", 0), attributes.get("global_tokens", 0)
    keep = np.ones((queries, keys), dtype=bool)
    if window:
        keep = (np.abs(key - place) <= window) | (key < first) | ((place >= 0) & (place < first))
    return keep & (key <= place) if attributes.get("causal") else keep, key - place


def met(attributes: Attributes, distances: np.ndarray) -> list[np.ndarray | None]:
    """What queries meet, and what keys meet, by distance: `[kv_heads, distances, width]`."""
    heads, width = attributes["kv_heads"], attributes["head_dim"]
    return [None if at is None else heads_of(distances, at, heads, width) for at in attributes["distances"]]


@dataclass(frozen=True)
class Text:
    """The rows of a text's queries and keys, which keys queries see, and the weights by head."""

    rows: slice
    keys: slice
    keep: np.ndarray
    #: `[heads, queries, keys]`, as are the derivative of the soft cap and the factors by which dropout multiplies.
    weights: np.ndarray
    slant: np.ndarray
    left: np.ndarray


def heads_of_operands(operands: Operands, attributes: Attributes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`[heads, T, width]` of queries, keys and values."""
    heads, groups, width = attributes["heads"], attributes["kv_heads"], attributes["head_dim"]
    q = heads_of(operands[0], attributes.get("q_column", 0), heads, width)
    k = np.repeat(heads_of(operands[1], attributes.get("k_column", 0), groups, width), heads // groups, axis=0)
    v = np.repeat(heads_of(operands[2], attributes.get("v_column", 0), groups, width), heads // groups, axis=0)
    return q, k, v


def texts(operands: Operands, attributes: Attributes) -> Iterator[Text]:
    _, _, _, q_offsets, k_offsets, *others = operands
    q, k, _ = heads_of_operands(operands, attributes)
    bias = others[:1] if attributes.get("bias") else []
    heads, groups = attributes["heads"], attributes["kv_heads"]
    for text in range(len(q_offsets) - 1):
        rows = slice(q_offsets[text], q_offsets[text + 1])
        own = text // attributes.get("shared_by", 1)
        keys = slice(k_offsets[own], k_offsets[own + 1])
        scores = q[:, rows] @ k[:, keys].swapaxes(-1, -2)
        keep, distance = seen(attributes, *scores.shape[1:])
        if attributes.get("distances"):
            by_query, by_key = met(attributes, others[-1])
            reach = len(others[-1]) // 2
            row = np.clip(distance, -reach, reach) + reach
            if by_query is not None:
                products = q[:, rows] @ np.repeat(by_query, heads // groups, axis=0).swapaxes(-1, -2)
                scores = scores + np.take_along_axis(products, row[None], axis=2)
            if by_key is not None:
                products = k[:, keys] @ np.repeat(by_key, heads // groups, axis=0).swapaxes(-1, -2)
                scores = scores + np.take_along_axis(products, row.T[None], axis=2).swapaxes(-1, -2)
        scores = attributes["scale"] * scores
        slant = np.ones_like(scores)
        if cap := attributes.get("soft_cap", 0):
            slant = 1 / np.cosh(scores / cap) ** 2
            scores = cap * np.tanh(scores / cap)
        if bias:
            reach = bias[0].shape[1] // 2
            own_rows = (text * heads + np.arange(heads)) % len(bias[0])
            scores = scores + bias[0][own_rows][:, np.clip(distance, -reach, reach) + reach]
        weights = softmax([scores, np.broadcast_to(keep, scores.shape)], {})
        left = np.ones_like(scores)
        if attributes.get("dropout"):
            left = left_by_dropout(attributes, others[-1], rows, scores.shape)
        yield Text(rows, keys, keep, weights, slant, left)


def left_by_dropout(attributes: Attributes, key: np.ndarray, rows: slice, shape: tuple[int, ...]) -> np.ndarray:
    """0 or `1 / (1 - p)` for each head, query of these rows and key of a text."""
    heads, queries, keys = shape
    seed, offset = key.astype("<u4").view("<u8").tolist()
    blocks = np.tile(np.arange((keys + 3) // 4, dtype=np.uint64), (heads, queries, 1)) + np.uint64(offset)
    places = (rows.start + np.arange(queries)) * heads + np.arange(heads)[:, None]
    words = philox(seed, blocks, attributes.get("stream", 0), places[..., None])
    words = words.reshape(heads, queries, 4 * blocks.shape[-1])[..., :keys]
    keep = (words >> np.uint64(8)).astype(np.float64) * 2.0**-24 >= np.float32(attributes["dropout"])
    return keep / (1 - attributes["dropout"])


def product(weights: np.ndarray, keep: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`weights @ values`, where a value that is hidden is not touched: 0 times a NaN would not be 0."""
    wild = ~np.isfinite(values).all(axis=1)
    result = weights[:, ~wild] @ values[~wild]
    for row in np.flatnonzero(wild):
        result[keep[:, row]] += weights[keep[:, row], row, None] * values[row]
    return result


@reference
def attention(operands: Operands, attributes: Attributes) -> np.ndarray:
    q, _, v = heads_of_operands(operands, attributes)
    result = np.zeros(q.shape)
    for text in texts(operands, attributes):
        for head, weights in enumerate(text.weights):
            result[head, text.rows] = product(weights * text.left[head], text.keep, v[head, text.keys])
    return result.transpose(1, 0, 2).reshape(q.shape[1], attributes["heads"] * attributes["head_dim"])


def largest_score(operands: Operands, attributes: Attributes) -> float:
    q, k, _, _, _, *others = operands
    # What is not finite hides a key or spoils a row, where no bound counts.
    q_most, k_most = (np.abs(x[np.isfinite(x)]).max(initial=0) for x in (q, k))
    far = np.abs(others[-1]).max(initial=0) if attributes.get("distances") else 0.0
    return (q_most * k_most + (q_most + k_most) * far) * attributes["head_dim"] * abs(attributes["scale"])


def score_error(operands: Operands, attributes: Attributes) -> float:
    bias = operands[5:6] if attributes.get("bias") else []
    largest = largest_score(operands, attributes)
    error = summed(attributes["head_dim"], np.minimum(largest, 1e3)) + 2 * U * 3 * np.minimum(largest, 100)
    # A bias is added by one more rounding, and widens the range of what exp is taken of.
    return error + 2 * U * 4 * min(max((np.abs(table).max(initial=0) for table in bias), default=0.0), 100)


@bounded
def attention_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """An error e of the scores changes every weight by a factor of at most exp(2 e)."""
    q, k, v, q_offsets, k_offsets, *others = operands
    magnitude = evaluate("attention", [q, k, np.abs(v), q_offsets, k_offsets, *others], attributes)
    error, keys = score_error(operands, attributes), int(max(np.diff(k_offsets), default=0))
    return magnitude * np.expm1(2 * error) + summed(keys + 8, magnitude) + TINY


def half_weights(operands: Operands, attributes: Attributes) -> np.ndarray:
    """What attention's weights lose as float16: half a unit each, and what is below its smallest step.

    The largest weight of a row is 1 before they are divided by their sum.
    """
    q, k, v, q_offsets, k_offsets, *bias = operands
    keys = int(max(np.diff(k_offsets), default=0))
    magnitude = evaluate("attention", [q, k, np.abs(v), q_offsets, k_offsets, *bias], attributes)
    return 2.0**-11 * magnitude + 2.0**-25 * keys * np.abs(v[np.isfinite(v)]).max(initial=0)


IN_HALF["attention"] = half_weights


def offsets(*lengths: int) -> np.ndarray:
    return np.r_[0, np.cumsum(lengths)].astype(np.int32)


LENGTHS = ((1,), (5, 1, 7), (31, 32, 33), (63, 0, 65), (129, 2), (0,), (257,))


def cases() -> list[OpCase]:
    found = []
    for lengths in LENGTHS:
        for heads, groups, width in ((1, 1, 1), (2, 2, 32), (4, 2, 33), (4, 1, 64), (1, 1, 128)):
            for causal in (False, True):
                bounds = offsets(*lengths)
                given = {"heads": heads, "kv_heads": groups, "head_dim": width, "scale": width**-0.5, "causal": causal}
                label = f"{'causal-' if causal else ''}{shape_name(*lengths)}-{shape_name(heads, groups, width)}"

                def operands(v, t=bounds[-1], h=heads * width, g=groups * width, bounds=bounds):
                    return [v.plain(t, h), v.plain(t, g), v.plain(t, g), bounds, bounds]

                found.append(OpCase("attention", label, operands, given))
                if width > 1 and not causal:
                    # Matrix cores take heads of whole 16 columns.
                    found.append(OpCase("attention", f"half-{label}", operands, given, "float16"))
        for width in (16, 48, 80, 112):
            bounds = offsets(*lengths)
            given = {"heads": 2, "kv_heads": 2, "head_dim": width, "scale": width**-0.5}

            def operands(v, t=bounds[-1], columns=2 * width, bounds=bounds):
                return [v.plain(t, columns), v.plain(t, columns), v.plain(t, columns), bounds, bounds]

            found.append(OpCase("attention", f"half-{shape_name(*lengths)}-{width}", operands, given, "float16"))
    found += hidden_keys()
    one = {"heads": 2, "kv_heads": 2, "head_dim": 16, "scale": 0.25}
    fused = {**one, "k_column": 32, "v_column": 64}
    return found + [
        OpCase(
            "attention",
            "cross",
            lambda v: [v.plain(10, 32), v.plain(45, 32), v.plain(45, 32), offsets(3, 7), offsets(33, 12)],
            one,
        ),
        OpCase(
            "attention",
            "no-keys",
            lambda v: [v.plain(5, 32), v.plain(4, 32), v.plain(4, 32), offsets(3, 2), offsets(0, 4)],
            one,
        ),
        OpCase(
            "attention",
            "one-tensor",
            lambda v: (lambda x: [x, x, x, offsets(3, 6), offsets(3, 6)])(v.plain(9, 96)),
            fused,
        ),
        OpCase(
            "attention",
            "outliers",
            lambda v: [v.outliers(9, 32), v.plain(9, 32), v.plain(9, 32), offsets(9), offsets(9)],
            one,
        ),
        OpCase(
            "attention",
            "not-finite",
            lambda v: [v.plain(9, 32), v.plain(9, 32), v.not_finite(9, 32), offsets(4, 5), offsets(4, 5)],
            one,
        ),
        OpCase(
            "attention",
            "half",
            lambda v: [v.plain(9, 32), v.plain(9, 32), v.plain(9, 32), offsets(4, 5), offsets(4, 5)],
            one,
            "float16",
        ),
    ]


#: Seed and offset, whose sum with a block needs the carry.
KEY = np.uint64([2**63 + 12345, 2**32 - 3]).view(np.uint32)

MASKS = {
    "window": {"window": 3},
    "causal-window": {"window": 64, "causal": True},
    "global": {"window": 5, "global_tokens": 2},
    "end": {"causal": True, "align_end": True},
    "bias": {"bias": True},
    "biased-end": {"bias": True, "causal": True, "align_end": True},
    "cap": {"soft_cap": 1.5},
    "dropout": {"dropout": 0.3, "causal": True, "window": 64, "stream": 5},
    "all": {"bias": True, "window": 9, "global_tokens": 66, "causal": True, "align_end": True, "shared_by": 2},
}
MASKS["capped-all"] = MASKS["all"] | {"soft_cap": 2.0}
MASKS["distances"] = {"distances": [16, 0]}
MASKS["distances-of-queries"] = {"distances": [16, None], "causal": True}
MASKS["distances-of-keys"] = {"distances": [None, 5], "align_end": True}
MASKS["distances-all"] = MASKS["capped-all"] | {"bias": False, "distances": [0, 16]}


def hidden_keys() -> list[OpCase]:
    """Texts of as many keys as queries, of more, of fewer and of none."""
    found = []
    bounds = offsets(5, 200, 65, 0)
    for name, mask in MASKS.items():
        given = {"heads": 2, "kv_heads": 1, "head_dim": 16, "scale": 0.25, **mask}
        keys = offsets(130, 40) if "shared_by" in mask else offsets(5, 66, 200, 7)

        def operands(v, make, keys=keys, mask=mask):
            found = [v.plain(bounds[-1], 32), v.plain(keys[-1], 16), make(keys[-1], 16), bounds, keys]
            found += [v.plain(4, 41).astype(np.float32)] if mask.get("bias") else []
            found += [KEY] if "dropout" in mask else []
            return found + ([v.plain(121, 32)] if "distances" in mask else [])

        found += [
            OpCase("attention", f"hidden-{name}", lambda v, of=operands: of(v, v.plain), given),
            OpCase("attention", f"hidden-half-{name}", lambda v, of=operands: of(v, v.plain), given, "float16"),
            OpCase("attention", f"hidden-not-finite-{name}", lambda v, of=operands: of(v, v.not_finite), given),
        ]
    return found
