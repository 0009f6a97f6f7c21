"""Checkpoints of modules and optimisers in one file, complete or absent whatever interrupts a write."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np

from grilly.errors import CheckpointError, DeviceMemoryError, InvalidArgumentError, InvalidTypeError
from grilly.resources import need
from grilly.trees import plain, restored

__all__ = ["load_checkpoint", "save_checkpoint"]

#: Name of the part that has everything but the arrays, of the part with its SHA-256, and version of the file. Files of
#: version 1 have no sums.
RECORD, SUM, FORMAT = "record", "sha256", 2


def save_checkpoint(
    model: Any = None,
    model_state: Mapping[str, Any] | None = None,
    optimizer: Any = None,
    optimizer_state: Mapping[str, Any] | None = None,
    epoch: int = 0,
    loss: float | None = None,
    filepath: str | PathLike[str] = "checkpoint.npz",
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Writes the states of a model and an optimiser to one `.npz` file, under another name that is then renamed.

    Args:
        model: A module, whose `state_dict()` is written; default none.
        model_state: Its state instead.
        optimizer: An optimiser, whose `state_dict()` is written; default none.
        optimizer_state: Its state instead.
        epoch: A number to keep; default 0.
        loss: Another; default none.
        filepath: Default `checkpoint.npz` in the current folder.
        metadata: Numbers, texts, lists, tuples and dicts to keep; default none.

    Keys of dicts are texts, whole numbers, numbers, True, False or None, and come back as such. Several writers of one
    path leave the whole file of one of them. A process that is killed may leave a file `*.unfinished` beside it.

    Raises:
        InvalidArgumentError: Both an object and its state; values in themselves, or nested too deeply.
        InvalidTypeError: Something that is neither an array nor such a value, or another key.
        CheckpointError: The file cannot be written, for example because the disk is full; one of this name stays.

    Source: upstream's `utils.save_checkpoint`, which wrote three files, one of them executable (pickle).

    Example:
        >>> from grilly import nn, utils
        >>> layer = nn.Linear(2, 3)
        >>> utils.save_checkpoint(layer, epoch=7, filepath=runs / "one.npz")
        >>> utils.load_checkpoint(runs / "one.npz", nn.Linear(2, 3))["epoch"]
        7
    """
    arrays: list[Any] = []
    record: dict[str, Any] = {"format": FORMAT, "epoch": plain(epoch, "epoch", arrays)}
    record["loss"] = None if loss is None else as_number(loss)
    for name, owner, state in (("model", model, model_state), ("optimizer", optimizer, optimizer_state)):
        if owner is not None and state is not None:
            raise InvalidArgumentError(f"save_checkpoint: both {name} and {name}_state are given")
        held = state if owner is None else owner.state_dict()
        record[f"{name}_state"] = None if held is None else plain(held, f"{name}_state", arrays)
    record["metadata"] = plain(dict(metadata or {}), "metadata", arrays)
    record["sums"] = [digest(array) for array in arrays]
    text = np.frombuffer(json.dumps(record).encode(), np.uint8)
    parts: dict[str, Any] = {str(place): array for place, array in enumerate(arrays)}
    parts |= {RECORD: text, SUM: np.frombuffer(digest(text).encode(), np.uint8)}
    path = Path(filepath)
    try:
        with replacing(path) as file:
            np.savez(file, **parts)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be written: {error}; what was there before is intact") from None


