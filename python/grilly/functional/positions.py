"""Position encodings: rotation of queries and keys, sinusoids, and tables of biases by distance for attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError
from grilly.functional.checks import flag, need_axes, number, whole, wrong_shape
from grilly.functional.dispatch import Operand, Result, evaluate, floats
from grilly.operands import host_array

__all__ = ["alibi_bias", "apply_rope", "apply_rope_backward", "embedding_position", "relative_bias"]


def rope_tables(
    positions: npt.ArrayLike, width: int, base: float, scaling: float
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Cosines and sines of `position / scaling * base^(-2 i / width)`, computed in float64: `[..., width / 2]`."""
    steps = np.arange(width // 2, dtype=np.float64)
    angles = np.asarray(positions, dtype=np.float64)[..., None] / scaling * base ** (-2.0 * steps / max(width, 1))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def rope_table(part: int, places: int, width: int, base: float, scaling: float, first: int) -> npt.NDArray[np.float32]:
    """The cosines (0) or sines (1) of the positions `first`, `first + 1` ..."""
    return rope_tables(np.arange(first, first + places), width, base, scaling)[part]


def angles(r: Any, places: int, width: int, base: float, scaling: float = 1.0, first: int = 0) -> list[Any]:
    """Cosines and sines of the positions `first`, `first + 1` ... on a device, `(places, width / 2)` each."""
    return [r.kept(rope_table, part, places, width, base, scaling, first) for part in (0, 1)]


def apply_rope(
    q_or_k: Operand,
    position_ids: Operand | None = None,
    rope_base: float = 10000.0,
    rope_scaling: float = 1.0,
) -> Result:
    """Rotary positions: halves `x1`, `x2` of a head become `x1 cos - x2 sin` and `x2 cos + x1 sin`.

    The angle of column `i` at position `p` is `p / rope_scaling * rope_base^(-2 i / D)`.

    Args:
        q_or_k: `(B, S, H, D)`, or `(S, H, D)`.
        position_ids: `(S,)` or `(B, S)`; default 0, 1, 2 ...
        rope_base: Default 10000.
        rope_scaling: Divides the positions; default 1.

    Returns:
        The same shape.

    Raises:
        InvalidArgumentError: `D` is odd, or positions of another shape.

    Source: upstream's `Compute.attention.apply_rope`; Su et al., RoFormer (2021), in LLaMA's half-split form.

    Example:
        >>> from grilly import functional
        >>> functional.apply_rope([[[[1.0, 0.0]], [[1.0, 0.0]]]]).round(4).tolist()
        [[[[1.0, 0.0]], [[0.5403000116348267, 0.8414999842643738]]]]
    """
    return _turned("apply_rope", "q_or_k", q_or_k, position_ids, rope_base, rope_scaling)


def apply_rope_backward(
    grad_output: Operand,
    position_ids: Operand | None = None,
    rope_base: float = 10000.0,
    rope_scaling: float = 1.0,
) -> Result:
    """Derivative of `apply_rope`: the rotation by the opposite angles.

    Args:
        grad_output: Gradient of the loss with respect to the result, in its shape.
        position_ids: As in `apply_rope`; default 0, 1, 2 ...
        rope_base: As in `apply_rope`; default 10000.
        rope_scaling: As in `apply_rope`; default 1.

    Returns:
        The same shape.

    Raises:
        InvalidArgumentError: As in `apply_rope`.

    Source: the derivative of `apply_rope`.

    Example:
        >>> from grilly import functional
        >>> x = functional.apply_rope([[[[1.0, 2.0]], [[3.0, 4.0]]]])
        >>> functional.apply_rope_backward(x).round(4).tolist()
        [[[[1.0, 2.0]], [[3.0, 4.0]]]]
    """

    return _turned("apply_rope_backward", "grad_output", grad_output, position_ids, rope_base, rope_scaling, sign=-1.0)


def _turned(
    name: str,
    label: str,
    rows: Operand,
    position_ids: Operand | None,
    rope_base: float,
    rope_scaling: float,
    sign: float = 1.0,
) -> Result:
    """`turn(recorder, rows, tables)` of rows with four axes."""
    x = floats(rows, label)
    axes = need_axes(name, label, x, 3, 4)
    batch, places, heads, width = (1, *axes) if len(axes) == 3 else axes
    if width % 2:
        raise InvalidArgumentError(f"{name}: {label} has {width} columns, expected an even number")
    base, scaling = number(name, "rope_base", rope_base), number(name, "rope_scaling", rope_scaling)
    if base <= 0 or scaling <= 0:
        raise InvalidArgumentError(f"{name}: rope_base {base} and rope_scaling {scaling} must be above 0")
    positions = None if position_ids is None else as_positions(position_ids, batch, places, name)

    def body(r: Any, x: Any) -> Any:
        if positions is None:
            tables = angles(r, places, width, base, sign * scaling)
        else:
            tables = [r.constant(table) for table in rope_tables(positions, width, base, sign * scaling)]
        return r("rope", x.reshape([batch, places, heads, width]), *tables).reshape(list(axes))

    return evaluate(name, body, x)


def as_positions(position_ids: Operand, batch: int, places: int, name: str = "apply_rope") -> npt.NDArray[np.float64]:
    positions = host_array(position_ids, "position_ids")
    if positions.shape == (1, places):
        positions = positions[0]
    if positions.shape not in ((places,), (batch, places)):
        raise wrong_shape(name, "position_ids", positions.shape, f"[{places}] or [{batch}, {places}]")
    if positions.dtype.kind not in "iuf":
        raise InvalidArgumentError(f"{name}: position_ids is of type {positions.dtype}, expected numbers")
    wide = positions.astype(np.float64)
    if not np.isfinite(wide).all():
        raise InvalidArgumentError(f"{name}: position_ids holds a position that is not finite")
    return wide


def embedding_position(embeddings: Operand, max_seq_len: int = 512, dim: int | None = None) -> Result:
    """Adds sinusoids: `sin(p / 10000^(2 i / D))` to column `2 i` of position `p`, the cosine to column `2 i + 1`.

    Args:
        embeddings: `(..., S, D)`.
        max_seq_len: Maximum number of positions; default 512.
        dim: `D`, for a check; default none.

    Returns:
        The same shape.

    Raises:
        InvalidArgumentError: `S` is above `max_seq_len`, or `dim` is not `D`.

    Source: upstream's `functional.embedding_position`; Vaswani et al., Attention Is All You Need (2017).

    Example:
        >>> from grilly import functional
        >>> functional.embedding_position([[[0.0, 0.0], [0.0, 0.0]]]).round(4).tolist()
        [[[0.0, 1.0], [0.8414999842643738, 0.5403000116348267]]]
    """
    x = floats(embeddings, "embeddings")
    *_, places, columns = need_axes("embedding_position", "embeddings", x, 2)
    most = whole("embedding_position", "max_seq_len", max_seq_len, least=0)
    if places > most:
        raise InvalidArgumentError(f"embedding_position: embeddings has {places} places, expected at most {most}")
    if dim is not None and whole("embedding_position", "dim", dim, least=0) != columns:
        raise InvalidArgumentError(f"embedding_position: dim is {dim}, and embeddings has {columns} columns")
    return evaluate(
        "embedding_position", lambda r, x: r("binary", x, r.kept(sinusoids, places, columns), kind="add"), x
    )


def sinusoids(places: int, columns: int) -> npt.NDArray[np.float32]:
    """The table that `embedding_position` adds."""
    angles = np.arange(places)[:, None] * 10000.0 ** (-2.0 * (np.arange(columns) // 2) / max(columns, 1))
    return np.where(np.arange(columns) % 2, np.cos(angles), np.sin(angles)).astype(np.float32)


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
