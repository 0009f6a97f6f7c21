"""Training of a transformer on a device."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from grilly import _core
from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.train.config import TransformerConfig

__all__ = ["Step", "Trainer"]


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


class Trainer:
    """A transformer in training: its parameters and the moments of Adam stay on the device.

    With `text` and `folder`, `run` trains on the tokens of the text and writes metrics and checkpoints to the folder;
    without, `step` trains on the tokens it gets. A step is one recorded program: tokens and a few numbers go to the
    device, loss and norm come back. The same settings, tokens and device give the same parameters in every bit, also
    when a run is stopped and resumed.

    Args:
        config: The sizes; default `TransformerConfig.tiny()`.
        text: Bytes, or a str for its bytes in UTF-8. Each is a token, unless `tokenizer` is `"bpe"`.
        folder: Where metrics and checkpoints of the text's run lie.
        device: `"vulkan"` (default), `"vulkan:N"` or `"cpu"`.
        options: `batch_size` (32), `accumulate` (1) batches in a step, `epochs` (1) or `steps`, `learning_rate` (3e-4),
            `betas` ((0.9, 0.999)), `eps` (1e-8), `weight_decay` (0), `dtype` ("float32", "bfloat16" or "float16") of
            what a step stores on a GPU, `gradient_checkpointing` (False), `max_norm` (None), `schedule` ({"kind":
            "constant"}), `tokenizer` (`"bytes"`, or `"bpe"`: at most `vocab_size` pieces of words, learned from the
            part that is not held out and kept in `tokenizer.json`), `seed` (0), `held_out` (0.1) share at the text's
            end, `evaluate_steps` (once per epoch), `checkpoint_epochs` (10), `checkpoint_steps` (None), `keep` (3)
            checkpoints.

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
        **options: Any,
    ) -> None:
        sizes, settings = json.dumps(asdict(config or TransformerConfig.tiny())), json.dumps(options, default=_plain)
        if text is None and folder is None:
            self._core = _core.Trainer.alone(_core.engine(device), sizes, settings)
        elif text is None or folder is None:
            raise InvalidArgumentError("text and folder belong together")
        else:
            self._core = _core.Trainer.on_text(_core.engine(device), _bytes(text), folder, sizes, settings)

    @classmethod
    def resume(
        cls, text: bytes | str, folder: str | PathLike[str], *, steps: int | None = None, device: str = "vulkan"
    ) -> Trainer:
        """The run of a folder from its newest checkpoint, with every bit as if it had not stopped.

        Args:
            text: The text of the run.
            folder: Its folder.
            steps: Steps in all, if more or fewer than before.
            device: As in `Trainer`.

        Raises:
            CheckpointError: The folder has no checkpoint, or its newest is damaged or of another text.

        Example:
            >>> from grilly.train import Trainer, TransformerConfig
            >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
            >>> trainer = Trainer(config, "some text " * 20, runs / "resumed", device="cpu", batch_size=4, steps=2)
            >>> before = [step.loss for step in trainer.run()]
            >>> again = Trainer.resume("some text " * 20, runs / "resumed", steps=3, device="cpu")
            >>> [step.step for step in again.run()]
            [3]
        """
        return cls._of(_core.Trainer.resumed(_core.engine(device), _bytes(text), folder, steps))

    @classmethod
    def load(cls, folder: str | PathLike[str], *, device: str = "vulkan") -> Trainer:
        """The model of the newest checkpoint in a folder, without a text.

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
        return cls._of(_core.Trainer.newest(_core.engine(device), folder))

    @classmethod
    def _of(cls, core: _core.Trainer) -> Trainer:
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

        Raises:
            NotFiniteError: The loss or a gradient is not a number; the checkpoints before stay.
            CheckpointError: A file cannot be written.

        Example:
            >>> from grilly.train import Trainer, TransformerConfig
            >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
            >>> trainer = Trainer(config, "some text " * 20, runs / "run", device="cpu", batch_size=4, steps=3)
            >>> [(step.step, step.checkpoint) for step in trainer.run()]
            [(1, False), (2, False), (3, True)]
        """
        while (record := self._core.advance()) is not None:
            numbers = json.loads(record)
            # JSON has no infinity.
            yield Step(**{**numbers, "norm": math.inf if numbers["norm"] is None else numbers["norm"]})

    def step(self, tokens: Any) -> Step:
        """One step on windows of tokens, whose last tokens are only predicted.

        Args:
            tokens: Integers `(batch_size * accumulate, length + 1)`.

        Raises:
            InvalidArgumentError: Another number of windows, or longer ones than the model takes.
            IndexOutOfRangeError: A token outside the vocabulary.
            NotFiniteError: The loss or a gradient is not a number; the parameters are then not usable.

        Example:
            >>> from grilly.train import Trainer, TransformerConfig
            >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
            >>> Trainer(config, device="cpu", batch_size=1).step([[1, 2, 3, 4]]).step
            1
        """
        return Step(*self._core.step(_windows(tokens)))

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
        return self._core.evaluate(_windows(tokens))

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
            CheckpointError: It cannot be written, for example because the disk is full.

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

    def generate(
        self,
        prompt: Any,
        count: int,
        *,
        seed: int = 0,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
    ) -> Any:
        """Tokens that continue a prompt, of which the model reads the last `max_seq_len`.

        Args:
            prompt: At least one token: integers, or bytes or a str, whose tokens are taken.
            count: Tokens to add.
            seed: Token `i` depends on the seed, `i` and what precedes it alone; default 0.
            temperature: Divisor of the logits; 0 for the most probable token. Default 1.
            top_k: Only so many of the most probable tokens; default all.
            top_p: Only the most probable tokens that together have this probability; default 1, all.

        Returns:
            bytes for a prompt of bytes or a str, else a list of integers; without the prompt.

        Raises:
            InvalidArgumentError: An empty prompt, or a setting out of range.
            IndexOutOfRangeError: A token outside the vocabulary.

        Example:
            >>> from grilly.train import Trainer, TransformerConfig
            >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
            >>> len(Trainer(config, device="cpu").generate("In the beginning", 3))
            3
        """
        is_text = isinstance(prompt, bytes | bytearray | str)
        tokens = self.encode(prompt) if is_text else _integers(prompt, "prompt", 1).tolist()
        sampling = {"seed": seed, "temperature": temperature, "top_k": top_k, "top_p": top_p}
        found = self._core.generate(tokens, count, json.dumps(sampling, default=_plain))
        return self.decode(found) if is_text else found

    def _held_out_per_byte(self, loss: float) -> float | None:
        return self._core.held_out_per_byte(loss)

    def encode(self, text: bytes | str) -> list[int]:
        """The tokens of a text: its bytes, or with tokenizer `"bpe"` those that the run has learned.

        Raises:
            InvalidArgumentError: Bytes that are not UTF-8, with `"bpe"`.

        Example:
            >>> from grilly.train import Trainer, TransformerConfig
            >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
            >>> Trainer(config, device="cpu").encode("é!")
            [195, 169, 33]
        """
        return self._core.encode(_bytes(text))

    def decode(self, tokens: Any) -> bytes:
        """The bytes of tokens, which may end within a character.

        Raises:
            IndexOutOfRangeError: A token that is not in the vocabulary.

        Example:
            >>> from grilly.train import Trainer, TransformerConfig
            >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
            >>> Trainer(config, device="cpu").decode([195, 169, 33]).decode()
            'é!'
        """
        return self._core.decode(_integers(tokens, "tokens", 1).tolist())


def _bytes(text: Any) -> bytes:
    if isinstance(text, str):
        return text.encode()
    if not isinstance(text, bytes | bytearray):
        raise InvalidTypeError(f"the text is of type {type(text).__name__}, expected bytes or str")
    return bytes(text)


def _integers(values: Any, name: str, axes: int) -> np.ndarray:
    """An array of integers from 0 to 2^32 - 1 with so many axes."""
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.uint32)
    if array.ndim != axes or array.dtype.kind not in "iu":
        raise InvalidArgumentError(f"{name} has shape {array.shape} of {array.dtype}, expected {axes} axes of integers")
    if array.size and not 0 <= int(array.min()) <= int(array.max()) < 2**32:
        raise InvalidArgumentError(f"{name} has {array.min()} to {array.max()}, expected integers from 0 below 2^32")
    return array


def _windows(tokens: Any) -> list[list[int]]:
    windows: list[list[int]] = _integers(tokens, "tokens", 2).tolist()
    return windows


def _plain(value: Any) -> Any:
    """A NumPy number as Python's, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise InvalidTypeError(f"a setting is of type {type(value).__name__}, expected numbers, None and plain containers")
