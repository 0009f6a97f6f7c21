"""Optimisers and schedules of the learning rate with upstream's signatures, which are torch's."""

from __future__ import annotations

from grilly.names import left_out
from grilly.optim.adam import Adam, AdamW
from grilly.optim.one_cycle import OneCycleLR
from grilly.optim.optimizer import Optimizer
from grilly.optim.plateau import ReduceLROnPlateau
from grilly.optim.schedules import CosineAnnealingLR, LinearLR, LRScheduler, SequentialLR, StepLR
from grilly.optim.sgd import SGD

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "CosineAnnealingLR",
    "LRScheduler",
    "LinearLR",
    "OneCycleLR",
    "Optimizer",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


__getattr__ = left_out("grilly.optim")
