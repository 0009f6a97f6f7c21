"""Learning rates along one cycle of the whole training, and rates that a measure reduces."""

import math
from typing import Any

from grilly.errors import InvalidArgumentError
from grilly.functional.checks import fraction, number, one_of, whole
from grilly.inputs import need_type
from grilly.optim.optimizer import Optimizer
from grilly.optim.schedules import LRScheduler, Schedule

__all__ = ["OneCycleLR", "ReduceLROnPlateau"]


class OneCycleLR(LRScheduler):
    """The rate rises from `max_lr / div_factor` to `max_lr`, then falls to `max_lr / (div_factor final_div_factor)`.

    The momentum, or Adam's first beta, goes the other way.

    Args:
        optimizer: As in `LRScheduler`.
        max_lr: The largest rate, or one for each group.
        total_steps: Steps in all; default `epochs * steps_per_epoch`.
        epochs: With `steps_per_epoch`, in place of `total_steps`.
        steps_per_epoch: As above.
        pct_start: Share of the steps in which the rate rises; default 0.3.
        anneal_strategy: `"cos"` or `"linear"`; default `"cos"`.
        cycle_momentum: Whether the momentum changes; default True.
        base_momentum: The least momentum; default 0.85.
        max_momentum: The largest; default 0.95.
        div_factor: Divisor of the rate in the first step; default 25.
        final_div_factor: Divisor from the first step's rate to the last one's; default 1e4.
        last_epoch: As in `LRScheduler`.

    Raises:
        InvalidArgumentError: No number of steps, one out of its range, an optimiser without momentum under
            `cycle_momentum`; and from `step` after the last.

    Source: upstream's and torch's `OneCycleLR`; Smith and Topin (2018).

    Example:
        >>> from grilly import nn, optim
        >>> schedule = optim.OneCycleLR(optim.Adam([nn.Parameter([1.0])]), max_lr=1.0, total_steps=10)
        >>> [round((schedule.step(), schedule.get_last_lr()[0])[1], 4) for _ in range(3)]
        [0.52, 1.0, 0.9505]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        last_epoch: int = -1,
    ) -> None:
        owner = "OneCycleLR"
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise InvalidArgumentError(f"{owner}: set total_steps, or epochs and steps_per_epoch")
        parts = [("epochs", epochs), ("steps_per_epoch", steps_per_epoch)]
        given = [("total_steps", total_steps)] if total_steps is not None else parts
        self.total_steps = math.prod(whole(owner, name, value) for name, value in given)
        self.pct_start = fraction(owner, "pct_start", pct_start)
        self.anneal_strategy = one_of(owner, "anneal_strategy", anneal_strategy, ("cos", "linear"))
        self.max_lrs = [number(owner, "max_lr", rate) for rate in of_groups(owner, "max_lr", max_lr, optimizer)]
        self.div_factor, self.final_div_factor = div_factor, final_div_factor
        self.momentums = (base_momentum, max_momentum) if cycle_momentum else None
        if cycle_momentum and not any(name in optimizer.param_groups[0] for name in ("momentum", "betas")):
            raise InvalidArgumentError(f"{owner}: the optimiser has no momentum; set cycle_momentum=False")
        super().__init__(optimizer, last_epoch)

    def step(self, epoch: int | None = None) -> None:
        """Goes on to the next step, or to step `epoch`, and sets rates and momentum.

        Raises:
            InvalidArgumentError: After the last step.

        Example:
            >>> from grilly import nn, optim
            >>> optimizer = optim.SGD([nn.Parameter([1.0])], momentum=0.9)
            >>> schedule = optim.OneCycleLR(optimizer, 1.0, total_steps=10)
            >>> round(optimizer.param_groups[0]["momentum"], 4)
            0.95
        """
        super().step(epoch)
        if self.momentums is None:
            return
        least, most = self.momentums
        for group in self.optimizer.param_groups:
            momentum = self._along(most, least, most)
            if "betas" in group:
                group["betas"] = (momentum, *group["betas"][1:])
            else:
                group["momentum"] = momentum

    def get_lr(self) -> list[float]:
        """The rates of step `last_epoch`.

        Example:
            >>> from grilly import nn, optim
            >>> schedule = optim.OneCycleLR(optim.Adam([nn.Parameter([1.0])]), 0.5, total_steps=10)
            >>> [round(rate, 6) for rate in schedule.get_lr()]
            [0.02]
        """
        if self.last_epoch > self.total_steps:
            raise InvalidArgumentError(f"OneCycleLR: step {self.last_epoch} is after the last, {self.total_steps}")
        first = [rate / self.div_factor for rate in self.max_lrs]
        ends = zip(first, self.max_lrs, strict=True)
        return [self._along(start, rate, start / self.final_div_factor) for start, rate in ends]

    def _along(self, start: float, middle: float, end: float) -> float:
        """From `start` over `middle` to `end`, at the current step."""
        top, step, last = self.pct_start * self.total_steps - 1, self.last_epoch, self.total_steps - 1
        if step <= top:
            a, b, share = start, middle, step / max(top, 1e-30)
        else:
            a, b, share = middle, end, min((step - top) / max(last - top, 1e-30), 1.0)
        if self.anneal_strategy == "linear":
            return a + (b - a) * share
        return b + (a - b) * (1 + math.cos(math.pi * share)) / 2


class ReduceLROnPlateau(Schedule):
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
        self.min_lrs = of_groups(owner, "min_lr", min_lr, optimizer)
        self.optimizer, self.factor, self.eps = optimizer, factor, eps
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


def of_groups(owner: str, name: str, given: Any, optimizer: Optimizer) -> list[Any]:
    """A rate for each group of parameters: those given, or the one that is given."""
    groups = len(optimizer.param_groups)
    rates = list(given) if isinstance(given, list | tuple) else [given] * groups
    if len(rates) != groups:
        raise InvalidArgumentError(f"{owner}: {name} has {len(rates)} rates, expected {groups}")
    return rates
