"""Rows of floats as integers of three signed digits and an exponent, and products of them, whose sums are exact."""

import math
from dataclasses import dataclass

import numpy as np

from . import functions
from .arithmetic import NAN, F, add, canonical, floats, magnitude, mul, settle

#: The largest integer of three signed digits to base 256, each at most 127: 127 (65536 + 256 + 1).
LARGEST = 8_355_711
#: What a mantissa lacks to the next power of two where its integer would exceed LARGEST.
CARRY = 65_793
#: The exponent below which no balance goes.
LEAST_BALANCE = -250
#: Terms whose exact sum fits 64 bits.
TERMS = 131_072


@dataclass
class Rows:
    """Integers `q [rows, k]` with `x = q 2^(exponent - 22)`, and which rows have a NaN or an infinity."""

    q: np.ndarray
    exponent: np.ndarray
    bad: np.ndarray
    #: Of a weight, which is used often.
    halves: list[np.ndarray] | None = None


def rounded(x: np.ndarray, power: np.ndarray) -> np.ndarray:
    """`x 2^power` as integers, to nearest, ties to even; x float32 without infinities, the result below 2^53."""
    return np.rint(np.ldexp(x.astype(np.float64), np.clip(power, -700, 700).astype(np.int32))).astype(np.int64)


def integers(x, balance=0) -> Rows:
    """The integers of each row of `x [..., k]` whose columns are multiplied by `2^balance`, balance `[k]` or 0."""
    x = floats(x)
    size = magnitude(x)
    bad = (size >= 0x7F800000).any(axis=-1)
    held = (size >= 0x00800000) & ~bad[..., None]
    shifted = size.astype(np.int64) + (np.asarray(balance, np.int64) << 23)
    shifted = np.where(held, shifted, np.iinfo(np.int64).min)
    largest = shifted.max(axis=-1, initial=np.iinfo(np.int64).min)
    some = held.any(axis=-1)
    exponent = np.where(some, ((np.where(some, largest, 0) + CARRY) >> 23) - 127, 0)
    q = rounded(np.where(held, x, F(0)), balance + 22 - exponent[..., None])
    assert np.abs(q).max(initial=0) <= LARGEST and np.abs(largest[some]).max(initial=0) < 2**31 - CARRY
    return Rows(q, exponent, bad)


def balance(weight) -> np.ndarray:
    """The exponents `[k]`, at most 0, by which columns of a weight [n, k] are below most others."""
    largest = (magnitude(weight) >> np.uint32(23)).max(axis=0, initial=0).astype(np.int64)
    known = np.sort(largest[largest > 0])
    # Nine tenths of the columns are not above it.
    others = known[9 * (len(known) - 1) // 10] if len(known) else 0
    powers = np.clip(largest - others, LEAST_BALANCE, 0)
    return np.where(largest > 0, powers, LEAST_BALANCE)


def halves(w: np.ndarray) -> list[np.ndarray]:
    """`w^T` of integers of at most 24 bits [..., n, k] as float64, its upper bits and its lower 12."""
    w = np.swapaxes(w, -1, -2)
    upper = w >> 12
    return [upper.astype(np.float64), (w - (upper << 12)).astype(np.float64)]


def dots(x: np.ndarray, w: list[np.ndarray]) -> np.ndarray:
    """`x w^T` of integers [..., m, k] and the halves of others, exact: as int64, or as Python's where that may not fit.

    Products are of 23 and 12 bits, so that every partial sum of up to TERMS in float64 is below 2^53.
    """
    count = x.shape[-1]
    if count > TERMS:
        parts = [np.s_[i : i + 32_768] for i in range(0, count, 32_768)]
        return sum(dots(x[..., part], [half[..., part, :] for half in w]).astype(object) for part in parts)
    high, low = ((x.astype(np.float64) @ half).astype(np.int64) for half in w)
    return (high << 12) + low


def assemble(sums: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """`sums 2^exponent` as float32, rounded once to 24 bits; then infinite from 2^128 on and zero below 2^-126."""
    if sums.dtype == object:
        pairs = np.broadcast(sums, exponent)
        return floats([assembled(int(s), int(e)) for s, e in pairs]).reshape(pairs.shape)
    size = np.abs(sums).astype(np.uint64)
    # Bits of the size; float64 may round it up to the next power of two.
    length = np.frexp(size.astype(np.float64))[1].astype(np.int64)
    length -= (size >> np.maximum(length - 1, 0).astype(np.uint64) == 0) & (length > 0)
    drop = np.maximum(length - 24, 0).astype(np.uint64)
    kept, rest, half = (
        size >> drop,
        size & ((np.uint64(1) << drop) - np.uint64(1)),
        (np.uint64(1) << drop) >> np.uint64(1),
    )
    kept = kept + ((drop > 0) & ((rest > half) | ((rest == half) & (kept & np.uint64(1) == 1))))
    power = np.clip(exponent + drop.astype(np.int64), -800, 800).astype(np.int32)
    exact = np.ldexp(kept.astype(np.float64), power)
    y = np.where(exact >= 2.0**128, np.inf, np.where(exact < 2.0**-126, 0.0, exact))
    return np.where(sums < 0, -y, y).astype(F)


def assembled(total: int, exponent: int) -> float:
    """As `assemble`, of one of Python's integers."""
    size = abs(total)
    drop = max(size.bit_length() - 24, 0)
    kept, rest = size >> drop, size & ((1 << drop) - 1)
    kept += drop > 0 and 2 * rest + (kept & 1) > 1 << drop
    top = kept.bit_length() + exponent + drop
    y = np.inf if size and top > 128 else 0.0 if top < -125 else float(kept) * 2.0 ** (exponent + drop)
    return -y if total < 0 else y


def product(x: Rows, w: Rows) -> np.ndarray:
    """`x w^T` of rows of integers, NaN where a row has a NaN or an infinity."""
    exponent = x.exponent[..., :, None] + w.exponent[..., None, :] - 44
    y = assemble(dots(x.q, halves(w.q) if w.halves is None else w.halves), exponent)
    return np.where(x.bad[..., :, None] | w.bad[..., None, :], NAN, y)


class Weight:
    """A weight [n, k] as integers, and the powers of two by which it divides its columns."""

    def __init__(self, weight):
        self.powers = balance(weight)
        self.rows = integers(weight, -self.powers)
        self.rows.halves = halves(self.rows.q)


def linear(x, weight, bias=None, activation=None, residual=None, **parameters) -> np.ndarray:
    """`act(x W^T + bias) + residual`; x [..., k], weight [n, k]."""
    x, weight = floats(x), weight if isinstance(weight, Weight) else Weight(floats(weight))
    y = product(integers(x.reshape(math.prod(x.shape[:-1]), x.shape[-1]), weight.powers), weight.rows)
    y = y.reshape(*x.shape[:-1], len(weight.rows.q))
    if bias is not None:
        y = add(settle(y), settle(bias))
    if activation is not None:
        y = functions.apply(activation, y, **parameters)
    if residual is not None:
        y = add(settle(y), settle(residual))
    return canonical(y)


def matmul(a, b, alpha=None) -> np.ndarray:
    """`alpha a b` of computed operands [..., m, k] and [..., k, n], without a balance."""
    y = product(integers(a), integers(np.swapaxes(floats(b), -1, -2)))
    return canonical(y if alpha is None else mul(settle(y), settle(alpha)))
