"""Modules that contain modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grilly import functional
from grilly.errors import InvalidArgumentError
from grilly.functional.dispatch import Operand, Result
from grilly.nn.module import Module
from grilly.operands import normal_axis

__all__ = ["Residual", "Sequential"]


class Sequential(Module):
    """Modules applied in sequence.

    Args:
        *modules: The modules, named "0", "1" ... in the state.

    Source: upstream's `nn.Sequential`.

    Example:
        >>> from grilly import nn
        >>> nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))([[1.0, 2.0, 3.0]]).shape
        (1, 2)
    """

    def __init__(self, *modules: Module) -> None:
        super().__init__()
        for place, module in enumerate(modules):
            setattr(self, str(place), module)
        self._inputs: list[Any] = []

    def forward(self, x: Operand) -> Result:
        """Passes `x` through every module.

        Example:
            >>> from grilly import nn
            >>> nn.Sequential(nn.ReLU(), nn.ReLU()).forward([-1.0]).tolist()
            [0.0]
        """
        inputs = []
        for module in self:
            inputs.append(x)
            x = module(x)
        self._inputs = inputs if self.training else []
        return x

    def backward(self, grad_output: Operand, x: Operand | None = None) -> Result:
        """The derivatives of the modules, last first, at the inputs of the last call in training mode.

        Raises:
            InvalidArgumentError: There was none.

        Example:
            >>> from grilly import nn
            >>> chain = nn.Sequential(nn.ReLU(), nn.ReLU())
            >>> _ = chain([-1.0, 1.0])
            >>> chain.backward([1.0, 1.0]).tolist()
            [0.0, 1.0]
        """
        if len(self._inputs) != len(self):
            raise InvalidArgumentError("Sequential: backward needs a call of the layer in training mode before it")
        for module, given in zip(reversed(list(self)), reversed(self._inputs), strict=True):
            grad_output = module.backward(grad_output, given)
        return grad_output

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_inputs": []}

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, place: int) -> Module:
        return list(self)[normal_axis(place, len(self), "place")]


class Residual(Module):
    """`x + module(x)`.

    Args:
        module: What is added.

    Source: upstream's `nn.Residual`.

    Example:
        >>> from grilly import nn
        >>> nn.Residual(nn.ReLU())([-1.0, 2.0]).tolist()
        [-1.0, 4.0]
    """

    module: Module

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Operand) -> Result:
        """`x + module(x)`.

        Example:
            >>> from grilly import nn
            >>> nn.Residual(nn.ReLU()).forward([2.0]).tolist()
            [4.0]
        """
        return functional.residual(x, self.module(x))

    def backward(self, grad_output: Operand, x: Operand) -> Result:
        """`grad_output` and the module's own derivative, added.

        Example:
            >>> from grilly import nn
            >>> nn.Residual(nn.ReLU()).backward([1.0, 1.0], [-1.0, 2.0]).tolist()
            [1.0, 2.0]
        """
        return functional.residual(grad_output, self.module.backward(grad_output, x))
