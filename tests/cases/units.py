"""What every bound is made of: units in the last place, and sums of rounded terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cases.kinds import Attributes, Operands

U = 2.0**-24
TINY = 2.0**-126  # a denormal result may be 0
Bound = Callable[[Operands, Attributes, Any], Any]


def summed(terms: int, magnitude: np.ndarray) -> np.ndarray:
    return 8.0 * np.sqrt(2.0 * terms + 4.0) * U * magnitude


def exact(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    return np.zeros_like(y)


def rounded(units: float) -> Bound:
    """`units` units in the last place of the result."""
    return lambda operands, attributes, y: 2 * units * U * np.abs(y) + TINY
