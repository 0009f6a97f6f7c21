"""Linear layers over quantised weights, forward and with the straight-through estimator backward."""

from __future__ import annotations

import math
from typing import Any

from grilly.functional.checks import need_axes, one_of
from grilly.functional.dispatch import Operand, Result, evaluate, floats, optional
from grilly.functional.linear import ACTIVATIONS, FUSED
from grilly.quant.rows import columns_of, weight, weight_scope

__all__ = ["bitlinear_backward_input", "bitlinear_backward_weight", "bitlinear_forward", "mixed_precision_matmul"]


def bitlinear_forward(
    input: Operand,
    weights: Operand,
    weight_scale: Operand,
    bias: Operand | None = None,
    *,
    levels: str = "binary",
    group_size: int | None = None,
    activation: str | None = None,
    residual: Operand | None = None,
) -> Result:
    """Linear layer over int8 activations and weights of 8, 2 or 1 bits; the products are summed as integers, exactly.

    `q, s = quantize_activations(input)`,
    `y = act(sum_g (sum_{k in g} q[k] w[n, k]) / weight_scale[n, g] / s + bias[n]) + residual`, where `g` are the groups
    of columns that share a scale: one where `weight_scale` has one axis.

    Args:
        input: `(..., in_features)`.
        weights: uint8 `(out_features, ceil(in_features / 8))` of signs, `(out_features, ceil(in_features / 4))` of
            ternary values, int8 `(out_features, in_features)`.
        weight_scale: As `binarize_weights`, `quantize_weights_1bit`, `quantize_weights_ternary` or
            `quantize_weights_8bit` gives it: `(1,)`, `(out_features,)`, or `(out_features, groups)`.
        bias: `(out_features,)`; default none.
        levels: `"binary"` (default), `"ternary"` or `"int8"`: the values of `weights`.
        group_size: That of `quantize_weights_1bit`, where `weight_scale` has two axes; default None.
        activation: `"relu"`, `"gelu"` (tanh), `"silu"`, `"gelu_erf"`, `"tanh"`, `"sigmoid"` or `"quick_gelu"`; default
            none.
        residual: `(..., out_features)`, added last; default none.

    Returns:
        float32 `(..., out_features)`. A row of `input` that is not finite gives NaN.

    Raises:
        InvalidArgumentError: Shapes that do not fit, an unknown activation or levels.
        InvalidTypeError: `weights` is not uint8, of `"int8"` int8.

    Source: Wang et al., BitNet (2023); Ma et al. (2024); transformers' `BitLinear`.

    Example:
        >>> from grilly import quant
        >>> packed, scale = quant.quantize_weights_ternary([[0.5, -0.5], [0.5, 0.5]])
        >>> [round(y, 3) for y in quant.bitlinear_forward([1.0, 0.5], packed, scale, levels="ternary").tolist()]
        [0.248, 0.752]
    """
    name = "bitlinear_forward"
    x, w, b = floats(input, "input"), weight(name, weights, levels), optional(bias, "bias")
    ws, added = floats(weight_scale, "weight_scale"), optional(residual, "residual")
    need_axes(name, "input", x, 1)
    kind = None
    if activation is not None:
        kind = ACTIVATIONS.get(activation) or one_of(name, "activation", activation, (*ACTIVATIONS, *FUSED))
    attributes = {
        "levels": levels,
        "scope": weight_scope(name, w, ws, group_size),
        "bias": b is not None,
        "activation": kind,
        "residual": "none" if added is None else "added",
    }

    def body(r: Any, x: Any, w: Any, ws: Any, b: Any, added: Any) -> Any:
        q, scale = r.each("quantize_rows", x)
        return r("quantized_linear", q, scale, w, ws, b, added, **attributes)

    return evaluate(name, body, x, w, ws, b, added)