def load_checkpoint(
    filepath: str | PathLike[str], model: Any = None, optimizer: Any = None, strict: bool = True
) -> dict[str, Any]:
    """Reads a file of `save_checkpoint`, and writes the states into a model and an optimiser.

    Args:
        filepath: The file.
        model: A module that gets the state; default none.
        optimizer: An optimiser that gets the state; default none.
        strict: Whether the names in the model's state must be those of the model; default True.

    Returns:
        A dict with `epoch`, `loss`, `metadata`, `model_state` and `optimizer_state`, None for what was not saved.

    Raises:
        DeviceMemoryError: The arrays do not fit into memory.
        CheckpointError: The file is missing, damaged in any way or of another kind, or lacks a state that is asked for.
        InvalidArgumentError: A state that does not fit; nothing is written then.

    Source: upstream's `utils.load_checkpoint`, which executes what a file holds; this one executes nothing.

    Example:
        >>> from grilly import nn, optim, utils
        >>> layer, other = nn.Linear(2, 3), nn.Linear(2, 3)
        >>> utils.save_checkpoint(layer, optimizer=optim.Adam(layer.parameters(), lr=0.5), filepath=runs / "two.npz")
        >>> optimizer = optim.Adam(other.parameters())
        >>> found = utils.load_checkpoint(runs / "two.npz", other, optimizer)
        >>> bool((layer.weight == other.weight).all()), optimizer.param_groups[0]["lr"]
        (True, 0.5)
    """
    path = Path(filepath)
    try:
        found = read(path)
        states = found["model_state"], found["optimizer_state"]
    except DeviceMemoryError:
        raise
    except Exception as error:  # whatever zipfile, NumPy and json raise for bytes that they were not made for
        problem = "cannot be read" if isinstance(error, OSError) else "is no checkpoint of save_checkpoint, or damaged"
        raise CheckpointError(f"{path}: {problem}: {error or type(error).__name__}") from None
    owners = {"model": model, "optimizer": optimizer}
    for (name, owner), state in zip(owners.items(), states, strict=True):
        if owner is not None and state is None:
            raise CheckpointError(f"{path}: has no {name}_state")
    # The optimiser checks its state before it takes it over, and so does the model, whose names may differ.
    if model is not None and optimizer is not None:
        before = optimizer.state_dict()
        optimizer.load_state_dict(states[1])
        try:
            model.load_state_dict(states[0], strict=strict)
        except Exception:
            optimizer.load_state_dict(before)
            raise
    elif model is not None:
        model.load_state_dict(states[0], strict=strict)
    elif optimizer is not None:
        optimizer.load_state_dict(states[1])
    return found


def read(path: Path) -> dict[str, Any]:
    """What a file holds, all of it compared with its sums; raises any error for another file."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError("it is not a regular file")
    with zipfile.ZipFile(path) as file:
        names = set(file.namelist())
        text = part(file, RECORD)
        record = json.loads(text.tobytes())
        version, sums = record.pop("format"), record.pop("sums", None)
        if version not in (1, FORMAT) or (version == 1) != (sums is None) or (version == 1) == (f"{SUM}.npy" in names):
            raise ValueError("it is of another version")
        if version == 1:
            arrays: Callable[[Any], Any] = {name: part(file, name.removesuffix(".npy")) for name in names}.__getitem__
            return {name: restored(value, lambda key: arrays(f"{key}.npy")) for name, value in record.items()}
        if digest(text) != part(file, SUM).tobytes().decode():
            raise ValueError("its record has not its SHA-256")
        held = [part(file, str(place)) for place in range(len(sums))]
    for place, (array, sum_of) in enumerate(zip(held, sums, strict=True)):
        if digest(array) != sum_of:
            raise ValueError(f"array {place} has not its SHA-256")
    return {name: restored(value, held.__getitem__) for name, value in record.items()}


def part(file: zipfile.ZipFile, name: str) -> Any:
    """An array of the file. NumPy reads what the array's head says; the rest of the part must be nothing."""
    found = file.getinfo(f"{name}.npy")
    if found.compress_type != zipfile.ZIP_STORED or found.file_size != found.compress_size:
        raise ValueError(f"{name} is compressed")
    with file.open(found) as stream:
        head = np.lib.format.read_magic(stream)
        read_head = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[head]
        shape, _, dtype = read_head(stream)
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if dtype.hasobject or size > found.file_size:  # nothing is allocated that the file has not
            raise ValueError(f"{name} has not the size that it states")
    need(size, np.uint8, f"{name} of the checkpoint")
    with file.open(found) as stream:
        array = np.lib.format.read_array(stream, allow_pickle=False)
        # At the end of the part its checksum is compared.
        if stream.read(1):
            raise ValueError(f"{name} has bytes after its numbers")
    return array


def digest(array: Any) -> str:
    """The SHA-256 of an array's type, shape and numbers."""
    found = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def as_number(value: Any) -> float:
    """The loss as a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise InvalidTypeError(f"save_checkpoint: loss is of type {kind}, expected a number") from None


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new file, of a name that no other writer has, which gets its name at the end or is removed."""
    unfinished = path.with_name(f"{secrets.token_hex(8)}.unfinished")
    try:
        with open(unfinished, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError, ValueError):
            unfinished.unlink(missing_ok=True)
        raise
