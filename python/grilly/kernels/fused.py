"""Fused kernels as functions."""

from __future__ import annotations

from grilly import _core
from grilly.errors import InvalidTypeError
from grilly.functional.activations import gelu_kind
from grilly.functional.checks import flag, number, one_of, whole
from grilly.functional.dispatch import Operand, Recorder, Result, evaluate, floats, mask_values, optional
from grilly.functional.linear import FUSED
from grilly.functional.positions import angles

__all__ = [
    "bias_gelu",
    "geglu",
    "layer_norm_linear",
    "residual_layer_norm",
    "residual_rms_norm",
    "rms_norm_rope",
    "softmax_dropout",
    "swiglu",
]


def swiglu(x: Operand, w_gate: Operand, w_up: Operand) -> Result:
    """Gated product: `silu(x w_gate^T) (x w_up^T)`.

    Args:
        x: `(..., K)`.
        w_gate: `(N, K)`.
        w_up: `(N, K)`.

    Returns:
        `(..., N)`.

    Raises:
        InvalidArgumentError: Incompatible shapes.

    Source: Shazeer, GLU Variants Improve Transformer (2020).

    Example:
        >>> from grilly import kernels
        >>> kernels.swiglu([[1.0, 2.0]], [[0.0, 0.0]], [[1.0, 1.0]]).tolist()
        [[0.0]]
    """
    return _gated("swiglu", x, w_gate, w_up, "silu")


def geglu(x: Operand, w_gate: Operand, w_up: Operand, approximate: str = "tanh") -> Result:
    """Gated product: `gelu(x w_gate^T) (x w_up^T)`.

    Args:
        x: `(..., K)`.
        w_gate: `(N, K)`.
        w_up: `(N, K)`.
        approximate: `"tanh"` or `"none"`, as in `functional.gelu`; default `"tanh"`.

    Returns:
        `(..., N)`.

    Raises:
        InvalidArgumentError: Incompatible shapes, or an unknown approximation.

    Source: Shazeer, GLU Variants Improve Transformer (2020).

    Example:
        >>> from grilly import kernels
        >>> kernels.geglu([[100.0]], [[1.0]], [[2.0]]).tolist()
        [[20000.0]]
    """
    return _gated("geglu", x, w_gate, w_up, gelu_kind("geglu", approximate))


def _gated(name: str, x: Operand, w_gate: Operand, w_up: Operand, kind: str) -> Result:
    operands = floats(x, "x"), floats(w_gate, "w_gate"), floats(w_up, "w_up")
    return evaluate(name, lambda r, x, gate, up: r("gated_linear", x, gate, up, kind=kind), *operands)


def layer_norm_linear(
    x: Operand,
    norm_weight: Operand,
    norm_bias: Operand,
    weight: Operand,
    bias: Operand | None = None,
    eps: float = 1e-5,
    activation: str | None = None,
) -> Result:
    """Layer norm, then a linear layer: `act((layer_norm(x) norm_weight + norm_bias) weight^T + bias)`.

    Args:
        x: `(..., K)`.
        norm_weight: `(K,)`.
        norm_bias: `(K,)`.
        weight: `(N, K)`.
        bias: `(N,)`; default none.
        eps: Added to the variance; default 1e-5.
        activation: `"gelu_erf"`, `"gelu_tanh"`, `"relu"`, `"silu"`, `"tanh"`, `"sigmoid"` or `"quick_gelu"`; default
            none.

    Returns:
        `(..., N)`.

    Raises:
        InvalidArgumentError: Incompatible shapes, or an unknown activation.

    Source: Ba, Kiros, Hinton, Layer Normalization (2016), before the products of a pre-norm transformer.

    Example:
        >>> from grilly import kernels
        >>> kernels.layer_norm_linear([[1.0, 3.0]], [1.0, 1.0], [0.0, 0.0], [[2.0, 5.0]], eps=0.0).tolist()
        [[3.0]]
    """
    name = "layer_norm_linear"
    if activation is not None:
        one_of(name, "activation", activation, FUSED)
    norms = floats(norm_weight, "norm_weight"), floats(norm_bias, "norm_bias")
    given = floats(x, "x"), *norms, floats(weight, "weight"), optional(bias, "bias")
    ends = {"eps": number(name, "eps", eps), "bias": bias is not None, "activation": activation}
    return evaluate(name, lambda r, *xs: r("layer_norm_linear", *xs, **ends), *given)


def residual_layer_norm(x: Operand, residual: Operand, weight: Operand, bias: Operand, eps: float = 1e-5) -> Result:
    """Layer norm of a sum: `layer_norm(x + residual) weight + bias` over the last axis.

    Args:
        x: `(..., N)`.
        residual: `x`'s shape.
        weight: `(N,)`.
        bias: `(N,)`.
        eps: Added to the variance; default 1e-5.

    Returns:
        `x`'s shape.

    Raises:
        InvalidArgumentError: Incompatible shapes.

    Source: Vaswani et al., Attention Is All You Need (2017), "Add & Norm".

    Example:
        >>> from grilly import kernels
        >>> kernels.residual_layer_norm([[1.0, 2.0]], [[0.0, 1.0]], [1.0, 1.0], [0.0, 0.0], eps=0.0).tolist()
        [[-1.0, 1.0]]
    """
    operands = floats(x, "x"), floats(residual, "residual"), floats(weight, "weight"), floats(bias, "bias")
    small = number("residual_layer_norm", "eps", eps)
    return evaluate("residual_layer_norm", lambda r, *xs: r("residual_layer_norm", *xs, eps=small), *operands, alike=2)


