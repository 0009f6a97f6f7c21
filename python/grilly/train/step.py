"""The numbers of a step of training."""

from __future__ import annotations

from typing import NamedTuple

from grilly.closed import closed

__all__ = ["Step"]


@closed()
class Step(NamedTuple):
    """The numbers of one step.

    Attributes:
        step: Number of the step, counted from 1.
        loss: Mean cross entropy of its tokens in nats, before the update.
        norm: Norm of all gradients together, before they are scaled to `max_norm`. In float16 it may not be finite: the
            step then changed nothing, and the next ones scale the loss by less.
        rate: Learning rate.
        seconds: Time of the step, without evaluation and checkpoint; of runs alone.
        held_out_loss: Mean cross entropy of the part held out after the update, in runs that evaluated it after this
            step.
        loss_per_byte: `loss` per byte of the text, where a token has several: what models with other tokens compare
            with.
        held_out_loss_per_byte: `held_out_loss` in the same way.
        checkpoint: Whether a checkpoint was written after it.

    Example:
        >>> from grilly.train import Step
        >>> Step(step=1, loss=5.5, norm=2.0, rate=3e-4, seconds=0.1).held_out_loss is None
        True
    """

    step: int
    loss: float
    norm: float
    rate: float
    seconds: float | None = None
    held_out_loss: float | None = None
    loss_per_byte: float | None = None
    held_out_loss_per_byte: float | None = None
    checkpoint: bool = False
