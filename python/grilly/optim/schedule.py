"""`LRScheduler`: the base of schedules of the learning rate."""

from collections.abc import Mapping
from typing import Any

from grilly.errors import InvalidArgumentError, UnsupportedError
from grilly.inputs import need_type
from grilly.optim.optimizer import Optimizer
from grilly.optim.states import copied

__all__ = ["LRScheduler"]


class LRScheduler:
    """The base of schedules: a subclass defines `get_lr`, the rates of the groups in step `last_epoch`.

    The schedules of this package compute a rate from the one before, as torch does: several schedules on one optimiser
    multiply, and one made after the optimiser's state was loaded goes on from the loaded rate. They need the rate that
    the schedule began with only where their formula starts anew; it is the group's `initial_lr`.

    Args:
        optimizer: Its rates are set at once, and by each `step`.
        last_epoch: The step before the first one; default -1. From 0 on the groups need an `initial_lr`, which they
            have from a loaded state.

    Attributes:
        base_lrs: The rates of the groups before any schedule. A group that is added later has its `initial_lr`, or the
            rate that it has at the next step.
        last_epoch: The current step, counted from 0.

    Raises:
        InvalidArgumentError: A group without `initial_lr` for a `last_epoch` from 0 on.
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

    #: Steps taken, the first one included.
    _step_count = 0
    #: Whether the step is the one of the constructor.
    _is_initial = False
    _last_lr: list[float]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        owner = type(self).__name__
        need_type(optimizer, Optimizer, f"{owner}: optimizer", "an optimiser")
        self.optimizer = optimizer
        for place, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                remedy = "load the optimiser's state first, or leave last_epoch out"
                raise InvalidArgumentError(
                    f"{owner}: group {place} has no initial_lr for last_epoch={last_epoch}; {remedy}"
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._begin()

    def _begin(self) -> None:
        """The first step, which sets the first rates."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def _undo(self) -> None:
        """Takes the first step back, so that it can be made later."""
        self.last_epoch -= 1

    def get_lr(self) -> list[float]:
        """The rates of the groups in step `last_epoch`; each schedule defines its own, and `step` calls it.

        Raises:
            UnsupportedError: The schedule does not define it.

        Example:
            >>> from grilly import nn, optim
            >>> optim.StepLR(optim.SGD([nn.Parameter([1.0])], lr=0.5), 10).get_lr()
            [0.5]
        """
        raise UnsupportedError(f"{type(self).__name__} has no get_lr")

    def _get_closed_form_lr(self) -> list[float]:
        """The rates of step `last_epoch` from `base_lrs` alone, for a step to any number."""
        return self.get_lr()

    def step(self, epoch: int | None = None) -> None:
        """Goes on to the next step, or to step `epoch`, and sets the rates.

        Raises:
            InvalidArgumentError: The schedule gives another number of rates than there are groups.

        Example:
            >>> from grilly import nn, optim
            >>> optimizer = optim.SGD([nn.Parameter([1.0])], lr=0.5)
            >>> optim.StepLR(optimizer, 1, gamma=0.5).step()
            >>> optimizer.param_groups[0]["lr"]
            0.25
        """
        self._step_count += 1
        self._set(epoch)

    def _set(self, epoch: int | None) -> None:
        """Sets the rates of the next step, or of step `epoch`."""
        groups = self.optimizer.param_groups
        self.base_lrs += [group.get("initial_lr", group["lr"]) for group in groups[len(self.base_lrs) :]]
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        rates = self.get_lr() if epoch is None else self._get_closed_form_lr()
        if len(rates) != len(groups):
            owner = type(self).__name__
            raise InvalidArgumentError(f"{owner}: gives {len(rates)} rates, and the optimiser has {len(groups)} groups")
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = list(rates)

    def get_last_lr(self) -> list[float]:
        """The rates that the last step of this schedule set.

        Example:
            >>> from grilly import nn, optim
            >>> optim.StepLR(optim.SGD([nn.Parameter([1.0])], lr=0.5), 10).get_last_lr()
            [0.5]
        """
        return list(self._last_lr)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser; lists and dicts are copies.

        Example:
            >>> from grilly import nn, optim
            >>> optim.StepLR(optim.SGD([nn.Parameter([1.0])]), 10).state_dict()["step_size"]
            10
        """
        return copied({name: value for name, value in vars(self).items() if name != "optimizer"})

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes over the state of another schedule of this class. The rates are the optimiser's, and in its state.

        Example:
            >>> from grilly import nn, optim
            >>> a, b = (optim.StepLR(optim.SGD([nn.Parameter([1.0])]), 10) for _ in range(2))
            >>> a.step()
            >>> b.load_state_dict(a.state_dict())
            >>> b.last_epoch
            1
        """
        vars(self).update(copied(state_dict))