def residual_rms_norm(x: Operand, residual: Operand, weight: Operand, eps: float = 1e-6) -> Result:
    """RMS norm of a sum: `rms_norm(x + residual) weight` over the last axis.

    Args:
        x: `(..., N)`.
        residual: `x`'s shape.
        weight: `(N,)`.
        eps: Added to the mean of squares; default 1e-6.

    Returns:
        `x`'s shape.

    Raises:
        InvalidArgumentError: Incompatible shapes.

    Source: Zhang, Sennrich, Root Mean Square Layer Normalization (2019), behind a residual connection.

    Example:
        >>> from grilly import kernels
        >>> kernels.residual_rms_norm([[1.0, 1.0]], [[1.0, 1.0]], [1.0, 2.0], eps=0.0).tolist()
        [[1.0, 2.0]]
    """
    operands = floats(x, "x"), floats(residual, "residual"), floats(weight, "weight")
    small = number("residual_rms_norm", "eps", eps)
    return evaluate("residual_rms_norm", lambda r, *xs: r("residual_rms_norm", *xs, eps=small), *operands, alike=2)


def bias_gelu(x: Operand, bias: Operand, approximate: str = "tanh") -> Result:
    """GELU of a biased input: `gelu(x + bias)`.

    Args:
        x: `(..., N)`.
        bias: `(N,)`.
        approximate: `"tanh"` or `"none"`, as in `functional.gelu`; default `"tanh"`.

    Returns:
        `x`'s shape.

    Raises:
        InvalidArgumentError: Incompatible shapes, or an unknown approximation.

    Source: Hendrycks, Gimpel, Gaussian Error Linear Units (2016).

    Example:
        >>> from grilly import kernels
        >>> kernels.bias_gelu([[99.0, 0.0]], [1.0, 0.0]).tolist()
        [[100.0, 0.0]]
    """
    gelu_kind("bias_gelu", approximate)
    operands = floats(x, "x"), floats(bias, "bias")
    return evaluate("bias_gelu", lambda r, *xs: r("bias_gelu", *xs, approximate=approximate), *operands)


def softmax_dropout(
    x: Operand, p: float, seed: int, mask: Operand | None = None, causal: bool = False, offset: int = 0
) -> Result:
    """Softmax over the last axis, then dropout: 0 with probability `p`, else divided by `1 - p`.

    The dropped elements are those of `functional.dropout` with the same `seed`.

    Args:
        x: `(..., N)`.
        p: In 0 .. 1.
        seed: Key of the random numbers, 0 .. 2^64 - 1.
        mask: Broadcasts to `x`: 0 or False for entries excluded from the softmax; default none.
        causal: Whether row `i` of axis -2 keeps only its entries up to `i`; default False.
        offset: Counter of the first random numbers; default 0.

    Returns:
        `x`'s shape.

    Raises:
        InvalidArgumentError: `p` is out of range, or the mask does not broadcast to `x`.

    Source: Srivastava et al., Dropout (2014), behind softmax; Salmon et al., Parallel Random Numbers (2011).

    Example:
        >>> from grilly import kernels
        >>> kernels.softmax_dropout([[0.0, 0.0]], p=0.0, seed=1).tolist()
        [[0.5, 0.5]]
    """
    operands = [floats(x, "x")]
    if mask is not None:
        keep, is_bits = mask_values(mask, "mask")
        if not is_bits:
            raise InvalidTypeError("softmax_dropout: mask is of floats, expected bool or integers")
        operands.append(keep)
    given = {
        "p": number("softmax_dropout", "p", p),
        "seed": whole("softmax_dropout", "seed", seed, least=0),
        "offset": whole("softmax_dropout", "offset", offset, least=0),
        "causal": flag("softmax_dropout", "causal", causal),
    }
    return evaluate("softmax_dropout", lambda r, *xs: r("softmax_dropout", *xs, **given), *operands)


def rms_norm_rope(x: Operand, weight: Operand, eps: float = 1e-6, rope_base: float = 10000.0) -> Result:
    """RMS norm, then rotary positions: `rope(rms_norm(x) weight)` at positions 0, 1, 2 ...

    Args:
        x: `(B, S, H, D)`.
        weight: `(H D,)` to normalise all heads of a position together, or `(D,)` for each head separately.
        eps: Added to the mean of squares; default 1e-6.
        rope_base: Angles are `position rope_base^(-2 i / D)`; default 10000.

    Returns:
        `x`'s shape.

    Raises:
        InvalidArgumentError: Incompatible shapes.

    Source: Zhang, Sennrich (2019), then Su et al., RoFormer (2021), in LLaMA's half-split form.

    Example:
        >>> from grilly import kernels
        >>> kernels.rms_norm_rope([[[[3.0, 3.0]]]], [1.0, 1.0], eps=0.0).tolist()
        [[[[1.0, 1.0]]]]
    """
    rows, scale = floats(x, "x"), floats(weight, "weight")
    axes, small = rows.shape, number("rms_norm_rope", "eps", eps)
    base = number("rms_norm_rope", "rope_base", rope_base)

    def body(r: Recorder, x: _core.Array, weight: _core.Array) -> _core.Array:
        tables = angles(r, axes[1], axes[3], base) if len(axes) == 4 else []
        return r("rms_norm_rope", x, weight, *tables, eps=small)

    return evaluate("rms_norm_rope", body, rows, scale)
