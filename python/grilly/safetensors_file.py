"""Files of tensors in safetensors' format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["floats_of", "safetensors", "safetensors_of"]

#: Element types of arrays that are written, with their names in the file.
KINDS = {"float32": "F32", "float16": "F16", "int64": "I64"}


def safetensors(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """A file of arrays of these types.

    Example:
        >>> import numpy as np
        >>> from grilly.safetensors_file import safetensors
        >>> len(safetensors({"x": np.zeros(3, np.float32)})) % 8
        4
    """
    return safetensors_of(
        {
            name: (KINDS[array.dtype.name], array.shape, array.astype(array.dtype.newbyteorder("<")).tobytes())
            for name, array in arrays.items()
        }
    )


def safetensors_of(tensors: Mapping[str, tuple[str, Sequence[int], bytes]]) -> bytes:
    """A file of tensors, each by its type, its axes and its bytes: the header's length, it in JSON, all bytes.

    Source: the format's description in the repository `safetensors`; tensors begin at a multiple of 8 bytes.

    Example:
        >>> from grilly.safetensors_file import safetensors_of
        >>> safetensors_of({"x": ("U8", [2], b"ab")})[-2:]
        b'ab'
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (kind, axes, content) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(axes), "data_offsets": [end, end + len(content)]}
        end += len(content)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *(content for *_, content in tensors.values())])


def floats_of(kind: str, content: bytes) -> npt.NDArray[np.float32]:
    """Stored numbers of type `"F64"`, `"F32"`, `"F16"` or `"BF16"`, as float32.

    Example:
        >>> from grilly.safetensors_file import floats_of
        >>> floats_of("BF16", bytes([0x80, 0x3F])).tolist()
        [1.0]
    """
    if kind == "BF16":
        return (np.frombuffer(content, "<u2").astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(content, {"F64": "<f8", "F32": "<f4", "F16": "<f2"}[kind]).astype(np.float32)
