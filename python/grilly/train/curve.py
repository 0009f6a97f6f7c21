"""The loss curve of a run as a picture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from grilly.errors import CheckpointError, UnsupportedError

__all__ = ["draw_loss", "read_metrics"]

#: File of metrics and of the picture in the folder of a run.
METRICS, PICTURE = "metrics.jsonl", "loss.png"


def read_metrics(folder: str | PathLike[str]) -> list[dict[str, Any]]:
    """The metrics of a run, one dict for each step: the fields of `Step` that have a value.

    Args:
        folder: The folder of the run.

    Raises:
        CheckpointError: It has no file of metrics, or one that is damaged.

    Example:
        >>> from grilly.train import Trainer, TransformerConfig, read_metrics
        >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
        >>> trainer = Trainer(config, "some text " * 20, runs / "metrics", device="cpu", batch_size=4, steps=2)
        >>> steps = list(trainer.run())
        >>> [line["step"] for line in read_metrics(runs / "metrics")]
        [1, 2]
    """
    path = Path(folder) / METRICS
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from None


def draw_loss(folder: str | PathLike[str], levels: Mapping[str, float] | None = None) -> Path:
    """Draws the loss of a run by step into `loss.png` in its folder, from its metrics; returns the path.

    Args:
        folder: The folder of the run.
        levels: Other losses by name, drawn as lines across; default none.

    Raises:
        CheckpointError: The folder has no metrics, or the picture cannot be written.
        UnsupportedError: matplotlib is not installed.

    Example:
        >>> from grilly.train import Trainer, TransformerConfig, draw_loss
        >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
        >>> trainer = Trainer(config, "some text " * 20, runs / "drawn", device="cpu", batch_size=4, steps=2)
        >>> steps = list(trainer.run())
        >>> draw_loss(runs / "drawn", {"uniform": 5.545}).name
        'loss.png'
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UnsupportedError("loss.png needs matplotlib: pip install matplotlib") from None
    steps = read_metrics(folder)
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    # Losses that are not finite have no number in JSON.
    lost = [float("nan") if line["loss"] is None else line["loss"] for line in steps]
    axes.plot([line["step"] for line in steps], lost, linewidth=0.8, alpha=0.6, label="training")
    held_out = [(line["step"], line["held_out_loss"]) for line in steps if line.get("held_out_loss") is not None]
    if held_out:
        axes.plot(*zip(*held_out, strict=True), marker="o", markersize=4, label="held out")
    for place, (name, level) in enumerate((levels or {}).items()):
        axes.axhline(level, color=f"C{2 + place}", linestyle="--", linewidth=1, label=f"{name} {level:.3f}")
    axes.set_xlabel("step")
    axes.set_ylabel("cross entropy, nats per token")
    axes.grid(alpha=0.3)
    axes.legend()
    path = Path(folder) / PICTURE
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be written: {error}") from None
    return path
