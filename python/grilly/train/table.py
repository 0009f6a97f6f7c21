"""`python -m grilly train --table`: memory of a step and speeds of operations here, beside the specified ones.

Memory is measured by steps in a process of their own, so that nothing that an earlier one left is counted.
"""

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from grilly import _core
from grilly.errors import UnsupportedError
from grilly.train.config import TransformerConfig
from grilly.train.demo import device_kind
from grilly.train.trainer import Trainer

__all__ = ["memory", "memory_rows", "print_table", "speed_rows"]

#: Megabytes of parameters, of activations and in all, for a number of windows that is not named.
SPECIFIED = {"tiny": (40, 100, 200), "small": (200, 500, 1000), "medium": (400, 1000, 2000)}

#: Windows of a step, and whether its gradients are checkpointed.
STEPS = ((8, False), (8, True))

#: Rows of softmax and layer norm by kind of device, so that they are no more than a second of work; and their columns.
ROWS, COLUMNS = {"gpu": 65536, "cpu": 4096}, 1024
SIDE = 512

#: Shortest time of repeated calls that is measured.
SECONDS = 0.3


def print_table(device: str, models: Sequence[str]) -> None:
    """Prints both tables for a device.

    Example:
        >>> from grilly.train import table
        >>> table.print_table("cpu", [])  # doctest: +ELLIPSIS
        Memory of a step of training in float32 on ...
    """
    name = _core.engine(device).device
    print(f"Memory of a step of training in float32 on {name}, in MB of 10^6 bytes")
    print(f"{'':8}{'':24}{'parameters':>12}{'gradients, moments':>20}{'activations, rest':>19}{'total':>8}")
    for row in memory_rows(device, models):
        print("{:8}{:24}{:>12}{:>20}{:>19}{:>8}".format(*row), flush=True)
    print(f"\nSpeed in float32 on {name}")
    print(f"{'':32}{'here':>14}{'RTX 3090':>14}{'RTX 5060 (est.)':>17}")
    for row in speed_rows(device):
        print("{:32}{:>14}{:>14}{:>17}".format(*row), flush=True)


def memory_rows(device: str, models: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The rows of the first table, each as it is measured: of each model the specified numbers, then those found here.

    Example:
        >>> from grilly.train import table
        >>> next(table.memory_rows("cpu", ["tiny"]))
        ('tiny', 'specified', '40', '', '100', '200')
    """
    for model in models:
        parameters, activations, total = SPECIFIED[model]
        yield model, "specified", str(parameters), "", str(activations), str(total)
        own = 4 * TransformerConfig.named(model).parameter_count()
        for windows, checkpointed in STEPS:
            how = f"batch {windows}" + (", checkpointing" if checkpointed else "")
            try:
                held = _apart(device, model, windows, checkpointed)
            except UnsupportedError as error:
                yield "", how, str(error), "", "", ""
                continue
            # A gradient and two moments of each parameter.
            sizes = (own, 3 * own, held - 4 * own, held)
            yield ("", how, *(f"{size / 1e6:.0f}" for size in sizes))


def memory(device: str, model: str, windows: int, checkpointed: bool) -> int:
    """Bytes that a model in training holds in three steps, at most.

    On a Vulkan device it is what `bytes_held` and `bytes_retained` of `grilly.stats()` have grown by, on the CPU what
    the largest resident memory of the process has.

    Raises:
        UnsupportedError: The system does not tell the memory of a process.

    Example:
        >>> from grilly.train import table
        >>> table.memory("cpu", "tiny", 1, False) > 16 * 3_323_392
        True
    """
    engine = _core.engine(device)
    held = _resident if engine.backend == "cpu" else _held
    if held == _resident:
        _forget_most()
    before = held()
    config = TransformerConfig.named(model)
    trainer = Trainer(config, device=device, batch_size=windows, gradient_checkpointing=checkpointed)
    tokens = np.random.default_rng(0).integers(0, config.vocab_size, (windows, config.max_seq_len + 1))
    most = 0
    for _ in range(3):
        trainer.step(tokens)
        engine.synchronize()
        most = max(most, held() - before)
    return most


def _held() -> int:
    stats = _core.stats()
    return int(stats["bytes_held"] + stats["bytes_retained"])


def _forget_most() -> None:
    """Starts the largest resident memory anew, from what is in use now; where that is not permitted, it goes on."""
    # What the C library keeps of freed memory would hide what is allocated next.
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _resident() -> int:
    """The most since the process began, or since `_forget_most`."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError as error:
        raise UnsupportedError("the memory of a process is known on Linux alone") from error
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def _apart(device: str, *step: Any) -> int:
    """As `memory`, in a process of its own, whose C library gives freed arrays back at once."""
    code = "import json, sys; from grilly.train.table import memory; print(memory(*json.loads(sys.argv[1])))"
    command = [sys.executable, "-c", code, json.dumps([device, *step])]
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "131072"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"the process ended with {done.returncode}"]
        raise UnsupportedError(f"not measured: {lines[-1]}")
    return int(done.stdout)


def speed_rows(device: str) -> Iterator[tuple[str, ...]]:
    """The rows of the second table: a product in operations a second, softmax and layer norm in bytes read and written.

    Example:
        >>> from grilly.train import table
        >>> [row[2] for row in table.speed_rows("cpu")]
        ['2 TFLOP/s', '500 GB/s', '400 GB/s']
    """
    engine, numbers = _core.engine(device), np.random.default_rng(0)
    rows = ROWS[device_kind(device)]

    def uploaded(*shape: int) -> _core.Array:
        return engine.upload(numbers.standard_normal(shape, np.float32))

    square, wide, weight = uploaded(SIDE, SIDE), uploaded(rows, COLUMNS), uploaded(COLUMNS)
    product = _seconds(engine, lambda: engine.call("matmul", [square, square], {}))
    speed = f"{2 * SIDE**3 / product / 1e12:.3g} TFLOP/s"
    yield f"GEMM {SIDE} x {SIDE} x {SIDE}", speed, "2 TFLOP/s", "1.5 TFLOP/s"
    softmax = _seconds(engine, lambda: engine.call("softmax", [wide], {}))
    moved = 2 * wide.nbytes / 1e9
    yield f"softmax, {rows} x {COLUMNS}", f"{moved / softmax:.3g} GB/s", "500 GB/s", "400 GB/s"
    norm = _seconds(engine, lambda: engine.call("layer_norm", [wide, weight, weight], {}))
    yield f"layer norm, {rows} x {COLUMNS}", f"{moved / norm:.3g} GB/s", "400 GB/s", "300 GB/s"


def _seconds(engine: _core.Engine, call: Callable[[], _core.Array]) -> float:
    """Of one call, of so many as take long enough to be measured; the first ones are not counted."""
    count = 1
    while True:
        call()
        engine.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            call()
        engine.synchronize()
        taken = time.perf_counter() - start
        if taken >= SECONDS:
            return taken / count
        count = max(2 * count, int(count * 1.2 * SECONDS / max(taken, 1e-6)))
