"""Metrics as TensorBoard events."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from grilly.closed import closed
from grilly.errors import CheckpointError, UnsupportedError
from grilly.train.curve import METRICS, read_metrics

__all__ = ["Events", "is_installed"]

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
        >>> from grilly.train.events import is_installed
        >>> is_installed() in (True, False)
        True
    """
    return _writer_class() is not None


def _writer_class() -> Any:
    """A class of writers to a folder, with `add_scalar(tag, value, step)` and `close`."""
    with suppress(ImportError):
        from tensorboardX import SummaryWriter

        return SummaryWriter
    with suppress(ImportError):
        from tensorboard.summary import Writer

        return Writer
    return None


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
        >>> from grilly.train.events import Events, is_installed
        >>> if is_installed():
        ...     events = Events(runs / "events")
        ...     events.add({"step": 1, "loss": 5.5})
        ...     events.close()
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        writer = _writer_class()
        if writer is None:
            raise UnsupportedError("TensorBoard events need tensorboardX or tensorboard: pip install tensorboardX")
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
            >>> from grilly.train.events import Events, is_installed
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
            >>> from grilly.train.events import Events, is_installed
            >>> if is_installed():
            ...     Events(runs / "events").close()
        """
        self._writer.close()
