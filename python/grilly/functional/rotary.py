"""Position encodings: rotation of queries and keys, and the sinusoids of the original transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError
from grilly.functional.checks import need_axes, number, whole
from grilly.functional.dispatch import Operand, Result, evaluate, floats
from grilly.operands import host_array

__all__ = ["apply_rope", "embedding_position"]


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
    x = floats(q_or_k, "q_or_k")
    axes = need_axes("apply_rope", "q_or_k", x, 3, 4)
    batch, places, heads, width = (1, *axes) if len(axes) == 3 else axes
    if width % 2:
        raise InvalidArgumentError(f"apply_rope: q_or_k has {width} columns, expected an even number")
    base, scaling = number("apply_rope", "rope_base", rope_base), number("apply_rope", "rope_scaling", rope_scaling)
    if base <= 0 or scaling <= 0:
        raise InvalidArgumentError(f"apply_rope: rope_base {base} and rope_scaling {scaling} must be above 0")
    positions = None if position_ids is None else as_positions(position_ids, batch, places)

    def body(r: Any, x: Any) -> Any:
        if positions is None:
            tables = angles(r, places, width, base, scaling)
        else:
            tables = [r.constant(table) for table in rope_tables(positions, width, base, scaling)]
        return r("rope", x.reshape([batch, places, heads, width]), *tables).reshape(list(axes))

    return evaluate("apply_rope", body, x)


def as_positions(position_ids: Operand, batch: int, places: int) -> npt.NDArray[np.float64]:
    positions = host_array(position_ids, "position_ids")
    if positions.shape == (1, places):
        positions = positions[0]
    if positions.shape not in ((places,), (batch, places)):
        raise InvalidArgumentError(
            f"apply_rope: position_ids has shape {list(positions.shape)}, expected [{places}] or [{batch}, {places}]"
        )
    if positions.dtype.kind not in "iuf":
        raise InvalidArgumentError(f"apply_rope: position_ids is of type {positions.dtype}, expected numbers")
    wide = positions.astype(np.float64)
    if not np.isfinite(wide).all():
        raise InvalidArgumentError("apply_rope: position_ids holds a position that is not finite")
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
