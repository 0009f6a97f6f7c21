"""Gradients by central differences of the references, in float64, and the rows of the table that they are taken of."""

from __future__ import annotations

import numpy as np

from cases.reference import Attributes, Operands, evaluate
from cases.table import OpCase

#: Numbers in all operands of a row, at most, and elements of an operand that are moved.
MOST, MOVED = 4096, 48
#: How far: a power of 2, to which float32 adds small integers exactly. A quotient is off by the square of it times the
#: third derivative, and by rounding divided by it.
STEP = 2.0**-20


#: Operations whose gradients go straight through rounding: no differences have them.
STRAIGHT_THROUGH = ("dequantize_rows", "quantize_rows", "quantized_linear")


def result(op: str, operands: Operands, attributes: Attributes) -> np.ndarray:
    """The first result, in float64."""
    y = evaluate(op, operands, attributes)
    return y[0] if isinstance(y, tuple) else y


def is_taken(case: OpCase) -> bool:
    """Whether a row, of an operation with a derivative, has one at its operands, which are finite float32, as is y."""
    if not case.smooth or case.op in STRAIGHT_THROUGH:
        return False
    operands = case.operands()
    floats = [value for value in operands if value.dtype.kind == "f"]
    fits = 0 < sum(value.size for value in floats) <= MOST and all(value.size for value in operands)
    if not fits or not all(value.dtype == np.float32 and np.isfinite(value).all() for value in floats):
        return False
    return bool(np.isfinite(result(case.op, operands, case.attributes)).all())


def differences(
    op: str, operands: Operands, attributes: Attributes, place: int, g: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The gradient of `sum(g y)` in operand `place`, at some of its elements, and which these are."""
    moved = operands[place].astype(np.float64)
    rng = np.random.default_rng(place)
    chosen = rng.permutation(moved.size)[:MOVED]
    found = np.zeros(len(chosen))
    for number, element in enumerate(chosen):
        y = []
        for step in (STEP, -STEP):
            changed = moved.copy()
            changed.reshape(-1)[element] += step
            y.append(result(op, [*operands[:place], changed, *operands[place + 1 :]], attributes))
        found[number] = (g * (y[0] - y[1])).sum() / (2 * STEP)
    return found, chosen
