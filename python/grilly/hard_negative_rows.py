"""Pairs of query and answer, and the rows that they and mined negatives make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.errors import InvalidArgumentError

__all__ = ["FORMATS", "MAKERS", "Mined", "Pairs"]

FORMATS = ("triplet", "n-tuple", "labeled-pair", "labeled-list")
Floats = npt.NDArray[Any]
Places = npt.NDArray[np.int64]


@closed()
@dataclass
class Pairs:
    """Distinct queries and documents, and for each query the places of its answers."""

    names: tuple[str, str]
    queries: list[str]
    documents: list[str]
    answers: list[list[int]]
    #: The most rows that one query has.
    most: int

    @classmethod
    def of(cls, dataset: Any, anchor: str | None, answer: str | None, corpus: list[str] | None) -> Pairs:
        """Those of a data set."""
        columns = list(dataset) if isinstance(dataset, dict) else list(dataset.column_names)
        if len(columns) < 2 or not len(dataset[columns[0]]):
            raise InvalidArgumentError(f"dataset has columns {columns}, expected two with at least one row")
        names = anchor if anchor in columns else columns[0], answer if answer in columns else columns[1]
        anchors, positives = (list(dataset[name]) for name in names)
        documents = list(dict.fromkeys([*(corpus or ()), *positives]))
        places = {text: place for place, text in enumerate(documents)}
        answers: dict[str, dict[int, None]] = {}
        for query, text in zip(anchors, positives, strict=True):
            answers.setdefault(query, {})[places[text]] = None
        most = max(Counter(anchors).values())
        named = (str(names[0]), str(names[1]))
        return cls(named, list(answers), documents, [list(each) for each in answers.values()], most)

    def scored(self, cross_encoder: Any, scores: Floats, places: Places, batch_size: int) -> tuple[Floats, Floats]:
        """The scores of a CrossEncoder, of candidates and of answers."""
        candidates = [
            (query, self.documents[place])
            for query, row in zip(self.queries, places.tolist(), strict=True)
            for place in row
        ]
        answers = [
            (query, self.documents[place])
            for query, row in zip(self.queries, self.answers, strict=True)
            for place in row
        ]
        found = np.asarray(cross_encoder.predict(candidates + answers, batch_size=batch_size))
        return found[: len(candidates)].reshape(scores.shape), found[len(candidates) :]


@closed()
@dataclass
class Mined:
    """Pairs with their scores, and negatives with theirs; -inf where there is none."""

    pairs: Pairs
    known: Floats
    scores: Floats
    places: Places

    def rows(self) -> Iterator[tuple[str, str, float, list[tuple[str, float]]]]:
        """Query, answer, its score, and the negatives with theirs."""
        known = iter(self.known.tolist())
        for query, answers, row, places in zip(
            self.pairs.queries, self.pairs.answers, self.scores, self.places, strict=True
        ):
            texts = [
                (self.pairs.documents[place], score) for place, score in zip(places.tolist(), row.tolist(), strict=True)
            ]
            for answer in answers:
                yield query, self.pairs.documents[answer], next(known), [each for each in texts if each[1] > -np.inf]


def triplets(mined: Mined, scored: bool) -> dict[str, list[Any]]:
    """A row for each negative."""
    rows = [
        (query, answer, text, [known, score]) for query, answer, known, found in mined.rows() for text, score in found
    ]
    return columns([*mined.pairs.names, "negative", "scores"], rows, scored)


def tuples(mined: Mined, scored: bool) -> dict[str, list[Any]]:
    """A row for each answer that has all negatives."""
    count = mined.scores.shape[1]
    rows = [
        (query, answer, *(text for text, _ in found), [known, *(score for _, score in found)])
        for query, answer, known, found in mined.rows()
        if len(found) == count
    ]
    return columns([*mined.pairs.names, *(f"negative_{each + 1}" for each in range(count)), "scores"], rows, scored)


def labelled_pairs(mined: Mined, scored: bool) -> dict[str, list[Any]]:
    """A row for each answer and each negative of a query."""
    rows: list[Any] = []
    by_query: dict[str, list[Any]] = {}
    for row in mined.rows():
        by_query.setdefault(row[0], []).append(row)
    for query, of_query in by_query.items():
        rows += [(query, answer, known if scored else 1) for _, answer, known, _ in of_query]
        rows += [(query, text, score if scored else 0) for text, score in of_query[0][3]]
    return columns([*mined.pairs.names, "score" if scored else "label"], rows, True)


def labelled_lists(mined: Mined, scored: bool) -> dict[str, list[Any]]:
    """A row for each answer that has negatives: lists of documents and of their labels."""
    rows = [
        (
            query,
            [answer, *(text for text, _ in found)],
            [known, *(score for _, score in found)] if scored else [1] + [0] * len(found),
        )
        for query, answer, known, found in mined.rows()
        if found
    ]
    return columns([*mined.pairs.names, "scores" if scored else "labels"], rows, True)


def columns(names: list[str], rows: list[Any], last: bool) -> dict[str, list[Any]]:
    """Rows as columns, with the last one or without it."""
    return {name: [row[place] for row in rows] for place, name in enumerate(names if last else names[:-1])}


MAKERS: dict[str, Callable[[Mined, bool], dict[str, list[Any]]]] = dict(
    zip(FORMATS, (triplets, tuples, labelled_pairs, labelled_lists), strict=True)
)
