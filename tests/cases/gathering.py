"""Embedding tables and pooling of packed texts."""

import numpy as np

from cases.attending import offsets
from cases.table import OpCase

MODES = ("cls", "max", "mean", "mean_sqrt_length", "weighted_mean", "last_token")


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
    for mode in MODES:
        found += [
            OpCase(
                "pool", mode, lambda v: [v.plain(69, 33), offsets(5, 1, 63), np.zeros(3, np.int32)], {"modes": [mode]}
            ),
            OpCase(
                "pool", f"{mode}-prompt", lambda v: [v.plain(9, 65), offsets(4, 5), np.int32([2, 1])], {"modes": [mode]}
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
