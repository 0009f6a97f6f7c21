"""The numbers of one step."""

from __future__ import annotations

from typing import NamedTuple

from grilly.closed import closed

__all__ = ["Step"]


@closed()
class Step(NamedTuple):
    """The numbers of one step.

    Example:
        >>> from grilly.train import Step
        >>> Step(step=1, loss=5.5, norm=2.0, rate=3e-4, seconds=0.1).held_out_loss is None
        True
    """

    step: int
    """Number of the step, counted from 1."""
    loss: float
    """Mean cross entropy of its tokens in nats, before the update."""
    norm: float
    """Norm of all gradients together, before they are scaled to `max_norm`. In float16 it may not be finite: the step
    then changed nothing, and the next ones scale the loss by less."""
    rate: float
    """Learning rate."""
    seconds: float | None = None
    """Time of the step, without evaluation and checkpoint; of runs alone."""
    held_out_loss: float | None = None
    """Mean cross entropy of the part held out after the update, in runs that evaluated it after this step."""
    loss_per_byte: float | None = None
    """`loss` per byte of the text, where a token has several: what models with other tokens compare with."""
    held_out_loss_per_byte: float | None = None
    """`held_out_loss` in the same way."""
    checkpoint: bool = False
    """Whether a checkpoint was written after it."""
