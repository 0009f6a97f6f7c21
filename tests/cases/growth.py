"""Units that are added to a layer, in place."""

from __future__ import annotations

import numpy as np

from cases.bounds import TINY, U, bounded, summed
from cases.reference import Attributes, Operands, reference
from cases.table import OpCase, Values

Results = tuple[np.ndarray, ...]


@reference
def grow_unit(operands: Operands, attributes: Attributes) -> Results:
    weight, units, residual, energy, left, total = operands
    threshold = np.float64(np.float32(attributes.get("threshold", 1e-3)))
    weight = weight.copy()
    seen = np.where(energy > 0, energy, 0.0)
    if left > threshold * total and 0 <= units < len(weight) and seen.max(initial=0.0) > 0:
        row = int(seen.argmax())
        weight[int(units)] = residual[row] / np.sqrt(seen[row])
        units = units + 1
    return weight, np.asarray(units), np.asarray(left / total if total > 0 else 0.0)


@bounded
def grow_unit_bound(operands: Operands, attributes: Attributes, y: Results) -> Results:
    """A root and a division of a new row, for which Vulkan allows some units in the last place; a division."""
    made = np.where(y[0] == operands[0], 0.0, 20 * U * np.abs(y[0]) + TINY)
    return made, np.zeros_like(y[1]), 8 * U * np.abs(y[2]) + TINY


def left_over(operands: Operands) -> Operands:
    """The operands of the growth that the residual of Oja's rule leads to."""
    weight, units, x = operands
    residual = x - x @ weight.T @ weight
    energy = (residual**2).sum(axis=1)
    return [weight, units, residual, energy, energy.sum(), np.asarray((x**2).sum())]


@reference
def neurogenesis(operands: Operands, attributes: Attributes) -> Results:
    return grow_unit(left_over(operands), attributes)


@bounded
def neurogenesis_bound(operands: Operands, attributes: Attributes, y: Results) -> Results:
    """The error of the residual, of its norm, and of its energy beside that of the data."""
    weight, units, x = operands
    capacity, columns = weight.shape
    _, _, residual, energy, left, total = left_over(operands)
    active = np.abs(x) @ np.abs(weight).T
    known = active @ np.abs(weight)
    off = summed(columns, active) @ np.abs(weight) + summed(capacity, known) + U * (np.abs(residual) + known)
    made, still, share = grow_unit_bound([weight, units, residual, energy, left, total], attributes, y)
    if y[1] != units:
        row, norm = int(energy.argmax()), np.sqrt(energy.max())
        relative = np.linalg.norm(off[row]) / norm + summed(2 * columns, np.float64(1.0))
        made[int(units)] += off[row] / norm + np.abs(residual[row]) / norm * relative
    squares = 2 * np.abs(residual) * off + off**2
    share += squares.sum() / total if total > 0 else 0.0
    return made, still, share + 2 * summed(2 * x.size, np.abs(y[2]))


def units_of(v: Values, units: int, capacity: int, columns: int) -> np.ndarray:
    """Rows of length 1, at right angles if they are not too many, then zeros."""
    found = np.zeros((capacity, columns), np.float32)
    if columns:
        found[:units] = np.linalg.qr(v.rng.standard_normal((columns, columns)))[0][np.arange(units) % columns]
    return found


def growing(v: Values, units: int, capacity: int, rows: int, columns: int) -> list[np.ndarray]:
    weight = units_of(v, units, capacity, columns)
    return [weight, np.float32(units), v.plain(rows, columns)]


def cases() -> list[OpCase]:
    found = []
    sizes = ((0, 3, 5, 7), (1, 1, 5, 3), (2, 4, 33, 31), (3, 3, 5, 8), (7, 64, 300, 65), (1, 2, 0, 3), (1, 2, 3, 0))
    for units, capacity, rows, columns in sizes:
        name = f"{units}-{capacity}-{rows}x{columns}"
        make = lambda v, size=(units, capacity, rows, columns): growing(v, *size)  # noqa: E731
        found += [
            OpCase("neurogenesis", name, make),
            OpCase("grow_unit", name, lambda v, make=make: single(left_over(make(v)))),
        ]
    equal = np.float32([[0, 3], [0, -3], [1, 0]])
    energy = np.float32([9, 9, 1])
    weight = np.zeros((2, 2), np.float32)
    numbers = lambda *values: [np.float32(value) for value in values]  # noqa: E731
    found += [
        OpCase("grow_unit", "first-of-equals", lambda v: [weight, *numbers(1), equal, energy, *numbers(19, 19)]),
        OpCase(
            "grow_unit", "below", lambda v: [weight, *numbers(1), equal, energy, *numbers(19, 20)], {"threshold": 1}
        ),
        OpCase("grow_unit", "nothing", lambda v: [weight, *numbers(0), 0 * equal, 0 * energy, *numbers(0, 0)]),
        OpCase(
            "grow_unit",
            "not-finite",
            lambda v: [weight, *numbers(0), equal, np.float32([np.nan, 4, 1]), *numbers(np.nan, np.nan)],
        ),
        OpCase("neurogenesis", "known", lambda v: known(v), {"threshold": 0.01}),
        OpCase("neurogenesis", "half", lambda v: growing(v, 1, 3, 6, 8), dtype="float16"),
        OpCase("grow_unit", "half", lambda v: halves(v), dtype="float16"),
    ]
    return found


def single(operands: Operands) -> list[np.ndarray]:
    return [np.asarray(value, np.float32) for value in operands]


def halves(v: Values) -> list[np.ndarray]:
    weight, units, residual, *numbers = single(left_over(growing(v, 1, 3, 6, 8)))
    return [weight, units, residual.astype(np.float16), *numbers]


def known(v: Values) -> list[np.ndarray]:
    """Rows that the units span."""
    weight = units_of(v, 2, 4, 9)
    return [weight, np.float32(2), v.plain(6, 4) @ weight]
