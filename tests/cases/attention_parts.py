"""Attention in parts, the patterns of architectures, and rotary positions."""

from __future__ import annotations

import numpy as np

from cases.bounds import BOUNDS, TINY, U, bounded, rounded, summed
from cases.reference import Attributes, Operands, evaluate, reference
from cases.table import OpCase, Values, shape_name


def grouped(x: np.ndarray, heads: int) -> np.ndarray:
    """`[B, S, G, D]` with each group repeated for its query heads, as `[B, H, S, D]`."""
    return np.repeat(x, heads // x.shape[2], axis=2).transpose(0, 2, 1, 3)


@reference
def attention_scores(operands: Operands, attributes: Attributes) -> np.ndarray:
    q, k = operands
    return attributes["scale"] * (q.transpose(0, 2, 1, 3) @ grouped(k, q.shape[2]).swapaxes(-1, -2))


@reference
def attention_mask(operands: Operands, attributes: Attributes) -> np.ndarray:
    scores = operands[0]
    masked = np.zeros(scores.shape, dtype=bool)
    if attributes.get("causal", True):
        masked |= ~np.tri(*scores.shape[-2:], dtype=bool)
    if len(operands) > 1:
        keys = operands[1] == 0
        masked |= keys.reshape(keys.shape[0], *[1] * (scores.ndim - 2), keys.shape[1])
    return scores + np.where(masked, attributes.get("mask_value", -1e9), 0.0)


@reference
def attention_bias(operands: Operands, attributes: Attributes) -> np.ndarray:
    y, cap = operands[0], attributes.get("soft_cap", 0.0)
    queries, keys = y.shape[-2:]
    distance = np.arange(keys) - np.arange(queries)[:, None]
    if cap:
        y = cap * np.tanh(y / cap)
    if len(operands) > 1:
        reach = operands[1].shape[1] // 2
        y = y + operands[1][:, np.clip(distance, -reach, reach) + reach]
    window, leading = attributes.get("window", 0), attributes.get("global_tokens", 0)
    lowest = np.minimum(np.arange(keys), np.arange(queries)[:, None])
    hidden = (np.abs(distance) > window) & (lowest >= leading) & (window > 0)
    return np.where(hidden, -np.inf, y)


def scatter(x: int) -> int:
    """Wellons' lowbias32, by which bigbird draws blocks."""
    x = (x ^ (x >> 16)) * 0x7FEB352D & 0xFFFFFFFF
    x = (x ^ (x >> 15)) * 0x846CA68B & 0xFFFFFFFF
    return x ^ (x >> 16)


def pattern(attributes: Attributes, queries: int, keys: int) -> np.ndarray:
    """Which weights the shader of an architecture takes as they are; the others count as zero."""
    architecture, window = attributes.get("architecture", ""), attributes.get("window", 0)
    row, key = np.arange(queries)[:, None], np.arange(keys)
    if architecture in ("gpt", "gpt2", "gpt_neox", "granite"):
        return np.tri(queries, keys, dtype=bool)
    if architecture not in ("modernbert", "longformer", "bigbird"):
        return np.ones((queries, keys), dtype=bool)
    allowed = (np.abs(row - key) <= window) if window else np.ones((queries, keys), dtype=bool)
    if architecture == "modernbert":
        return allowed
    allowed |= np.minimum(row, key) < attributes.get("global_tokens", 0)
    if architecture == "bigbird":
        block, draws = attributes.get("block", 64), attributes.get("random_blocks", 0)
        blocks = -(-keys // block)
        for first in range(-(-queries // block)):
            for draw in range(draws):
                place = (first * draws + draw) & 0xFFFFFFFF
                drawn = scatter((attributes.get("seed", 0) + scatter(place)) & 0xFFFFFFFF) % blocks
                allowed |= (row // block == first) & (key // block == drawn)
    return allowed


@reference
def attention_output(operands: Operands, attributes: Attributes) -> np.ndarray:
    weights, v = operands
    weights = np.where(pattern(attributes, *weights.shape[-2:]), weights, 0)
    return (weights @ grouped(v, weights.shape[1])).transpose(0, 2, 1, 3)


def leading_heads(x: np.ndarray, heads: int | None) -> np.ndarray:
    """The leading heads, and zeros for those that there are not."""
    x = x[..., :heads, :]
    more = max((heads or 0) - x.shape[-2], 0)
    return np.pad(x, [*[(0, 0)] * (x.ndim - 2), (0, more), (0, 0)]) if more else x


@reference
def rope(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, cos, sin = operands
    x = leading_heads(x, attributes.get("heads"))
    cos, sin = cos[..., None, :], sin[..., None, :]
    first, second, rest = np.split(x, [cos.shape[-1], 2 * cos.shape[-1]], axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin, rest], axis=-1)


@bounded
def attention_scores_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    wide = {**attributes, "scale": abs(attributes["scale"])}
    return summed(operands[0].shape[-1], evaluate("attention_scores", [np.abs(v) for v in operands], wide)) + TINY


@bounded
def attention_output_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    return summed(operands[0].shape[-1], evaluate("attention_output", [np.abs(v) for v in operands], attributes)) + TINY


BOUNDS["attention_mask"] = rounded(0.5)


@bounded
def attention_bias_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """Half a unit of the sum; of the cap a quotient of 2.5 units, a tanh of 4 and a product of half a unit."""
    capped = evaluate("attention_bias", operands[:1], {"soft_cap": attributes.get("soft_cap", 0.0)})
    units = 7 if attributes.get("soft_cap") else 0
    return 2 * U * (0.5 * np.abs(y) + units * np.abs(capped)) + TINY


@bounded
def rope_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    x, cos, sin = (np.abs(value) for value in operands)
    x = leading_heads(x, attributes.get("heads"))
    cos, sin = cos[..., None, :], sin[..., None, :]
    first, second, rest = np.split(x, [cos.shape[-1], 2 * cos.shape[-1]], axis=-1)
    return 4 * U * np.concatenate([first * cos + second * sin, second * cos + first * sin, 0 * rest], axis=-1) + TINY


# batch, query heads, key heads, queries, keys, width
SIZES = (
    (1, 1, 1, 1, 1, 1),
    (2, 3, 3, 5, 7, 4),
    (1, 4, 2, 31, 33, 32),
    (1, 4, 1, 32, 32, 64),
    (2, 2, 2, 33, 31, 63),
    (1, 2, 2, 65, 64, 65),
    (1, 1, 1, 63, 129, 128),
    (1, 2, 1, 129, 127, 33),
    (2, 8, 8, 8, 8, 16),
    (0, 2, 2, 5, 5, 4),
    (2, 2, 2, 0, 5, 4),
    (1, 2, 2, 5, 257, 8),
)
PATTERNS = {
    "t5": {"architecture": "t5"},
    "llama": {"architecture": "llama"},
    "gpt2": {"architecture": "gpt2"},
    "granite": {"architecture": "granite"},
    "window": {"architecture": "modernbert", "window": 16},
    "any-window": {"architecture": "modernbert"},
    "global": {"architecture": "longformer", "window": 5, "global_tokens": 2},
    "random": {"architecture": "bigbird", "window": 3, "global_tokens": 1, "random_blocks": 2, "block": 16, "seed": 7},
}


def cases() -> list[OpCase]:
    return parts() + biases() + rotary()


# Attributes of attention_bias, and the columns of its table.
BIASES = {
    "window": ({"window": 3}, 0),
    "global": ({"window": 2, "global_tokens": 2}, 0),
    "bias": ({}, 9),
    "one-bias": ({}, 1),
    "capped": ({"soft_cap": 1.5}, 0),
    "all": ({"soft_cap": 0.7, "window": 40, "global_tokens": 1}, 65),
    "nothing": ({}, 0),
}


def biases() -> list[OpCase]:
    found = []
    for name, (attributes, columns) in BIASES.items():
        for b, h, sq, sk in ((1, 1, 1, 1), (2, 3, 5, 7), (1, 4, 33, 33), (2, 2, 65, 64), (0, 2, 3, 3), (2, 2, 3, 0)):
            found.append(
                OpCase(
                    "attention_bias",
                    f"{name}-{shape_name(b, h, sq, sk)}",
                    lambda v, x=(b, h, sq, sk), columns=columns: [
                        v.plain(*x),
                        *([v.plain(x[1], columns)] if columns else []),
                    ],
                    attributes,
                )
            )
    attributes = {"soft_cap": 2.0, "window": 4}
    return found + [
        OpCase("attention_bias", "half", lambda v: [v.plain(1, 2, 5, 9), v.plain(2, 7)], {"window": 3}, "float16"),
        OpCase("attention_bias", "outliers", lambda v: [v.outliers(1, 2, 9, 9), v.outliers(2, 5)], attributes),
        OpCase("attention_bias", "not-finite", lambda v: [v.not_finite(1, 2, 9, 9), v.not_finite(2, 5)], attributes),
    ]


def weights(v: Values, batch: int, heads: int, queries: int, keys: int) -> np.ndarray:
    powers = np.exp(v.plain(batch, heads, queries, keys).astype(np.float64))
    return (powers / powers.sum(axis=-1, keepdims=True)).astype(v.dtype)


def parts() -> list[OpCase]:
    found = []
    for b, h, g, sq, sk, d in SIZES:
        name = shape_name(b, h, g, sq, sk, d)
        found += [
            OpCase(
                "attention_scores",
                name,
                lambda v, b=b, h=h, g=g, sq=sq, sk=sk, d=d: [v.plain(b, sq, h, d), v.plain(b, sk, g, d)],
                {"scale": d**-0.5},
            ),
            OpCase("attention_mask", name, lambda v, b=b, h=h, sq=sq, sk=sk: [v.plain(b, h, sq, sk)], smooth=False),
            OpCase(
                "attention_mask",
                f"keys-{name}",
                lambda v, b=b, h=h, sq=sq, sk=sk: [v.plain(b, h, sq, sk), v.bits(b, sk).astype(np.float32)],
                {"causal": False, "mask_value": -1e4},
                smooth=False,
            ),
            OpCase(
                "attention_output",
                name,
                lambda v, b=b, h=h, g=g, sq=sq, sk=sk, d=d: [weights(v, b, h, sq, sk), v.plain(b, sk, g, d)],
            ),
        ]
        if sq == sk:
            found.append(
                OpCase(
                    "attention_output",
                    f"causal-{name}",
                    lambda v, b=b, h=h, g=g, s=sq, d=d: [weights(v, b, h, s, s), v.plain(b, s, g, d)],
                    {"architecture": "gpt"},
                )
            )
    for name, options in PATTERNS.items():
        for queries, keys in ((33, 65), (129, 129)):
            found.append(
                OpCase(
                    "attention_output",
                    f"{name}-{queries}x{keys}",
                    lambda v, q=queries, k=keys: [weights(v, 2, 4, q, k), v.plain(2, k, 2, 31)],
                    options,
                )
            )
    return found + [
        OpCase(
            "attention_scores", "not-finite", lambda v: [v.not_finite(1, 5, 2, 8), v.plain(1, 7, 2, 8)], {"scale": 0.5}
        ),
        OpCase(
            "attention_scores", "outliers", lambda v: [v.outliers(1, 5, 2, 33), v.outliers(1, 7, 2, 33)], {"scale": 0.2}
        ),
        OpCase(
            "attention_scores", "half", lambda v: [v.plain(2, 9, 2, 8), v.plain(2, 7, 2, 8)], {"scale": 0.35}, "float16"
        ),
        OpCase("attention_mask", "three-axes", lambda v: [v.plain(4, 9, 9)], smooth=False),
        OpCase("attention_mask", "small", lambda v: [v.plain(2, 3, 5, 5)], {"mask_value": -8.0}),
        OpCase("attention_mask", "half", lambda v: [v.plain(1, 2, 5, 5)], {"mask_value": -1e4}, "float16"),
        OpCase("attention_mask", "nothing", lambda v: [v.plain(1, 2, 5, 5)], {"causal": False}),
        OpCase("attention_mask", "not-finite", lambda v: [v.not_finite(1, 2, 5, 5)]),
        OpCase(
            "attention_mask",
            "both",
            lambda v: [v.plain(3, 2, 33, 33), v.bits(3, 33).astype(np.float32)],
            smooth=False,
        ),
        OpCase("attention_output", "not-finite", lambda v: [weights(v, 1, 2, 5, 9), v.not_finite(1, 9, 2, 8)]),
        OpCase("attention_output", "half", lambda v: [weights(v, 1, 2, 5, 9), v.plain(1, 9, 2, 8)], dtype="float16"),
    ]


def rotary() -> list[OpCase]:
    found = []
    for b, s, h, d in (
        (1, 1, 1, 2),
        (2, 5, 3, 4),
        (1, 33, 2, 64),
        (2, 65, 1, 66),
        (1, 7, 12, 32),
        (0, 5, 2, 4),
        (2, 0, 2, 4),
    ):
        name = shape_name(b, s, h, d)
        for shared in (True, False):
            table = (s, d // 2) if shared else (b, s, d // 2)
            found.append(
                OpCase(
                    "rope",
                    f"{name}-{'shared' if shared else 'each'}",
                    lambda v, x=(b, s, h, d), table=table: [v.plain(*x), *circle(v, table)],
                )
            )
        # Half a head of float16 is read four elements at a time; other heads are widened.
        for of in (np.float16, np.float32):
            found.append(
                OpCase(
                    "rope",
                    f"half-{name}-angles-{np.dtype(of)}",
                    lambda v, x=(b, s, h, d), of=of: [
                        v.plain(*x),
                        *(t.astype(of) for t in circle(v, (x[1], x[3] // 2))),
                    ],
                    dtype="float16",
                )
            )
    # Rows, which plans count.
    for rows, h, d in ((1, 1, 2), (6, 3, 4), (65, 2, 16), (300, 12, 32)):
        for half in ("", "half-") if d >= 8 else ("",):
            found.append(
                OpCase(
                    "rope",
                    f"{half}rows-{rows}-{h}-{d}",
                    lambda v, x=(rows, h, d): [v.plain(*x), *circle(v, (x[0], x[2] // 2))],
                    dtype="float16" if half else "float32",
                )
            )
    # The leading heads of a row or more than all, and heads of which the leading columns turn.
    for rows, h, d, kept, turned in (
        (5, 3, 6, 2, 6),
        (7, 6, 16, 4, 16),
        (9, 2, 24, 2, 8),
        (65, 3, 32, 1, 16),
        (4, 3, 10, 2, 4),
        (5, 2, 6, 3, 4),
        (7, 3, 16, 5, 16),
    ):
        for half in ("", "half-"):
            found.append(
                OpCase(
                    "rope",
                    f"{half}rows-{rows}-{h}-{d}-leading-{kept}-{turned}",
                    lambda v, x=(rows, h, d), turned=turned: [v.plain(*x), *circle(v, (x[0], turned // 2))],
                    {"heads": kept},
                    dtype="float16" if half else "float32",
                )
            )
    return found + [
        OpCase("rope", "half-not-finite", lambda v: [v.not_finite(1, 5, 2, 16), *circle(v, (5, 8))], dtype="float16"),
        OpCase("rope", "half-each", lambda v: [v.plain(3, 5, 2, 8), *circle(v, (3, 5, 4))], dtype="float16"),
        OpCase("rope", "not-finite", lambda v: [v.not_finite(1, 5, 2, 8), *circle(v, (5, 4))]),
        OpCase(
            "rope",
            "half",
            lambda v: [v.plain(1, 5, 2, 8), *(t.astype(np.float32) for t in circle(v, (5, 4)))],
            dtype="float16",
        ),
    ]


def circle(v: Values, shape: tuple[int, ...]) -> list[np.ndarray]:
    angles = v.rng.random(shape) * 100
    return [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
