"""Training of a transformer, in runs over a text or step by step, and the numbers of a step."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from os import PathLike
from typing import Any

import numpy as np

from grilly import _core
from grilly.errors import InvalidArgumentError
from grilly.inputs import as_count
from grilly.train.config import TransformerConfig
from grilly.train.curve import numbers
from grilly.train.engines import engines_of, share
from grilly.train.step import Step
from grilly.train.text import TextModel, as_bytes, as_json, as_windows

__all__ = ["Step", "Trainer"]


class Trainer(TextModel):
    """A transformer in training: its parameters and the optimiser's moments stay on the device.

    With `text` and `folder`, `run` trains on the tokens of the text and writes metrics and checkpoints to the folder;
    without, `step` trains on the tokens it gets. A step is one recorded program: tokens and a few numbers go to the
    device, loss and norm come back. The same settings, tokens and device give the same parameters in every bit, also
    when a run is stopped and resumed.

    Args:
        config: The sizes; default `TransformerConfig.tiny()`.
        text: Bytes, or a str for its bytes in UTF-8. Each is a token, unless `tokenizer` is `"bpe"`.
        folder: Where metrics and checkpoints of the text's run lie.
        device: `"vulkan"` (default), `"vulkan:N"` or `"cpu"`.
        devices: In place of `device`: `["vulkan:0", "vulkan:1"]`, or `"all"` usable ones, which share the batches of
            each step. All of one kind and driver; the bits are those of one device with the same options.
        options: `batch_size` (32), `accumulate` (1, or the number of devices) batches in a step, `shards` (likewise):
            groups of them that are summed alone, and then the sums in order; a multiple of the number of devices,
            `epochs` (1) or `steps`, `learning_rate` (3e-4),
            `optimizer` (`"adamw"`, `"adam"`, whose decay of weights is added to gradients, or `"sgd"`, likewise, with
            `momentum` (0.9)), `betas` ((0.9, 0.999)) and `eps` (1e-8) of Adam, `weight_decay` (0), `dtype` ("float32",
            "bfloat16" or "float16") of what a step stores, `gradient_checkpointing` (False), `max_norm`
            (None, also by infinity), `schedule` ({"kind": "constant"}), `tokenizer` (`"bytes"`, or `"bpe"`: at most
            `vocab_size` pieces of words, learned from the part that is not held out and kept in `tokenizer.json`),
            `seed` (0), `held_out` (0.1) share at the text's end, `evaluate_steps` (once per epoch), `checkpoint_epochs`
            (10), `checkpoint_steps` (None), `keep` (3) checkpoints.

    Raises:
        InvalidArgumentError: A size or setting that is unknown or out of range, or a text shorter than a window.
        IndexOutOfRangeError: A byte outside the vocabulary.
        CheckpointError: The folder has a checkpoint; `resume` goes on from it.

    Example:
        >>> from grilly.train import Trainer, TransformerConfig
        >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
        >>> trainer = Trainer(config, device="cpu", batch_size=2, learning_rate=0.01)
        >>> losses = [trainer.step([[1, 2, 3, 4], [5, 6, 7, 8]]).loss for _ in range(20)]
        >>> losses[-1] < losses[0]
        True
    """

    def __init__(
        self,
        config: TransformerConfig | None = None,
        text: bytes | str | None = None,
        folder: str | PathLike[str] | None = None,
        *,
        device: str = "vulkan",
        devices: str | Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        engines = engines_of(device, devices)
        if len(engines) > 1:
            options = {"accumulate": len(engines), "shards": len(engines), **options}
        most = options.get("max_norm")
        if isinstance(most, float | np.floating) and most == math.inf:
            options["max_norm"] = None  # the norm is told without it, too
        sizes = as_json("Trainer", asdict(config or TransformerConfig.tiny()))
        settings = as_json("Trainer", options)
        if text is None and folder is None:
            self._core = _core.Trainer.alone(engines[0], sizes, settings)
        elif text is None or folder is None:
            raise InvalidArgumentError("text and folder belong together")
        else:
            self._core = _core.Trainer.on_text(engines[0], as_bytes(text), folder, sizes, settings)
        share(self._core, engines)

    @classmethod
    def resume(
        cls,
        text: bytes | str,
        folder: str | PathLike[str],
        *,
        steps: int | None = None,
        device: str = "vulkan",
        devices: str | Sequence[str] | None = None,
    ) -> Trainer:
        """The run of a folder from its newest checkpoint, with every bit as if it had not stopped.

        Args:
            text: The text of the run.
            folder: Its folder.
            steps: Steps in all, if more or fewer than before.
            device: As in `Trainer`.
            devices: As in `Trainer`; as many as divide the run's `shards`, more or fewer than before.

        Raises:
            InvalidArgumentError: Devices that cannot share the run's shards equally.
            CheckpointError: The folder has no checkpoint, its newest is damaged or of another text, or another run uses
                the folder.

        Example:
            >>> from grilly.train import Trainer, TransformerConfig
            >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
            >>> trainer = Trainer(config, "some text " * 20, runs / "resumed", device="cpu", batch_size=4, steps=2)
            >>> before = [step.loss for step in trainer.run()]
            >>> again = Trainer.resume("some text " * 20, runs / "resumed", steps=3, device="cpu")
            >>> [step.step for step in again.run()]
            [3]
        """
        steps = None if steps is None else as_count(steps, "steps")
        engines = engines_of(device, devices)
        return cls._of(_core.Trainer.resumed(engines[0], as_bytes(text), folder, steps), engines)

    @classmethod
    def load(
        cls, folder: str | PathLike[str], *, device: str = "vulkan", devices: str | Sequence[str] | None = None
    ) -> Trainer:
        """The model of the newest checkpoint in a folder, without a text; `device` and `devices` as in `resume`.

        Raises:
            CheckpointError: The folder has no checkpoint, or its newest is damaged.

        Example:
            >>> from grilly.train import Trainer, TransformerConfig
            >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
            >>> trainer = Trainer(config, device="cpu")
            >>> trainer.save(runs / "loaded")
            >>> Trainer.load(runs / "loaded", device="cpu").hashes() == trainer.hashes()
            True
        """
        engines = engines_of(device, devices)
        return cls._of(_core.Trainer.newest(engines[0], folder), engines)

    @classmethod
    def _of(cls, core: _core.Trainer, engines: list[_core.Engine]) -> Trainer:
        share(core, engines)
        made = cls.__new__(cls)
        made._core = core
        return made

    @property
    def config(self) -> TransformerConfig:
        """The sizes."""
        return TransformerConfig(**json.loads(self._core.settings()[0]))

    @property
    def options(self) -> dict[str, Any]:
        """All settings."""
        return dict(json.loads(self._core.settings()[1]))

    @property
    def steps_done(self) -> int:
        """Steps done so far."""
        return self._core.steps_done()

    @property
    def steps(self) -> int:
        """Steps of the run on the text in all."""
        return self._core.steps()

    def run(self) -> Iterator[Step]:
        """The remaining steps on the text, one by one; evaluations and checkpoints are done where they are due.

        From the first step until the iterator ends or is closed no other `run`, `resume` or `save` uses the folder, in
        this process or another. The first of a new run removes the metrics that an earlier one left there.

        Raises:
            NotFiniteError: The loss or a gradient is not a number; the checkpoints before stay.
            CheckpointError: A file cannot be written, or another run uses the folder or has written to it since.

        Example:
            >>> from grilly.train import Trainer, TransformerConfig
            >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
            >>> trainer = Trainer(config, "some text " * 20, runs / "run", device="cpu", batch_size=4, steps=3)
            >>> [(step.step, step.checkpoint) for step in trainer.run()]
            [(1, False), (2, False), (3, True)]
        """
        try:
            while (record := self._core.advance()) is not None:
                yield Step(**numbers(record))
        finally:
            self._core.release()

    def step(self, tokens: Any) -> Step:
        """One step on windows of tokens, whose last tokens are only predicted.

        Args:
            tokens: Integers `(batch_size * accumulate, length + 1)`.

        Raises:
            InvalidArgumentError: Another number of windows, or longer ones than the model takes.
            IndexOutOfRangeError: A token outside the vocabulary.
            DeviceMemoryError: A GPU has no memory for it, or for its numbers; the same call does or reads it later.
            NotFiniteError: The loss or a gradient is not a number; the parameters are then not usable.

        Example:
            >>> from grilly.train import Trainer, TransformerConfig
            >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
            >>> Trainer(config, device="cpu", batch_size=1).step([[1, 2, 3, 4]]).step
            1
        """
        return Step(*self._core.step(as_windows(tokens)))

    def evaluate(self, tokens: Any) -> float:
        """The mean cross entropy of windows of tokens in nats; nothing is updated.

        Args:
            tokens: Integers `(windows, length + 1)`, of which `batch_size` windows are computed at a time.

        Example:
            >>> from grilly.train import Trainer, TransformerConfig
            >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
            >>> round(Trainer(config, device="cpu").evaluate([[1, 2, 3, 4]]), 1)
            5.6
        """
        return self._core.evaluate(as_windows(tokens))

    def held_out_loss(self) -> float | None:
        """The mean cross entropy of the part of the text that is held out in nats; None if there is none.

        Example:
            >>> from grilly.train import Trainer, TransformerConfig
            >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
            >>> trainer = Trainer(config, "some text " * 20, runs / "held", device="cpu", batch_size=4)
            >>> round(trainer.held_out_loss(), 1)
            5.6
        """
        return self._core.held_out_loss()

    def save(self, folder: str | PathLike[str] | None = None) -> None:
        """Writes a checkpoint: to the folder of the text by default, where the oldest are removed.

        A crash at any time leaves the checkpoints before it, and this one complete or absent.

        Raises:
            CheckpointError: It cannot be written, for example because the disk is full, or another run uses the folder.

        Example:
            >>> from grilly.train import Trainer, TransformerConfig
            >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
            >>> Trainer(config, device="cpu").save(runs / "saved")
            >>> sorted(path.name for path in (runs / "saved").iterdir())
            ['step-00000000.json', 'step-00000000.safetensors']
        """
        self._core.save(folder)

    def tensors(self) -> dict[str, np.ndarray]:
        """Copies of all parameters by name, then of their mean gradients (`m.`) and mean squared gradients (`v.`).

        With optimizer `"sgd"` `m.` is the decayed sum of the gradients, and there is no `v.`.

        Example:
            >>> from grilly.train import Trainer, TransformerConfig
            >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
            >>> Trainer(config, device="cpu").tensors()["embedding.weight"].shape
            (256, 16)
        """
        tensors = self._core.tensors()
        return {name: np.frombuffer(content, "<f4").reshape(shape) for name, shape, content in tensors}

    def hashes(self) -> dict[str, str]:
        """The SHA-256 of every parameter and moment by name.

        Example:
            >>> from grilly.train import Trainer, TransformerConfig
            >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
            >>> Trainer(config, device="cpu").hashes()["layers.0.attention.output.weight"][:8]
            'ad9ea4f6'
        """
        return self._core.hashes()

    def _held_out_per_byte(self, loss: float) -> float | None:
        return self._core.held_out_per_byte(loss)
