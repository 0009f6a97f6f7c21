"""How far a float32 result may be from the float64 reference: derived from the type and the number of terms.

`U` is half a unit in the last place of 1. A sum of n products may be off by `8 sqrt(2 n + 4) U` times the sum of their
magnitudes: n roundings of at most U each, of either sign, with a factor of 8 on their standard deviation. A function of
one number may be off by some units in the last place of its largest part; what these units are stands at each, in the
file of its family.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cases.reference import Attributes, Operands

U = 2.0**-24
TINY = 2.0**-126  # a denormal result may be 0
Bound = Callable[[Operands, Attributes, Any], Any]

#: By operation; the families' files fill both.
BOUNDS: dict[str, Bound] = {}
#: What a float16 call may lose beside the rounding of its result.
IN_HALF: dict[str, Callable[[Operands, Attributes], Any]] = {}


def bounded(function: Bound) -> Bound:
    """That of the operation whose name the function has, without `_bound`."""
    BOUNDS[function.__name__.removesuffix("_bound")] = function
    return function


def summed(terms: int, magnitude: np.ndarray) -> np.ndarray:
    return 8.0 * np.sqrt(2.0 * terms + 4.0) * U * magnitude


def exact(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    return np.zeros_like(y)


def rounded(units: float) -> Bound:
    """`units` units in the last place of the result."""
    return lambda operands, attributes, y: 2 * units * U * np.abs(y) + TINY


def bound(op: str, operands: Operands, attributes: Attributes, y: Any, half: bool) -> Any:
    """The bound of a result, of several a tuple; a float16 one is off by half a unit of float16 more."""
    wide = [value.astype(np.float64) if value.dtype.kind == "f" else value for value in operands]
    with np.errstate(all="ignore"):
        allowed = BOUNDS[op](wide, attributes, y)
        if half and op in IN_HALF:
            more = IN_HALF[op](wide, attributes)
            allowed = tuple(map(np.add, allowed, more)) if isinstance(allowed, tuple) else allowed + more
        if half and isinstance(y, tuple):
            return tuple(stored_in_half(*each) for each in zip(y, allowed, strict=True))
        return stored_in_half(y, allowed) if half else allowed


def stored_in_half(y: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    return allowed + 2.0**-11 * (np.abs(y) + allowed) + 2.0**-25
