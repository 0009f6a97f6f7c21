"""Activations with gates or parameters, as layers."""

from typing import Any

from grilly import functional
from grilly.functional.activations import roswish_numbers_backward
from grilly.functional.dispatch import Operand, Result
from grilly.nn.module import Module
from grilly.nn.parameter import Parameter

__all__ = ["RoSwish", "SwiGLU"]


class SwiGLU(Module):
    """`functional.swiglu`: `x1 silu(x2)` of the halves `x1` and `x2` of the last axis.

    Source: upstream's `nn.SwiGLU`.

    Example:
        >>> from grilly import nn
        >>> nn.SwiGLU()([[3.0, 0.0]]).tolist()
        [[0.0]]
    """

    def forward(self, x: Operand) -> Result:
        """`functional.swiglu`.

        Example:
            >>> from grilly import nn
            >>> nn.SwiGLU().forward([[1.0, 2.0, 3.0, 4.0]]).shape
            (1, 2)
        """
        return functional.swiglu(x)

    def backward(self, grad_output: Operand, x: Operand) -> Result:
        """`functional.swiglu_backward`.

        Example:
            >>> from grilly import nn
            >>> nn.SwiGLU().backward([[2.0]], [[3.0, 0.0]]).tolist()
            [[0.0, 3.0]]
        """
        return functional.swiglu_backward(grad_output, x)


class RoSwish(Module):
    """`functional.roswish`: `(x + alpha) sigmoid(beta x) - alpha / 2`.

    Args:
        alpha_init: Default 1.
        beta_init: Default 1.
        learnable: Whether alpha and beta are parameters; default True.

    Attributes:
        alpha: `(1,)`.
        beta: `(1,)`.

    Source: upstream's `nn.RoSwish`.

    Example:
        >>> from grilly import nn
        >>> nn.RoSwish()([0.0]).tolist()
        [0.0]
    """

    alpha: Any
    beta: Any

    def __init__(self, alpha_init: float = 1.0, beta_init: float = 1.0, learnable: bool = True) -> None:
        super().__init__()
        self.learnable = learnable
        alpha, beta = Parameter([alpha_init]), Parameter([beta_init])
        if learnable:
            self.alpha, self.beta = alpha, beta
        else:
            self.register_buffer("alpha", alpha)
            self.register_buffer("beta", beta)

    def forward(self, x: Operand) -> Result:
        """`functional.roswish` with the layer's parameters.

        Example:
            >>> from grilly import nn
            >>> nn.RoSwish(2.0, 3.0).forward([0.0]).tolist()
            [0.0]
        """
        return functional.roswish(x, self.alpha.item(), self.beta.item())

    def backward(self, grad_output: Operand, x: Operand) -> Result:
        """Accumulates the gradients of alpha and beta, if they are parameters, and returns that of `x`.

        Example:
            >>> from grilly import nn
            >>> layer = nn.RoSwish(beta_init=0.0)
            >>> layer.backward([4.0], [2.0]).tolist(), layer.alpha.grad.tolist(), layer.beta.grad.tolist()
            ([2.0], [0.0], [6.0])
        """
        if self.learnable:
            numbers = roswish_numbers_backward(grad_output, x, self.alpha.item(), self.beta.item())
            for parameter, gradient in zip((self.alpha, self.beta), numbers, strict=True):
                parameter.accumulate(gradient)
        return functional.roswish_backward(grad_output, x, self.alpha.item(), self.beta.item())