def bitlinear_backward_input(
    grad_output: Operand,
    weights: Operand,
    weight_scale: Operand,
    *,
    levels: str = "binary",
    group_size: int | None = None,
    columns: int | None = None,
) -> Result:
    """Gradient of `bitlinear_forward` in its input, straight through: `grad_output w`, `w = q / weight_scale`.

    Args:
        grad_output: `(..., out_features)`, the gradient of the product without activation and residual.
        weights: As in `bitlinear_forward`.
        weight_scale: As in `bitlinear_forward`.
        levels: As in `bitlinear_forward`; default `"binary"`.
        group_size: As in `bitlinear_forward`; default None.
        columns: `in_features` of packed weights; default as many as fill the bytes.

    Returns:
        float32 `(..., in_features)`.

    Raises:
        InvalidArgumentError: Shapes that do not fit, or unknown levels.
        InvalidTypeError: `weights` is not uint8, of `"int8"` int8.

    Source: the straight-through estimator of Bengio et al. (2013): the gradient of rounding is 1.

    Example:
        >>> from grilly import quant
        >>> packed, scale = quant.binarize_weights([[0.5, -0.5], [0.5, 0.5]])
        >>> quant.bitlinear_backward_input([1.0, 2.0], packed, scale, columns=2).tolist()
        [1.5, 0.5]
    """
    name = "bitlinear_backward_input"
    g, w, ws = floats(grad_output, "grad_output"), weight(name, weights, levels), floats(weight_scale, "weight_scale")
    leading = need_axes(name, "grad_output", g, 1)[:-1]
    attributes = _weights(name, w, ws, levels, group_size, columns)

    def body(r: Any, g: Any, w: Any, ws: Any) -> Any:
        w = r("dequantize_rows", w, ws, **attributes)
        y = r("matmul", _rows(r.wide(g)), w)
        return y.reshape([*leading, w.shape[-1]])

    return evaluate(name, body, g, w, ws)


def bitlinear_backward_weight(grad_output: Operand, input: Operand) -> Result:
    """Gradient of `bitlinear_forward` in the weight before it was rounded, `sum_m grad_output[m] x[m]`.

    `x` is what the product saw, `q / s` of `quantize_activations(input)`.

    Args:
        grad_output: `(..., out_features)`, the gradient of the product without activation and residual.
        input: `(..., in_features)`.

    Returns:
        float32 `(out_features, in_features)`.

    Raises:
        InvalidArgumentError: Shapes that do not fit.

    Source: as `bitlinear_backward_input`.

    Example:
        >>> from grilly import quant
        >>> quant.bitlinear_backward_weight([[1.0, 2.0]], [[0.0, 127.0]]).tolist()
        [[0.0, 127.0], [0.0, 254.0]]
    """
    name = "bitlinear_backward_weight"
    g, x = floats(grad_output, "grad_output"), floats(input, "input")
    need_axes(name, "grad_output", g, 1)
    need_axes(name, "input", x, 1)

    def body(r: Any, g: Any, x: Any) -> Any:
        q, scale = r.each("quantize_rows", x)
        return r("matmul", _rows(r.wide(g)), _rows(r("dequantize_rows", q, scale)), transpose_a=True)

    return evaluate(name, body, g, x)


def mixed_precision_matmul(
    input: Operand,
    weights: Operand,
    weight_scale: Operand,
    *,
    levels: str = "binary",
    group_size: int | None = None,
) -> Result:
    """Float activations times a weight of 8, 2 or 1 bits: `input w^T`, `w = q / weight_scale`, all sums in float32.

    Unlike `bitlinear_forward`, `input` is not rounded.

    Args:
        input: `(..., in_features)`; float16 stays float16.
        weights: As in `bitlinear_forward`.
        weight_scale: As in `bitlinear_forward`.
        levels: As in `bitlinear_forward`; default `"binary"`.
        group_size: As in `bitlinear_forward`; default None.

    Returns:
        `(..., out_features)`, float16 when `input` is, else float32.

    Raises:
        InvalidArgumentError: Shapes that do not fit, or unknown levels.
        InvalidTypeError: `weights` is not uint8, of `"int8"` int8.

    Source: weight-only quantisation, as in Frantar et al., GPTQ (2022).

    Example:
        >>> from grilly import quant
        >>> packed, scale = quant.binarize_weights([[0.5, -0.5], [0.5, 0.5]])
        >>> quant.mixed_precision_matmul([1.0, 0.25], packed, scale).tolist()
        [0.375, 0.625]
    """
    name = "mixed_precision_matmul"
    x, w, ws = floats(input, "input"), weight(name, weights, levels), floats(weight_scale, "weight_scale")
    columns = need_axes(name, "input", x, 1)[-1]
    attributes = _weights(name, w, ws, levels, group_size, columns)
    return evaluate(name, lambda r, x, *w: r("linear", x, r("dequantize_rows", *w, **attributes)), x, w, ws)


def _weights(name: str, w: Any, scale: Any, levels: str, group_size: int | None, columns: int | None) -> dict[str, Any]:
    """The attributes of `dequantize_rows` for a weight."""
    scope = weight_scope(name, w, scale, group_size)
    return {"levels": levels, "scope": scope, **columns_of(name, w, columns, levels)}


def _rows(x: Any) -> Any:
    """An array as a matrix of its last axis."""
    return x.reshape([math.prod(x.shape[:-1]), x.shape[-1]])
