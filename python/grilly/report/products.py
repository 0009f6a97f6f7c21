"""References and bounds of products, in floats and in integers of few bits; see references.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly.report.references import (
    BOUNDS,
    REFERENCES,
    TINY,
    Array,
    Attributes,
    Operands,
    U,
    activate,
    bounded,
    magnitude,
    normed,
    of_activation,
    reference,
    summed,
)

__all__ = ["packed"]


@reference
def linear(operands: Operands, attributes: Attributes) -> Any:
    rest = list(operands[2:])
    y = operands[0] @ operands[1].T
    if attributes.get("bias"):
        y = y + rest.pop(0)
    y = activate(y, attributes.get("activation"))
    return y + rest.pop(0) if attributes.get("residual") == "added" else y


@bounded
def linear_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    plain, kind = {"bias": attributes.get("bias")}, attributes.get("activation")
    own = operands[: 3 if plain["bias"] else 2]
    off = summed(operands[0].shape[-1], magnitude("linear", own, plain))
    if kind:
        before = linear(own, plain)
        off = 1.2 * off + of_activation(before, activate(before, kind), kind)
    if attributes.get("residual") == "added":
        off = off + 4 * U * (np.abs(y) + np.abs(operands[-1]))
    return off + TINY


@reference
def matmul(operands: Operands, attributes: Attributes) -> Any:
    a, b = operands
    return (a.swapaxes(-1, -2) if attributes.get("transpose_a") else a) @ (
        b.swapaxes(-1, -2) if attributes.get("transpose_b") else b
    )


@bounded
def matmul_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    terms = operands[0].shape[-2 if attributes.get("transpose_a") else -1]
    return summed(terms, magnitude("matmul", operands, attributes)) + TINY


@reference
def gated_linear(operands: Operands, attributes: Attributes) -> Any:
    x, gate, up = operands
    return activate(x @ gate.T, attributes["kind"]) * (x @ up.T)


@bounded
def gated_linear_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    x, gate, up = operands
    kind, size, before = attributes["kind"], np.abs(x), x @ gate.T
    opened = activate(before, kind)
    off = 1.2 * summed(x.shape[-1], size @ np.abs(gate).T) + of_activation(before, opened, kind)
    of_up = summed(x.shape[-1], size @ np.abs(up).T)
    return np.abs(x @ up.T) * off + np.abs(opened) * of_up + off * of_up + 2 * U * np.abs(y) + TINY


@reference
def layer_norm_linear(operands: Operands, attributes: Attributes) -> Any:
    x, scale, shift, weight, bias = operands
    return normed(x, [scale, shift], {})[0] @ weight.T + bias


@bounded
def layer_norm_linear_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    x, scale, shift, weight, bias = operands
    (normal, off), size = normed(x, [scale, shift], {}), np.abs(weight).T
    terms = summed(x.shape[-1], (np.abs(normal) + off) @ size + np.abs(bias))
    return 1.2 * (off @ size + terms) + TINY


@reference
def route(operands: Operands, attributes: Attributes) -> Any:
    (scores,) = operands
    chosen = np.argsort(-scores, axis=1, kind="stable")[:, : attributes["top_k"]]
    powers = np.take_along_axis(np.exp(scores), chosen, axis=1)
    flat = chosen.reshape(-1)
    order = np.argsort(flat, kind="stable")
    starts = np.searchsorted(flat[order], np.arange(scores.shape[1] + 1))
    return powers / powers.sum(axis=1, keepdims=True), order.reshape(chosen.shape), starts


@bounded
def route_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    off = 2 * U * (5 - 3 * np.log(y[0])) + summed(operands[0].shape[1], 1.0)
    return y[0] * off + TINY, np.zeros(y[1].shape), np.zeros(y[2].shape)


@reference
def expert_linear(operands: Operands, attributes: Attributes) -> Any:
    x, weight, order, starts, bias = operands
    y, flat = np.zeros((order.size, weight.shape[1])), order.reshape(-1)
    for expert, (first, end) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
        own = flat[first:end]
        y[own] = x[own // order.shape[1]] @ weight[expert].T + bias[expert]
    return activate(y, attributes.get("activation")).reshape(*order.shape, -1)


@bounded
def expert_linear_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    kind, before = attributes["activation"], expert_linear(operands, {})
    off = 1.2 * summed(operands[0].shape[-1], magnitude("expert_linear", operands, {}))
    return off + of_activation(before, y, kind) + TINY


@reference
def weighted_sum(operands: Operands, attributes: Attributes) -> Any:
    x, weight, bias = operands
    return (x * weight[..., None]).sum(axis=1) + bias


@bounded
def weighted_sum_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    return summed(operands[0].shape[1] + 1, magnitude("weighted_sum", operands, attributes)) + TINY


#: Values of a byte, by their name.
PER_BYTE = {"int8": 1, "ternary": 4, "binary": 8}


def packed(values: Array, levels: str) -> Array:
    """Values of -1, 0 and 1, or of -1 and 1, in the bits of bytes, the first of a row in the lowest.

    Example:
        >>> import numpy as np
        >>> from grilly.report.products import packed
        >>> packed(np.array([[1, -1, 1]]), "binary").tolist()
        [[5]]
    """
    each, codes = PER_BYTE[levels], values + 1 if levels == "ternary" else values > 0
    codes = np.pad(codes.astype(int), [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % each)])
    bits = 8 // each * np.arange(each)
    return np.asarray((codes.reshape(*codes.shape[:-1], -1, each) << bits).sum(axis=-1).astype(np.uint8))


def unpacked(data: Array, levels: str, columns: int) -> Array:
    if levels == "int8":
        return data.astype(int)
    each = PER_BYTE[levels]
    codes = data[..., None].astype(int) >> (8 // each) * np.arange(each) & (3 if levels == "ternary" else 1)
    codes = codes.reshape(*data.shape[:-1], -1)[..., :columns]
    return np.asarray(codes - 1 if levels == "ternary" else 2 * codes - 1)


@reference
def integer_linear(operands: Operands, attributes: Attributes) -> Any:
    q, weight = operands
    return (q.astype(int) @ unpacked(weight, attributes.get("levels", "int8"), q.shape[-1]).T).astype(float)


def parts(operands: Operands, attributes: Attributes) -> tuple[Array, Array, int]:
    """A product of integers by its groups of terms: its sum, that of the magnitudes, and how many there are."""
    q, scale, weight, weight_scale = operands
    columns, scope = q.shape[-1], attributes["scope"]
    w, group = unpacked(weight, attributes["levels"], columns), columns if isinstance(scope, str) else scope
    starts = range(0, columns, group)
    each = [
        q[..., at : at + group].astype(int)
        @ w[:, at : at + group].T
        / (weight_scale if isinstance(scope, str) else weight_scale[:, at // group])
        for at in starts
    ]
    return sum(each) / scale[..., None], sum(map(np.abs, each)) / scale[..., None], len(starts)


@reference
def quantized_linear(operands: Operands, attributes: Attributes) -> Array:
    return parts(operands, attributes)[0]


@bounded
def quantized_linear_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    product, size, groups = parts(operands, attributes)
    before = 5 * U * size + summed(groups, size) + 2 * U * np.abs(product)
    return 1.2 * before + 8 * U * np.abs(y) + TINY


@reference
def quantize_rows(operands: Operands, attributes: Attributes) -> Any:
    """In float32, as a scale and a product with it are rounded; integers are exact."""
    x, kind = operands[0].astype(np.float32), attributes.get("kind", "absmax")
    if attributes.get("scope") == "tensor":
        scale = np.float32(x.size / np.abs(x).astype(float).sum())
        values = np.clip(np.rint(x * scale), -1, 1) if kind == "ternary" else np.where(x > 0, 1, -1)
        return packed(values, kind), scale.reshape(1).astype(float)
    if kind == "absmax":
        scale = np.float32(127) / np.abs(x).max(axis=-1)
        return np.rint(x * scale[..., None]), scale.astype(float)
    least, most = np.minimum(x.min(axis=-1), 0), np.maximum(x.max(axis=-1), 0)
    half = np.float32(0.5)
    scale = np.float32(127.5) / np.maximum(half * most - half * least, np.float32(5e-6))
    offset = np.clip(-128 - np.rint(least * scale), -128, 127)
    return np.clip(np.rint(x * scale[..., None]) + offset[..., None], -128, 127), scale.astype(float), offset


@bounded
def quantize_rows_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    off = 4 * U + summed(operands[0].size, 1.0) if attributes.get("scope") == "tensor" else 0.0
    return np.zeros(y[0].shape), off * np.abs(y[1]), *(np.zeros(part.shape) for part in y[2:])


@reference
def dequantize_rows(operands: Operands, attributes: Attributes) -> Any:
    return operands[0] / operands[1][..., None]


@bounded
def dequantize_rows_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    return 6 * U * np.abs(y) + TINY


def norm_quantize_rows(operands: Operands, attributes: Attributes) -> Any:
    y = normed(operands[0], operands[1:], {})[0]
    scale = 127 / np.maximum(np.abs(y).max(axis=-1), 1e-5)
    return np.rint(y * scale[..., None]), scale


def norm_quantize_rows_bound(operands: Operands, attributes: Attributes, y: Any) -> Any:
    """Scales are off as the largest element is, and integers by one where what is off reaches a half."""
    rows, of_norm = normed(operands[0], operands[1:], {})
    size, scale = np.abs(rows), y[1]
    off = of_norm + 4 * U * size
    of_scale = scale * (off.max(axis=-1) / np.maximum(size.max(axis=-1), 1e-5) + 4 * U)
    scaled = rows * scale[..., None]
    near = np.abs(scaled - np.floor(scaled) - 0.5) <= off * scale[..., None] + size * of_scale[..., None]
    return near.astype(float), of_scale


for _name in ("layer_norm_quantize_rows", "rms_norm_quantize_rows"):
    REFERENCES[_name], BOUNDS[_name] = norm_quantize_rows, norm_quantize_rows_bound
