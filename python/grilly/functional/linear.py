"""Linear layers, matrix products, feed-forward blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from grilly.errors import InvalidArgumentError
from grilly.functional.checks import broadcast, need_axes, need_shape, one_of, whole, wrong_shape
from grilly.functional.dispatch import Operand, Prepared, Result, evaluate, floats, optional

__all__ = ["embedding_ffn", "gemm_backward", "linear", "linear_backward", "matmul", "residual"]

# Activations that the kernel of a linear layer can apply to its result.
FUSED = ("gelu_erf", "gelu_tanh", "relu", "silu", "tanh", "sigmoid", "quick_gelu")
ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu"}


def linear(input: Operand, weight: Operand, bias: Operand | None = None) -> Result:
    """Linear layer: `input weight^T + bias`.

    Args:
        input: `(..., in_features)`; one vector is allowed.
        weight: `(out_features, in_features)`.
        bias: `(out_features,)`; default none.

    Returns:
        `(..., out_features)`; float16 when `input` is.

    Raises:
        InvalidArgumentError: Incompatible shapes.
        InvalidTypeError: Not numbers.

    Source: upstream's `functional.linear`; `torch.nn.functional.linear`.

    Example:
        >>> from grilly import functional
        >>> functional.linear([1.0, 2.0], [[3.0, 4.0], [0.0, 1.0]], [0.5, 0.0]).tolist()
        [11.5, 2.0]
    """
    return fused_linear("linear", input, weight, bias, None)


def fused_linear(
    name: str, input: Operand, weight: Operand, bias: Operand | None, activation: str | None, **attributes: float
) -> Result:
    """`linear` followed by an activation, in the same kernel if it supports the activation."""
    x, w, b = floats(input, "input"), floats(weight, "weight"), optional(bias, "bias")
    check_linear(name, x, w, b)
    fused = activation if activation in FUSED else None

    def body(r: Any, x: Any, w: Any, b: Any) -> Any:
        y = r("linear", x, w, b, bias=b is not None, activation=fused)
        return y if fused == activation else r("activation", y, kind=activation, **attributes)

    return evaluate(name, body, x, w, b)


def check_linear(name: str, x: Prepared, weight: Prepared, bias: Prepared | None) -> None:
    columns = need_axes(name, "input", x, 1)[-1]
    rows, features = need_axes(name, "weight", weight, 2, 2)
    if columns != features:
        turned = "; its transpose fits" if rows == columns else ""
        raise InvalidArgumentError(
            f"{name}: input has {columns} columns, but weight has shape {[rows, features]}, which is (out_features, "
            f"in_features) and takes {features}{turned}"
        )
    need_shape(name, "bias", bias, (rows,))


def linear_backward(
    grad_output: Operand, x: Operand, weights: Operand, bias: Operand | None = None
) -> tuple[Result, Result, Result]:
    """Derivative of `linear`: `(g W, g^T x, sum of g)`.

    Args:
        grad_output: `(..., out_features)`.
        x: `(..., in_features)`, the input of the layer.
        weights: `(out_features, in_features)`.
        bias: The layer's bias, if it has one; its values do not matter.

    Returns:
        `(grad_input, grad_weight, grad_bias)` in the shapes of `x`, `weights` and `bias`, the last None without `bias`.

    Raises:
        InvalidArgumentError: Incompatible shapes.

    Source: upstream's `Compute.fnn.linear_backward`.

    Example:
        >>> from grilly import functional
        >>> [g.tolist() for g in functional.linear_backward([1.0, 2.0], [5.0], [[3.0], [4.0]], [0.0, 0.0])]
        [[11.0], [[5.0], [10.0]], [1.0, 2.0]]
    """
    g, x, w = floats(grad_output, "grad_output"), floats(x, "x"), floats(weights, "weights")
    b = optional(bias, "bias")
    check_linear("linear_backward", x, w, b)
    axes, rows = x.shape, w.shape[0]
    need_shape("linear_backward", "grad_output", g, (*axes[:-1], rows))

    def body(r: Any, g: Any, x: Any, w: Any, b: Any) -> tuple[Any, Any, Any]:
        grad_x, grad_w, *grad_bias = r.vjp("linear", g, x, w, b, bias=b is not None)
        return r.like(grad_x, x), r.like(grad_w, w), grad_bias[0] if grad_bias else None

    return evaluate("linear_backward", body, g, x, w, b, alike=2)


def matmul(a: Operand, b: Operand) -> Result:
    """Matrix product by NumPy's rules: the last two axes are matrices, leading axes broadcast, vectors are allowed.

    Args:
        a: `(..., M, K)` or `(K,)`.
        b: `(..., K, N)` or `(K,)`.

    Returns:
        `(..., M, N)`, without the axis of an operand that is a vector; float16 when both are.

    Raises:
        InvalidArgumentError: Incompatible shapes.

    Source: `numpy.matmul`; upstream's `Compute.fnn.gemm`.

    Example:
        >>> from grilly import functional
        >>> functional.matmul([[1.0, 2.0]], [[3.0], [4.0]]).tolist()
        [[11.0]]
    """
    first, second = floats(a, "a"), floats(b, "b")
    axes_a, axes_b = need_axes("matmul", "a", first, 1), need_axes("matmul", "b", second, 1)
    left = axes_a if len(axes_a) > 1 else (1, *axes_a)
    right = axes_b if len(axes_b) > 1 else (*axes_b, 1)
    batch = broadcast(left[:-2], right[:-2])
    if batch is None or left[-1] != right[-2]:
        raise wrong_shape("matmul", "b", axes_b, f"one that fits a's {list(axes_a)}")
    result = batch + (() if len(axes_a) == 1 else left[-2:-1]) + (() if len(axes_b) == 1 else right[-1:])

    def body(r: Any, a: Any, b: Any) -> Any:
        wide_a, wide_b = repeated(r, a.reshape(list(left)), batch), b.reshape(list(right))
        if right[:-2] != batch and math.prod(right[:-2]) == 1:
            wide_b = wide_b.reshape(list(right[-2:]))
        else:
            wide_b = repeated(r, wide_b, batch)
        return r("matmul", wide_a, wide_b).reshape(list(result))

    return evaluate("matmul", body, first, second, alike=2)


def gemm_backward(grad_output: Operand, operand: Operand, mode: int, accumulate: Operand | None = None) -> Result:
    """The gradient of one operand of `C = A B`: `dA = dC B^T` (mode 0), or `dB = A^T dC` (mode 1).

    Args:
        grad_output: `dC`, `(M, N)`, or `(..., M, N)` for as many products.
        operand: The other operand: `B`, `(..., K, N)`, in mode 0, and `A`, `(..., M, K)`, in mode 1.
        mode: 0 or 1.
        accumulate: An earlier gradient of the same operand, to which the new one is added; default none.

    Returns:
        `(..., M, K)` in mode 0, `(..., K, N)` in mode 1; float16 when all operands are.

    Raises:
        InvalidArgumentError: Incompatible shapes, or another mode.

    Source: the HLX transformer's `gemm_backward`.

    Example:
        >>> from grilly import functional
        >>> functional.gemm_backward([[1.0, 2.0]], [[3.0, 4.0]], mode=0).tolist()
        [[11.0]]
        >>> functional.gemm_backward([[1.0, 2.0]], [[3.0]], mode=1, accumulate=[[10.0, 20.0]]).tolist()
        [[13.0, 26.0]]
    """
    g, x, sums = floats(grad_output, "grad_output"), floats(operand, "operand"), optional(accumulate, "accumulate")
    if (mode := whole("gemm_backward", "mode", mode, least=0)) > 1:
        raise InvalidArgumentError(f"gemm_backward: mode is {mode}, expected 0 or 1")
    *batch, m, n = need_axes("gemm_backward", "grad_output", g, 2)
    need_axes("gemm_backward", "operand", x, 2)
    k = x.shape[-2] if mode == 0 else x.shape[-1]
    need_shape("gemm_backward", "operand", x, (*batch, k, n) if mode == 0 else (*batch, m, k))
    need_shape("gemm_backward", "accumulate", sums, (*batch, m, k) if mode == 0 else (*batch, k, n))

    def body(r: Any, g: Any, x: Any, sums: Any) -> Any:
        y = r("matmul", g, x, transpose_b=True) if mode == 0 else r("matmul", x, g, transpose_a=True)
        return y if sums is None else r("binary", sums, y, kind="add")

    return evaluate("gemm_backward", body, g, x, sums, alike=3)


def repeated(r: Any, x: Any, batch: Sequence[int]) -> Any:
    """Matrices repeated along their leading axes to the shape `batch`."""
    own = tuple(x.shape[:-2])
    if own == tuple(batch):
        return x
    matrix = tuple(x.shape[-2:])
    ids = np.broadcast_to(np.arange(math.prod(own), dtype=np.int32).reshape(own), batch)
    rows = x.reshape([math.prod(own), math.prod(matrix)])
    gathered = r("embedding_sum", r.constant(np.asarray(ids, order="C")), rows)
    return r.like(gathered, x).reshape([*batch, *matrix])


def residual(x: Operand, module_output: Operand) -> Result:
    """Residual connection: `x + module_output`.

    Args:
        x: Any shape.
        module_output: A shape that broadcasts to `x`'s.

    Returns:
        `x`'s shape; float16 when both are.

    Raises:
        InvalidArgumentError: The second shape does not broadcast to the first.

    Source: upstream's `Compute.fnn.residual`.

    Example:
        >>> from grilly import functional
        >>> functional.residual([1.0, 2.0], [10.0, 20.0]).tolist()
        [11.0, 22.0]
    """
    a, b = floats(x, "x"), floats(module_output, "module_output")
    return evaluate("residual", lambda r, a, b: r("binary", a, b, kind="add"), a, b, alike=2)


def embedding_ffn(
    embeddings: Operand, W1: Operand, b1: Operand, W2: Operand, b2: Operand, activation: str = "gelu"
) -> Result:
    """Feed-forward block of a transformer: `act(x W1^T + b1) W2^T + b2`.

    Args:
        embeddings: `(..., D)`.
        W1: `(F, D)`.
        b1: `(F,)`, or None.
        W2: `(D, F)`.
        b2: `(D,)`, or None.
        activation: `"gelu"` (by tanh), `"relu"` or `"silu"`; default `"gelu"`.

    Returns:
        `(..., D)`.

    Raises:
        InvalidArgumentError: Incompatible shapes, or an unknown activation.

    Source: upstream's `functional.embedding_ffn`.

    Example:
        >>> from grilly import functional
        >>> functional.embedding_ffn([[2.0]], [[1.0], [-1.0]], [0.0, 0.0], [[1.0, 1.0]], [0.5], "relu").tolist()
        [[2.5]]
    """
    kind = ACTIVATIONS[one_of("embedding_ffn", "activation", activation, tuple(ACTIVATIONS))]
    x, first, second = floats(embeddings, "embeddings"), floats(W1, "W1"), floats(W2, "W2")
    bias1, bias2 = optional(b1, "b1"), optional(b2, "b2")
    columns = need_axes("embedding_ffn", "embeddings", x, 1)[-1]
    hidden = need_axes("embedding_ffn", "W1", first, 2, 2)[0]
    need_shape("embedding_ffn", "W1", first, (hidden, columns))
    need_shape("embedding_ffn", "b1", bias1, (hidden,))
    rows = need_axes("embedding_ffn", "W2", second, 2, 2)[0]
    need_shape("embedding_ffn", "W2", second, (rows, hidden))
    need_shape("embedding_ffn", "b2", bias2, (rows,))

    def body(r: Any, x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        inner = r("linear", x, w1, b1, bias=b1 is not None, activation=kind)
        return r("linear", inner, w2, b2, bias=b2 is not None)

    return evaluate("embedding_ffn", body, x, first, bias1, second, bias2)
