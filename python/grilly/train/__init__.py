"""Training of transformers whose every bit repeats: the same settings, text and device give the same parameters."""

from grilly.train.config import TransformerConfig
from grilly.train.curve import draw_loss, read_metrics
from grilly.train.trainer import Step, Trainer

__all__ = ["Step", "Trainer", "TransformerConfig", "draw_loss", "read_metrics"]
