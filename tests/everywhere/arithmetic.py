"""float32 arithmetic that every device can repeat: one rounding per operation, no number below 2^-126, one NaN, +0.

Arrays are float32 throughout; each NumPy operation on them is one correctly rounded IEEE operation.
"""

from collections.abc import Callable
from functools import wraps

import numpy as np

F = np.float32
#: The bits of the one NaN.
NAN = np.uint32(0x7FC00000).view(F)
INFINITY = F(np.inf)
#: Smaller numbers are zero: sums of the others are multiples of 2^-123, which no processor flushes.
LEAST_BITS = np.uint32(0x0D800000)
#: Partial sums of a row.
LANES = 64


def quiet(function: Callable) -> Callable:
    """Without NumPy's warnings of overflows and invalid operations."""

    @wraps(function)
    def silenced(*given, **options):
        with np.errstate(all="ignore"):
            return function(*given, **options)

    return silenced


def floats(x) -> np.ndarray:
    return np.asarray(x, F)


def bits(x) -> np.ndarray:
    return floats(x).view(np.uint32)


def magnitude(x) -> np.ndarray:
    """The bits of |x|."""
    return bits(x) & np.uint32(0x7FFFFFFF)


def settle(x) -> np.ndarray:
    """`x`, or +0 where |x| < 2^-100."""
    return np.where(magnitude(x) < LEAST_BITS, F(0), floats(x))


def canonical(x) -> np.ndarray:
    """`x` with one NaN, as results are stored."""
    return np.where(magnitude(x) > 0x7F800000, NAN, floats(x))


@quiet
def mul(a, b) -> np.ndarray:
    return settle(floats(a) * floats(b))


@quiet
def div(a, b) -> np.ndarray:
    return settle(floats(a) / floats(b))


@quiet
def root(a) -> np.ndarray:
    """The correctly rounded square root; NaN below 0."""
    return np.sqrt(floats(a))


@quiet
def add(a, b) -> np.ndarray:
    return floats(a) + floats(b)


@quiet
def sub(a, b) -> np.ndarray:
    return floats(a) - floats(b)


@quiet
def larger(a, b) -> np.ndarray:
    """`a > b ? a : b`"""
    a, b = np.broadcast_arrays(floats(a), floats(b))
    return np.where(a > b, a, b)


@quiet
def smaller(a, b) -> np.ndarray:
    """`a < b ? a : b`"""
    a, b = np.broadcast_arrays(floats(a), floats(b))
    return np.where(a < b, a, b)


@quiet
def total(terms) -> np.ndarray:
    """The sum along the last axis: lane l of 64 adds terms l, l + 64, ... in order; lanes are then added by halves."""
    terms = floats(terms)
    count = terms.shape[-1]
    padded = np.zeros((*terms.shape[:-1], -(-count // LANES) * LANES), F)
    padded[..., :count] = terms
    lanes = np.zeros((*terms.shape[:-1], LANES), F)
    for first in range(0, count, LANES):
        lanes = lanes + padded[..., first : first + LANES]
    step = LANES // 2
    while step:
        lanes = lanes[..., :step] + lanes[..., step:]
        step //= 2
    return lanes[..., 0]
