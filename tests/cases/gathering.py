"""Embedding tables and pooling of packed texts."""

from __future__ import annotations

import math

import numpy as np

from cases.attending import offsets
from cases.bounds import BOUNDS, TINY, U, bounded, exact, summed
from cases.reference import Attributes, Operands, evaluate, reference
from cases.table import OpCase


@reference
def embedding_sum(operands: Operands, attributes: Attributes) -> np.ndarray:
    return np.asarray(sum(table[ids] for ids, table in zip(operands[::2], operands[1::2])))


@reference
def embedding_backward(operands: Operands, attributes: Attributes) -> np.ndarray:
    g, order, starts = operands
    rows = [g[order[first:last]].sum(axis=0) for first, last in zip(starts[:-1], starts[1:])]
    return np.asarray(rows).reshape(len(starts) - 1, g.shape[1])


@reference
def sort_indices(operands: Operands, attributes: Attributes) -> tuple[np.ndarray, ...]:
    rows = attributes["rows"]
    index = operands[0].astype(np.int64) % 2**32
    order = np.argsort(np.minimum(index, rows), kind="stable")
    return order.astype(np.float64), np.searchsorted(index[order], np.arange(rows + 1)).astype(np.float64)


@reference
def pool_backward(operands: Operands, attributes: Attributes) -> np.ndarray:
    """The weights of the tokens times the gradients; of max, the first largest token has all."""
    g, x, offsets, first = operands
    result = np.zeros_like(x)
    parts = g.reshape(len(g), len(attributes["modes"]), x.shape[1])
    for text in range(len(g)):
        skipped = int(first[text])
        own = slice(min(offsets[text] + skipped, offsets[text + 1]), offsets[text + 1])
        tokens = x[own]
        n, places = len(tokens), skipped + 1.0 + np.arange(len(tokens))[:, None]
        for mode, part in zip(attributes["modes"], parts[text]):
            if n:
                chosen = np.arange(n)[:, None] == {"max": tokens.argmax(axis=0), "last_token": n - 1}.get(mode, 0)
                weights = {
                    "mean": 1 / n,
                    "mean_sqrt_length": 1 / math.sqrt(n),
                    "sum": 1.0,
                    "weighted_mean": places / places.sum(),
                }.get(mode, chosen)
                result[own] += part * weights
    return result


@reference
def pool(operands: Operands, attributes: Attributes) -> np.ndarray:
    """Packed texts from token `first[b]` of each on; without tokens zeros, and for max minus infinity."""
    x, offsets, first = operands
    result = np.zeros((len(offsets) - 1, len(attributes["modes"]), x.shape[1]))
    for text in range(len(result)):
        skipped = int(first[text])
        tokens = x[offsets[text] + skipped : offsets[text + 1]]
        places = skipped + 1.0 + np.arange(len(tokens))[:, None]
        for column, mode in enumerate(attributes["modes"]):
            if mode == "max":
                result[text, column] = tokens.max(axis=0, initial=-np.inf)
            elif len(tokens):
                result[text, column] = {
                    "cls": lambda tokens, _: tokens[0],
                    "last_token": lambda tokens, _: tokens[-1],
                    "mean": lambda tokens, _: tokens.mean(axis=0),
                    "mean_sqrt_length": lambda tokens, _: tokens.sum(axis=0) / math.sqrt(len(tokens)),
                    "sum": lambda tokens, _: tokens.sum(axis=0),
                    "weighted_mean": lambda tokens, places: (tokens * places).sum(axis=0) / places.sum(),
                }[mode](tokens, places)
    return result.reshape(len(result), len(attributes["modes"]) * x.shape[1])


@bounded
def embedding_sum_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    magnitudes = [abs(v) if place % 2 else v for place, v in enumerate(operands)]
    tables = len(operands) // 2
    return (tables - 1) * 2 * U * evaluate("embedding_sum", magnitudes, attributes)


@bounded
def embedding_backward_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    g, order, starts = operands
    most = int(max(np.diff(starts), default=0))
    return summed(most, evaluate("embedding_backward", [np.abs(g), order, starts], attributes)) if most > 1 else 0 * y


@bounded
def pool_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    x, offsets, first = operands
    if set(attributes["modes"]) <= {"cls", "last_token", "max"}:
        return np.zeros_like(y)
    most = int(max(np.diff(offsets), default=0))
    magnitude = np.abs(evaluate("pool", [np.abs(x), offsets, first], attributes))
    return summed(most, np.where(np.isfinite(magnitude), magnitude, 0)) + TINY


