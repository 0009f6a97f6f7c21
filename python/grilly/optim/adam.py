"""Adam and AdamW."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from grilly.errors import InvalidArgumentError
from grilly.functional.checks import flag, number
from grilly.functional.optimisers import adam_step, share
from grilly.inputs import need_type
from grilly.optim.optimizer import Optimizer

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adam: `m = beta1 m + (1 - beta1) g`, `v = beta2 v + (1 - beta2) g^2`, and
    `p = p - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)`.

    Args:
        params: `nn.Parameter`s, NumPy arrays or groups, as in `Optimizer`.
        lr: Learning rate; default 1e-3.
        betas: Decays of the mean gradient and of the mean squared one; default (0.9, 0.999).
        eps: Added to the divisor; default 1e-8.
        weight_decay: Factor of the parameter that is added to its gradient; default 0.
        use_gpu: Whether parameters in NumPy are updated on the default device, else on the CPU; default True.
            Parameters of a module on a device are updated there.

    Raises:
        InvalidArgumentError: A number out of its range.

    Source: upstream's `optim.Adam`, which always ran on the CPU and ignored schedules; Kingma and Ba (2015).

    Example:
        >>> from grilly import nn, optim
        >>> p = nn.Parameter([1.0])
        >>> optimizer = optim.Adam([p], lr=0.1)
        >>> p.accumulate([0.5])
        >>> optimizer.step()
        >>> p.numpy().round(4).tolist()
        [0.8999999761581421]
    """

    #: Whether the decay of weights is apart from the gradient, in groups that do not say.
    decoupled = False
    _alike = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
    _finite = ("lr", "betas", "eps", "weight_decay")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: Sequence[float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        use_gpu: bool = True,
    ) -> None:
        settings = checked(type(self).__name__, lr, betas, eps, weight_decay)
        super().__init__(params, settings | {"decoupled_weight_decay": self.decoupled})
        self.use_gpu = flag(type(self).__name__, "use_gpu", use_gpu)

    def update(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The step, as `functional.adam_update`.

        Example:
            >>> from grilly import nn, optim
            >>> optimizer = optim.Adam([nn.Parameter([1.0])])
            >>> new, state = optimizer.update(np.ones(1), np.ones(1), {}, optimizer.param_groups[0])
            >>> state["step"], sorted(state)
            (1, ['exp_avg', 'exp_avg_sq', 'step'])
        """
        step, decay = state.get("step", 0) + 1, group["weight_decay"]
        # Of the decays as the kernel has them, so that the weights of all gradients sum to 1; below 1 there, too.
        beta1, beta2 = (min(float(np.float32(beta)), 1 - 2.0**-24) for beta in group["betas"])
        zeros = np.zeros(p.shape, np.float32)
        names = ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"]
        m, v, most = (state.get(name, zeros) for name in names)
        given = m, v, most if group.get("amsgrad") else None
        form = "decoupled" if group.get("decoupled_weight_decay", self.decoupled) else "coupled"
        rates = {"learning_rate": group["lr"], "epsilon": group["eps"], "beta1_t": beta1**step, "beta2_t": beta2**step}
        new, *moments = adam_step(p, gradient, given, (beta1, beta2), **rates, **{form: decay})
        kept = {name: moment for name, moment in zip(names, moments, strict=True) if moment is not None}
        return new, {"step": step, **kept}


class AdamW(Adam):
    """Adam with decoupled weight decay: `p = p - lr weight_decay p` beside the step of Adam.

    Args:
        params: As in `Adam`.
        lr: Learning rate; default 1e-3.
        betas: As in `Adam`; default (0.9, 0.999).
        eps: As in `Adam`; default 1e-8.
        weight_decay: Default 0.01.
        amsgrad: Whether the divisor has the largest mean squared gradient so far; default False.
        use_gpu: As in `Adam`; default True.

    Raises:
        InvalidArgumentError: A number out of its range.

    Source: upstream's `optim.AdamW`; Loshchilov and Hutter (2019), Reddi et al. (2018).

    Example:
        >>> from grilly import nn, optim
        >>> p = nn.Parameter([1.0])
        >>> optimizer = optim.AdamW([p], lr=0.1, weight_decay=0.5)
        >>> p.accumulate([0.5])
        >>> optimizer.step()
        >>> p.numpy().round(4).tolist()
        [0.8500000238418579]
    """

    decoupled = True
    _fixed = {"decoupled_weight_decay": True}  # of an Adam's state

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: Sequence[float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        use_gpu: bool = True,
    ) -> None:
        further = {"amsgrad": flag("AdamW", "amsgrad", amsgrad), "decoupled_weight_decay": True}
        Optimizer.__init__(self, params, checked("AdamW", lr, betas, eps, weight_decay) | further)
        self.use_gpu = flag("AdamW", "use_gpu", use_gpu)


def checked(owner: str, lr: Any, betas: Any, eps: Any, weight_decay: Any) -> dict[str, Any]:
    """The settings, checked."""
    given = {"lr": lr, "eps": eps, "weight_decay": weight_decay}
    found: dict[str, Any] = {name: number(owner, name, value, least=0) for name, value in given.items()}
    need_type(betas, Sequence | np.ndarray, f"{owner}: betas", "two numbers")
    if len(betas) != 2:
        raise InvalidArgumentError(f"{owner}: betas has {len(betas)} numbers, expected 2")
    return found | {"betas": tuple(share(owner, "one of betas", beta) for beta in betas)}
