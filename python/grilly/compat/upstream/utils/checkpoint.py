"""Checkpoints of modules and optimisers in one file, complete or absent whatever interrupts a write."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from grilly.errors import CheckpointError, InvalidArgumentError, InvalidTypeError

__all__ = ["load_checkpoint", "save_checkpoint"]

#: Name of the part that has everything but the arrays, and version of the file.
RECORD, FORMAT = "record", 1
#: Begins the name of an array in the record.
ARRAY = "array:"


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
        metadata: Numbers, texts, lists and dicts to keep; default none.

    Raises:
        InvalidArgumentError: Both an object and its state.
        InvalidTypeError: Something that is neither an array nor such a value.
        CheckpointError: The file cannot be written, for example because the disk is full; one of this name stays.

    Source: upstream's `utils.save_checkpoint`, which wrote three files, one of them executable (pickle).

    Example:
        >>> from grilly import nn, utils
        >>> layer = nn.Linear(2, 3)
        >>> utils.save_checkpoint(layer, epoch=7, filepath=runs / "one.npz")
        >>> utils.load_checkpoint(runs / "one.npz", nn.Linear(2, 3))["epoch"]
        7
    """
    record: dict[str, Any] = {"format": FORMAT, "epoch": epoch, "loss": None if loss is None else float(loss)}
    arrays: dict[str, Any] = {}
    for name, owner, state in (("model", model, model_state), ("optimizer", optimizer, optimizer_state)):
        if owner is not None and state is not None:
            raise InvalidArgumentError(f"save_checkpoint: both {name} and {name}_state are given")
        held = state if owner is None else owner.state_dict()
        record[f"{name}_state"] = None if held is None else _plain(held, f"{name}_state", arrays)
    record["metadata"] = _plain(dict(metadata or {}), "metadata", arrays)
    arrays[RECORD] = np.frombuffer(json.dumps(record).encode(), np.uint8)
    path = Path(filepath)
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        with open(unfinished, "wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
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
        CheckpointError: The file is missing, damaged or of another kind, or lacks a state that is asked for.
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
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        record = json.loads(arrays[RECORD].tobytes())
        if record.pop("format") != FORMAT:
            raise ValueError("it is of another version")
        found: dict[str, Any] = {name: _restored(value, arrays) for name, value in record.items()}
        states = found["model_state"], found["optimizer_state"]
    except (OSError, ValueError, KeyError, TypeError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        problem = "cannot be read" if isinstance(error, OSError) else "is no checkpoint of save_checkpoint, or damaged"
        raise CheckpointError(f"{path}: {problem}: {error}") from None
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
        except InvalidArgumentError:
            optimizer.load_state_dict(before)
            raise
    elif model is not None:
        model.load_state_dict(states[0], strict=strict)
    elif optimizer is not None:
        optimizer.load_state_dict(states[1])
    return found


def _plain(value: Any, name: str, arrays: dict[str, Any]) -> Any:
    """A value for JSON, with the arrays in it put into `arrays` and named in their place."""
    if isinstance(value, Mapping):
        keys = {key: ("i" if isinstance(key, int) else "s") + str(key) for key in value}
        return {"dict": {keys[key]: _plain(item, f"{name}.{key}", arrays) for key, item in value.items()}}
    if isinstance(value, list | tuple):
        items = [_plain(item, f"{name}.{place}", arrays) for place, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if not hasattr(value, "__array__") or (held := np.asarray(value)).dtype.kind not in "biuf":
        kind = type(value).__name__
        raise InvalidTypeError(
            f"save_checkpoint: {name} is of type {kind}, expected arrays, numbers, texts, lists, dicts"
        )
    arrays[name] = held
    return {"array": name}


def _restored(value: Any, arrays: Mapping[str, Any]) -> Any:
    """What `_plain` was made from."""
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    if kind == "dict":
        return {int(key[1:]) if key[0] == "i" else key[1:]: _restored(item, arrays) for key, item in held.items()}
    if kind == "array":
        return arrays[held]
    items = [_restored(item, arrays) for item in held]
    return tuple(items) if kind == "tuple" else items
