"""Rows of 8, 2 and 1 bits, and products of these. Integers are those of an exact reference."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cases.bounds import BOUNDS, IN_HALF, TINY, U, bounded, exact, summed
from cases.functions import activate
from cases.fused import normed
from cases.reference import Attributes, Operands, reference
from cases.rows import layer_norm_bound, rms_norm_bound
from cases.table import OpCase, Values, shape_name

PER_BYTE = {"int8": 1, "ternary": 4, "binary": 8}


def spread(scales: np.ndarray, scope: Any, axes: tuple[int, ...]) -> np.ndarray:
    """A scale for each element of a tensor with these axes."""
    if scope == "tensor":
        return np.broadcast_to(scales.reshape(()), axes)
    group = axes[-1] if scope == "row" else scope
    each = scales[..., None] if scope == "row" else scales
    return np.repeat(each, max(group, 1), axis=-1)[..., : axes[-1]]


def by_scale(x: np.ndarray, scope: Any, found: Any) -> np.ndarray:
    """`found` of the elements that share each scale."""
    if scope == "tensor":
        return np.array([found(x.reshape(-1))])
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    if scope == "row":
        return np.array([found(row) for row in rows]).reshape(x.shape[:-1])
    starts = range(0, x.shape[-1], scope)
    each = [[found(row[start : start + scope]) for start in starts] for row in rows]
    return np.array(each).reshape(*x.shape[:-1], len(starts))


def packed(values: np.ndarray, levels: str) -> np.ndarray:
    """Values of a few bits, the first of a row in the lowest, each row in whole bytes."""
    if levels == "int8":
        return values.astype(np.int8)
    each, codes = PER_BYTE[levels], values + 1 if levels == "ternary" else values > 0
    filled = np.zeros((*values.shape[:-1], -(-values.shape[-1] // each) * each), np.int64)
    filled[..., : values.shape[-1]] = codes
    bits = 8 // each
    return (filled.reshape(*values.shape[:-1], -1, each) << bits * np.arange(each)).sum(axis=-1).astype(np.uint8)


def unpacked(bytes_: np.ndarray, levels: str, columns: int) -> np.ndarray:
    if levels == "int8":
        return bytes_.astype(np.int64)
    each = PER_BYTE[levels]
    codes = bytes_[..., None].astype(np.int64) >> (8 // each) * np.arange(each) & (3 if levels == "ternary" else 1)
    codes = codes.reshape(*bytes_.shape[:-1], -1)[..., :columns]
    return codes - 1 if levels == "ternary" else 2 * codes - 1


@reference
def quantize_rows(operands: Operands, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """In float32 as kernels compute it: a scale is a quotient rounded once, and so is a product with it."""
    x = operands[0].astype(np.float32)
    if attributes.get("factors"):
        x = x * operands[1].astype(np.float32)
    kind, scope = attributes.get("kind", "absmax"), attributes.get("scope", "row")

    def scale_of(own: np.ndarray) -> float:
        if not np.isfinite(own).all():
            return np.nan
        size, magnitudes = max(own.size, 1), np.abs(own).astype(np.float64)
        if kind == "absmax":
            return np.float32(127) / max(np.float32(magnitudes.max(initial=0)), np.float32(1e-5))
        if kind == "affine":
            least, most = own.min(initial=0), own.max(initial=0)
            return np.float32(127.5) / max(np.float32(0.5) * most - np.float32(0.5) * least, np.float32(5e-6))
        return size / max(magnitudes.sum(), np.float64(np.float32(1e-5)) * size)

    scale = by_scale(x, scope, scale_of).astype(np.float32)
    each = spread(scale, scope, x.shape)
    with np.errstate(all="ignore"):
        scaled = np.where(np.isnan(each), np.float32(0), np.clip(x * each, np.float32(-512), np.float32(512)))
    if kind in ("ternary", "binary"):
        values = np.clip(np.rint(scaled), -1, 1) if kind == "ternary" else np.where(x > 0, 1, -1)
        return packed(values, "int8" if attributes.get("unpacked") else kind), scale.astype(np.float64)
    integers, zero = np.rint(scaled), ()
    if kind == "affine":
        least = by_scale(x, scope, lambda own: own.min(initial=0)).astype(np.float32)
        with np.errstate(invalid="ignore"):
            offset = np.where(np.isnan(scale), 0, np.clip(-128 - np.rint(least * scale), -128, 127))
        integers, zero = integers + spread(offset, scope, x.shape), (offset,)
        if attributes.get("pairs"):
            scale, zero = np.stack([scale, offset.astype(np.float32)], axis=-1), ()
    return np.clip(integers, -128, 127), scale.astype(np.float64), *zero


@bounded
def quantize_rows_bound(
    operands: Operands, attributes: Attributes, y: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, ...]:
    """Maxima and quotients are exact, and so are the integers; a sum is off, and by it a scale."""
    terms = operands[0].size
    off = 0.0 if attributes.get("kind", "absmax") in ("absmax", "affine") else 4 * U + summed(terms, np.float64(1))
    return np.zeros_like(y[0], np.float64), off * np.abs(y[1]), *(np.zeros_like(part) for part in y[2:])


def norm_of(operands: Operands, attributes: Attributes) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a norm, and what they may be off by; a weight alone, or with a bias."""
    x, weight, *bias = operands[: len(operands) - bool(attributes.get("factors"))]
    by = {"eps": attributes.get("eps", 1e-5 if bias else 1e-6)}
    if bias:
        y = normed(x, weight, bias[0], by)
        return y, layer_norm_bound([x, weight, *bias], by, y)
    y = x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + by["eps"]) * weight
    return y, rms_norm_bound([x, weight], by, y)


