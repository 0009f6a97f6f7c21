"""Tables of biases by distance, for `attention` and `flash_attention2`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError
from grilly.functional.checks import flag, need_axes, whole
from grilly.functional.dispatch import Operand, floats
from grilly.operands import host_array

__all__ = ["alibi_bias", "relative_bias"]


def alibi_bias(heads: int, length: int) -> npt.NDArray[np.float32]:
    """Biases that decrease with distance: `-m[h] |j - p|`, one slope per head.

    If the number of heads is a power of two `n`, `m[h] = 2^(-8 (h + 1) / n)`. Otherwise the first `n` slopes are those
    of the next lower power of two `n`, followed by every other slope of the next higher one, `2^(-4 (2 i + 1) / n)` for
    head `n + i`.

    Args:
        heads: `H`.
        length: Length of the longest text: larger distances count as `length - 1`.

    Returns:
        `(H, 2 length - 1)`, a NumPy array for `bias` of `attention`.

    Raises:
        InvalidArgumentError: `heads` or `length` below 1.

    Source: Press, Smith and Lewis, Train Short, Test Long (2022); the slopes for other numbers of heads are from their
    code.

    Example:
        >>> from grilly import functional
        >>> functional.alibi_bias(8, 3)[:2].tolist()
        [[-1.0, -0.5, -0.0, -0.5, -1.0], [-0.5, -0.25, -0.0, -0.25, -0.5]]
    """
    heads, length = whole("alibi_bias", "heads", heads), whole("alibi_bias", "length", length)
    below = 1 << (heads.bit_length() - 1)
    slopes = 2.0 ** (-8.0 * np.arange(1, below + 1) / below)
    slopes = np.append(slopes, 2.0 ** (-4.0 * (2 * np.arange(heads - below) + 1) / below))
    return (-slopes[:, None] * np.abs(np.arange(1 - length, length))).astype(np.float32)


def relative_bias(
    weight: Operand, length: int, *, max_distance: int = 128, bidirectional: bool = True
) -> npt.NDArray[np.float32]:
    """T5's biases: one per head and bucket of distances, `weight[bucket(j - p), h]`.

    Of the `n` buckets of a direction, the first half are the distances 0, 1, 2 ...; the others, `n / 2 + floor(n / 2 *
    log(distance / (n / 2)) / log(max_distance / (n / 2)))`, grow exponentially up to `max_distance`, and the last holds
    all larger distances.

    Args:
        weight: `(B, H)`, as in a checkpoint: `B` buckets, T5 has 32.
        length: Length of the longest text.
        max_distance: Distance at which the last bucket begins at the latest; default 128.
        bidirectional: Whether keys after the query have separate buckets, the second half; default True, as in an
            encoder. Otherwise they count as distance 0, for a decoder, in which they are masked.

    Returns:
        `(H, 2 R + 1)`, `R = min(length - 1, max_distance)`, a NumPy array for `bias` of `attention`.

    Raises:
        InvalidArgumentError: No matrix, a number of buckets that has no such halves, or `max_distance` within the
            buckets of one distance each.

    Source: Raffel et al., Exploring the Limits of Transfer Learning (2020).

    Example:
        >>> from grilly import functional
        >>> functional.relative_bias([[0.0], [1.0], [2.0], [3.0]], 3, max_distance=2).tolist()
        [[1.0, 1.0, 0.0, 3.0, 3.0]]
    """
    values = np.asarray(floats(host_array(weight, "weight"), "weight"), dtype=np.float32)
    buckets, _ = need_axes("relative_bias", "weight", values, 2, 2)
    length = whole("relative_bias", "length", length)
    most = whole("relative_bias", "max_distance", max_distance)
    sides = 2 if flag("relative_bias", "bidirectional", bidirectional) else 1
    own = buckets // sides
    exact = own // 2
    if buckets % (2 * sides) or not exact or most <= exact:
        raise InvalidArgumentError(
            f"relative_bias: weight has {buckets} buckets, expected a multiple of {2 * sides}, and max_distance is "
            f"{most}, expected more than {exact}"
        )
    reach = min(length - 1, most)
    distance = np.arange(-reach, reach + 1)
    size = np.abs(distance) if bidirectional else np.maximum(-distance, 0)
    far = exact + np.log(np.maximum(size, exact) / exact) / math.log(most / exact) * (own - exact)
    bucket = np.where(size < exact, size, np.minimum(far.astype(np.int64), own - 1))
    bucket += np.where((distance > 0) & bidirectional, own, 0)
    return np.ascontiguousarray(values[bucket].T)
