"""Few cases that still have every two values of different factors together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

Row = dict[str, Any]


def pairwise(factors: Mapping[str, Sequence[Any]], allowed: Callable[[Row], bool] = lambda row: True) -> list[Row]:
    """Rows that hold every allowed pair of values at least once: a greedy choice, the same every time.

    `allowed` judges rows that may lack some factors; what it allows in part must have an allowed rest.
    """
    open_pairs = {
        ((a, x), (b, y)): None
        for a, b in combinations(factors, 2)
        for x in factors[a]
        for y in factors[b]
        if allowed({a: x, b: y})
    }
    rows = []
    while open_pairs:
        row: Row = dict(next(iter(open_pairs)))
        for name in factors:
            if name not in row:
                fits = [value for value in factors[name] if allowed({**row, name: value})]
                row[name] = max(
                    fits, key=lambda value: sum(p in open_pairs for p in pairs_of(row, name, value, factors))
                )
        row = {name: row[name] for name in factors}
        for pair in combinations(row.items(), 2):
            open_pairs.pop(pair, None)
        rows.append(row)
    return rows


def pairs_of(row: Row, name: str, value: Any, factors: Mapping[str, Sequence[Any]]) -> list[Any]:
    """The pairs that a value makes with those already chosen, in the factors' order."""
    order = list(factors)
    return [
        tuple(sorted(((other, chosen), (name, value)), key=lambda item: order.index(item[0])))
        for other, chosen in row.items()
    ]
