"""What search is made of: the largest elements of rows, and scores of texts with a vector for each token."""

from __future__ import annotations

import numpy as np

from cases.attending import offsets
from cases.bounds import TINY, bounded, summed
from cases.reference import Attributes, Operands, evaluate, reference
from cases.table import OpCase, Values, shape_name


@reference
def top_k(operands: Operands, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """Of equal elements the first; NaN counts as the largest."""
    x, *mask = operands
    out = np.broadcast_to((mask[0] == 0) if mask else False, x.shape)
    missing = np.isnan(x) & ~out
    ranked = np.where(missing, np.inf, np.where(out, -np.inf, x))
    order = np.lexsort((np.broadcast_to(np.arange(x.shape[-1]), x.shape), -ranked, ~missing, out), axis=-1)
    order = order[..., : attributes["count"]]
    absent = np.take_along_axis(out, order, axis=-1)
    values = np.where(absent, -np.inf, np.take_along_axis(x, order, axis=-1))
    return values + 0.0, np.where(absent, -1, order).astype(np.float64)


@bounded
def top_k_bound(operands: Operands, attributes: Attributes, y: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Elements are copied."""
    return np.zeros_like(y[0]), np.zeros_like(y[1])


@reference
def max_sim(operands: Operands, attributes: Attributes) -> np.ndarray:
    queries, documents, *starts = operands
    return max_sum([queries @ documents.T, *starts], attributes)


@reference
def max_sum(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, row_starts, column_starts = operands
    y = np.zeros((len(row_starts) - 1, len(column_starts) - 1))
    for j, (first, end) in enumerate(zip(column_starts[:-1], column_starts[1:])):
        largest = x[:, first:end].max(axis=1, initial=-np.inf)
        sums = [largest[start:stop].sum() for start, stop in zip(row_starts[:-1], row_starts[1:])]
        y[:, j] = sums if end > first else -1e9
    return y


@bounded
def max_sum_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """As if every maximum were of the largest magnitudes."""
    x, *starts = operands
    most = int(np.diff(starts[0]).max(initial=0))
    return summed(most, np.maximum(max_sum([np.abs(x), *starts], attributes), 0)) + TINY


@bounded
def max_sim_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """As if every maximum were of the largest magnitudes."""
    queries, documents, *starts = operands
    most = int(np.diff(starts[0]).max(initial=0))
    magnitude = evaluate("max_sim", [np.abs(queries), np.abs(documents), *starts], attributes)
    return summed(queries.shape[1] + most, np.maximum(magnitude, 0)) + TINY


def texts(v: Values, depth: int, queries: tuple[int, ...], documents: tuple[int, ...]) -> list[np.ndarray]:
    """Vectors of texts with so many rows each."""
    return [v.plain(sum(queries), depth), v.plain(sum(documents), depth), offsets(*queries), offsets(*documents)]


def parts(x: np.ndarray, rows: tuple[int, ...], columns: tuple[int, ...]) -> list[np.ndarray]:
    """A matrix in parts of so many rows and of so many columns."""
    return [x, offsets(*rows), offsets(*columns)]


def cases() -> list[OpCase]:
    found = []
    for shape, count in (((0, 5), 2), ((1, 1), 1), ((3, 7), 7), ((5, 65), 10), ((2, 3, 1025), 1), ((2, 4097), 1000)):
        found.append(
            OpCase("top_k", f"{shape_name(*shape)}-{count}", lambda v, s=shape: [v.plain(*s)], {"count": count})
        )
    # Rows that rise, so that every step has new candidates; equal elements; parts that are joined.
    rising = np.float32(np.arange(9000) // 3).reshape(1, -1)
    found += [
        OpCase("top_k", "rising", lambda v: [rising], {"count": 700}),
        OpCase("top_k", "equal", lambda v: [np.zeros((2, 70_000), np.float32)], {"count": 5}),
        OpCase("top_k", "parts", lambda v: [np.round(v.plain(1, 140_000), 3)], {"count": 100}),
        OpCase("top_k", "not-finite", lambda v: [v.not_finite(5, 65)], {"count": 65}),
        OpCase("top_k", "float16", lambda v: [v.plain(3, 40)], {"count": 5}, dtype="float16"),
        OpCase("top_k", "masked", lambda v: [v.plain(3, 5000), v.bits(5000)], {"count": 1000}),
        OpCase("top_k", "few-left", lambda v: [v.plain(3, 70), np.int32(np.arange(70) % 20 == 3)], {"count": 9}),
    ]
    # Around tiles of 32 rows of queries, of 64 and of 16 rows of documents; depths around quads and steps.
    documents = (0, 1, 15, 16, 17, 63, 64, 65, 130, 3)
    for depth, queries in (
        (1, (3,)),
        (31, (0, 5, 33)),
        (32, (1, 32, 2)),
        (128, (32, 31, 70)),
        (96, (4,)),
        (200, (9, 9)),
    ):
        make = lambda v, d=depth, q=queries: texts(v, d, q, documents)  # noqa: E731
        found.append(OpCase("max_sim", f"{depth}-{shape_name(*queries)}", make))
    many = tuple(int(n) for n in np.random.default_rng(7).integers(1, 40, 70))
    for depth in (16, 128):
        make = lambda v, d=depth: texts(v, d, (32, 7, 33, 1, 16, 5, 8, 2, 3), many)  # noqa: E731
        found += [
            OpCase("max_sim", f"many-{depth}", make),
            OpCase("max_sim", f"many-{depth}-float16", make, dtype="float16"),
        ]
    none = lambda v: texts(v, 8, (0, 0), (3, 0, 2))  # noqa: E731
    found += [OpCase("max_sim", "no-rows", none), OpCase("max_sim", "no-texts", lambda v: texts(v, 8, (5,), ()))]
    few = lambda v: texts(v, 64, (5,), (3, 4))  # noqa: E731
    found.append(OpCase("max_sim", "few-rows-float16", few, dtype="float16"))
    # Around the eight rows that are met together, and 64 columns.
    for rows, columns in (((3,), (5,)), ((0, 7, 8, 9, 33), documents), ((2, 0), (0, 0)), ((5,), ()), ((0,), (3, 4))):
        name = f"{shape_name(*rows)}-{shape_name(*columns)}"
        make = lambda v, r=rows, c=columns: parts(v.plain(sum(r), sum(c)), r, c)  # noqa: E731
        found.append(OpCase("max_sum", name, make))
    narrow = lambda v: parts(v.plain(3, 5), (1, 2), (5, 0))  # noqa: E731
    found.append(OpCase("max_sum", "float16", narrow, dtype="float16"))
    return [*found, OpCase("max_sum", "not-finite", lambda v: parts(v.not_finite(24, 81), (20, 4), (64, 1, 16)))]
