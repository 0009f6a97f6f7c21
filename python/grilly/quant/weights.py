"""Quantisation of weights by name, and the packed formats of files."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grilly import _core
from grilly.errors import InvalidArgumentError
from grilly.functional.checks import number, one_of, whole
from grilly.functional.dispatch import Operand, Result
from grilly.operands import host_array
from grilly.quant.rows import PER_BYTE, dequantize, integers, quantize

__all__ = [
    "binarize_weights",
    "dequantize_weights_1bit",
    "pack",
    "packed_scale",
    "quantize_weights_1bit",
    "quantize_weights_8bit",
    "quantize_weights_ternary",
    "unpack",
]

FORMATS = ("binary", "ternary", "huggingface", "i2_s")


def binarize_weights(weights: Operand) -> Result:
    """A weight's signs and one scale, as training binarises it in each step: `quantize(weights, "binary", "tensor")`.

    `scale = n / sum abs(w)`, the reciprocal of the mean magnitude; `w` becomes `sign(w) / scale`, with -1 of 0.

    Args:
        weights: `(out_features, in_features)`.

    Returns:
        `(packed, scale)`: uint8 `(out_features, ceil(in_features / 8))`, float32 `(1,)`.

    Raises:
        InvalidArgumentError: `weights` has no axes.

    Source: Wang et al., BitNet (2023), without the subtraction of the mean; Rastegari et al., XNOR-Net (2016).

    Example:
        >>> from grilly import quant
        >>> [part.tolist() for part in quant.binarize_weights([[0.5, -0.5, 0.25, 0.75]])]
        [[[13]], [2.0]]
    """
    return quantize(weights, "binary", "tensor")


def quantize_weights_1bit(weights: Operand, group_size: int = 128) -> Result:
    """A weight's signs, and a scale for each group of neighbours in a row: `quantize(weights, "binary", group_size)`.

    Args:
        weights: `(out_features, in_features)`.
        group_size: Columns that share a scale; the last group of a row may be smaller; default 128.

    Returns:
        `(packed, scale)`: uint8 `(out_features, ceil(in_features / 8))`, float32
        `(out_features, ceil(in_features / group_size))`; `w` is nearly `sign / scale`.

    Raises:
        InvalidArgumentError: `group_size` below 1, or `weights` without axes.

    Source: Wang et al., BitNet (2023), section 2.2, for groups.

    Example:
        >>> from grilly import quant
        >>> [part.tolist() for part in quant.quantize_weights_1bit([[1.0, -1.0, 4.0]], group_size=2)]
        [[[5]], [[1.0, 0.25]]]
    """
    return quantize(weights, "binary", whole("quantize_weights_1bit", "group_size", group_size))


def quantize_weights_ternary(weights: Operand) -> Result:
    """A weight as -1, 0 and 1, and one scale: W1.58, `quantize(weights, "ternary", "tensor")`.

    `scale = n / max(sum abs(w), 1e-5 n)`, `q = clamp(round(w scale), -1, 1)`.

    Args:
        weights: `(out_features, in_features)`.

    Returns:
        `(packed, scale)`: uint8 `(out_features, ceil(in_features / 4))`, float32 `(1,)`; `w` is nearly `q / scale`.

    Raises:
        InvalidArgumentError: `weights` has no axes.

    Source: Ma et al., The Era of 1-bit LLMs: All Large Language Models are in 1.58 Bits (2024).

    Example:
        >>> from grilly import quant
        >>> packed, scale = quant.quantize_weights_ternary([[0.75, -0.75, 0.25, -0.25]])
        >>> quant.unpack(packed, (1, 4), "ternary").tolist(), scale.tolist()
        ([[1, -1, 0, 0]], [2.0])
    """
    return quantize(weights, "ternary", "tensor")


def quantize_weights_8bit(weights: Operand) -> Result:
    """A weight as int8, one scale per row: `quantize(weights, "absmax", "row")`.

    Args:
        weights: `(out_features, in_features)`.

    Returns:
        `(q, scale)`: int8 `(out_features, in_features)`, float32 `(out_features,)`; `w` is nearly `q / scale`.

    Raises:
        InvalidArgumentError: `weights` has no axes.

    Source: per-channel weights of Krishnamoorthi, Quantizing deep convolutional networks (2018).

    Example:
        >>> from grilly import quant
        >>> [part.tolist() for part in quant.quantize_weights_8bit([[1.0, -0.5], [0.0, 2.0]])]
        [[[127, -64], [0, 127]], [127.0, 63.5]]
    """
    return quantize(weights, "absmax", "row")


def dequantize_weights_1bit(
    packed: Operand, scale: Operand, group_size: int | None = 128, *, columns: int | None = None
) -> Result:
    """The inverse of `quantize_weights_1bit`, and with `group_size=None` of `binarize_weights`: `sign / scale`.

    Args:
        packed: uint8 `(out_features, ceil(in_features / 8))`.
        scale: As it was given.
        group_size: As it was given; None for one scale `(1,)`; default 128.
        columns: `in_features`; default eight times the bytes of a row.

    Returns:
        float32 `(out_features, in_features)`.

    Raises:
        InvalidArgumentError: Shapes that do not fit.
        InvalidTypeError: `packed` is not uint8.

    Source: as `quantize_weights_1bit`.

    Example:
        >>> from grilly import quant
        >>> packed, scale = quant.quantize_weights_1bit([[1.0, -1.0, 4.0]], group_size=2)
        >>> quant.dequantize_weights_1bit(packed, scale, 2, columns=3).tolist()
        [[1.0, -1.0, 4.0]]
    """
    scope = "tensor" if group_size is None else whole("dequantize_weights_1bit", "group_size", group_size)
    return dequantize(packed, scale, levels="binary", scope=scope, columns=columns)


def pack(values: npt.ArrayLike, format: str, scale: float | None = None) -> npt.NDArray[np.uint8]:
    """Values of one or two bits as a format stores them.

    | format | values | bytes |
    |---|---|---|
    | `"binary"` | -1, 1 | `(N, ceil(K / 8))`: eight columns of a row, the first in the lowest bit, 1 for +1 |
    | `"ternary"` | -1, 0, 1 | `(N, ceil(K / 4))`: `v + 1` of four columns of a row, the first in the lowest bits |
    | `"huggingface"` | -1, 0, 1 | `(N / 4, K)`: `v + 1` of rows `r`, `r + N / 4`, ..., the first in the lowest bits |
    | `"i2_s"` | -1, 0, 1 | `(N K / 4 + 32,)`: `v + 1` of columns `j`, `j + 32`, ... of 128, the first highest |

    After all blocks `"i2_s"` has the scale, float32, by which values are multiplied, and 28 zeros.

    Operations of `grilly.quant` take `"binary"` and `"ternary"`. The ternary formats hold the same values: to convert,
    `pack(unpack(packed, shape, one), another)`.

    Args:
        values: Integers `(N, K)`.
        format: As above.
        scale: Of `"i2_s"`; default 0. Others keep theirs apart.

    Returns:
        uint8, of the shape above.

    Raises:
        InvalidArgumentError: Unknown format, values outside it, sizes that do not divide, or a scale of another.

    Source: transformers' `integrations/bitnet.py`; bitnet.cpp's I2_S.

    Example:
        >>> from grilly import quant
        >>> quant.pack([[-1, 0, 1, 1, -1]], "ternary").tolist()
        [[164, 0]]
        >>> quant.pack([[1], [0], [-1], [0]], "huggingface").tolist()
        [[70]]
    """
    one_of("pack", "format", format, FORMATS)
    host = host_array(values, "values")
    if host.ndim != 2 or host.dtype.kind not in "iu":
        raise InvalidArgumentError(f"pack: values is {host.dtype} {list(host.shape)}, expected integers [N, K]")
    small = np.ascontiguousarray(np.clip(host, -128, 127), dtype=np.int8)
    factor = None if scale is None else number("pack", "scale", scale)
    rows, columns = host.shape
    packed = _core.pack_weights(format, rows, columns, small.reshape(-1), factor)
    if format in PER_BYTE:
        return packed.reshape(rows, -(-columns // PER_BYTE[format]))
    return packed.reshape(rows // 4, columns) if format == "huggingface" else packed


def unpack(packed: npt.ArrayLike, shape: tuple[int, int], format: str) -> npt.NDArray[np.int8]:
    """The inverse of `pack`.

    Args:
        packed: uint8, as `pack` gives it.
        shape: `(N, K)`.
        format: As in `pack`.

    Returns:
        int8 `(N, K)`.

    Raises:
        InvalidArgumentError: Unknown format, another number of bytes, or the code 3, which no value has.
        InvalidTypeError: `packed` is not uint8.

    Source: as `pack`.

    Example:
        >>> from grilly import quant
        >>> quant.unpack(quant.pack([[-1, 0, 1]], "ternary"), (1, 3), "ternary").tolist()
        [[-1, 0, 1]]
    """
    one_of("unpack", "format", format, FORMATS)
    return _unpacked("unpack", packed, shape, format)[0]


def packed_scale(packed: npt.ArrayLike, shape: tuple[int, int]) -> float:
    """The scale after the blocks of `"i2_s"`, by which values are multiplied: the reciprocal of a scale of `quantize`.

    Args:
        packed: uint8, as `pack` gives it.
        shape: `(N, K)`.

    Returns:
        The scale.

    Raises:
        InvalidArgumentError: Another number of bytes, or a scale that is not finite.
        InvalidTypeError: `packed` is not uint8.

    Source: as `pack`.

    Example:
        >>> import numpy as np
        >>> from grilly import quant
        >>> quant.packed_scale(quant.pack(np.ones((1, 128), np.int8), "i2_s", scale=0.5), (1, 128))
        0.5
    """
    _, scale = _unpacked("packed_scale", packed, shape, "i2_s")
    return 0.0 if scale is None else scale


def _unpacked(
    name: str, packed: npt.ArrayLike, shape: tuple[int, int], format: str
) -> tuple[npt.NDArray[np.int8], float | None]:
    rows, columns = (whole(name, "shape", size, least=0) for size in shape)
    host: Any = integers(name, "packed", host_array(packed, "packed"), "uint8")
    values, scale = _core.unpack_weights(format, rows, columns, host.reshape(-1))
    return values.reshape(rows, columns), scale
