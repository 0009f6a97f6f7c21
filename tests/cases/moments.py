"""Means and covariances of streams of rows, in place."""

from __future__ import annotations

import numpy as np

from cases.bounds import TINY, U, bounded, summed
from cases.hebbian import small
from cases.reference import Attributes, Operands, reference
from cases.table import OpCase, Values

Results = tuple[np.ndarray, ...]


@reference
def combine_moments(operands: Operands, attributes: Attributes) -> Results:
    mean, covariance, difference, other, share = operands
    joined = (1 - share) * covariance + share * (other + (1 - share) * np.outer(difference, difference))
    return mean + share * difference, joined


@bounded
def combine_moments_bound(operands: Operands, attributes: Attributes, y: Results) -> Results:
    """A product and a sum; of the covariance four products, two sums and the rest of the share, beside each other."""
    mean, covariance, difference, other, share = map(np.abs, operands)
    outer = np.outer(difference, difference)
    return (
        4 * U * (mean + share * difference) + TINY,
        16 * U * (covariance + share * (other + outer)) + TINY,
    )


@reference
def streaming_moments(operands: Operands, attributes: Attributes) -> Results:
    mean, covariance, x, share = operands
    own = x.mean(axis=0)
    centred = x - own
    return combine_moments([mean, covariance, own - mean, centred.T @ centred / len(x), share], {})


@bounded
def streaming_moments_bound(operands: Operands, attributes: Attributes, y: Results) -> Results:
    """The error of the batch's mean, then of what is centred by it, of products and of the difference of means."""
    mean, covariance, x, share = operands
    rows, own = len(x), x.mean(axis=0)
    off_mean = summed(2 * rows, np.abs(x).mean(axis=0)) + TINY
    centred, difference = np.abs(x - own), np.abs(own - mean)
    off = off_mean + U * centred
    cross = off.T @ centred
    spread = centred.T @ centred / rows
    off_spread = (cross + cross.T + off.T @ off) / rows + summed(rows, spread) + 2 * U * spread
    off_difference = off_mean + U * difference
    outer = np.outer(off_difference, difference)
    off_outer = outer + outer.T + np.outer(off_difference, off_difference)
    bounds = combine_moments_bound([mean, covariance, difference, spread, share], {}, y)
    return bounds[0] + share * off_difference, bounds[1] + share * (off_spread + off_outer)


def cases() -> list[OpCase]:
    found = []
    for columns in (0, 1, 7, 33, 65):

        def moments(v: Values, k: int = columns) -> list[np.ndarray]:
            base = small(v, k, k)
            return [small(v, k), base @ base.T]

        for share in (0.25, 1.0):
            make = lambda v, k=columns, s=share, of=moments: [  # noqa: E731
                *of(v), v.plain(k), v.plain(k, k).astype(np.float32), np.float32(s)
            ]  # fmt: skip
            found.append(OpCase("combine_moments", f"{columns}-{share}", make))
        for rows in (1, 5, 300):
            make = lambda v, k=columns, b=rows, of=moments: [*of(v), v.plain(b, k) + 1, np.float32(0.3)]  # noqa: E731
            found.append(OpCase("streaming_moments", f"{rows}x{columns}", make))
    moments_of = lambda v: [small(v, 8), small(v, 8, 8)]  # noqa: E731
    found += [
        OpCase(
            "combine_moments", "half", lambda v: [*moments_of(v), v.plain(8), v.plain(8, 8), np.float32(0.5)],
            dtype="float16",
        ),
        OpCase(
            "streaming_moments", "half", lambda v: [*moments_of(v), v.plain(6, 8), np.float32(0.5)], dtype="float16"
        ),
        OpCase("streaming_moments", "first", lambda v: [*map(np.zeros_like, moments_of(v)), 9 + v.plain(7, 8),
                                                        np.float32(1)]),
    ]  # fmt: skip
    return found
