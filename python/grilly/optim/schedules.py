"""Schedules of the learning rate: each step sets the rates of the optimiser's groups."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from grilly.errors import InvalidArgumentError, UnsupportedError
from grilly.functional.checks import fraction, number, whole
from grilly.inputs import need_type
from grilly.optim.optimizer import Optimizer

__all__ = ["CosineAnnealingLR", "LRScheduler", "LinearLR", "SequentialLR", "StepLR"]


class Schedule:
    """What sets the rates of an optimiser's groups."""

    optimizer: Optimizer

    def get_last_lr(self) -> list[float]:
        """The current rates of the groups.

        Example:
            >>> from grilly import nn, optim
            >>> optim.StepLR(optim.SGD([nn.Parameter([1.0])], lr=0.5), 10).get_last_lr()
            [0.5]
        """
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser.

        Example:
            >>> from grilly import nn, optim
            >>> optim.StepLR(optim.SGD([nn.Parameter([1.0])]), 10).state_dict()["step_size"]
            10
        """
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes over the state of another schedule of this class.

        Example:
            >>> from grilly import nn, optim
            >>> a, b = (optim.StepLR(optim.SGD([nn.Parameter([1.0])]), 10) for _ in range(2))
            >>> a.step()
            >>> b.load_state_dict(a.state_dict())
            >>> b.last_epoch
            1
        """
        vars(self).update(state_dict)


