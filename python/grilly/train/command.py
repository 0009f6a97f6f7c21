"""`python -m grilly train`: a transformer trained on the text of a file."""

import argparse
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import fields, replace
from os import PathLike
from pathlib import Path
from typing import Any

from tqdm import tqdm

from grilly.commands.table import command
from grilly.errors import InvalidArgumentError, UnsupportedError
from grilly.train.config import TransformerConfig
from grilly.train.curve import Events, draw_loss, is_installed, need_writer
from grilly.train.trainer import Step, Trainer

__all__ = ["draw", "main", "train"]

# Options that are no settings of a run.
OWN = ("config", "data", "out", "device", "devices", "resume", "tensorboard", "table", "models")


@command("train")
def main(given: argparse.Namespace) -> int:
    """Trains and returns the exit status: 130 after Ctrl-C, which writes a checkpoint first.

    Example:
        >>> from grilly.train import command
        >>> command.main(["--data", "no/such/file", "--out", "run"])
        1
    """
    if given.table:
        from grilly.train.table import print_table

        print_table(given.device, given.models)
        return 0
    if given.data is None or given.out is None:
        raise InvalidArgumentError("--data and --out are needed: the file to train on, and the folder of the run")
    text = Path(given.data).read_bytes()
    options = {name: value for name, value in vars(given).items() if name not in OWN and value is not None}
    changed = {field.name: options.pop(field.name) for field in fields(TransformerConfig) if field.name in options}
    devices: str | list[str] | None = "all" if given.devices == ["all"] else given.devices
    if given.resume:
        if set(options) - {"steps"} or given.config is not None or changed:
            raise InvalidArgumentError("--resume takes the settings of the checkpoint; only --steps can be given")
        trainer = Trainer.resume(text, given.out, steps=given.steps, device=given.device, devices=devices)
    else:
        config = replace(TransformerConfig.named(given.config or "tiny"), **changed)
        trainer = Trainer(config, text, given.out, device=given.device, devices=devices, **options)
    done, steps = trainer.steps_done, trainer.steps
    print(f"{trainer.config.parameter_count():,} parameters, steps {done} to {steps:,}, {given.out}")
    wanted = is_installed() if given.tensorboard is None else given.tensorboard
    status, held_out = train(trainer, given.out, tensorboard=wanted)
    if status == 0:
        told = "" if held_out is None else f", held-out loss {held_out:.4f} nats"
        per_byte = None if held_out is None else trainer._held_out_per_byte(held_out)
        print(f"done: step {trainer.steps_done}{told}" + ("" if per_byte is None else f", {per_byte:.4f} per byte"))
    draw(given.out)
    return status


def train(trainer: Trainer, folder: str | PathLike[str], *, tensorboard: bool = False) -> tuple[int, float | None]:
    """Runs the remaining steps with a progress bar, and returns the exit status and the loss of the part held out.

    Example:
        >>> from grilly.train import Trainer, TransformerConfig, command
        >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
        >>> trainer = Trainer(config, "some text " * 20, runs / "command", device="cpu", batch_size=4, steps=2)
        >>> status, held_out = command.train(trainer, runs / "command")  # doctest: +ELLIPSIS
        step 2: loss ..., held-out ...
        >>> status, held_out < 6
        (0, True)
    """
    if tensorboard:
        need_writer()
    last, events = None, None
    with _stopping() as stopped, ExitStack() as stack:
        for last in _shown(trainer):
            if events is not None:
                events.add(last._asdict())
            elif tensorboard:
                # Once the folder is this run's own; they have the metrics of all steps so far.
                events = stack.enter_context(closing(Events(folder)))
            if stopped:
                trainer.save()
                print(f"stopped after step {last.step}, which has a checkpoint; --resume goes on", file=sys.stderr)
                return 130, None
        if tensorboard and events is None:
            Events(folder).close()
    # The last step has an evaluation.
    return 0, trainer.held_out_loss() if last is None else last.held_out_loss


def draw(folder: str | PathLike[str], levels: Mapping[str, float] | None = None) -> None:
    """Draws the losses as `draw_loss`, and says so; without matplotlib it says that it is missing.

    Example:
        >>> from grilly.train import Trainer, TransformerConfig, command
        >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
        >>> trainer = Trainer(config, "some text " * 20, runs / "curve", device="cpu", batch_size=4, steps=2)
        >>> steps = list(trainer.run())
        >>> command.draw(runs / "curve")  # doctest: +ELLIPSIS
        curve: ...loss.png
    """
    try:
        print(f"curve: {draw_loss(folder, levels)}")
    except UnsupportedError as error:
        print(error, file=sys.stderr)


@contextmanager
def _stopping() -> Iterator[list[int]]:
    """A list that gets the signal of a Ctrl-C, so that a step is never interrupted in the middle."""
    stopped: list[int] = []

    def stop(number: int, frame: Any) -> None:
        stopped.append(number)
        # A second one ends the process as usual.
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)


def _shown(trainer: Trainer) -> Iterator[Step]:
    """The steps, with a progress bar and a line for each evaluation."""
    with tqdm(total=trainer.steps, initial=trainer.steps_done, unit="step") as bar:
        for step in trainer.run():
            bar.update()
            bar.set_postfix_str(f"loss {step.loss:.4f}", refresh=False)
            if step.held_out_loss is not None:
                per_byte = step.held_out_loss_per_byte
                more = "" if per_byte is None else f", per byte {per_byte:.4f}"
                tqdm.write(f"step {step.step}: loss {step.loss:.4f}, held-out {step.held_out_loss:.4f}{more}")
            yield step
