"""`Compute.fnn`: layers, activations and their derivatives under upstream's names."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from grilly import functional
from grilly.compat.upstream.backend.parts import Part
from grilly.functional.dispatch import Operand, Result, floats
from grilly.functional.linear import fused_linear
from grilly.resources import need

__all__ = ["Fnn"]


class Fnn(Part):
    """`Compute.fnn`: layers and activations, with `*_backward` the derivatives of the same names.

    Example:
        >>> import grilly
        >>> grilly.Compute().fnn.linear([1.0, 2.0], [[3.0, 4.0]]).tolist()
        [11.0]
    """

    name = "fnn"
    #: Upstream's pool of buffers; None, since the engine keeps the memory of its arrays itself.
    buffer_pool = None
    gemm_backward = staticmethod(functional.gemm_backward)
    linear_backward = staticmethod(functional.linear_backward)
    layernorm_backward = staticmethod(functional.layer_norm_backward)
    softmax_backward = staticmethod(functional.softmax_backward)
    residual = staticmethod(functional.residual)

    def gemm(self, A: Operand, B: Operand) -> Result:  # noqa: N803
        """`functional.matmul`: `A B`, (M, K) by (K, N).

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.gemm([[1.0, 2.0]], [[3.0], [4.0]]).tolist()
            [[11.0]]
        """
        return functional.matmul(A, B)

    def activation_relu(self, input_data: Operand) -> Result:
        """`functional.relu`: `max(x, 0)`.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.activation_relu([-1.0, 2.0]).tolist()
            [0.0, 2.0]
        """
        return functional.relu(input_data)

    def activation_relu_backward(self, grad_output: Operand, input_data: Operand) -> Result:
        """`functional.relu_backward`.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.activation_relu_backward([1.0, 1.0], [-1.0, 2.0]).tolist()
            [0.0, 1.0]
        """
        return functional.relu_backward(grad_output, input_data)

    def activation_gelu(self, input_data: Operand) -> Result:
        """`functional.gelu`: by tanh.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.activation_gelu([0.0]).tolist()
            [0.0]
        """
        return functional.gelu(input_data)

    def activation_gelu_backward(self, grad_output: Operand, input_data: Operand) -> Result:
        """`functional.gelu_backward`.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.activation_gelu_backward([2.0], [0.0]).tolist()
            [1.0]
        """
        return functional.gelu_backward(grad_output, input_data)

    def activation_silu(self, input_data: Operand) -> Result:
        """`functional.silu`: `x sigmoid(x)`.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.activation_silu([0.0]).tolist()
            [0.0]
        """
        return functional.silu(input_data)

    def activation_silu_backward(self, grad_output: Operand, input_data: Operand) -> Result:
        """`functional.silu_backward`.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.activation_silu_backward([2.0], [0.0]).tolist()
            [1.0]
        """
        return functional.silu_backward(grad_output, input_data)

    def activation_gcu(self, input_data: Operand) -> Result:
        """`functional.gcu`: `x cos(x)`.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.activation_gcu([0.0]).tolist()
            [0.0]
        """
        return functional.gcu(input_data)

    def activation_gcu_backward(self, grad_output: Operand, input_data: Operand) -> Result:
        """`functional.gcu_backward`.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.activation_gcu_backward([2.0], [0.0]).tolist()
            [2.0]
        """
        return functional.gcu_backward(grad_output, input_data)

    def activation_swiglu(self, input_data: Operand) -> Result:
        """`functional.swiglu`: `x1 silu(x2)` of the halves `x1` and `x2` of the last axis.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.activation_swiglu([[3.0, 0.0]]).tolist()
            [[0.0]]
        """
        return functional.swiglu(input_data)

    def activation_swiglu_backward(self, grad_output: Operand, input_data: Operand) -> Result:
        """`functional.swiglu_backward`.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.activation_swiglu_backward([[2.0]], [[3.0, 0.0]]).tolist()
            [[0.0, 3.0]]
        """
        return functional.swiglu_backward(grad_output, input_data)

    def activation_roswish(self, input_data: Operand, alpha: float = 1.0, beta: float = 1.0) -> Result:
        """`functional.roswish`: `(x + alpha) sigmoid(beta x) - alpha / 2`.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.activation_roswish([0.0]).tolist()
            [0.0]
        """
        return functional.roswish(input_data, alpha, beta)

    def activation_roswish_backward(
        self, grad_output: Operand, input_data: Operand, alpha: float = 1.0, beta: float = 1.0
    ) -> Result:
        """`functional.roswish_backward`.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.activation_roswish_backward([4.0], [0.0]).tolist()
            [3.0]
        """
        return functional.roswish_backward(grad_output, input_data, alpha, beta)

    def activation_softmax(self, input_data: Operand, axis: int = -1) -> Result:
        """`functional.softmax` along `axis`, default the last.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.activation_softmax([[0.0, 0.0]]).tolist()
            [[0.5, 0.5]]
        """
        return functional.softmax(input_data, axis)

    def linear(self, x: Operand, weights: Operand, bias: Operand | None = None) -> Result:
        """`functional.linear`: `x weights^T + bias`, weights (out, in).

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.linear([[2.0]], [[3.0]], [1.0]).tolist()
            [[7.0]]
        """
        return functional.linear(x, weights, bias)

    def layernorm(
        self, x: Operand, gamma: Operand | None = None, beta: Operand | None = None, eps: float = 1e-5
    ) -> Result:
        """`functional.layer_norm` over the last axis.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.layernorm([[1.0, 3.0]], eps=0.0).tolist()
            [[-1.0, 1.0]]
        """
        found = floats(x, "x")
        return functional.layer_norm(found, found.shape[-1:], gamma, beta, eps)

    def cross_entropy_backward(self, logits: Operand, targets: Operand) -> Result:
        """`softmax(logits) - onehot(targets)`, not divided by the number of rows.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.cross_entropy_backward([[0.0, 0.0]], [1]).tolist()
            [[0.5, -0.5]]
        """
        return functional.cross_entropy_backward(1.0, logits, targets, reduction="sum")

    def dropout(
        self, x: Operand, dropout_prob: float = 0.1, is_training: bool = True, seed: int | None = None
    ) -> Result:
        """`functional.dropout` with upstream's names and its default of 0.1.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.dropout([1.0], is_training=False).tolist()
            [1.0]
        """
        return functional.dropout(x, dropout_prob, is_training, seed)

    def xavier_init(self, input_dim: int, output_dim: int, seed: int = 42) -> npt.NDArray[np.float32]:
        """Weights `(output_dim, input_dim)` from a normal distribution with standard deviation `sqrt(2 / input_dim)`.

        The same seed gives the same weights, as in upstream; layers of `grilly.nn` draw their own seeds.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.xavier_init(3, 2).shape
            (2, 3)
        """
        scale = math.sqrt(2.0 / max(input_dim, 1))
        need((output_dim, input_dim), np.float64, "initial numbers")
        drawn = np.random.default_rng(seed).normal(0.0, scale, (output_dim, input_dim))
        return drawn.astype(np.float32)

    def fused_linear_gelu(self, x: Operand, weights: Operand, bias: Operand | None = None) -> Result:
        """`gelu(linear(x))`, by tanh, in one kernel.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.fused_linear_gelu([[0.0]], [[3.0]]).tolist()
            [[0.0]]
        """
        return fused_linear("fused_linear_gelu", x, weights, bias, "gelu_tanh")

    def fused_linear_relu(self, x: Operand, weights: Operand, bias: Operand | None = None) -> Result:
        """`relu(linear(x))` in one kernel.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.fused_linear_relu([[-1.0]], [[3.0]]).tolist()
            [[0.0]]
        """
        return fused_linear("fused_linear_relu", x, weights, bias, "relu")

    def fused_linear_silu(self, x: Operand, weights: Operand, bias: Operand | None = None) -> Result:
        """`silu(linear(x))` in one kernel.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.fused_linear_silu([[0.0]], [[3.0]]).tolist()
            [[0.0]]
        """
        return fused_linear("fused_linear_silu", x, weights, bias, "silu")

    def fused_linear_gcu(self, x: Operand, weights: Operand, bias: Operand | None = None) -> Result:
        """`gcu(linear(x))`, recorded in one submission.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.fused_linear_gcu([[0.0]], [[3.0]]).tolist()
            [[0.0]]
        """
        return fused_linear("fused_linear_gcu", x, weights, bias, "gcu")

    def fused_linear_roswish(
        self, x: Operand, weights: Operand, bias: Operand | None = None, alpha: float = 1.0, beta: float = 1.0
    ) -> Result:
        """`roswish(linear(x), alpha, beta)`, recorded in one submission.

        Example:
            >>> import grilly
            >>> grilly.Compute().fnn.fused_linear_roswish([[0.0]], [[3.0]]).tolist()
            [[0.0]]
        """
        return fused_linear("fused_linear_roswish", x, weights, bias, "roswish", a=float(alpha), b=float(beta))
