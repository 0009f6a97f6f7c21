"""Layers that learn principal components from their inputs alone."""

import math

from grilly import functional
from grilly.functional.checks import number, whole
from grilly.functional.dispatch import Operand, Result
from grilly.nn.layers import beside, drawn
from grilly.nn.module import Module
from grilly.nn.parameter import Parameter

__all__ = ["Oja", "Sanger"]


class Oja(Module):
    """Linear units that learn by Oja's subspace rule: their rows become an orthonormal basis of the space of the
    leading principal components, in no order; of one unit, the first component.

    Args:
        in_features: Columns of the input.
        out_features: Units.
        learning_rate: Of `update`; default 0.01.

    Attributes:
        weight: `(out_features, in_features)`, initially normal with standard deviation `1 / sqrt(in_features)`.
        learning_rate: As given; may be changed.

    Source: Oja (1982, 1989), as `functional.oja_update`.

    Example:
        >>> import numpy as np
        >>> from grilly import nn
        >>> layer = nn.Oja(2, 1, learning_rate=0.5)
        >>> for _ in range(50):
        ...     layer.update(np.array([[1.0, 0.0], [-1.0, 0.0]]))
        >>> np.abs(layer.weight).round(3).tolist()
        [[1.0, 0.0]]
    """

    weight: Parameter
    _rule = staticmethod(functional.oja_update)

    def __init__(self, in_features: int, out_features: int, learning_rate: float = 0.01) -> None:
        super().__init__()
        name = type(self).__name__
        self.in_features = whole(name, "in_features", in_features)
        self.out_features = whole(name, "out_features", out_features)
        self.learning_rate = number(name, "learning_rate", learning_rate)
        self.weight = drawn(name, (self.out_features, self.in_features), 1 / math.sqrt(self.in_features))
        self.weight.requires_grad = False

    def forward(self, x: Operand) -> Result:
        """The activities of the units, `x weight^T`.

        Example:
            >>> from grilly import nn
            >>> nn.Oja(3, 2).forward([[1.0, 2.0, 3.0]]).shape
            (1, 2)
        """
        return functional.linear(x, self.weight.operand())

    def update(self, x: Operand) -> None:
        """One step of the rule with the rows of `x`.

        Raises:
            InvalidArgumentError: Rows of another length.

        Example:
            >>> from grilly import nn
            >>> nn.Oja(3, 2).update([[1.0, 2.0, 3.0]])
        """
        self.weight.assign(self._rule(self.weight.operand(beside(x)), x, self.learning_rate))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_features}, {self.out_features}, learning_rate={self.learning_rate})"


class Sanger(Oja):
    """Linear units that learn by Sanger's rule, the generalised Hebbian algorithm: unit `i` becomes the `i`-th
    principal component.

    Args:
        in_features: Columns of the input.
        out_features: Units.
        learning_rate: Of `update`; default 0.01.

    Attributes:
        weight: `(out_features, in_features)`, initially normal with standard deviation `1 / sqrt(in_features)`.
        learning_rate: As given; may be changed.

    Source: Sanger (1989), as `functional.sanger_update`.

    Example:
        >>> import numpy as np
        >>> from grilly import nn
        >>> layer = nn.Sanger(2, 2, learning_rate=0.2)
        >>> for _ in range(200):
        ...     layer.update(np.array([[2.0, 0.0], [0.0, 1.0]]))
        >>> np.abs(layer.weight).round(3).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """

    _rule = staticmethod(functional.sanger_update)
