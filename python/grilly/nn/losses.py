"""Losses as modules; each has `backward(grad_output, input, target)`."""

from __future__ import annotations

import numpy as np

from grilly import functional
from grilly.functional.checks import one_of
from grilly.functional.cross_entropy import REDUCTIONS
from grilly.functional.dispatch import Operand, Result
from grilly.nn.module import Module

__all__ = ["BCELoss", "CrossEntropyLoss", "MSELoss"]


class Loss(Module):
    """A loss with a reduction."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = one_of(type(self).__name__, "reduction", reduction, REDUCTIONS)


class MSELoss(Loss):
    """`functional.mse_loss`.

    Args:
        reduction: `"mean"`, `"sum"` or `"none"`; default `"mean"`.

    Source: upstream's `nn.MSELoss`.

    Example:
        >>> from grilly import nn
        >>> float(nn.MSELoss()([1.0, 5.0], [1.0, 1.0]))
        8.0
    """

    def forward(self, input: Operand, target: Operand) -> Result:
        """`functional.mse_loss`.

        Example:
            >>> from grilly import nn
            >>> float(nn.MSELoss("sum").forward([1.0], [3.0]))
            4.0
        """
        return functional.mse_loss(input, target, self.reduction)

    def backward(self, grad_output: Operand | None, input: Operand, target: Operand) -> Result:
        """`functional.mse_loss_backward`; a first gradient of None means 1.

        Example:
            >>> from grilly import nn
            >>> nn.MSELoss().backward(None, [1.0, 5.0], [1.0, 1.0]).tolist()
            [0.0, 4.0]
        """
        return functional.mse_loss_backward(first(grad_output, self.reduction, input), input, target, self.reduction)


class CrossEntropyLoss(Loss):
    """`functional.cross_entropy`.

    Args:
        reduction: `"mean"`, `"sum"` or `"none"`; default `"mean"`.
        ignore_index: A class that contributes nothing; default -100.

    Source: upstream's `nn.CrossEntropyLoss`.

    Example:
        >>> from grilly import nn
        >>> round(float(nn.CrossEntropyLoss()([[0.0, 0.0]], [1])), 4)
        0.6931
    """

    def __init__(self, reduction: str = "mean", ignore_index: int = -100) -> None:
        super().__init__(reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Operand, target: Operand) -> Result:
        """`functional.cross_entropy`.

        Example:
            >>> from grilly import nn
            >>> float(nn.CrossEntropyLoss("sum").forward([[0.0, 0.0]], [-100]))
            0.0
        """
        return functional.cross_entropy(input, target, None, self.reduction, ignore_index=self.ignore_index)

    def backward(self, grad_output: Operand | None, input: Operand, target: Operand) -> Result:
        """`functional.cross_entropy_backward`; a first gradient of None means 1.

        Example:
            >>> from grilly import nn
            >>> nn.CrossEntropyLoss().backward(None, [[0.0, 0.0]], [1]).tolist()
            [[0.5, -0.5]]
        """
        g = first(grad_output, self.reduction, target)
        return functional.cross_entropy_backward(g, input, target, None, self.reduction, ignore_index=self.ignore_index)


class BCELoss(Loss):
    """`functional.binary_cross_entropy`.

    Args:
        reduction: `"mean"`, `"sum"` or `"none"`; default `"mean"`.

    Source: upstream's `nn.BCELoss`.

    Example:
        >>> from grilly import nn
        >>> round(float(nn.BCELoss()([0.5], [1.0])), 4)
        0.6931
    """

    def forward(self, input: Operand, target: Operand) -> Result:
        """`functional.binary_cross_entropy`.

        Example:
            >>> from grilly import nn
            >>> float(nn.BCELoss().forward([0.0], [1.0]))
            100.0
        """
        return functional.binary_cross_entropy(input, target, None, self.reduction)

    def backward(self, grad_output: Operand | None, input: Operand, target: Operand) -> Result:
        """`functional.binary_cross_entropy_backward`; a first gradient of None means 1.

        Example:
            >>> from grilly import nn
            >>> nn.BCELoss().backward(None, [0.5], [1.0]).tolist()
            [-2.0]
        """
        g = first(grad_output, self.reduction, input)
        return functional.binary_cross_entropy_backward(g, input, target, None, self.reduction)


def first(grad_output: Operand | None, reduction: str, like: Operand) -> Operand:
    """The gradient with respect to the loss; ones if none is given."""
    if grad_output is not None:
        return grad_output
    return np.ones(np.shape(like) if reduction == "none" else (), np.float32)
