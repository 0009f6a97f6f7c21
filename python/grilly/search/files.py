"""An index as a folder: `index.json`, and its arrays in NumPy's format, which can be mapped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError
from grilly.search.blocks import Block
from grilly.search.texts import Texts
from grilly.search.vectors import Vectors

__all__ = ["read_index", "write_index"]

SETTINGS = "index.json"
VERSION = 1
#: Of each element type, the types of a block's arrays, and whether these have one number per row.
ARRAYS = {
    "float32": [("float32", False)],
    "float16": [("float16", False)],
    "int8": [("int8", False), ("float32", True)],
    "binary": [("uint8", False), ("float32", True)],
}


def write_index(
    folder: Path, settings: dict[str, Any], store: Vectors | Texts, removed: npt.NDArray[np.bool_], overwrite: bool
) -> None:
    """Writes all files under other names first, so that a folder has one index or the other."""
    if (folder / SETTINGS).exists() and not overwrite:
        raise InvalidArgumentError(f"{folder} has an index; overwrite=True replaces it")
    made: list[tuple[Path, Path]] = []

    def file(name: str) -> Path:
        made.append((folder / f"{name}.part", folder / name))
        return made[-1][0]

    try:
        folder.mkdir(parents=True, exist_ok=True)
        blocks = [block for _, _, block in store]
        for place, (dtype, single) in enumerate(ARRAYS[settings["dtype"]]):
            axes = () if single else (width_of(dtype, settings["columns"]),)
            write_array(file(f"rows-{place}.npy"), dtype, axes, [block[place] for block in blocks])
        if isinstance(store, Texts):
            write_array(file("lengths.npy"), "int32", (), [np.diff(block[-1]) for block in blocks])
        write_array(file("removed.npy"), "bool", (), [removed])
        text = json.dumps({"version": VERSION, **settings, "rows": store.count}, indent=2) + "\n"
        file(SETTINGS).write_text(text, encoding="utf-8")
        for part, whole in made:
            part.replace(whole)
    except OSError as error:
        for part, _ in made:
            part.unlink(missing_ok=True)
        raise InvalidArgumentError(f"{folder} cannot be written: {error}") from error


def width_of(dtype: str, columns: int) -> int:
    """Elements of a row of vectors."""
    return (columns + 7) // 8 if dtype == "uint8" else columns


def write_array(path: Path, dtype: str, axes: tuple[int, ...], parts: list[npt.NDArray[Any]]) -> None:
    """Arrays of rows with these axes end to end, as one file."""
    shape = (sum(map(len, parts)), *axes)
    fields = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, fields)
        for part in parts:
            file.write(np.ascontiguousarray(part).data)


def read_index(folder: Path, mmap: bool) -> tuple[dict[str, Any], Block, npt.NDArray[np.bool_]]:
    """The arguments of the class, all rows as one block, and which are removed."""
    path = folder / SETTINGS
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"{path} cannot be read: {error}; Index.save writes it") from error
    if not isinstance(stored, dict) or stored.get("version") != VERSION:
        raise InvalidArgumentError(f"{path} has no version {VERSION}; Index.save writes it")
    settings = {name: stored.get(name) for name in ("columns", "similarity", "dtype")}
    rows, columns = stored.get("rows"), settings["columns"]
    if not isinstance(rows, int) or not isinstance(columns, int) or min(rows, columns - 1) < 0:
        raise InvalidArgumentError(f"{path}: rows or columns is not a number that Index.save writes")
    if not isinstance(settings["dtype"], str) or settings["dtype"] not in ARRAYS:
        raise InvalidArgumentError(f"{path}: dtype is {settings['dtype']!r}, expected one of {', '.join(ARRAYS)}")
    vectors, block = rows, []
    starts = None
    if settings["similarity"] == "maxsim":
        lengths = read_array(folder / "lengths.npy", "int32", (rows,), False)
        if (lengths < 0).any():
            raise InvalidArgumentError(f"{folder / 'lengths.npy'} has a negative length")
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
        vectors = int(starts[-1])
    for place, (dtype, single) in enumerate(ARRAYS[settings["dtype"]]):
        shape = (vectors,) if single else (vectors, width_of(dtype, columns))
        block.append(read_array(folder / f"rows-{place}.npy", dtype, shape, mmap))
    if starts is not None:
        block.append(starts)
    return settings, block, read_array(folder / "removed.npy", "bool", (rows,), False)


def read_array(path: Path, dtype: str, shape: tuple[int, ...], mmap: bool) -> npt.NDArray[Any]:
    """An array of a type and shape, mapped if it has elements."""
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r" if mmap and all(shape) else None, allow_pickle=False)
    except Exception as error:  # whatever NumPy and Python's tokenizer raise for bytes that they were not made for
        raise InvalidArgumentError(f"{path} cannot be read: {error}") from error
    if array.dtype != np.dtype(dtype) or array.shape != shape:
        raise InvalidArgumentError(f"{path} has {array.dtype} of shape {array.shape}, expected {dtype} of {shape}")
    return array
