"""`grilly convert`: a model's folder with its weights in another type."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from grilly import hub
from grilly.commands.check import loaded
from grilly.commands.table import command
from grilly.errors import InvalidArgumentError, ModelFormatError
from grilly.safetensors_file import floats_of

__all__ = ["main", "rewrite", "rounded"]

#: Types of weights, by their names in safetensors.
NAMES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
BYTES = {"F32": 4, "F16": 2, "BF16": 2}


@command("convert")
def main(given: argparse.Namespace) -> int:
    """Writes the folder and prints its size beside that of the model's; returns the exit status.

    Example:
        >>> from grilly.commands import convert
        >>> convert.main(["no-such-folder/", "out", "--dtype", "float16"])
        1
    """
    source, target = hub.resolve(given.model).folder, given.output
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidArgumentError(f"{target} is there already, and is not an empty folder; expected a new one")
    model, _ = loaded(given.model, source, device="cpu", dtype=given.dtype)
    with model:
        model.save_pretrained(target)
    weights = sorted(target.rglob("*.safetensors"))
    if given.dtype in NAMES:
        if not weights:
            raise ModelFormatError(f"{source} has no safetensors: {target} has its files as they are")
        for path in weights:
            rewrite(path, given.dtype)
    before, after = (sum(file.stat().st_size for file in folder.rglob("*.safetensors")) for folder in (source, target))
    print(f"{target}: {after / 1e6:,.1f} MB of weights, {before / 1e6:,.1f} MB before")
    if given.dtype == "int8":
        print("int8 is computed from these weights when the folder is loaded, which config.json says")
    return 0


def rewrite(path: Path, dtype: str) -> None:
    """Rounds the floating-point tensors of a safetensors file to another type; the file is replaced when it is whole.

    Args:
        path: The file.
        dtype: `"float32"`, `"float16"` or `"bfloat16"`.

    Raises:
        ModelFormatError: A number that float16 does not have.

    Example:
        >>> import numpy as np, pathlib, tempfile
        >>> from grilly.commands.convert import rewrite
        >>> from grilly.safetensors_file import safetensors
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
        >>> _ = path.write_bytes(safetensors({"x": np.ones((2, 3), np.float32)}))
        >>> rewrite(path, "float16")
        >>> path.read_bytes()[-12:].hex()
        '003c003c003c003c003c003c'
    """
    part = path.with_name(f"{path.name}.part")
    try:
        with path.open("rb") as source, part.open("wb") as made:
            start = 8 + int.from_bytes(source.read(8), "little")
            header: dict[str, Any] = json.loads(source.read(start - 8))
            new: dict[str, Any] = {}
            end = 0
            for name, tensor in header.items():
                new[name] = tensor
                if name == "__metadata__":
                    continue
                first, last = tensor["data_offsets"]
                kind, size = tensor["dtype"], last - first
                if kind in BYTES:
                    size = size // BYTES[kind] * BYTES[NAMES[dtype]]
                    kind = NAMES[dtype]
                new[name] = tensor | {"dtype": kind, "data_offsets": [end, end + size]}
                end += size
            text = json.dumps(new).encode()
            text += b" " * (-len(text) % 8)
            made.write(len(text).to_bytes(8, "little") + text)
            for name, tensor in header.items():
                if name != "__metadata__":
                    made.write(_content(source, start, tensor, dtype, f"{path}: {name}"))
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _content(source: BinaryIO, start: int, tensor: dict[str, Any], dtype: str, name: str) -> bytes:
    """A tensor's bytes in the type."""
    first, last = tensor["data_offsets"]
    source.seek(start + first)
    content = source.read(last - first)
    if tensor["dtype"] not in BYTES or tensor["dtype"] == NAMES[dtype]:
        return content
    numbers = floats_of(tensor["dtype"], content)
    found = rounded(numbers, dtype)
    if dtype == "float16" and not np.isfinite(found[np.isfinite(numbers)]).all():
        raise ModelFormatError(f"{name} has a number beyond 65504, which float16 does not have; bfloat16 does")
    return found.tobytes()


def rounded(numbers: npt.NDArray[np.float32], dtype: str) -> npt.NDArray[Any]:
    """float32 numbers in another type, to the nearest; of two the one whose last bit is 0. bfloat16 as its bits.

    Example:
        >>> import numpy as np
        >>> from grilly.commands.convert import rounded
        >>> [hex(bits) for bits in rounded(np.float32([1.0, 1 + 2**-8, 1 + 3 * 2**-8]), "bfloat16").tolist()]
        ['0x3f80', '0x3f80', '0x3f82']
    """
    if dtype != "bfloat16":
        with np.errstate(over="ignore"):
            return numbers.astype("<f4" if dtype == "float32" else "<f2")
    bits = numbers.view(np.uint32)
    found: npt.NDArray[Any] = ((bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16).astype("<u2")
    found[np.isnan(numbers)] = 0x7FC0
    return found
