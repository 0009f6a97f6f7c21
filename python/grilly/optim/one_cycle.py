"""The schedule of one cycle."""

from __future__ import annotations

import math
from typing import Any

from grilly.errors import InvalidArgumentError
from grilly.functional.checks import fraction, number, one_of, whole
from grilly.optim.optimizer import Optimizer
from grilly.optim.schedules import LRScheduler

__all__ = ["OneCycleLR"]


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
        groups = optimizer.param_groups
        most = list(max_lr) if isinstance(max_lr, list | tuple) else [max_lr] * len(groups)
        if len(most) != len(groups):
            raise InvalidArgumentError(f"{owner}: max_lr has {len(most)} rates, expected {len(groups)}")
        self.max_lrs = [number(owner, "max_lr", rate) for rate in most]
        self.div_factor, self.final_div_factor = div_factor, final_div_factor
        self.momentums = (base_momentum, max_momentum) if cycle_momentum else None
        if cycle_momentum and not any(name in groups[0] for name in ("momentum", "betas")):
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
