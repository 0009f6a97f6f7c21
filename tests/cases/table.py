"""What a row of the op-case table is, and how operands are made."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: One below, at and above the tiles and work groups of the kernels.
WIDTHS = (1, 2, 3, 7, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025)
ROWS = (0, 1, 2, 31, 33, 65)
#: Rows of float16 that kernels read four elements at a time: around work groups, and longer than registers hold. Others
#: are widened.
HALF_WIDTHS = (4, 8, 1000, 1024, 1028, 9000)
#: Of rows that 64, 128 and 256 lanes share, and that are in parts.
LONG_WIDTHS = (1154, 1280, 3001, 8200, 12_289, 20_000)

Make = Callable[["Values"], list[np.ndarray]]


class Values:
    """Operands that depend on the case's name alone."""

    def __init__(self, name: str, dtype: str = "float32"):
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.dtype = dtype

    def plain(self, *shape: int) -> np.ndarray:
        """About -2 .. 2."""
        return (2 * (self.rng.random(shape) + self.rng.random(shape) - 1)).astype(self.dtype)

    def positive(self, *shape: int) -> np.ndarray:
        return (self.rng.random(shape) + 0.25).astype(self.dtype)

    def outliers(self, *shape: int) -> np.ndarray:
        """Plain, with a column a thousand times as large, as transformers have."""
        x = self.plain(*shape)
        x[..., shape[-1] // 2] *= 1000
        return x

    def not_finite(self, *shape: int) -> np.ndarray:
        """Plain, with a NaN in the last row and infinities of either sign in those before."""
        x = self.plain(*shape)
        rows = x.reshape(-1, shape[-1])
        for row, value in zip((-1, -2, -3), (np.nan, np.inf, -np.inf)):
            if len(rows) >= -row:
                rows[row, (3 * -row) % shape[-1]] = value
        return x

    def ids(self, most: int, *shape: int) -> np.ndarray:
        return self.rng.integers(0, most, shape).astype(np.int32)

    def bits(self, *shape: int) -> np.ndarray:
        return (self.rng.random(shape) < 0.6).astype(np.int32)


@dataclass(frozen=True)
class OpCase:
    """One call of a primitive operation, to be held against its reference."""

    op: str
    name: str
    make: Make
    attributes: dict[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    #: Whether the operation has a derivative at these operands, and differences in float64 show it: tests of gradients
    #: take such rows (gradients.py).
    smooth: bool = True
    #: The function of `grilly.functional` that takes the same operands and attributes, if the row is its test, too.
    function: str | None = None

    @property
    def id(self) -> str:
        return f"{self.op}-{self.name}"

    def operands(self) -> list[np.ndarray]:
        return [np.asarray(value) for value in self.make(Values(self.id, self.dtype))]


def shape_name(*shape: int) -> str:
    return "x".join(map(str, shape))


def rows_and_widths() -> list[tuple[int, int]]:
    """Every width at 3 rows and every number of rows at 65 columns."""
    return [(3, width) for width in WIDTHS] + [(rows, 65) for rows in ROWS]
