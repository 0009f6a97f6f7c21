"""Layer norm and RMS norm as layers."""

from collections.abc import Sequence

import numpy as np

from grilly import functional
from grilly.functional.dispatch import Operand, Result
from grilly.functional.norms import sizes_of
from grilly.nn.layers import beside
from grilly.nn.module import Module
from grilly.nn.parameter import Parameter
from grilly.resources import need

__all__ = ["LayerNorm", "RMSNorm"]


class LayerNorm(Module):
    """Layer norm over the last axis or axes, with weight and bias.

    Args:
        normalized_shape: Size of the last axis, or sizes of the last axes.
        eps: Added to the variance; default 1e-5.

    Attributes:
        weight: Initially ones.
        bias: Initially zeros.

    Source: upstream's `nn.LayerNorm`.

    Example:
        >>> from grilly import nn
        >>> nn.LayerNorm(2, eps=0.0)([[1.0, 3.0]]).tolist()
        [[-1.0, 1.0]]
    """

    weight: Parameter
    bias: Parameter

    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-5) -> None:
        super().__init__()
        self.normalized_shape = sizes_of("LayerNorm", normalized_shape)
        need(self.normalized_shape, np.float64, "the weights of LayerNorm")
        self.eps = eps
        self.weight = Parameter(np.ones(self.normalized_shape))
        self.bias = Parameter(np.zeros(self.normalized_shape))

    def forward(self, x: Operand) -> Result:
        """`functional.layer_norm` with the layer's parameters.

        Example:
            >>> from grilly import nn
            >>> nn.LayerNorm(2).forward([[3.0, 3.0]]).tolist()
            [[0.0, 0.0]]
        """
        return functional.layer_norm(x, self.normalized_shape, self.weight.operand(), self.bias.operand(), self.eps)

    def backward(self, grad_output: Operand, x: Operand) -> Result:
        """Accumulates the parameters' gradients and returns the gradient of the input.

        Example:
            >>> import numpy as np
            >>> from grilly import nn
            >>> layer = nn.LayerNorm(2)
            >>> layer.backward(np.ones((4, 2)), np.ones((4, 2))).shape, layer.bias.grad.tolist()
            ((4, 2), [4.0, 4.0])
        """
        given = self.weight.operand(beside(grad_output))
        found = functional.layer_norm_backward(grad_output, x, given, eps=self.eps)
        self.weight.accumulate(found[1])
        self.bias.accumulate(found[2])
        return found[0]

    def __repr__(self) -> str:
        return f"LayerNorm({self.normalized_shape}, eps={self.eps})"


class RMSNorm(Module):
    """RMS norm over the last axis or axes, with a weight.

    Args:
        normalized_shape: Size of the last axis, or sizes of the last axes.
        eps: Added to the mean square; default 1e-6.

    Attributes:
        weight: Initially ones.

    Source: `torch.nn.RMSNorm`.

    Example:
        >>> from grilly import nn
        >>> nn.RMSNorm(2, eps=0.0)([[2.0, 2.0]]).tolist()
        [[1.0, 1.0]]
    """

    weight: Parameter

    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-6) -> None:
        super().__init__()
        self.normalized_shape = sizes_of("RMSNorm", normalized_shape)
        need(self.normalized_shape, np.float64, "the weights of RMSNorm")
        self.eps = eps
        self.weight = Parameter(np.ones(self.normalized_shape))

    def forward(self, x: Operand) -> Result:
        """`functional.rms_norm` with the layer's weight.

        Example:
            >>> from grilly import nn
            >>> nn.RMSNorm(2).forward([[0.0, 0.0]]).tolist()
            [[0.0, 0.0]]
        """
        return functional.rms_norm(x, self.normalized_shape, self.weight.operand(), self.eps)

    def backward(self, grad_output: Operand, x: Operand) -> Result:
        """Accumulates the weight's gradient and returns the gradient of the input.

        Example:
            >>> import numpy as np
            >>> from grilly import nn
            >>> nn.RMSNorm(2).backward(np.ones((4, 2)), np.ones((4, 2))).shape
            (4, 2)
        """
        given = self.weight.operand(beside(grad_output))
        grad_input, grad_weight = functional.rms_norm_backward(grad_output, x, given, eps=self.eps)
        self.weight.accumulate(grad_weight)
        return grad_input

    def __repr__(self) -> str:
        return f"RMSNorm({self.normalized_shape}, eps={self.eps})"