class LRScheduler(Schedule):
    """The base of schedules: a subclass defines `get_lr`, the rates of the groups in step `last_epoch`.

    Args:
        optimizer: Its rates are set at once, and by each `step`.
        last_epoch: The step before the first one; default -1.

    Attributes:
        base_lrs: The rates of the groups before any schedule.
        last_epoch: The current step, counted from 0.

    Raises:
        InvalidTypeError: No optimiser.

    Source: upstream's `LRScheduler`, which the optimisers did not read; `torch.optim.lr_scheduler`.

    Example:
        >>> from grilly import nn, optim
        >>> class Halving(optim.LRScheduler):
        ...     def get_lr(self):
        ...         return [rate * 0.5**self.last_epoch for rate in self.base_lrs]
        >>> optimizer = optim.SGD([nn.Parameter([1.0])], lr=0.5)
        >>> schedule = Halving(optimizer)
        >>> schedule.step()
        >>> optimizer.param_groups[0]["lr"]
        0.25
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        need_type(optimizer, Optimizer, f"{type(self).__name__}: optimizer", "an optimiser")
        self.optimizer = optimizer
        self.base_lrs = [group.setdefault("initial_lr", group["lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self.step()

    def get_lr(self) -> list[float]:
        """The rates of the groups in step `last_epoch`; each schedule defines its own.

        Raises:
            UnsupportedError: The schedule does not define it.

        Example:
            >>> from grilly import nn, optim
            >>> optim.StepLR(optim.SGD([nn.Parameter([1.0])], lr=0.5), 10).get_lr()
            [0.5]
        """
        raise UnsupportedError(f"{type(self).__name__} has no get_lr")

    def step(self, epoch: int | None = None) -> None:
        """Goes on to the next step, or to step `epoch`, and sets the rates.

        Example:
            >>> from grilly import nn, optim
            >>> optimizer = optim.SGD([nn.Parameter([1.0])], lr=0.5)
            >>> optim.StepLR(optimizer, 1, gamma=0.5).step()
            >>> optimizer.param_groups[0]["lr"]
            0.25
        """
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        for group, rate in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group["lr"] = rate


class StepLR(LRScheduler):
    """`rate gamma^floor(step / step_size)`.

    Args:
        optimizer: As in `LRScheduler`.
        step_size: Steps between two reductions.
        gamma: Factor of each; default 0.1.
        last_epoch: As in `LRScheduler`.

    Source: upstream's and torch's `StepLR`.

    Example:
        >>> from grilly import nn, optim
        >>> schedule = optim.StepLR(optim.SGD([nn.Parameter([1.0])], lr=1.0), step_size=2, gamma=0.5)
        >>> [(schedule.step(), schedule.get_last_lr()[0])[1] for _ in range(4)]
        [1.0, 0.5, 0.5, 0.25]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = whole("StepLR", "step_size", step_size), number("StepLR", "gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of step `last_epoch`.

        Example:
            >>> from grilly import nn, optim
            >>> optim.StepLR(optim.SGD([nn.Parameter([1.0])], lr=0.5), 10).get_lr()
            [0.5]
        """
        return [rate * self.gamma ** (self.last_epoch // self.step_size) for rate in self.base_lrs]


class LinearLR(LRScheduler):
    """A linear warm-up: the factor rises from `start_factor` to `end_factor` in `total_iters` steps, and stays there.

    Args:
        optimizer: As in `LRScheduler`.
        start_factor: Factor in the first step; default 1/3.
        end_factor: Factor in the end; default 1.
        total_iters: Steps until then; default 5.
        last_epoch: As in `LRScheduler`.

    Source: torch's `LinearLR`.

    Example:
        >>> from grilly import nn, optim
        >>> schedule = optim.LinearLR(optim.SGD([nn.Parameter([1.0])], lr=1.0), 0.5, total_iters=2)
        >>> [(schedule.step(), schedule.get_last_lr()[0])[1] for _ in range(3)]
        [0.75, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        self.start_factor = fraction("LinearLR", "start_factor", start_factor)
        self.end_factor = fraction("LinearLR", "end_factor", end_factor)
        self.total_iters = whole("LinearLR", "total_iters", total_iters)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of step `last_epoch`.

        Example:
            >>> from grilly import nn, optim
            >>> optim.LinearLR(optim.SGD([nn.Parameter([1.0])], lr=0.5), 0.5).get_lr()
            [0.25]
        """
        done = min(self.last_epoch / self.total_iters, 1.0)
        factor = self.start_factor + (self.end_factor - self.start_factor) * done
        return [rate * factor for rate in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """`eta_min + (rate - eta_min) (1 + cos(pi step / T_max)) / 2`.

    Args:
        optimizer: As in `LRScheduler`.
        T_max: Steps until `eta_min`.
        eta_min: The least rate; default 0.
        last_epoch: As in `LRScheduler`.

    Source: upstream's and torch's `CosineAnnealingLR`; Loshchilov and Hutter (2017).

    Example:
        >>> from grilly import nn, optim
        >>> schedule = optim.CosineAnnealingLR(optim.SGD([nn.Parameter([1.0])], lr=1.0), T_max=2)
        >>> [round((schedule.step(), schedule.get_last_lr()[0])[1], 4) for _ in range(2)]
        [0.5, 0.0]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0, last_epoch: int = -1) -> None:  # noqa: N803
        self.T_max = whole("CosineAnnealingLR", "T_max", T_max)
        self.eta_min = number("CosineAnnealingLR", "eta_min", eta_min)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of step `last_epoch`.

        Example:
            >>> from grilly import nn, optim
            >>> optim.CosineAnnealingLR(optim.SGD([nn.Parameter([1.0])], lr=0.5), 10).get_lr()
            [0.5]
        """
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (rate - self.eta_min) * share for rate in self.base_lrs]


class SequentialLR(LRScheduler):
    """Schedules one after the other, such as a warm-up and a cosine; each counts its steps from its own first one.

    Args:
        optimizer: As in `LRScheduler`.
        schedulers: Schedules of this optimiser.
        milestones: The first step of each but the first.
        last_epoch: As in `LRScheduler`.

    Raises:
        InvalidArgumentError: Another number of milestones, or some that do not rise.

    Source: torch's `SequentialLR`.

    Example:
        >>> from grilly import nn, optim
        >>> optimizer = optim.SGD([nn.Parameter([1.0])], lr=1.0)
        >>> parts = [optim.LinearLR(optimizer, 0.5, total_iters=2), optim.StepLR(optimizer, 1, gamma=0.1)]
        >>> schedule = optim.SequentialLR(optimizer, parts, milestones=[2])
        >>> [(schedule.get_last_lr()[0], schedule.step())[0] for _ in range(4)]
        [0.5, 0.75, 1.0, 0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        starts = [0, *milestones]
        if len(starts) != len(schedulers) or starts != sorted(set(starts)):
            expected = f"{len(schedulers) - 1} rising steps from 1"
            raise InvalidArgumentError(f"SequentialLR: milestones is {list(milestones)}, expected {expected}")
        self._schedulers, self._starts = list(schedulers), starts
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of step `last_epoch`.

        Example:
            >>> from grilly import nn, optim
            >>> optimizer = optim.SGD([nn.Parameter([1.0])], lr=0.5)
            >>> optim.SequentialLR(optimizer, [optim.StepLR(optimizer, 10)], []).get_lr()
            [0.5]
        """
        which = bisect_right(self._starts, self.last_epoch) - 1
        current = self._schedulers[which]
        current.last_epoch = self.last_epoch - self._starts[which]
        return current.get_lr()

    def state_dict(self) -> dict[str, Any]:
        """The step, which alone changes.

        Example:
            >>> from grilly import nn, optim
            >>> optimizer = optim.SGD([nn.Parameter([1.0])], lr=0.5)
            >>> optim.SequentialLR(optimizer, [optim.StepLR(optimizer, 10)], []).state_dict()
            {'last_epoch': 0}
        """
        return {"last_epoch": self.last_epoch}
