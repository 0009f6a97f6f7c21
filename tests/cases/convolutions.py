"""Sums over the rows next to each token's, within its text."""

from __future__ import annotations

import numpy as np

from cases.attending import offsets
from cases.bounds import TINY, bounded, summed
from cases.reference import Attributes, Operands, evaluate, reference
from cases.table import OpCase, Values, shape_name


@reference
def token_convolution(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, weight, bounds = operands
    before, taps = attributes["before"], weight.shape[2]
    weight = np.broadcast_to(np.repeat(weight, x.shape[1] // weight.shape[1], axis=1), (*x.shape, taps))
    y = np.zeros(x.shape)
    for start, end in zip(bounds[:-1], bounds[1:]):
        for t in range(start, end):
            for tap in range(taps):
                if start <= t + tap - before < end:
                    y[t] += weight[t, :, tap] * x[t + tap - before]
    return y


@bounded
def token_convolution_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    x, weight, bounds = operands
    magnitude = evaluate("token_convolution", [np.abs(x), np.abs(weight), bounds], attributes)
    return summed(weight.shape[2], np.where(np.isfinite(magnitude), magnitude, 0)) + TINY


def operands(
    v: Values, lengths: tuple[int, ...], columns: int, heads: int, taps: int, shared: bool
) -> list[np.ndarray]:
    """Rows, the weights of every row or of all, boundaries of texts."""
    rows = sum(lengths)
    return [v.plain(rows, columns), v.plain(1 if shared else rows, heads, taps), offsets(*lengths)]


# Lengths of texts, columns, blocks of columns, weights of a sum.
SIZES = (
    ((1,), 1, 1, 1),
    ((5, 1, 7), 6, 6, 3),
    ((31, 0, 32, 1, 33), 65, 13, 4),
    ((63, 0, 65), 64, 4, 9),
    ((129, 2), 31, 1, 5),
    ((2, 1, 1), 128, 32, 11),
    ((0,), 5, 5, 3),
    ((3, 0, 2), 0, 1, 3),
)


def cases() -> list[OpCase]:
    found = []
    for lengths, columns, heads, taps in SIZES:
        name = f"{shape_name(*lengths)}-{shape_name(columns, heads, taps)}"
        for place in sorted({0, (taps - 1) // 2, taps - 1}):
            for shared in (True, False):
                make = lambda v, s=(lengths, columns, heads, taps), w=shared: operands(v, *s, w)  # noqa: E731
                form = f"{'shared' if shared else 'apart'}-{place}-{name}"
                found.append(OpCase("token_convolution", form, make, {"before": place}))
    texts = (31, 0, 2, 66)
    for columns, heads in ((4, 4), (64, 16), (1028, 1028), (33, 3)):
        for shared in (True, False):
            make = lambda v, c=columns, h=heads, w=shared: operands(v, texts, c, h, 3, w)  # noqa: E731
            name = f"half-{'shared' if shared else 'apart'}-{columns}x{heads}"
            found.append(OpCase("token_convolution", name, make, {"before": 2}, "float16"))
    given = {"before": 1}
    return found + [
        OpCase("token_convolution", "no-texts", lambda v: operands(v, (), 4, 4, 3, True), given),
        OpCase(
            "token_convolution",
            "outliers",
            lambda v: [v.outliers(99, 65), *operands(v, texts, 65, 65, 3, True)[1:]],
            given,
        ),
        OpCase(
            "token_convolution",
            "not-finite",
            lambda v: [v.not_finite(99, 64), *operands(v, texts, 64, 4, 3, False)[1:]],
            given,
        ),
    ]
