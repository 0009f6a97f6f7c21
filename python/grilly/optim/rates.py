"""Learning rates along one cycle of the whole training, and rates that a measure reduces."""

import math
from collections.abc import Mapping
from typing import Any

from grilly.errors import InvalidArgumentError
from grilly.functional.checks import divisor, flag, fraction, number, one_of, whole
from grilly.inputs import need_type
from grilly.optim.optimizer import Optimizer
from grilly.optim.schedule import LRScheduler
from grilly.optim.states import copied

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
        div_factor = divisor(owner, "div_factor", div_factor)
        final_div_factor = divisor(owner, "final_div_factor", final_div_factor)
        parts = [("epochs", epochs), ("steps_per_epoch", steps_per_epoch)]
        given = [("total_steps", total_steps)] if total_steps is not None else parts
        self.total_steps = math.prod(whole(owner, name, value) for name, value in given)
        self.pct_start = fraction(owner, "pct_start", pct_start)
        self.anneal_strategy = one_of(owner, "anneal_strategy", anneal_strategy, ("cos", "linear"))
        need_type(optimizer, Optimizer, f"{owner}: optimizer", "an optimiser")
        self.cycle_momentum = flag(owner, "cycle_momentum", cycle_momentum)
        self.use_beta1 = "betas" in optimizer.param_groups[0]
        if self.cycle_momentum and not (self.use_beta1 or "momentum" in optimizer.param_groups[0]):
            raise InvalidArgumentError(f"{owner}: the optimiser has no momentum; set cycle_momentum=False")
        names = ("max_lr", "max_momentum", "base_momentum")
        values = zip(names, (max_lr, max_momentum, base_momentum), strict=True)
        ends = [each_group(owner, name, value, optimizer) for name, value in values]
        if last_epoch == -1:
            for group, rate, most, least in zip(optimizer.param_groups, *ends, strict=True):
                first = rate / div_factor
                group.update(initial_lr=first, max_lr=rate, min_lr=first / final_div_factor)
                if self.cycle_momentum:
                    group.update(max_momentum=most, base_momentum=least)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of step `last_epoch`; sets the momentum, too.

        Raises:
            InvalidArgumentError: After the last step, or for a group that was added after the schedule was made.

        Example:
            >>> from grilly import nn, optim
            >>> optimizer = optim.SGD([nn.Parameter([1.0])], momentum=0.9)
            >>> schedule = optim.OneCycleLR(optimizer, 0.5, total_steps=10)
            >>> [round(rate, 6) for rate in schedule.get_lr()], optimizer.param_groups[0]["momentum"]
            ([0.02], 0.95)
        """
        if self.last_epoch > self.total_steps:
            raise InvalidArgumentError(f"OneCycleLR: step {self.last_epoch} is after the last, {self.total_steps}")
        groups = self.optimizer.param_groups
        names = ["initial_lr", "max_lr", "min_lr", *(["max_momentum", "base_momentum"] if self.cycle_momentum else [])]
        for place, group in enumerate(groups):
            if absent := [name for name in names if name not in group]:
                raise InvalidArgumentError(f"OneCycleLR: group {place} has no {', '.join(absent)}; make a new schedule")
        for group in groups if self.cycle_momentum else []:
            momentum = self._along(*(group[name] for name in ("max_momentum", "base_momentum", "max_momentum")))
            group.update({"betas": (momentum, *group["betas"][1:])} if self.use_beta1 else {"momentum": momentum})
        return [self._along(group["initial_lr"], group["max_lr"], group["min_lr"]) for group in groups]

    def _along(self, start: float, middle: float, end: float) -> float:
        """From `start` over `middle` to `end`, at the current step."""
        top, step, last = self.pct_start * self.total_steps - 1, self.last_epoch, self.total_steps - 1
        if step <= top or top == last:
            a, b, share = start, middle, step / (top or 1.0)
        else:
            a, b, share = middle, end, (step - top) / (last - top)
        if self.anneal_strategy == "linear":
            return (b - a) * share + a
        return b + (a - b) / 2.0 * (math.cos(math.pi * share) + 1)


def each_group(owner: str, name: str, value: Any, optimizer: Optimizer) -> list[float]:
    """A number for each group, from one for all or a list of them.

    Example:
        >>> from grilly import nn, optim
        >>> from grilly.optim.rates import each_group
        >>> each_group("OneCycleLR", "max_lr", 0.5, optim.SGD([nn.Parameter([1.0])]))
        [0.5]
    """
    groups = len(optimizer.param_groups)
    found = list(value) if isinstance(value, list | tuple) else [value] * groups
    if len(found) != groups:
        raise InvalidArgumentError(f"{owner}: {name} has {len(found)} numbers, expected {groups}")
    return [number(owner, name, each) for each in found]


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
        if not (factor := number(owner, "factor", factor)) < 1:
            raise InvalidArgumentError(f"{owner}: factor is {factor}, expected below 1")
        self.optimizer, self.factor, self.eps = optimizer, factor, number(owner, "eps", eps)
        self.min_lrs = each_group(owner, "min_lr", min_lr, optimizer)
        #: That of groups that are added later.
        self.default_min_lr = None if isinstance(min_lr, list | tuple) else min_lr
        self.mode = one_of(owner, "mode", mode, ("min", "max"))
        self.threshold_mode = one_of(owner, "threshold_mode", threshold_mode, ("rel", "abs"))
        self.patience = whole(owner, "patience", patience, least=0)
        self.cooldown = whole(owner, "cooldown", cooldown, least=0)
        self.threshold = number(owner, "threshold", threshold)
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._last_lr = [group["lr"] for group in optimizer.param_groups]

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

        Raises:
            InvalidArgumentError: There are more groups than least rates, of which a list was given.

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
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                held = f"min_lrs has {len(self.min_lrs)} rates, and the optimiser has {len(groups)} groups"
                raise InvalidArgumentError(f"ReduceLROnPlateau: {held}; set min_lrs")
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            rate = max(group["lr"] * self.factor, least)
            if group["lr"] - rate > self.eps:
                group["lr"] = rate

    def get_last_lr(self) -> list[float]:
        """The rates of the groups after the last step of this schedule.

        Example:
            >>> from grilly import nn, optim
            >>> optim.ReduceLROnPlateau(optim.SGD([nn.Parameter([1.0])], lr=0.5)).get_last_lr()
            [0.5]
        """
        return list(self._last_lr)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser; lists are copies.

        Example:
            >>> from grilly import nn, optim
            >>> optim.ReduceLROnPlateau(optim.SGD([nn.Parameter([1.0])])).state_dict()["patience"]
            10
        """
        return copied({name: value for name, value in vars(self).items() if name != "optimizer"})

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
        vars(self).update(copied(state_dict))
