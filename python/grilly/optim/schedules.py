"""Schedules of the learning rate: each step sets the rates of the optimiser's groups."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from grilly.errors import InvalidArgumentError
from grilly.functional.checks import fraction, number, whole
from grilly.optim.optimizer import Optimizer
from grilly.optim.schedule import LRScheduler

__all__ = ["CosineAnnealingLR", "LRScheduler", "LinearLR", "SequentialLR", "StepLR"]


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
        """The rates of step `last_epoch`, from those before it.

        Example:
            >>> from grilly import nn, optim
            >>> optim.StepLR(optim.SGD([nn.Parameter([1.0])], lr=0.5), 10).get_lr()
            [0.5]
        """
        reduces = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return [group["lr"] * self.gamma if reduces else group["lr"] for group in self.optimizer.param_groups]

    def _get_closed_form_lr(self) -> list[float]:
        return [rate * self.gamma ** (self.last_epoch // self.step_size) for rate in self.base_lrs]


class LinearLR(LRScheduler):
    """A linear warm-up: the factor rises from `start_factor` to `end_factor` in `total_iters` steps, and stays there.

    Making it multiplies the rate, also a loaded one: make it before the optimiser's state is loaded.

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
        """The rates of step `last_epoch`, from those before it.

        Example:
            >>> from grilly import nn, optim
            >>> schedule = optim.LinearLR(optim.SGD([nn.Parameter([1.0])], lr=0.5), 0.5)
            >>> schedule.last_epoch = 6
            >>> schedule.get_lr()
            [0.25]
        """
        rates, rise = [group["lr"] for group in self.optimizer.param_groups], self.end_factor - self.start_factor
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in rates]
        if self._is_initial or self.last_epoch > self.total_iters:
            return rates
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        # From a factor of 0 no product leads on.
        return [rate * (1.0 + rise / before) for rate in rates] if before else self._get_closed_form_lr()

    def _get_closed_form_lr(self) -> list[float]:
        rise = self.end_factor - self.start_factor
        factor = self.start_factor + rise * min(self.total_iters, self.last_epoch) / self.total_iters
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
        """The rates of step `last_epoch`, from those before it.

        Example:
            >>> from grilly import nn, optim
            >>> schedule = optim.CosineAnnealingLR(optim.SGD([nn.Parameter([1.0])], lr=0.5), 2)
            >>> schedule.last_epoch = 1
            >>> schedule.get_lr()
            [0.25]
        """
        step, steps, least = self.last_epoch, self.T_max, self.eta_min
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if self._is_initial:
            return rates
        if self._step_count == 1 and step > 0:
            return self._get_closed_form_lr()
        if (step - 1 - steps) % (2 * steps) == 0:
            # The rate before it is the least one, from which no product leads on.
            rise = (1 - math.cos(math.pi / steps)) / 2
            return [rate + (base - least) * rise for rate, base in zip(rates, self.base_lrs, strict=False)]
        now, before = (1 + math.cos(math.pi * each / steps) for each in (step, step - 1))
        return [now / before * (rate - least) + least for rate in rates]

    def _get_closed_form_lr(self) -> list[float]:
        rise = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (rate - self.eta_min) * rise / 2 for rate in self.base_lrs]


class SequentialLR(LRScheduler):
    """Schedules one after the other, such as a warm-up and a cosine; each counts its steps from its own first one.

    The rates begin again from `initial_lr`: make it before the optimiser's state is loaded.

    Args:
        optimizer: As in `LRScheduler`.
        schedulers: Schedules of this optimiser.
        milestones: The first step of each but the first.
        last_epoch: The step before the first one; default -1.

    Raises:
        InvalidArgumentError: No schedule, one of another optimiser or of a kind that needs a measure, another number of
            milestones, some that fall, or a state with another number of schedules.

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
        schedulers, starts = list(schedulers), [0, *milestones]
        if not all(isinstance(each, LRScheduler) and each.optimizer is optimizer for each in schedulers):
            raise InvalidArgumentError("SequentialLR: schedulers has something else than schedules of this optimiser")
        if len(starts) != len(schedulers) or starts != sorted(starts):
            expected = f"{len(schedulers) - 1} steps that do not fall"
            raise InvalidArgumentError(f"SequentialLR: milestones is {list(milestones)}, expected {expected}")
        self._schedulers, self._milestones = schedulers, list(milestones)
        self.optimizer, self.last_epoch = optimizer, last_epoch + 1
        self.base_lrs = [group.get("initial_lr", group["lr"]) for group in optimizer.param_groups]
        for group, rate in zip(optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = rate
        for each in schedulers:
            each._undo()
        first = schedulers[bisect_right(self._milestones, 0)]
        first._begin()
        self._last_lr = first.get_last_lr()

    def _undo(self) -> None:
        for each in self._schedulers:
            each._undo()

    def _set(self, epoch: int | None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        which = bisect_right(self._milestones, self.last_epoch)
        start = self._milestones[which - 1] if which else 0
        current = self._schedulers[which]
        if epoch is not None or (which and start == self.last_epoch):
            current._set(self.last_epoch - start)
        else:
            current.step()
        self._last_lr = current.get_last_lr()

    def get_lr(self) -> list[float]:
        """The rates of step `last_epoch`, from those before it.

        Example:
            >>> from grilly import nn, optim
            >>> optimizer = optim.SGD([nn.Parameter([1.0])], lr=0.5)
            >>> optim.SequentialLR(optimizer, [optim.StepLR(optimizer, 10)], []).get_lr()
            [0.5]
        """
        return self._schedulers[bisect_right(self._milestones, self.last_epoch)].get_lr()

    def state_dict(self) -> dict[str, Any]:
        """The step, and the states of the schedules.

        Example:
            >>> from grilly import nn, optim
            >>> optimizer = optim.SGD([nn.Parameter([1.0])], lr=0.5)
            >>> state = optim.SequentialLR(optimizer, [optim.StepLR(optimizer, 10)], []).state_dict()
            >>> state["last_epoch"], state["_schedulers"][0]["step_size"]
            (0, 10)
        """
        return super().state_dict() | {"_schedulers": [each.state_dict() for each in self._schedulers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes over the state of another with the same kinds of schedules.

        Raises:
            InvalidArgumentError: It has another number of schedules.

        Example:
            >>> from grilly import nn, optim
            >>> optimizer = optim.SGD([nn.Parameter([1.0])], lr=0.5)
            >>> a, b = (optim.SequentialLR(optimizer, [optim.StepLR(optimizer, 10)], []) for _ in range(2))
            >>> a.step()
            >>> b.load_state_dict(a.state_dict())
            >>> b.last_epoch
            1
        """
        states = state_dict.get("_schedulers")
        if states is None:  # of an earlier build, whose states were the step alone
            self.last_epoch = state_dict["last_epoch"]
            which = bisect_right(self._milestones, self.last_epoch)
            self._schedulers[which].last_epoch = self.last_epoch - (self._milestones[which - 1] if which else 0)
            return
        if len(states) != len(self._schedulers):
            counts = f"{len(states)} schedules, expected {len(self._schedulers)}"
            raise InvalidArgumentError(f"SequentialLR: the state has {counts}")
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "_schedulers"})
        for each, state in zip(self._schedulers, states, strict=True):
            each.load_state_dict(state)
