"""The highest scores of queries over the blocks of an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly import _core
from grilly.closed import closed
from grilly.errors import IndexOutOfRangeError, InvalidArgumentError, InvalidTypeError
from grilly.search.blocks import OnDevice
from grilly.search.texts import Texts
from grilly.search.vectors import Vectors

__all__ = ["Best", "best_of", "counted_rows", "places_of"]

#: Elements that a GPU's kernel chooses at most; more are chosen on the CPU.
MOST_CHOSEN = 1000


@closed()
@dataclass(frozen=True)
class Best:
    """Scores and numbers of rows `(Q, K)`."""

    scores: npt.NDArray[np.float32]
    rows: npt.NDArray[np.int64]

    def sorted(self) -> Best:
        """The highest scores first, of equal ones the lower number."""
        order = np.lexsort((self.rows, -self.scores), axis=1)
        return Best(np.take_along_axis(self.scores, order, axis=1), np.take_along_axis(self.rows, order, axis=1))

    def with_later(self, later: Best, count: int) -> Best:
        """The `count` best of these and of others, whose numbers are higher."""
        scores = np.concatenate([self.scores, later.scores], axis=1)
        rows = np.concatenate([self.rows, later.rows], axis=1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
        return Best(np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1))


def best_of(
    device: OnDevice, store: Vectors | Texts, queries: list[npt.NDArray[Any]], count: int, counted: Any
) -> Best:
    """The `count` highest scores of each query, over the rows that are counted, None for all.

    Args:
        device: Where rows are compared.
        store: The rows.
        queries: Their arrays, as the store has made them.
        count: At most the number of counted rows.
        counted: bool, one a row.
    """
    parts = list(store.parts(queries, device.scores // max(1, store.largest)))
    given = [store.ready([device.engine.upload(array) for array in part]) for part in parts]
    # Of each part of the queries: scores and rows of blocks that are still being computed, and the best before.
    best: list[Best | None] = [None] * len(parts)
    for first, rows, block in store:
        missing = -rows % device.whole if isinstance(store, Vectors) else 0
        mask = None
        if counted is not None or missing:
            own = np.zeros(rows + missing, np.int32)
            own[:rows] = 1 if counted is None else counted[first : first + rows]
            if not own.any():
                continue
            mask = device.engine.upload(own)
        arrays = device.arrays(first, block, missing)
        found = [chosen(store, part, arrays, mask, min(count, rows)) for part in given]
        for place, (scores, places) in enumerate(found):
            numbers = places.numpy()
            later = Best(scores.numpy(), np.where(numbers < 0, np.iinfo(np.int64).max, numbers + np.int64(first)))
            before = best[place]
            best[place] = later if before is None else before.with_later(later, count)
    done = [part for part in best if part is not None]
    return Best(np.concatenate([part.scores for part in done]), np.concatenate([part.rows for part in done]))


def chosen(
    store: Vectors | Texts, queries: list[_core.Array], block: list[_core.Array], mask: _core.Array | None, count: int
) -> tuple[_core.Array, _core.Array]:
    """The highest scores of a block and their places in it; those of places that are left out come last."""
    scores = store.scores(queries, block)
    if count > MOST_CHOSEN and scores.engine.backend != "cpu":
        engine = _core.engine("cpu")
        scores = engine.upload(scores.numpy())
        mask = None if mask is None else engine.upload(mask.numpy())
    found, places = store.call("top_k", scores, mask, count=count)
    return found, places


def counted_rows(removed: npt.NDArray[np.bool_], mask: Any) -> npt.NDArray[np.bool_] | None:
    """Which rows count, by a mask or by numbers, and are not removed; None for all."""
    if mask is None:
        return ~removed if removed.any() else None
    array = np.asarray(mask)
    if array.dtype.kind == "b":
        if array.shape != removed.shape:
            raise InvalidArgumentError(f"mask has shape {array.shape}, expected {removed.shape}, one a row")
        return array & ~removed
    counted = np.zeros(len(removed), np.bool_)
    counted[places_of(array, len(removed), "mask")] = True
    return counted & ~removed


def places_of(rows: Any, count: int, name: str) -> npt.NDArray[np.int64]:
    """Numbers of rows below `count`."""
    array = np.asarray(rows)
    if not array.size:
        return np.zeros(0, np.int64)
    if array.dtype.kind not in "iu":
        raise InvalidTypeError(f"{name} are of type {array.dtype}, expected integers")
    wrong = array[(array < 0) | (array >= count)]
    if wrong.size:
        raise IndexOutOfRangeError(f"{name} has {int(wrong[0])}, expected 0 to {count - 1}, the numbers of rows")
    return array.reshape(-1).astype(np.int64)