def scaled_by(operands: Operands, attributes: Attributes) -> tuple[np.ndarray, np.ndarray]:
    """What is rounded, and the scales of its rows; NaN where a row is not finite."""
    y = norm_of(operands, attributes)[0] * (operands[-1] if attributes.get("factors") else 1)
    most = np.abs(y).max(axis=-1, initial=0)
    return y, np.where(np.isfinite(most), 127 / np.maximum(most, 1e-5), np.nan)


@reference
def layer_norm_quantize_rows(operands: Operands, attributes: Attributes) -> tuple[np.ndarray, ...]:
    y, scale = scaled_by(operands, attributes)
    kept = (norm_of(operands, attributes)[0],) if attributes.get("kept") else ()
    return np.rint(np.nan_to_num(y * scale[..., None], nan=0)), scale, *kept


@reference
def rms_norm_quantize_rows(operands: Operands, attributes: Attributes) -> tuple[np.ndarray, ...]:
    return layer_norm_quantize_rows(operands, attributes)


def near_ties(operands: Operands, attributes: Attributes, stored: float) -> tuple[np.ndarray, ...]:
    """What integers, scales and the norm's result may be off by, where rows are rounded by `stored` before.

    Scales are off as the largest element is, and integers by one where what is off reaches a half.
    """
    of_norm = norm_of(operands, attributes)[1]
    own = np.abs(operands[-1]) if attributes.get("factors") else 1
    rows, scale = scaled_by(operands, attributes)
    size = np.abs(rows)
    off = of_norm * own + (stored + 4 * U) * size
    of_scale = scale * (off.max(axis=-1, initial=0) / np.maximum(size.max(axis=-1, initial=0), 1e-5) + 4 * U)
    scaled = rows * scale[..., None]
    reach = off * scale[..., None] + size * of_scale[..., None]
    near = np.abs(scaled - np.floor(scaled) - 0.5) <= reach
    kept = (of_norm,) if attributes.get("kept") else ()
    return near.astype(np.float64), np.nan_to_num(of_scale), *kept


for name in ("layer_norm_quantize_rows", "rms_norm_quantize_rows"):
    BOUNDS[name] = lambda operands, attributes, y: near_ties(operands, attributes, 0.0)
    IN_HALF[name] = lambda operands, attributes: near_ties(operands, attributes, 2.0**-11)


