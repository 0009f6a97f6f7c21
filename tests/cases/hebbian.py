"""Hebbian updates of weights, in place."""

from __future__ import annotations

import numpy as np

from cases.bounds import TINY, U, bounded, summed
from cases.reference import Attributes, Operands, reference
from cases.table import OpCase, Values, shape_name


@reference
def add_scaled(operands: Operands, attributes: Attributes) -> np.ndarray:
    total, x, factor = operands
    return total + factor * x


@bounded
def add_scaled_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """A product and a sum."""
    total, x, factor = map(np.abs, operands)
    return 2 * U * (total + 2 * factor * x) + TINY


@reference
def hebbian_update(operands: Operands, attributes: Attributes) -> np.ndarray:
    weight, x, rate, *inhibition = operands
    y = x @ weight.T
    inhibited = y.T @ y * (inhibition[0] if inhibition else 1.0)
    return weight + rate * (y.T @ x - inhibited @ weight) / max(len(x), 1)


@bounded
def hebbian_update_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """Errors of the activities, of both mean products of them, and of the product with the weight, one after another;
    a rounding of the share of a row in each mean.
    """
    weight, x, rate, *inhibition = map(np.abs, operands)
    rows = max(len(x), 1)
    units, columns = weight.shape
    active = x @ weight.T
    off = summed(columns, active)
    factors = inhibition[0] if inhibition else np.ones((units, units))
    gain, both = active.T @ x / rows, factors * (active.T @ active) / rows
    off_gain = off.T @ x / rows + summed(rows, gain) + 2 * U * gain
    off_both = factors * (off.T @ active + active.T @ off + off.T @ off) / rows + summed(rows, both) + 4 * U * both
    off_loss = off_both @ weight + summed(units, both @ weight)
    loss = both @ weight
    return rate * (off_gain + off_loss) + 4 * U * (weight + rate * (gain + loss)) + TINY


def small(v: Values, *shape: int) -> np.ndarray:
    return (v.plain(*shape) / 4).astype(np.float32)


def cases() -> list[OpCase]:
    found = []
    for shape in ((0,), (1,), (3, 5), (33, 65)):
        make = lambda v, s=shape: [small(v, *s), v.plain(*s), np.float32(0.3)]  # noqa: E731
        found.append(OpCase("add_scaled", shape_name(*shape), make))
    found += [
        OpCase("add_scaled", "not-finite", lambda v: [small(v, 5, 33), v.not_finite(5, 33), np.float32(-1.5)]),
        OpCase("add_scaled", "half", lambda v: [small(v, 3, 8), v.plain(3, 8), np.float32(0.3)], dtype="float16"),
    ]
    lower = lambda n: [np.tri(n, dtype=np.float32)]  # noqa: E731
    for units, rows, columns in ((0, 2, 3), (2, 0, 3), (1, 1, 1), (3, 5, 7), (8, 64, 32), (33, 31, 65), (5, 300, 33)):
        name = f"{rows}x{columns}-{units}"
        make = lambda v, n=units, b=rows, k=columns: [small(v, n, k), v.plain(b, k), np.float32(0.1)]  # noqa: E731
        found += [
            OpCase("hebbian_update", f"oja-{name}", make),
            OpCase("hebbian_update", f"sanger-{name}", lambda v, make=make, n=units: make(v) + lower(n)),
        ]
    half = lambda v: [small(v, 4, 8), v.plain(6, 8), np.float32(0.1), *lower(4)]  # noqa: E731
    found.append(OpCase("hebbian_update", "half", half, dtype="float16"))
    return found
