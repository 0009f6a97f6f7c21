"""A layer that gets units where its inputs need them."""

import numpy as np

from grilly import functional
from grilly.functional.checks import allocated, number, whole
from grilly.functional.dispatch import Operand, Result
from grilly.nn.layers import beside
from grilly.nn.module import Module
from grilly.nn.parameter import Parameter
from grilly.resources import need

__all__ = ["Neurogenesis"]


class Neurogenesis(Module):
    """Linear units of which there are as many as the data need: a unit is added where the others leave too much of a
    batch's energy, then all learn by Oja's subspace rule.

    Args:
        in_features: Columns of the input.
        capacity: The largest number of units.
        learning_rate: Relative to the energy of the data, below 1; default 0.1.
        threshold: The share of the energy that may be left; default 0.001.

    Attributes:
        weight: `(capacity, in_features)`, zeros but for the units.
        units: The number of units, without axes.

    Source: Oja (1989), as `functional.neurogenesis_update`.

    Example:
        >>> import numpy as np
        >>> from grilly import nn
        >>> layer = nn.Neurogenesis(3, capacity=3)
        >>> for _ in range(5):
        ...     share = layer.update(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]))
        >>> int(layer.units), float(share) < 1e-6
        (2, True)
    """

    weight: Parameter
    units: Parameter

    def __init__(self, in_features: int, capacity: int, learning_rate: float = 0.1, threshold: float = 1e-3) -> None:
        super().__init__()
        self.in_features = whole("Neurogenesis", "in_features", in_features)
        self.capacity = whole("Neurogenesis", "capacity", capacity)
        self.learning_rate = number("Neurogenesis", "learning_rate", learning_rate)
        self.threshold = number("Neurogenesis", "threshold", threshold, least=0)
        shape = allocated("Neurogenesis", "weight", (self.capacity, self.in_features))
        need(shape, np.float64, "the weight of Neurogenesis")
        self.weight = Parameter(np.zeros(shape), requires_grad=False)
        self.units = Parameter(np.zeros(()), requires_grad=False)

    def forward(self, x: Operand) -> Result:
        """The activities of the units, `x weight^T`, and zeros for those to come.

        Example:
            >>> from grilly import nn
            >>> nn.Neurogenesis(3, 2).forward([[1.0, 2.0, 3.0]]).tolist()
            [[0.0, 0.0]]
        """
        return functional.linear(x, self.weight.operand())

    def update(self, x: Operand) -> Result:
        """One step with the rows of `x`; returns the share of their energy that the units left before it.

        Raises:
            InvalidArgumentError: Rows of another length.

        Example:
            >>> from grilly import nn
            >>> float(nn.Neurogenesis(3, 2).update([[1.0, 2.0, 3.0]]))
            1.0
        """
        weight, units = (held.operand(beside(x)) for held in (self.weight, self.units))
        weight, units, share = functional.neurogenesis_update(weight, units, x, self.learning_rate, self.threshold)
        self.weight.assign(weight)
        self.units.assign(units)
        return share

    def __repr__(self) -> str:
        return f"Neurogenesis({self.in_features}, {self.capacity}, units={int(self.units)})"