@reference
def dequantize_rows(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, scale, *zero = operands
    levels, scope = attributes.get("levels", "int8"), attributes.get("scope", "row")
    values = unpacked(x, levels, attributes.get("columns", x.shape[-1])).astype(np.float64)
    if zero:
        values = values - spread(zero[0], scope, values.shape)
    return values / spread(scale, scope, values.shape)


@bounded
def dequantize_rows_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """One division, which Vulkan allows 2.5 units in the last place."""
    return 6 * U * np.abs(y) + TINY


@reference
def integer_linear(operands: Operands, attributes: Attributes) -> np.ndarray:
    q, weight = operands
    return (q.astype(np.int64) @ unpacked(weight, attributes.get("levels", "int8"), q.shape[-1]).T).astype(np.float64)


def parts(operands: Operands, attributes: Attributes) -> tuple[np.ndarray, np.ndarray, int]:
    """The product before bias, the sum of the groups' magnitudes, and their number."""
    q, scale, weight, weight_scale, *_ = operands
    if attributes.get("pairs"):
        scale, zero = scale[..., 0], scale[..., 1]
        q = q.astype(np.int64) - zero[..., None].astype(np.int64)
    scope, k = attributes.get("scope", "row"), q.shape[-1]
    w = unpacked(weight, attributes.get("levels", "int8"), k)
    group = k if isinstance(scope, str) else scope
    y, magnitude = np.zeros((2, *q.shape[:-1], len(w)))
    starts = range(0, k, max(group, 1))
    for place, start in enumerate(starts):
        sums = q[..., start : start + group].astype(np.int64) @ w[:, start : start + group].T
        divisor = weight_scale if isinstance(scope, str) else weight_scale[:, place]
        y, magnitude = y + sums / divisor, magnitude + np.abs(sums / divisor)
    return y / scale[..., None], magnitude / scale[..., None], len(starts)


@reference
def quantized_linear(operands: Operands, attributes: Attributes) -> np.ndarray:
    y, rest = parts(operands, attributes)[0], list(operands[4:])
    if attributes.get("bias"):
        y = y + rest.pop(0)
    if activation := attributes.get("activation"):
        y = activate(y, activation)
    return y + rest.pop(0) if attributes.get("residual") == "added" else y


@bounded
def quantized_linear_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """Two reciprocals and two products, a conversion, a sum over groups, the bias, the residual, an activation."""
    product, magnitude, groups = parts(operands, attributes)
    rest = sum(np.abs(operand) for operand in operands[4:])
    before = 5 * U * magnitude + summed(groups, magnitude) + 2 * U * (np.abs(product) + rest)
    return 1.2 * before + 8 * U * (np.abs(y) + rest) + TINY


BOUNDS.update(integer_linear=exact)


def bytes_of(v: Values, *shape: int) -> np.ndarray:
    return v.rng.integers(-128, 128, shape).astype(np.int8)


def weight_of(v: Values, levels: str, n: int, k: int) -> np.ndarray:
    if levels == "int8":
        return bytes_of(v, n, k)
    choices = [-1, 0, 1] if levels == "ternary" else [-1, 1]
    return packed(v.rng.choice(choices, (n, k)), levels)


def affine(v: Values, *shape: int) -> list[np.ndarray]:
    x = v.plain(*shape) + np.float32(1.5)
    x[1:][-1:] = 0
    return [x]


def pairs(v: Values, *shape: int) -> np.ndarray:
    """Scales and zeros."""
    return np.stack([v.positive(*shape), v.rng.integers(-128, 128, shape).astype(np.float32)], axis=-1)


def halves(v: Values, k: int) -> list[np.ndarray]:
    """Numbers that `x scale` has midway between two integers, of a scale 1; and a row of zeros."""
    x = v.rng.integers(-126, 126, (3, k)).astype(np.float32) + np.float32(0.5)
    x[:, 0], x[1] = 127, 0
    return [x]


def norms() -> list[OpCase]:
    """Rows of lanes that a workgroup has many and one of, and rows that no registers hold."""
    found = []
    for op, vectors in (("layer_norm_quantize_rows", 2), ("rms_norm_quantize_rows", 1)):
        for rows, columns in ((0, 4), (3, 4), (33, 64), (9, 132), (2, 1028), (2, 9000)):
            for factors in (False, True)[: 1 + (columns in (132, 9000))]:
                made = lambda v, r=rows, c=columns, n=vectors + factors: [  # noqa: E731
                    v.outliers(r, c), *(v.plain(c) for _ in range(n)),
                ]  # fmt: skip
                name = f"{shape_name(rows, columns)}{'-factors' if factors else ''}"
                found.append(OpCase(op, name, made, {"factors": factors, "kept": columns != 64}))
        weights = lambda v, n=vectors, c=64: [v.plain(c) for _ in range(n)]  # noqa: E731
        found += [
            OpCase(op, "not-finite", lambda v, w=weights: [v.not_finite(5, 64), *w(v)], {"kept": True}),
            OpCase(op, "eps", lambda v, w=weights: [v.plain(2, 3, 64), *w(v)], {"eps": 0.5}),
            OpCase(op, "half", lambda v, w=weights: [v.plain(3, 64), *w(v)], {"kept": True}, dtype="float16"),
        ]
    return found


def cases() -> list[OpCase]:
    found = norms()
    for shape in ((0, 3), (2, 0), (1,), (3, 1), (2, 3, 5), (3, 257), (65, 64), (2, 1030)):
        found.append(OpCase("quantize_rows", shape_name(*shape), lambda v, s=shape: [v.plain(*s)]))
    found += [
        OpCase("quantize_rows", "zeros", lambda v: [np.zeros((2, 5), np.float32)]),
        OpCase("quantize_rows", "outliers", lambda v: [v.outliers(5, 129)]),
        OpCase("quantize_rows", "midway", lambda v: halves(v, 131)),
        OpCase("quantize_rows", "not-finite", lambda v: [v.not_finite(5, 33)]),
        OpCase("quantize_rows", "huge", lambda v: [np.float32(3e38) * np.sign(v.plain(3, 5))]),
        OpCase("quantize_rows", "half", lambda v: [v.plain(3, 8)], dtype="float16"),
        OpCase("quantize_rows", "half-3x1028", lambda v: [v.outliers(3, 1028)], dtype="float16"),
        OpCase("quantize_rows", "2x9000", lambda v: [v.plain(2, 9000)]),
        OpCase("quantize_rows", "not-finite-5x64", lambda v: [v.not_finite(5, 64)]),
        OpCase("quantize_rows", "factors-3x33", lambda v: [v.outliers(3, 33), v.positive(33)], {"factors": True}),
        OpCase("quantize_rows", "factors-3x68", lambda v: [v.outliers(3, 68), v.positive(68)], {"factors": True}),
        OpCase(
            "quantize_rows",
            "factors-group",
            lambda v: [v.plain(2, 21), v.positive(21)],
            {"factors": True, "scope": 8},
        ),
        OpCase("quantize_rows", "pairs-5x33", lambda v: affine(v, 5, 33), {"kind": "affine", "pairs": True}),
        OpCase("quantize_rows", "pairs-5x1028", lambda v: affine(v, 5, 1028), {"kind": "affine", "pairs": True}),
        OpCase(
            "quantize_rows",
            "pairs-factors-half",
            lambda v: [*affine(v, 5, 64), v.positive(64)],
            {"kind": "affine", "pairs": True, "factors": True},
            dtype="float16",
        ),
        OpCase("quantize_rows", "pairs-not-finite", lambda v: [v.not_finite(5, 64)], {"kind": "affine", "pairs": True}),
        OpCase(
            "quantize_rows",
            "pairs-huge",
            lambda v: [np.float32([[3e38, -3e38, 0, 1]])],
            {"kind": "affine", "pairs": True},
        ),
        OpCase("quantize_rows", "group-3x70", lambda v: [v.plain(3, 70)], {"scope": 32}),
        OpCase("quantize_rows", "tensor-3x70", lambda v: [v.plain(3, 70)], {"scope": "tensor"}),
        OpCase("quantize_rows", "affine-5x33", lambda v: affine(v, 5, 33), {"kind": "affine"}),
        OpCase("quantize_rows", "affine-group", lambda v: affine(v, 2, 3, 21), {"kind": "affine", "scope": 8}),
        OpCase("quantize_rows", "affine-tensor", lambda v: affine(v, 3, 21), {"kind": "affine", "scope": "tensor"}),
        OpCase("quantize_rows", "affine-not-finite", lambda v: [v.not_finite(5, 9)], {"kind": "affine"}),
        OpCase("quantize_rows", "affine-huge", lambda v: [np.float32([[3e38, -3e38, 0]])], {"kind": "affine"}),
    ]
    for kind in ("ternary", "binary"):
        # Multiples of a power of two, of which sums are exact, so that no integer depends on their order.
        for scope, name in (("row", "row"), ("tensor", "tensor"), (32, "group")):
            found.append(
                OpCase(
                    "quantize_rows",
                    f"{kind}-{name}",
                    lambda v: [(v.rng.integers(-64, 65, (5, 75)) / 64).astype(np.float32)],
                    {"kind": kind, "scope": scope},
                )
            )
        found += [
            OpCase("quantize_rows", f"{kind}-zeros", lambda v: [np.zeros((2, 9), np.float32)], {"kind": kind}),
            OpCase("quantize_rows", f"{kind}-not-finite", lambda v: [v.not_finite(5, 9)], {"kind": kind}),
            OpCase(
                "quantize_rows",
                f"{kind}-unpacked",
                lambda v: [(v.rng.integers(-64, 65, (5, 75)) / 64).astype(np.float32)],
                {"kind": kind, "scope": "tensor", "unpacked": True},
            ),
        ]
    for m, k, n in ((0, 3, 4), (1, 1, 1), (3, 7, 5), (33, 64, 31), (2, 1030, 3), (5, 4, 0), (193, 144, 36)):
        found.append(
            OpCase(
                "integer_linear",
                shape_name(m, k, n),
                lambda v, m=m, k=k, n=n: [bytes_of(v, m, k), bytes_of(v, n, k)],
            )
        )
    least = np.full((2, 300), -128, np.int8)
    found.append(OpCase("integer_linear", "least", lambda v: [least, least[:1]]))
    for levels in ("ternary", "binary"):
        for m, k, n in ((3, 7, 5), (9, 64, 31), (2, 1036, 3), (1, 33, 2)):
            found.append(
                OpCase(
                    "integer_linear",
                    f"{levels}-{shape_name(m, k, n)}",
                    lambda v, m=m, k=k, n=n, levels=levels: [bytes_of(v, m, k), weight_of(v, levels, n, k)],
                    {"levels": levels},
                )
            )
    for levels, scope, m, k, n in (
        ("int8", "row", 3, 68, 5),
        ("int8", "row", 2, 7, 3),
        ("ternary", "tensor", 3, 68, 5),
        ("ternary", "tensor", 17, 80, 36),
        ("binary", "row", 17, 112, 36),
        ("int8", "row", 1, 160, 200),
        ("binary", 32, 4, 200, 3),
        ("binary", 10, 2, 33, 3),
    ):
        axes = {"row": (n,), "tensor": (1,)}.get(scope) or (n, -(-k // scope))
        found.append(
            OpCase(
                "quantized_linear",
                f"{levels}-{scope}-{shape_name(m, k, n)}",
                lambda v, levels=levels, axes=axes, m=m, k=k, n=n: [
                    bytes_of(v, m, k), v.positive(m), weight_of(v, levels, n, k), v.positive(*axes),
                ],
                {"levels": levels, "scope": scope},
            )
        )  # fmt: skip
    for levels, scope, m, k, n in (
        ("int8", "row", 3, 68, 5),
        ("ternary", "tensor", 2, 7, 3),
        ("binary", 10, 4, 33, 8),
        ("int8", "row", 33, 80, 36),
    ):
        axes = {"row": (n,), "tensor": (1,)}.get(scope) or (n, -(-k // scope))
        found.append(
            OpCase(
                "quantized_linear",
                f"pairs-{levels}-{scope}-{shape_name(m, k, n)}",
                lambda v, levels=levels, axes=axes, m=m, k=k, n=n: [
                    bytes_of(v, m, k), pairs(v, m), weight_of(v, levels, n, k), v.positive(*axes), v.plain(n),
                    v.plain(m, n),
                ],
                {"levels": levels, "scope": scope, "pairs": True, "bias": True, "residual": "added"},
            )
        )  # fmt: skip
    for name, m, k, n, dtype in (
        ("empty", 0, 3, 4, "float32"),
        ("nothing", 2, 0, 3, "float32"),
        ("half", 3, 8, 4, "float16"),
    ):
        found.append(
            OpCase(
                "quantized_linear",
                name,
                lambda v, m=m, k=k, n=n: [bytes_of(v, m, k), v.positive(m), bytes_of(v, n, k), v.positive(n)],
                dtype=dtype,
            )
        )
    found += [
        OpCase(
            "quantized_linear",
            "whole",
            lambda v: [
                bytes_of(v, 2, 3, 64), 50 * v.positive(2, 3), weight_of(v, "ternary", 9, 64), v.positive(1), v.plain(9),
                v.plain(2, 3, 9),
            ],
            {"levels": "ternary", "scope": "tensor", "bias": True, "activation": "silu", "residual": "added"},
        ),
        OpCase("dequantize_rows", "0x3", lambda v: [bytes_of(v, 0, 3), v.positive(0)]),
        OpCase("dequantize_rows", "3x5", lambda v: [bytes_of(v, 3, 5), v.positive(3)]),
        OpCase(
            "dequantize_rows",
            "affine-group",
            lambda v: [bytes_of(v, 2, 3, 21), v.positive(2, 3, 3), v.ids(256, 2, 3, 3) - np.int32(128)],
            {"scope": 8, "zero": True},
        ),
        OpCase("dequantize_rows", "half", lambda v: [bytes_of(v, 3, 4), v.positive(3)], dtype="float16"),
    ]  # fmt: skip
    for levels, scope, axes in (("ternary", "tensor", (1,)), ("binary", 10, (5, 4))):
        found.append(
            OpCase(
                "dequantize_rows",
                levels,
                lambda v, levels=levels, axes=axes: [weight_of(v, levels, 5, 37), v.positive(*axes)],
                {"levels": levels, "scope": scope, "columns": 37},
            )
        )
    return found
