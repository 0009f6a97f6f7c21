"""A linear layer that multiplies in integers and learns in floats."""

from __future__ import annotations

from typing import Any

from grilly import quant
from grilly.functional.checks import one_of
from grilly.functional.dispatch import Operand, Result
from grilly.nn.layers import Linear, beside

__all__ = ["BitLinear"]


class BitLinear(Linear):
    """Linear layer whose product is of int8 activations and ternary weights, W1.58A8, or of signs.

    `y = quant.bitlinear_forward(x, *quant.quantize(weight, levels, "tensor"), bias)`. The weight that is learned is of
    floats and quantised anew in each call; gradients go straight through the rounding of both, as if it were the
    identity: `grad_x = g w`, `grad_w = g^T x`, `w` and `x` as the product saw them. The same bits twice on one device.

    Args:
        in_features: Columns of the input.
        out_features: Columns of the result.
        bias: Whether there is a bias; default False, as in BitNet.
        levels: `"ternary"` (default) or `"binary"`: the values of the weight.

    Attributes:
        weight: `(out_features, in_features)`, initially as of `Linear`.
        bias: `(out_features,)`, initially zeros; None without.

    Raises:
        InvalidArgumentError: Unknown levels.

    Source: Wang et al., BitNet (2023); Ma et al., The Era of 1-bit LLMs (2024).

    Example:
        >>> import numpy as np
        >>> from grilly import nn
        >>> layer = nn.BitLinear(2, 1)
        >>> layer.weight[:] = [[0.5, -0.5]]
        >>> layer(np.float32([[1.0, -1.0]])).tolist()
        [[1.0]]
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = False, levels: str = "ternary") -> None:
        super().__init__(in_features, out_features, bias)
        self.levels = one_of("BitLinear", "levels", levels, ("ternary", "binary"))

    def forward(self, x: Operand) -> Result:
        """`quant.bitlinear_forward` with the weight quantised.

        Example:
            >>> from grilly import nn
            >>> nn.BitLinear(3, 2).forward([1.0, 2.0, 3.0]).shape
            (2,)
        """
        stored, scale = quant.quantize(self.weight.operand(), self.levels, "tensor")
        bias = None if self.bias is None else self.bias.operand()
        return quant.bitlinear_forward(x, stored, scale, bias, levels=self.levels)

    def backward(self, grad_output: Operand, x: Operand) -> Result:
        """Accumulates the parameters' gradients and returns the gradient of the input, straight through the rounding.

        Args:
            grad_output: Gradient with respect to the result.
            x: Input of the layer.

        Example:
            >>> import numpy as np
            >>> from grilly import nn
            >>> layer = nn.BitLinear(3, 2)
            >>> layer.backward(np.ones((4, 2)), np.ones((4, 3))).shape, layer.weight.grad.tolist()
            ((4, 3), [[4.0, 4.0, 4.0], [4.0, 4.0, 4.0]])
        """
        options: dict[str, Any] = {"levels": self.levels, "scope": "tensor", "columns": self.in_features}
        stored, scale = quant.quantize(self.weight.operand(beside(grad_output)), self.levels, "tensor")
        seen = quant.dequantize(*quant.quantize_activations(x))
        return self._learn(grad_output, seen, quant.dequantize(stored, scale, **options))

    def __repr__(self) -> str:
        sizes = f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"
        return f"BitLinear({sizes}, levels={self.levels!r})"
