"""The numbers of a run as a picture, and as events that TensorBoard shows."""

import importlib
import json
import math
import shutil
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

from grilly import _core
from grilly.closed import closed
from grilly.errors import CheckpointError, InvalidArgumentError, UnsupportedError

__all__ = ["Events", "draw_loss", "is_installed", "need_writer", "numbers", "read_metrics"]


#: File of metrics and of the picture in the folder of a run.
METRICS, PICTURE = "metrics.jsonl", "loss.png"


def read_metrics(folder: str | PathLike[str]) -> list[dict[str, Any]]:
    """The metrics of a run, one dict for each step: the fields of `Step` that have a value.

    Losses and norms that are not finite are `math.nan` and `math.inf`.

    Args:
        folder: The folder of the run.

    Raises:
        CheckpointError: It has no file of metrics, or one that is damaged: its lines until the newest checkpoint do not
            have the SHA-256 in that.

    Example:
        >>> from grilly.train import Trainer, TransformerConfig, read_metrics
        >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
        >>> trainer = Trainer(config, "some text " * 20, runs / "metrics", device="cpu", batch_size=4, steps=2)
        >>> steps = list(trainer.run())
        >>> [line["step"] for line in read_metrics(runs / "metrics")]
        [1, 2]
    """
    try:
        return [numbers(line) for line in _core.metrics(folder).split("\n") if line]
    except ValueError as error:
        raise CheckpointError(f"{Path(folder) / METRICS}: cannot be read: {error}") from None


def numbers(line: str) -> dict[str, Any]:
    """The numbers of a line of metrics, in which NaN and the infinities are strings, as JSON has none.

    Example:
        >>> from grilly.train.curve import numbers
        >>> numbers('{"step": 1, "norm": "Infinity"}')
        {'step': 1, 'norm': inf}
    """
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError(f"a line is {line[:40]}, expected an object")
    # Earlier builds wrote null.
    lost = {"loss": math.nan, "norm": math.inf}
    return {
        name: lost.get(name) if value is None else float(value) if isinstance(value, str) else value
        for name, value in found.items()
    }


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
    numbered, losses = [line["step"] for line in steps], [line["loss"] for line in steps]
    axes.plot(numbered, losses, linewidth=0.8, alpha=0.6, label="training")
    held_out = [(line["step"], line["held_out_loss"]) for line in steps if line.get("held_out_loss") is not None]
    if held_out:
        axes.plot(*zip(*held_out, strict=True), marker="o", markersize=4, label="held out")
    for place, (name, level) in enumerate((levels or {}).items()):
        axes.axhline(level, color=f"C{2 + place}", linestyle="--", linewidth=1, label=f"{name} {level:.3f}")
    axes.set_xlabel("step")
    axes.set_ylabel("cross entropy, nats per token")
    axes.grid(alpha=0.3)
    axes.legend()
    picture = BytesIO()
    figure.savefig(picture, dpi=120, format="png")
    try:
        _core.write_files(folder, [(PICTURE, picture.getvalue())], True)
    except InvalidArgumentError as error:
        raise CheckpointError(str(error)) from None
    return Path(folder) / PICTURE


#: Folder of the events in that of a run.
FOLDER = "tensorboard"

#: Tag of each metric.
TAGS = {
    "loss": "loss/training",
    "held_out_loss": "loss/held_out",
    "loss_per_byte": "loss_per_byte/training",
    "held_out_loss_per_byte": "loss_per_byte/held_out",
    "norm": "gradient_norm",
    "rate": "learning_rate",
    "seconds": "seconds_per_step",
}


def is_installed() -> bool:
    """Whether a package that writes events, tensorboardX or tensorboard, is installed.

    Example:
        >>> from grilly.train.curve import is_installed
        >>> is_installed() in (True, False)
        True
    """
    return _writer_class() is not None


def _writer_class() -> Any:
    """A class of writers to a folder, with `add_scalar(tag, value, step)` and `close`."""
    for module, name in (("tensorboardX", "SummaryWriter"), ("tensorboard.summary", "Writer")):
        with suppress(ImportError):
            return getattr(importlib.import_module(module), name)
    return None


def need_writer() -> Any:
    """The class of writers.

    Raises:
        UnsupportedError: Neither tensorboardX nor tensorboard is installed.

    Example:
        >>> from grilly.train.curve import is_installed, need_writer
        >>> hasattr(need_writer(), "add_scalar") if is_installed() else True
        True
    """
    writer = _writer_class()
    if writer is None:
        raise UnsupportedError("TensorBoard events need tensorboardX or tensorboard: pip install tensorboardX")
    return writer


@closed()
class Events:
    """The events of a run, in `tensorboard/` in its folder; `add` appends those of a step.

    A run that is resumed writes them anew from its metrics, so that no step occurs twice.

    Args:
        folder: The folder of the run.

    Raises:
        UnsupportedError: Neither tensorboardX nor tensorboard is installed.
        CheckpointError: The folder cannot be written.

    Example:
        >>> from grilly.train.curve import Events, is_installed
        >>> if is_installed():
        ...     events = Events(runs / "events")
        ...     events.add({"step": 1, "loss": 5.5})
        ...     events.close()
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        writer = need_writer()
        place = Path(folder) / FOLDER
        try:
            if place.exists():
                shutil.rmtree(place)
            place.mkdir(parents=True)
            self._writer = writer(str(place))
        except OSError as error:
            raise CheckpointError(f"{place}: cannot be written: {error}") from None
        for line in read_metrics(folder) if (Path(folder) / METRICS).exists() else []:
            self.add(line)

    def add(self, metrics: Mapping[str, Any]) -> None:
        """Appends the metrics of a step that have a value.

        Example:
            >>> from grilly.train.curve import Events, is_installed
            >>> if is_installed():
            ...     events = Events(runs / "events")
            ...     events.add({"step": 1, "loss": 5.5, "rate": 1e-3})
            ...     events.close()
        """
        for name, tag in TAGS.items():
            if metrics.get(name) is not None:
                self._writer.add_scalar(tag, float(metrics[name]), int(metrics["step"]))

    def close(self) -> None:
        """Writes what is pending and closes the file.

        Example:
            >>> from grilly.train.curve import Events, is_installed
            >>> if is_installed():
            ...     Events(runs / "events").close()
        """
        self._writer.close()
