"""Gradient descent."""

from collections.abc import Iterable
from typing import Any

from grilly.errors import InvalidArgumentError
from grilly.functional.checks import flag, number
from grilly.functional.optimisers import sgd_update
from grilly.optim.optimizer import Optimizer

__all__ = ["SGD"]


class SGD(Optimizer):
    """Gradient descent with momentum:

    `d = g + weight_decay p`, `b = momentum b + (1 - dampening) d`, at first `b = d`, and `p = p - lr b`, or
    `p = p - lr (d + momentum b)` by Nesterov.

    Args:
        params: `nn.Parameter`s, NumPy arrays or groups, as in `Optimizer`.
        lr: Learning rate; default 1e-3.
        momentum: Default 0.
        weight_decay: Default 0.
        dampening: Default 0.
        nesterov: Whether the step looks ahead; needs a momentum and no dampening. Default False.
        use_gpu: Whether parameters in NumPy are updated on the default device, else on the CPU; default False.

    Raises:
        InvalidArgumentError: A negative number, or `nesterov` without a momentum or with dampening.

    Source: upstream's `optim.SGD`; `torch.optim.SGD`.

    Example:
        >>> from grilly import nn, optim
        >>> p = nn.Parameter([1.0])
        >>> optimizer = optim.SGD([p], lr=0.5, momentum=0.5)
        >>> for _ in range(2):
        ...     p.accumulate([0.5])
        ...     optimizer.step()
        >>> p.tolist()
        [0.375]
    """

    _alike = ("momentum_buffer",)
    _finite = ("lr", "momentum", "weight_decay", "dampening")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
        use_gpu: bool = False,
    ) -> None:
        given = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        found: dict[str, Any] = {name: number("SGD", name, value, least=0) for name, value in given.items()}
        found |= {"dampening": number("SGD", "dampening", dampening), "nesterov": flag("SGD", "nesterov", nesterov)}
        if nesterov and (not momentum or dampening):
            raise InvalidArgumentError("SGD: nesterov needs a momentum above 0 and dampening 0")
        super().__init__(params, found)
        self.use_gpu = flag("SGD", "use_gpu", use_gpu)

    def update(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The step by `functional.sgd_update`.

        Example:
            >>> from grilly import nn, optim
            >>> optimizer = optim.SGD([nn.Parameter([1.0])], lr=0.5, momentum=0.5)
            >>> new, state = optimizer.update(np.ones(1), np.ones(1), {}, optimizer.param_groups[0])
            >>> new.tolist(), state["momentum_buffer"].tolist()
            ([0.5], [1.0])
        """
        names = ("momentum", "dampening", "weight_decay", "nesterov")
        settings = {name: group[name] for name in names}
        new, buffer = sgd_update(p, gradient, state.get("momentum_buffer"), group["lr"], **settings)
        # Without momentum, which may come back, an older buffer stays.
        return new, state if buffer is None else {"momentum_buffer": buffer}
