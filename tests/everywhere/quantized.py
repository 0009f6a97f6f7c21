"""Rows as integers of 8, 2 and 1 bits, and products of them: exact sums, and single operations of floats."""

import numpy as np

from . import functions
from .arithmetic import NAN, F, add, canonical, floats, magnitude, mul, quiet, settle

#: What stands for smaller magnitudes.
LEAST = F(1e-5)
PER_BYTE = {"int8": 1, "ternary": 4, "binary": 8}
#: Lanes that share a sum of magnitudes.
LANES = 256


def normal(x) -> np.ndarray:
    """`x`, or +0 where |x| < 2^-126: how scales are read, which are below 2^-100 for rows of large numbers."""
    return np.where(magnitude(x) < 0x00800000, F(0), floats(x))


@quiet
def reciprocal(scale) -> np.ndarray:
    return normal(F(1) / normal(scale))


@quiet
def magnitudes(x: np.ndarray) -> np.float32:
    """The sum of |x| of settled numbers: lanes 256 apart, then by halves.

    A lane adds sixteen numbers, sixteen of these sums, sixteen of those, and all of those.
    """
    lanes = np.zeros(LANES, F)
    for lane in range(min(LANES, len(x))):
        sums = [F(0)] * 4
        for turn, number in enumerate(x[lane::LANES], 1):
            sums[0] = sums[0] + abs(number)
            for level in range(3):
                if turn % 16 ** (level + 1) == 0:
                    sums[level + 1], sums[level] = sums[level + 1] + sums[level], F(0)
        lanes[lane] = (sums[3] + sums[2]) + (sums[1] + sums[0])
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    return lanes[0]


@quiet
def scale_of(kind: str, x: np.ndarray) -> np.float32:
    """What settled numbers that share a scale are multiplied by; NaN where one is not finite."""
    if not np.isfinite(x).all():
        return NAN
    if kind == "absmax":
        return F(127) / np.abs(x).max(initial=LEAST)
    if kind == "affine":
        return F(127.5) / max(F(0.5) * x.max(initial=0) - F(0.5) * x.min(initial=0), F(0.5) * LEAST)
    count = F(max(len(x), 1))
    total = max(magnitudes(x), LEAST * count)
    return count / total if total < F(2.0**126) else NAN


def pack(values: np.ndarray, levels: str) -> np.ndarray:
    """Integers as they are stored, the first of a row in the lowest bits, each row in whole bytes."""
    if levels == "int8":
        return values.astype(np.int8)
    each = PER_BYTE[levels]
    codes = np.zeros((*values.shape[:-1], -(-values.shape[-1] // each), each), np.int64)
    own = values + 1 if levels == "ternary" else (values + 1) // 2
    codes.reshape(*values.shape[:-1], -1)[..., : values.shape[-1]] = own
    return (codes << (8 // each * np.arange(each))).sum(axis=-1).astype(np.uint8)


def unpack(stored: np.ndarray, levels: str, columns: int) -> np.ndarray:
    if levels == "int8":
        return stored.astype(np.int64)
    each = PER_BYTE[levels]
    codes = stored[..., None].astype(np.int64) >> (8 // each * np.arange(each)) & (2 ** (8 // each) - 1)
    codes = codes.reshape(*stored.shape[:-1], -1)[..., :columns]
    return codes - 1 if levels == "ternary" else 2 * codes - 1


def of_each(scales: np.ndarray, scope, shape: tuple[int, ...]) -> np.ndarray:
    """The scale of each element of `[..., columns]`."""
    if scope == "tensor":
        return np.broadcast_to(scales.reshape(()), shape)
    if scope == "row":
        return np.broadcast_to(scales[..., None], shape)
    return scales[..., np.arange(shape[-1]) // scope]


def shared(x: np.ndarray, scope, found, dtype) -> np.ndarray:
    """`found` of the numbers that share each scale, in the shape of the scales."""
    if scope == "tensor":
        return np.array([found(x.ravel())], dtype)
    size = max(x.shape[-1], 1) if scope == "row" else scope
    starts = range(0, max(x.shape[-1], scope == "row"), size)
    rows = x.reshape(int(np.prod(x.shape[:-1])), x.shape[-1])
    each = np.array([[found(row[start : start + size]) for start in starts] for row in rows], dtype)
    return each.reshape(x.shape[:-1] if scope == "row" else (*x.shape[:-1], len(starts)))


@quiet
def quantize_rows(x, factors=None, kind="absmax", scope="row", pairs=False, unpacked=False) -> tuple[np.ndarray, ...]:
    """`q = round(x scale)`, to the nearest, ties to even, and the scales; with factors of `x factors`."""
    x = settle(x) if factors is None else mul(settle(x), settle(factors))
    scale = shared(x, scope, lambda own: scale_of(kind, own), F)
    each = of_each(scale, scope, x.shape)
    rounded = np.rint(np.where(np.isnan(each), F(0), floats(x * each)))
    if kind in ("ternary", "binary"):
        rounded = np.clip(rounded, -1, 1) if kind == "ternary" else np.where(x > 0, 1, -1)
        return pack(rounded.astype(np.int64), "int8" if unpacked else kind), scale
    if kind == "absmax":
        return np.clip(rounded, -128, 127).astype(np.int8), scale
    least = shared(x, scope, lambda own: own.min(initial=0), F)
    zero = np.where(np.isnan(scale), F(0), np.clip(-128 - np.rint(floats(least * scale)), -128, 127))
    q = np.clip(rounded + of_each(zero, scope, x.shape), -128, 127)
    q = np.where(np.isnan(each), 0, q).astype(np.int8)
    return (q, np.stack([scale, floats(zero)], axis=-1)) if pairs else (q, scale, zero.astype(np.int32))


@quiet
def dequantize_rows(x, scale, zero=None, levels="int8", scope="row", columns=None) -> np.ndarray:
    """`(x - zero) / scale`"""
    values = unpack(x, levels, columns)
    if zero is not None:
        values = values - of_each(zero, scope, values.shape)
    return canonical(settle(values.astype(F) / normal(of_each(scale, scope, values.shape))))


def integer_linear(q, weight, levels="int8") -> np.ndarray:
    """`q W^T`"""
    return (q.astype(np.int64) @ unpack(weight, levels, q.shape[-1]).T).astype(np.int32)


@quiet
def quantized_linear(
    q, scale, weight, weight_scale, bias=None, activation=None, residual=None, levels="int8", scope="row", pairs=False
) -> np.ndarray:
    """`act(sum_g (q - zero) W^T (1 / weight_scale) (1 / scale) + bias) + residual`, groups in order."""
    scale, columns = floats(scale), q.shape[-1]
    q, zero = q.astype(np.int64), scale[..., 1:].astype(np.int64) if pairs else 0
    scale = scale[..., :1] if pairs else scale[..., None]
    w = unpack(weight, levels, columns)
    size = columns if isinstance(scope, str) else scope
    by = reciprocal(weight_scale)
    by = np.broadcast_to(by, (len(w),))[:, None] if isinstance(scope, str) else by
    y = np.zeros((*q.shape[:-1], len(w)), F)
    for group, start in enumerate(range(0, columns, max(size, 1))):
        part = np.s_[..., start : start + size]
        scaled = mul(((q[part] - zero) @ w[part].T).astype(F), by[:, group])
        y = scaled if group == 0 else add(y, scaled)
    y = mul(y, reciprocal(scale))
    if bias is not None:
        y = add(y, settle(bias))
    if activation not in (None, "identity"):
        y = functions.apply(activation, y)
    return canonical(y if residual is None else add(settle(y), settle(residual)))
