"""Linear layers, one that multiplies in integers and learns in floats, embedding tables and dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from grilly import functional, quant
from grilly.arrays import VulkanTensor
from grilly.functional.checks import allocated, fraction, one_of, whole
from grilly.functional.dispatch import Operand, Result
from grilly.functional.dropout import draw_seed
from grilly.nn.module import Module
from grilly.nn.parameter import Parameter
from grilly.resources import need

__all__ = ["BitLinear", "Dropout", "Embedding", "Linear"]


def drawn(name: str, shape: tuple[int, ...], deviation: float) -> Parameter:
    """Normally distributed numbers, seeded from NumPy's global generator: every layer is initialised differently."""
    need(allocated(name, "weight", shape), np.float64, f"initial numbers {list(shape)}")
    values = np.random.default_rng(draw_seed()).normal(0.0, deviation, shape)
    return Parameter(values.astype(np.float32))


def beside(x: Any) -> Any:
    """The operand that decides where a derivative is computed."""
    return x if isinstance(x, VulkanTensor) else np.asarray(x)


class Linear(Module):
    """Linear layer: `x weight^T + bias`.

    Args:
        in_features: Columns of the input.
        out_features: Columns of the result.
        bias: Whether there is a bias; default True.

    Attributes:
        weight: `(out_features, in_features)`, initially normal with standard deviation `sqrt(2 / in_features)`.
        bias: `(out_features,)`, initially zeros; None without.

    Source: upstream's `nn.Linear`, whose layers of one shape were all initialised alike.

    Example:
        >>> import numpy as np
        >>> from grilly import nn
        >>> nn.Linear(3, 2)(np.ones((4, 3), np.float32)).shape
        (4, 2)
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in_features = whole("Linear", "in_features", in_features, least=0)
        self.out_features = whole("Linear", "out_features", out_features, least=0)
        self.weight = drawn("Linear", (self.out_features, self.in_features), math.sqrt(2.0 / max(self.in_features, 1)))
        self.bias = Parameter(np.zeros(self.out_features)) if bias else None

    def forward(self, x: Operand) -> Result:
        """`functional.linear` with the layer's parameters.

        Example:
            >>> from grilly import nn
            >>> nn.Linear(3, 2).forward([1.0, 2.0, 3.0]).shape
            (2,)
        """
        return functional.linear(x, self.weight.operand(), None if self.bias is None else self.bias.operand())

    def backward(self, grad_output: Operand, x: Operand) -> Result:
        """Accumulates the parameters' gradients and returns the gradient of the input.

        Args:
            grad_output: Gradient with respect to the result.
            x: Input of the layer.

        Example:
            >>> import numpy as np
            >>> from grilly import nn
            >>> layer = nn.Linear(3, 2)
            >>> layer.backward(np.ones((4, 2)), np.ones((4, 3))).shape, layer.bias.grad.tolist()
            ((4, 3), [4.0, 4.0])
        """
        return self._learn(grad_output, x, self.weight.operand(beside(grad_output)))

    def _learn(self, grad_output: Operand, x: Operand, weight: Operand) -> Result:
        """As `backward`, of a product that saw this weight."""
        grad_input, grad_weight, grad_bias = functional.linear_backward(grad_output, x, weight, self.bias)
        self.weight.accumulate(grad_weight)
        if self.bias is not None:
            self.bias.accumulate(grad_bias)
        return grad_input

    def __repr__(self) -> str:
        return f"Linear({self.in_features}, {self.out_features}, bias={self.bias is not None})"


class Embedding(Module):
    """A table of vectors by index.

    Args:
        num_embeddings: Rows.
        embedding_dim: Columns.

    Attributes:
        weight: `(num_embeddings, embedding_dim)`, initially normal with standard deviation 1.

    Raises:
        IndexOutOfRangeError: On call, an index outside the table (also an `IndexError`).

    Source: upstream's `nn.Embedding`.

    Example:
        >>> from grilly import nn
        >>> nn.Embedding(5, 3)([[0, 4]]).shape
        (1, 2, 3)
    """

    weight: Parameter

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        super().__init__()
        self.num_embeddings = whole("Embedding", "num_embeddings", num_embeddings, least=0)
        self.embedding_dim = whole("Embedding", "embedding_dim", embedding_dim, least=0)
        self.weight = drawn("Embedding", (self.num_embeddings, self.embedding_dim), 1.0)

    def forward(self, x: Operand) -> Result:
        """`functional.embedding_lookup` in the layer's table.

        Example:
            >>> from grilly import nn
            >>> nn.Embedding(5, 3).forward([1]).shape
            (1, 3)
        """
        return functional.embedding_lookup(self.weight.operand(), x)

    def backward(self, grad_output: Operand, x: Operand) -> None:
        """Accumulates the table's gradient; indices have none.

        Example:
            >>> import numpy as np
            >>> from grilly import nn
            >>> layer = nn.Embedding(2, 1)
            >>> layer.backward(np.ones((3, 1)), [1, 1, 0])
            >>> layer.weight.grad.tolist()
            [[1.0], [2.0]]
        """
        found = functional.embedding_backward(grad_output, x, self.num_embeddings, self.embedding_dim)
        self.weight.accumulate(found)

    def __repr__(self) -> str:
        return f"Embedding({self.num_embeddings}, {self.embedding_dim})"


class Dropout(Module):
    """`functional.dropout` in training mode, the identity in evaluation mode.

    Args:
        p: Probability that an element is dropped; default 0.5.
        inplace: Upstream's option, without effect: inputs are never changed.

    Source: upstream's `nn.Dropout`.

    Example:
        >>> from grilly import nn
        >>> nn.Dropout().eval()([1.0, 2.0]).tolist()
        [1.0, 2.0]
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.p = fraction("Dropout", "p", p)
        self.inplace = inplace
        self._seed: int | None = None

    def forward(self, x: Operand) -> Result:
        """`functional.dropout` with a fresh seed.

        Example:
            >>> from grilly import nn
            >>> nn.Dropout(1.0).forward([1.0]).tolist()
            [0.0]
        """
        self._seed = draw_seed() if self.training else None
        return functional.dropout(x, self.p, self.training, self._seed)

    def backward(self, grad_output: Operand, x: Operand | None = None) -> Result:
        """The derivative of the last call.

        Example:
            >>> from grilly import nn
            >>> layer = nn.Dropout(1.0)
            >>> _ = layer([1.0])
            >>> layer.backward([5.0]).tolist()
            [0.0]
        """
        p = 0.0 if self._seed is None else self.p
        return functional.dropout_backward(grad_output, p, self._seed or 0)

    def __repr__(self) -> str:
        return f"Dropout(p={self.p})"


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
