"""Activations as layers; each has `backward(grad_output, x)`."""

from grilly import functional
from grilly.functional.checks import one_of
from grilly.functional.dispatch import Operand, Result
from grilly.nn.module import Module

__all__ = ["GCU", "GELU", "ReLU", "SiLU", "Softmax", "Softplus"]


class ReLU(Module):
    """`functional.relu`.

    Args:
        inplace: Upstream's option, without effect: inputs are never changed.

    Source: upstream's `nn.ReLU`.

    Example:
        >>> from grilly import nn
        >>> nn.ReLU()([-1.0, 2.0]).tolist()
        [0.0, 2.0]
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, x: Operand) -> Result:
        """`max(x, 0)`.

        Example:
            >>> from grilly import nn
            >>> nn.ReLU().forward([3.0]).tolist()
            [3.0]
        """
        return functional.relu(x)

    def backward(self, grad_output: Operand, x: Operand) -> Result:
        """`functional.relu_backward`.

        Example:
            >>> from grilly import nn
            >>> nn.ReLU().backward([1.0], [-1.0]).tolist()
            [0.0]
        """
        return functional.relu_backward(grad_output, x)


class GELU(Module):
    """`functional.gelu`.

    Args:
        approximate: `"tanh"` or `"none"`; default `"tanh"`.

    Source: upstream's `nn.GELU`.

    Example:
        >>> from grilly import nn
        >>> nn.GELU()([0.0]).tolist()
        [0.0]
    """

    def __init__(self, approximate: str = "tanh") -> None:
        super().__init__()
        self.approximate = one_of("GELU", "approximate", approximate, ("tanh", "none"))

    def forward(self, x: Operand) -> Result:
        """`functional.gelu` with the layer's approximation.

        Example:
            >>> from grilly import nn
            >>> nn.GELU("none").forward([0.0]).tolist()
            [0.0]
        """
        return functional.gelu(x, self.approximate)

    def backward(self, grad_output: Operand, x: Operand) -> Result:
        """`functional.gelu_backward`.

        Example:
            >>> from grilly import nn
            >>> nn.GELU().backward([2.0], [0.0]).tolist()
            [1.0]
        """
        return functional.gelu_backward(grad_output, x, self.approximate)


class SiLU(Module):
    """`functional.silu`: `x sigmoid(x)`.

    Source: upstream's `nn.SiLU`.

    Example:
        >>> from grilly import nn
        >>> nn.SiLU()([[0.0, 1.0]]).shape
        (1, 2)
    """

    def forward(self, x: Operand) -> Result:
        """`functional.silu`.

        Example:
            >>> from grilly import nn
            >>> nn.SiLU().forward([0.0]).shape
            (1,)
        """
        return functional.silu(x)

    def backward(self, grad_output: Operand, x: Operand) -> Result:
        """`functional.silu_backward`.

        Example:
            >>> from grilly import nn
            >>> nn.SiLU().backward([2.0], [0.0]).tolist()
            [1.0]
        """
        return functional.silu_backward(grad_output, x)


class GCU(Module):
    """`functional.gcu`: `x cos(x)`.

    Source: upstream's `nn.GCU`.

    Example:
        >>> from grilly import nn
        >>> nn.GCU()([[0.0, 1.0]]).shape
        (1, 2)
    """

    def forward(self, x: Operand) -> Result:
        """`functional.gcu`.

        Example:
            >>> from grilly import nn
            >>> nn.GCU().forward([0.0]).shape
            (1,)
        """
        return functional.gcu(x)

    def backward(self, grad_output: Operand, x: Operand) -> Result:
        """`functional.gcu_backward`.

        Example:
            >>> from grilly import nn
            >>> nn.GCU().backward([2.0], [0.0]).tolist()
            [2.0]
        """
        return functional.gcu_backward(grad_output, x)


class Softplus(Module):
    """`functional.softplus`: `log(1 + exp(x))`.

    Source: upstream's `nn.Softplus`.

    Example:
        >>> from grilly import nn
        >>> nn.Softplus()([[0.0, 1.0]]).shape
        (1, 2)
    """

    def forward(self, x: Operand) -> Result:
        """`functional.softplus`.

        Example:
            >>> from grilly import nn
            >>> nn.Softplus().forward([0.0]).shape
            (1,)
        """
        return functional.softplus(x)

    def backward(self, grad_output: Operand, x: Operand) -> Result:
        """`functional.softplus_backward`.

        Example:
            >>> from grilly import nn
            >>> nn.Softplus().backward([2.0], [0.0]).tolist()
            [1.0]
        """
        return functional.softplus_backward(grad_output, x)


class Softmax(Module):
    """`functional.softmax` along an axis.

    Args:
        dim: The axis; default the last.

    Source: upstream's `nn.Softmax`.

    Example:
        >>> from grilly import nn
        >>> nn.Softmax(dim=0)([[0.0], [0.0]]).tolist()
        [[0.5], [0.5]]
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Operand) -> Result:
        """`functional.softmax`.

        Example:
            >>> from grilly import nn
            >>> nn.Softmax().forward([0.0, 0.0]).tolist()
            [0.5, 0.5]
        """
        return functional.softmax(x, self.dim)

    def backward(self, grad_output: Operand, x: Operand) -> Result:
        """`functional.softmax_backward`, from the input `x`.

        Example:
            >>> from grilly import nn
            >>> nn.Softmax().backward([1.0, 0.0], [0.0, 0.0]).tolist()
            [0.25, -0.25]
        """
        return functional.softmax_backward(grad_output, functional.softmax(x, self.dim), self.dim)
