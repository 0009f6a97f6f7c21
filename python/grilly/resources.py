"""Memory of the host, asked before large arrays are made, and products in pieces, between which Ctrl-C ends them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly import _core

__all__ = ["need", "row_products"]

#: Bytes from which on the system is asked whether it has so many.
MANY = 64 << 20
#: Multiplications and additions of one call: some hundredths of a second. A handler of a signal runs between two calls.
LONG = 1 << 31
#: Numbers of one call, whose memory takes as long to get.
LARGE = 1 << 24
#: Rows of a product that are computed together: with multiples of them OpenBLAS has the bits of the whole product.
STEP = 96


def need(shape: int | Iterable[int], dtype: Any, purpose: str) -> None:
    """Refuses an array that memory does not hold, before it is made.

    Args:
        shape: Its shape, or the number of its elements.
        dtype: Its element type.
        purpose: What it is, for the message.

    Raises:
        DeviceMemoryError: The machine, the limits of the process or its control groups leave less; the message has both
            numbers.

    Example:
        >>> import numpy as np
        >>> from grilly.resources import need
        >>> need((2, 3), np.float32, "six numbers")
    """
    size = np.dtype(dtype).itemsize
    for axis in [shape] if isinstance(shape, int | np.integer) else shape:
        size *= int(axis)
    if size >= MANY:
        _core.need_memory(min(size, 2**100), purpose)


def row_products(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`a @ b.T` of matrices with equally long rows, some rows of `a` at a time where there is much work.

    Raises:
        DeviceMemoryError: Memory does not hold the result.

    Example:
        >>> import numpy as np
        >>> from grilly.resources import row_products
        >>> row_products(np.ones((2, 3)), np.ones((1, 3))).tolist()
        [[3.0], [3.0]]
    """
    dtype = np.result_type(a, b)
    need((len(a), len(b)), dtype, f"products of {len(a)} and {len(b)} rows")
    if a.size * len(b) <= LONG and len(a) * len(b) <= LARGE:
        return np.asarray(a @ b.T)
    result = np.empty((len(a), len(b)), dtype)
    rows = max(1, min(LONG // (STEP * b.size), LARGE // (STEP * len(b)))) * STEP
    for start in range(0, len(a), rows):
        np.matmul(a[start : start + rows], b.T, out=result[start : start + rows])
    return result
