"""A call that a report checks: its operands, its results in float64, and how far these may be off."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from grilly.closed import closed
from grilly.report import attention, gathering, products  # noqa: F401
from grilly.report.references import BOUNDS, REFERENCES, Array, Attributes, Operands

__all__ = ["UNITS", "Row", "Values"]

#: Half a unit in the last place of 1, and half the smallest step.
UNITS = {"float16": (2.0**-11, 2.0**-25), "bfloat16": (2.0**-8, 2.0**-134)}


@closed()
class Values:
    """Operands that depend on a row's name alone.

    Example:
        >>> from grilly.report.row import Values
        >>> Values("softmax-3x65", "float32").plain(3, 65).shape
        (3, 65)
    """

    def __init__(self, name: str, dtype: str) -> None:
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.dtype = "float16" if dtype == "bfloat16" else dtype

    def plain(self, *shape: int) -> Array:
        """Numbers of about -2 .. 2."""
        return np.asarray(2 * (self.rng.random(shape) + self.rng.random(shape) - 1), dtype=self.dtype)

    def positive(self, *shape: int) -> Array:
        """Numbers of 0.25 .. 1.25."""
        return np.asarray(self.rng.random(shape) + 0.25, dtype=self.dtype)

    def bits(self, *shape: int) -> Array:
        """Zeros and ones, as integers."""
        return np.asarray(self.rng.random(shape) < 0.6, dtype=np.int32)

    def ids(self, most: int, *shape: int) -> Array:
        """Integers from 0 to below `most`."""
        return np.asarray(self.rng.integers(0, most, shape), dtype=np.int32)

    def bytes(self, *shape: int) -> Array:
        """Integers of 8 bits, of either sign."""
        return np.asarray(self.rng.integers(-128, 128, shape), dtype=np.int8)


@closed()
@dataclass(frozen=True)
class Row:
    """One call of an operation.

    Example:
        >>> from grilly.report.rows import ROWS
        >>> row = next(row for row in ROWS if row.name == "binary-divide-3x65-65")
        >>> expected = row.expected()
        >>> float(row.allowed(expected)[0].max()) < 1e-5
        True
    """

    operation: str
    case: str
    make: Callable[[Values], list[Array]]
    attributes: Attributes = field(default_factory=dict)
    #: bfloat16, which NumPy has not, is the row of float16 rounded once more.
    dtype: str = "float32"

    @property
    def name(self) -> str:
        """The row's name in the table."""
        return f"{self.operation}-{self.case}"

    @property
    def label(self) -> str:
        """The same with the type that NumPy has not."""
        return self.name + ("-bfloat16" if self.dtype == "bfloat16" else "")

    def operands(self) -> list[Array]:
        """The operands, as they are uploaded; those of bfloat16 in float32."""
        found = self.make(Values(self.name, self.dtype))
        return [bfloat16(x) for x in found] if self.dtype == "bfloat16" else found

    def wide(self) -> Operands:
        """The operands, those of floats in float64."""
        return [x.astype(float) if x.dtype.kind == "f" else x for x in self.operands()]

    def expected(self) -> tuple[Array, ...]:
        """The results as float64 NumPy computes them."""
        found = REFERENCES[self.operation](self.wide(), self.attributes)
        return found if isinstance(found, tuple) else (np.asarray(found),)

    def allowed(self, expected: tuple[Array, ...]) -> tuple[Array, ...]:
        """How far from these each element of a result may be."""
        y: Any = expected if len(expected) > 1 else expected[0]
        found = BOUNDS[self.operation](self.wide(), self.attributes, y)
        found = found if isinstance(found, tuple) else (found,)
        if self.dtype in UNITS:
            unit, step = UNITS[self.dtype]
            more = attention.in_half(self.wide(), self.attributes) if self.operation == "attention" else 0.0
            found = tuple(
                off + more + unit * (np.abs(y) + off + more) + step for y, off in zip(expected, found, strict=True)
            )
        return found


def bfloat16(x: Array) -> Any:
    """Numbers rounded to the nearest of bfloat16, ties to even."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> np.uint64(16) & np.uint64(1))) & np.uint64(0xFFFF0000)
    return rounded.astype(np.uint32).view(np.float32)
