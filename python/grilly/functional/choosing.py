"""The largest elements of rows."""

from __future__ import annotations

from typing import Any

from grilly.errors import InvalidArgumentError
from grilly.functional.checks import need_axes, need_shape, whole
from grilly.functional.dispatch import Operand, Result, evaluate, floats, mask_values

__all__ = ["topk"]


def topk(input: Operand, k: int, mask: Operand | None = None) -> tuple[Result, Result]:
    """The `k` largest elements of each row, the largest first, and their columns.

    Of equal elements the first column comes first; NaN counts as the largest, as in torch. The result has the same bits
    on every device.

    Args:
        input: `(..., N)`.
        k: Number of elements, from 1 to `N`; on a GPU at most 1,000.
        mask: `(N,)`, bool or integers; columns where it is 0 are left out. Default none.

    Returns:
        Elements `(..., k)`, float32, and columns `(..., k)`, int32. Where fewer than `k` columns are left, the last are
        negative infinity and -1.

    Raises:
        InvalidArgumentError: Incompatible shapes, or `k` out of range.

    Source: `torch.topk`, in which the order of equal elements is not determined.

    Example:
        >>> from grilly import functional
        >>> [found.tolist() for found in functional.topk([1.0, 3.0, 2.0, 3.0], 3)]
        [[3.0, 3.0, 2.0], [1, 3, 2]]
    """
    x = floats(input, "input")
    *rows, columns = need_axes("topk", "input", x, 1)
    k = whole("topk", "k", k, most=columns)
    kept, keeps = (None, True) if mask is None else mask_values(mask, "mask")
    if not keeps:
        raise InvalidArgumentError("topk: mask has floats, expected bool or integers")
    need_shape("topk", "mask", kept, (columns,))

    def body(r: Any, x: Any, kept: Any) -> tuple[Any, Any]:
        found, places = r.each("top_k", r.wide(x), kept, count=k)
        return found, places

    return evaluate("topk", body, x, kept)
