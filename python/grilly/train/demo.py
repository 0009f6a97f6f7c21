"""`python -m grilly demo-train`: train the smallest transformer on a real text, beside a model of pairs of bytes."""

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from grilly import _core
from grilly.commands.demo import read_text
from grilly.commands.table import command
from grilly.train.command import draw, train
from grilly.train.config import TransformerConfig
from grilly.train.trainer import Trainer

__all__ = ["bigram_loss", "device_kind", "main"]

#: What both kinds of device have: Adam that forgets gradients sooner, decay, and a rate that rises and falls once.
COMMON: dict[str, Any] = {"betas": (0.9, 0.99), "weight_decay": 0.1, "max_norm": 1.0, "held_out": 0.1}

#: Settings by kind of device. A CPU takes many small steps, on a quarter of the text; a GPU reads it four times.
SETTINGS: dict[str, dict[str, Any]] = {
    "cpu": {"batch_size": 4, "steps": 2000, "learning_rate": 2e-3, "schedule": {"kind": "cosine", "warmup": 100}},
    "gpu": {"batch_size": 32, "steps": 4000, "learning_rate": 2e-3, "schedule": {"kind": "cosine", "warmup": 200}},
}

SAMPLE = 400


@command("demo-train")
def main(given: argparse.Namespace) -> int:
    """Trains, prints losses and a sample, and returns the exit status.

    Example:
        >>> from grilly.train import demo
        >>> demo.main(["--text", "no/such/file"])
        1
    """
    start = time.perf_counter()
    text = read_text(given.text).encode()
    kind = device_kind(given.device)
    own = SETTINGS[kind] | ({} if given.steps is None else {"steps": given.steps})
    options = COMMON | own | {"evaluate_steps": own["steps"]}
    folder = given.out or Path(tempfile.mkdtemp(prefix="grilly-demo-train-"))
    config = replace(TransformerConfig.tiny(), bitlinear=given.bitlinear)
    trainer = Trainer(config, text, folder, device=given.device, **options)
    seen = own["steps"] * own["batch_size"] * config.max_seq_len
    split = len(text) - int(len(text) * options["held_out"])
    bigram = bigram_loss(text[:split], text[split:])
    print(f"Text      {len(text):,} bytes, of which the last {len(text) - split:,} are held out")
    print(f"Device    {_core.engine(given.device).device}; the settings for a {kind.upper()}:")
    print("          " + ", ".join(f"{name} {value}" for name, value in (COMMON | own).items()))
    told = ", ternary in the layers" if config.bitlinear else ""
    print(f"Model     {config.parameter_count():,} parameters{told}, {seen / 1e6:.1f} million bytes to train on")
    status, held_out = train(trainer, folder)
    if status == 0:
        seconds = time.perf_counter() - start
        print(f"Loss      {held_out:.3f} nats per byte on the part held out, after {seconds:.0f} s in all")
        print(f"          {bigram:.3f} of a model of pairs of bytes, counted on the same text")
        prompt = text[split : split + 40]
        print(f"Sample    {prompt.decode(errors='replace')!r} goes on:\n")
        print(trainer.generate(prompt, SAMPLE, temperature=0.8, seed=1).decode(errors="replace"))
        print()
        draw(folder, {"pairs of bytes": bigram})
    return status


def device_kind(device: str) -> str:
    """`"gpu"` for a discrete graphics card; `"cpu"` for the CPU and for what is of its speed: other Vulkan devices.

    Example:
        >>> from grilly.train.demo import device_kind
        >>> device_kind("cpu")
        'cpu'
    """
    engine = _core.engine(device)
    discrete = {row["name"] for row in devices() if row["type"] == "discrete"}
    return "gpu" if engine.backend == "vulkan" and engine.device in discrete else "cpu"


def devices() -> list[dict[str, Any]]:
    """The Vulkan devices of `grilly.info()`."""
    found: list[dict[str, Any]] = _core.info()["devices"]
    return found


def bigram_loss(text: bytes, held_out: bytes) -> float:
    """The mean cross entropy of a text's bytes in nats, each by how often it followed its predecessor in another text.

    Every pair is counted once more than it occurs, so that none has probability 0 (Laplace).

    Args:
        text: The text that is counted.
        held_out: At least two bytes that are predicted.

    Example:
        >>> from grilly.train.demo import bigram_loss
        >>> round(bigram_loss(b"ababababab", b"abab"), 3)
        3.832
    """
    pairs = [np.frombuffer(part, np.uint8).astype(np.int64) for part in (text, held_out)]
    counted, predicted = (256 * part[:-1] + part[1:] for part in pairs)
    counts = np.bincount(counted, minlength=256 * 256).reshape(256, 256) + 1.0
    probabilities = counts / counts.sum(1, keepdims=True)
    return float(-np.log(probabilities.ravel()[predicted]).mean())
