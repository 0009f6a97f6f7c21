"""Operations of the array engine by name, as the model computes them: operands and attributes as in tests/cases."""

from collections.abc import Callable
from typing import Any

import numpy as np

from . import experts as mixtures
from . import functions, integers, quantized, rows
from .arithmetic import F, add, canonical, div, floats, mul, settle, sub
from .attention import attention as attend
from .attention import visible

Operation = Callable[..., np.ndarray | tuple[np.ndarray, ...]]
#: By name; each takes the operands, then the attributes by name.
OPERATIONS: dict[str, Operation] = {}


def operation(function: Operation) -> Operation:
    OPERATIONS[function.__name__] = function
    return function


def evaluate(name: str, operands: list[np.ndarray], attributes: dict[str, Any]) -> np.ndarray | tuple[np.ndarray, ...]:
    """The result of an operation, or all of them."""
    return OPERATIONS[name](*operands, **attributes)


@operation
def activation(x, kind: str, **numbers: float) -> np.ndarray:
    return functions.apply(kind, x, **numbers)


@operation
def gated(x, kind: str, **numbers: float) -> np.ndarray:
    first, second = np.split(floats(x), 2, axis=-1)
    return canonical(mul(settle(first), functions.apply(kind, second, **numbers)))


@operation
def binary(a, b, kind: str) -> np.ndarray:
    return canonical({"add": add, "subtract": sub, "multiply": mul, "divide": div}[kind](settle(a), settle(b)))


@operation
def linear(x, weight, *rest, bias=False, activation=None, residual="none") -> np.ndarray:
    rest = list(rest)
    bias = rest.pop(0) if bias else None
    added = rest.pop(0) if residual == "added" else None
    return integers.linear(x, weight, bias, None if activation == "identity" else activation, added)


@operation
def matmul(a, b, transpose_a=False, transpose_b=False, scale=1.0) -> np.ndarray:
    a, b = (np.swapaxes(x, -1, -2) if turn else x for x, turn in ((a, transpose_a), (b, transpose_b)))
    return integers.matmul(a, b, None if scale == 1.0 else scale)


@operation
def softmax(x, keep=None, causal=False, masked=False) -> np.ndarray:
    kept = np.broadcast_to(True if keep is None else keep != 0, x.shape)
    if causal:
        kept = kept & np.tri(x.shape[-2], x.shape[-1], dtype=bool)
    return rows.softmax(x, kept & (x != -np.inf) if masked else kept)


@operation
def softmax_along(x, axis: int) -> np.ndarray:
    def spread(y: np.ndarray) -> np.ndarray:
        return np.expand_dims(y, axis)

    if not x.size:
        return floats(x)
    powers = activation(binary(x, spread(reduce(x, axis=axis, kind="max")), "subtract"), "exp")
    return binary(powers, spread(reduce(powers, axis=axis, kind="sum")), "divide")


@operation
def whiten(x, mean, deviation, eps=1e-8) -> np.ndarray:
    return binary(binary(x, mean, "subtract"), binary(deviation, eps, "add"), "divide")


@operation
def route(scores, top_k: int, normalized=False) -> tuple[np.ndarray, ...]:
    return mixtures.route(scores, top_k, normalized)


@operation
def expert_linear(x, weight, order, starts, *biases, bias=False, activation=None) -> np.ndarray:
    own = biases[0] if bias else None
    return mixtures.expert_linear(x, weight, (order, starts), own, None if activation == "identity" else activation)


@operation
def weighted_sum(x, weight, *biases, bias=False) -> np.ndarray:
    return mixtures.weighted_sum(x, weight, biases[0] if bias else None)


@operation
def layer_norm(x, weight=None, bias=None, eps=1e-5) -> np.ndarray:
    return rows.layer_norm(x, 1.0 if weight is None else weight, 0.0 if bias is None else bias, eps)


@operation
def rms_norm(x, weight=None, eps=1e-6) -> np.ndarray:
    return rows.rms_norm(x, 1.0 if weight is None else weight, eps)


@operation
def normalize(x, eps=1e-12, floor="max") -> np.ndarray:
    return rows.normalize(x, eps, floor)


@operation
def reduce(x, weights=None, *, axis: int, kind: str) -> np.ndarray:
    """Every column along the axis is a row of its own, whatever axes follow."""
    x = np.moveaxis(settle(x), axis, -1)
    if weights is not None:
        inner = x.ndim - 1 - axis
        weights = np.expand_dims(settle(weights), tuple(range(axis, axis + inner)))
    return canonical(rows.reduce(kind, x, weights))


@operation
def pool(x, offsets, first, modes) -> np.ndarray:
    texts = [
        [rows.pool(mode, x[start:end], skip) for mode in modes]
        for start, end, skip in zip(offsets[:-1], offsets[1:], first, strict=True)
    ]
    return np.stack([np.concatenate(text) for text in texts]) if texts else np.zeros((0, len(modes) * x.shape[1]), F)


@operation
def token_convolution(x, weight, offsets, before: int) -> np.ndarray:
    return rows.token_convolution(x, weight, offsets, before)


@operation
def embedding_sum(*pairs) -> np.ndarray:
    return rows.embedding_sum(pairs[1::2], pairs[::2])


