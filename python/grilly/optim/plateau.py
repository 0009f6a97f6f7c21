"""A schedule that follows a measure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from grilly.errors import InvalidArgumentError
from grilly.functional.checks import one_of, whole
from grilly.inputs import need_type
from grilly.optim.optimizer import Optimizer

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau:
    """Multiplies the rates by `factor` when a measure has not become better for more than `patience` steps.

    Args:
        optimizer: Its rates are reduced.
        mode: `"min"` if less is better, or `"max"`; default `"min"`.
        factor: Below 1; default 0.1.
        patience: Steps without a better measure that are endured; default 10.
        threshold: What is better by less than this is not; default 1e-4.
        threshold_mode: `"rel"` for a share of the best so far, or `"abs"`; default `"rel"`.
        cooldown: Steps after a reduction that are not counted; default 0.
        min_lr: The least rate, or one for each group; default 0.
        eps: Smaller reductions are left out; default 1e-8.

    Raises:
        InvalidArgumentError: A factor from 1, an unknown mode, or another number of least rates than of groups.
        InvalidTypeError: No optimiser.

    Source: upstream's and torch's `ReduceLROnPlateau`.

    Example:
        >>> from grilly import nn, optim
        >>> optimizer = optim.SGD([nn.Parameter([1.0])], lr=1.0)
        >>> schedule = optim.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
        >>> for loss in (3.0, 2.0, 2.0, 2.0):
        ...     schedule.step(loss)
        >>> optimizer.param_groups[0]["lr"]
        0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: Any = 0,
        eps: float = 1e-8,
    ) -> None:
        owner = "ReduceLROnPlateau"
        need_type(optimizer, Optimizer, f"{owner}: optimizer", "an optimiser")
        if not factor < 1:
            raise InvalidArgumentError(f"{owner}: factor is {factor}, expected below 1")
        least = list(min_lr) if isinstance(min_lr, list | tuple) else [min_lr] * len(optimizer.param_groups)
        if len(least) != len(optimizer.param_groups):
            groups = len(optimizer.param_groups)
            raise InvalidArgumentError(f"{owner}: min_lr has {len(least)} rates, expected {groups}")
        self.optimizer, self.factor, self.min_lrs, self.eps = optimizer, factor, least, eps
        self.mode = one_of(owner, "mode", mode, ("min", "max"))
        self.threshold_mode = one_of(owner, "threshold_mode", threshold_mode, ("rel", "abs"))
        self.patience = whole(owner, "patience", patience, least=0)
        self.cooldown = whole(owner, "cooldown", cooldown, least=0)
        self.threshold = threshold
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether steps are not counted after a reduction."""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Whether a measure is better than the best so far, by more than the threshold.

        Example:
            >>> from grilly import nn, optim
            >>> optim.ReduceLROnPlateau(optim.SGD([nn.Parameter([1.0])])).is_better(0.9, 1.0)
            True
        """
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            return sign * a < sign * best * (1 - sign * self.threshold)
        return sign * a < sign * best - self.threshold

    def step(self, metrics: Any, epoch: int | None = None) -> None:
        """Takes a measure, and reduces the rates if that is due.

        Args:
            metrics: The measure, such as the loss of the part held out.
            epoch: The number of the step; default one more than before.

        Example:
            >>> from grilly import nn, optim
            >>> optimizer = optim.SGD([nn.Parameter([1.0])], lr=1.0)
            >>> schedule = optim.ReduceLROnPlateau(optimizer, patience=0)
            >>> schedule.step(1.0)
            >>> schedule.step(1.0)
            >>> optimizer.param_groups[0]["lr"]
            0.1
        """
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        better = self.is_better(current, self.best)
        self.best = current if better else self.best
        self.num_bad_epochs = 0 if better else self.num_bad_epochs + 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                rate = max(group["lr"] * self.factor, least)
                if group["lr"] - rate > self.eps:
                    group["lr"] = rate
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def get_last_lr(self) -> list[float]:
        """The current rates of the groups.

        Example:
            >>> from grilly import nn, optim
            >>> optim.ReduceLROnPlateau(optim.SGD([nn.Parameter([1.0])], lr=0.5)).get_last_lr()
            [0.5]
        """
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser.

        Example:
            >>> from grilly import nn, optim
            >>> optim.ReduceLROnPlateau(optim.SGD([nn.Parameter([1.0])])).state_dict()["patience"]
            10
        """
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes over the state of another.

        Example:
            >>> from grilly import nn, optim
            >>> a, b = (optim.ReduceLROnPlateau(optim.SGD([nn.Parameter([1.0])])) for _ in range(2))
            >>> a.step(1.0)
            >>> b.load_state_dict(a.state_dict())
            >>> b.best
            1.0
        """
        vars(self).update(state_dict)