def sort_indices_bound(operands: Operands, attributes: Attributes, y: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    return exact(operands, attributes, y[0]), exact(operands, attributes, y[1])


BOUNDS["sort_indices"] = sort_indices_bound


@bounded
def pool_backward_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """A root, two divisions and a product per mode, and their sum."""
    g, *rest = operands
    modes = len(attributes["modes"])
    return (12 + 2 * modes) * U * evaluate("pool_backward", [np.abs(g), *rest], attributes) + TINY


MODES = ("cls", "max", "mean", "mean_sqrt_length", "weighted_mean", "last_token", "sum")


def cases() -> list[OpCase]:
    found = []
    for shape, rows, width in (
        ((), 3, 5),
        ((1,), 1, 1),
        ((0,), 5, 7),
        ((33,), 129, 63),
        ((3, 5), 7, 64),
        ((2, 3, 4), 31, 65),
        ((5,), 3, 1023),
        ((4,), 9, 0),
    ):
        name = f"{'x'.join(map(str, shape))}-{rows}x{width}"
        found.append(OpCase("embedding_sum", name, lambda v, s=shape, r=rows, w=width: [v.ids(r, *s), v.plain(r, w)]))
    for places, rows, width in ((0, 3, 4), (1, 1, 1), (33, 5, 31), (65, 3, 65), (257, 129, 33), (5, 1025, 2)):
        found.append(
            OpCase(
                "embedding_backward",
                f"{places}x{rows}x{width}",
                lambda v, p=places, r=rows, w=width: [v.plain(p, w), *sorted_by_id(v.ids(r, p), r)],
            )
        )
    for places, rows in ((0, 3), (1, 1), (5, 0), (33, 5), (256, 7), (257, 300), (1025, 64), (3000, 5)):
        found.append(
            OpCase(
                "sort_indices", f"{places}-{rows}", lambda v, p=places, r=rows: [v.ids(max(r, 1), p)], {"rows": rows}
            )
        )
    found.append(OpCase("sort_indices", "outside", lambda v: [v.ids(9, 99) - np.int32(2)], {"rows": 5}))
    for mode in MODES:
        found += [
            OpCase(
                "pool_backward",
                mode,
                lambda v: [v.plain(3, 33), v.plain(69, 33), offsets(5, 1, 63), np.zeros(3, np.int32)],
                {"modes": [mode]},
            ),
            OpCase(
                "pool_backward",
                f"{mode}-prompt",
                lambda v: [v.plain(2, 65), v.plain(9, 65), offsets(4, 5), np.int32([2, 1])],
                {"modes": [mode]},
            ),
            OpCase(
                "pool", mode, lambda v: [v.plain(69, 33), offsets(5, 1, 63), np.zeros(3, np.int32)], {"modes": [mode]}
            ),
            OpCase(
                "pool", f"{mode}-prompt", lambda v: [v.plain(9, 65), offsets(4, 5), np.int32([2, 1])], {"modes": [mode]}
            ),
        ]
    every = {"modes": list(MODES)}
    found += [
        OpCase(
            "pool_backward",
            "all",
            lambda v: [v.plain(2, 7 * len(MODES)), v.plain(9, 7), offsets(4, 5), np.int32([0, 2])],
            every,
        ),
        # A text without tokens, and one whose tokens are all left out.
        OpCase(
            "pool_backward",
            "empty",
            lambda v: [v.plain(3, 7 * len(MODES)), v.plain(6, 7), offsets(0, 4, 2), np.int32([0, 1, 2])],
            every,
        ),
        OpCase(
            "pool_backward",
            "ties",
            lambda v: [v.plain(1, 65), np.ones((5, 65), np.float32), offsets(5), np.int32([1])],
            {"modes": ["max"]},
        ),
        OpCase(
            "pool_backward",
            "no-texts",
            lambda v: [v.plain(0, 7), v.plain(0, 7), offsets(), np.zeros(0, np.int32)],
            {"modes": ["mean"]},
        ),
        OpCase(
            "pool_backward",
            "not-finite",
            lambda v: [v.plain(2, 33), v.not_finite(9, 33), offsets(4, 5), np.int32([0, 0])],
            {"modes": ["max"]},
        ),
        OpCase(
            "pool_backward",
            "half",
            lambda v: [v.plain(2, 8), v.plain(9, 8), offsets(4, 5), np.int32([1, 0])],
            {"modes": ["mean"]},
            "float16",
        ),
    ]
    return found + [
        OpCase("pool", "all", lambda v: [v.plain(9, 7), offsets(4, 5), np.zeros(2, np.int32)], {"modes": list(MODES)}),
        OpCase(
            "pool", "empty", lambda v: [v.plain(4, 7), offsets(0, 4), np.zeros(2, np.int32)], {"modes": ["mean", "max"]}
        ),
        OpCase(
            "pool", "no-tokens", lambda v: [v.plain(0, 7), offsets(0, 0), np.zeros(2, np.int32)], {"modes": ["mean"]}
        ),
        OpCase("pool", "no-texts", lambda v: [v.plain(0, 7), offsets(), np.zeros(0, np.int32)], {"modes": ["max"]}),
        OpCase(
            "pool", "half", lambda v: [v.plain(9, 7), offsets(4, 5), np.int32([1, 0])], {"modes": ["mean"]}, "float16"
        ),
        OpCase(
            "embedding_sum",
            "three",
            lambda v: [v.ids(9, 5), v.plain(9, 33), v.ids(5, 5), v.plain(5, 33), v.ids(2, 5), v.plain(2, 33)],
        ),
        OpCase("embedding_sum", "not-finite", lambda v: [v.ids(4, 9), v.not_finite(4, 33)]),
        OpCase("embedding_sum", "half", lambda v: [v.ids(4, 9), v.plain(4, 33)], dtype="float16"),
        OpCase(
            "embedding_backward", "half", lambda v: [v.plain(9, 33), *sorted_by_id(v.ids(4, 9), 4)], dtype="float16"
        ),
    ]


def sorted_by_id(ids: np.ndarray, rows: int) -> list[np.ndarray]:
    """Token places sorted stably by id, and where each id's places start."""
    order = np.argsort(ids, kind="stable")
    return [order.astype(np.int32), np.searchsorted(ids[order], np.arange(rows + 1)).astype(np.int32)]