@operation
def rope(x, cosine, sine, heads=None) -> np.ndarray:
    y = rows.rope(x, cosine, sine)
    heads = heads or x.shape[-2]
    more = np.zeros((*y.shape[:-2], max(heads - y.shape[-2], 0), y.shape[-1]), F)
    return np.concatenate([y, more], axis=-2)[..., :heads, :]


def heads_of(x, column: int, heads: int, size: int) -> np.ndarray:
    """`[heads, T, size]` out of packed columns."""
    return x[:, column : column + heads * size].reshape(len(x), heads, size).swapaxes(0, 1)


@operation
def attention(q, k, v, q_offsets, k_offsets, *others, heads, kv_heads, head_dim, scale, **more) -> np.ndarray:
    q = heads_of(q, more.get("q_column", 0), heads, head_dim)
    k, v = (heads_of(x, more.get(f"{name}_column", 0), kv_heads, head_dim) for x, name in ((k, "k"), (v, "v")))
    at = more.get("distances") or (None, None)
    tables = [None if column is None else heads_of(others[-1], column, kv_heads, head_dim) for column in at]
    y = np.zeros(q.shape, F)
    for text in range(len(q_offsets) - 1):
        own = text // more.get("shared_by", 1)
        queries = np.s_[:, q_offsets[text] : q_offsets[text + 1]]
        keys = np.s_[:, k_offsets[own] : k_offsets[own + 1]]
        counts = q[queries].shape[1], k[keys].shape[1]
        sight = {name: more[name] for name in ("causal", "window", "align_end", "global_tokens") if name in more}
        place = np.arange(counts[0])[:, None] + (counts[1] - counts[0] if more.get("align_end") else 0)
        distance = np.arange(counts[1]) - place
        bias = None
        if more.get("bias"):
            reach = others[0].shape[1] // 2
            own_rows = (text * heads + np.arange(heads)) % len(others[0])
            bias = others[0][own_rows][:, np.clip(distance, -reach, reach) + reach]
        seen, cap = visible(*counts, **sight), more.get("soft_cap", 0.0)
        y[queries] = attend(q[queries], k[keys], v[keys], scale, seen, cap, bias, tables, distance)
    return y.swapaxes(0, 1).reshape(-1, heads * head_dim)


@operation
def quantize_rows(x, *factors, **attributes) -> tuple[np.ndarray, ...]:
    return quantized.quantize_rows(x, *factors, **{name: attributes[name] for name in attributes if name != "factors"})


@operation
def dequantize_rows(x, scale, *zero, levels="int8", scope="row", columns=None, **_) -> np.ndarray:
    return quantized.dequantize_rows(x, scale, *zero, levels=levels, scope=scope, columns=columns or x.shape[-1])


@operation
def integer_linear(q, weight, levels="int8") -> np.ndarray:
    return quantized.integer_linear(q, weight, levels)


@operation
def quantized_linear(q, scale, weight, weight_scale, *rest, bias=False, residual="none", **attributes) -> np.ndarray:
    rest = list(rest)
    own = rest.pop(0) if bias else None
    added = rest.pop(0) if residual == "added" else None
    return quantized.quantized_linear(q, scale, weight, weight_scale, own, residual=added, **attributes)


@operation
def set_rows(table, x, index) -> np.ndarray:
    y = table.copy()
    y[index] = x
    return y


# What plans compute as the steps of a definition.


@operation
def layer_norm_quantize_rows(x, weight, bias, *factors, eps=1e-5, kept=False, **_) -> tuple[np.ndarray, ...]:
    y = layer_norm(x, weight, bias, eps)
    return (*quantized.quantize_rows(y, *factors), *([y] if kept else []))


@operation
def rms_norm_quantize_rows(x, weight, *factors, eps=1e-6, kept=False, **_) -> tuple[np.ndarray, ...]:
    y = rms_norm(x, weight, eps)
    return (*quantized.quantize_rows(y, *factors), *([y] if kept else []))


@operation
def bias_gelu(x, bias, approximate="none") -> np.ndarray:
    return activation(binary(x, bias, "add"), {"none": "gelu_erf", "tanh": "gelu_tanh"}[approximate])


@operation
def gated_linear(x, gate, weight, kind: str) -> np.ndarray:
    return binary(linear(x, gate, activation=kind), linear(x, weight), "multiply")


@operation
def residual_layer_norm(x, residual, weight=None, bias=None, eps=1e-5) -> np.ndarray:
    return layer_norm(binary(x, residual, "add"), weight, bias, eps)


@operation
def residual_rms_norm(x, residual, weight=None, eps=1e-6) -> np.ndarray:
    return rms_norm(binary(x, residual, "add"), weight, eps)


@operation
def layer_norm_linear(x, scale, shift, weight, *rest, eps=1e-5, **attributes) -> np.ndarray:
    return linear(layer_norm(x, scale, shift, eps), weight, *rest, **attributes)


@operation
def rms_norm_rope(x, weight, cosine, sine, eps=1e-6) -> np.ndarray:
    heads = x if len(weight) == x.shape[-1] else x.reshape(*x.shape[:-2], len(weight))
    return rope(rms_norm(heads, weight, eps).reshape(x.shape), cosine, sine)
