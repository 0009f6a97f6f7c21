"""The safetensors format in NumPy: 8 bytes of header length, a JSON header, then the tensors' bytes."""

import json
import struct
from pathlib import Path

import numpy as np

from . import float8

KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "U32": "<u4", "I32": "<i4", "I8": "<i1", "U8": "<u1"}


def to_bytes(array: np.ndarray, dtype: str) -> bytes:
    """The little-endian bytes of an array stored as `dtype`; bfloat16 rounds to nearest even."""
    if dtype.startswith("F8_"):
        return float8.nearest(array, dtype).tobytes()
    if dtype == "BF16":
        bits = np.ascontiguousarray(array, dtype="<f4").view("<u4").astype(np.uint64)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()
    return np.ascontiguousarray(array, dtype=KINDS[dtype]).tobytes()


def from_bytes(data: bytes, dtype: str) -> np.ndarray:
    """The flat array that `data` stores as `dtype`; bfloat16 and 8-bit numbers become float32."""
    if dtype.startswith("F8_"):
        return float8.numbers(dtype)[np.frombuffer(data, "<u1")]
    if dtype == "BF16":
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(data, KINDS[dtype])


def write(
    path: Path,
    tensors: dict[str, np.ndarray],
    dtype: str | dict[str, str] | None = "F32",
    metadata: dict[str, str] | None = None,
) -> None:
    """Writes float tensors as `dtype`, or as it says of each name, and signed ones as I64; unsigned ones, and without a
    `dtype` all, as they are."""
    own = {np.dtype(kind): name for name, kind in KINDS.items()}
    header: dict = {"__metadata__": metadata or {"format": "pt"}}
    body = []
    offset = 0
    for name, array in tensors.items():
        kept = dtype is None or array.dtype.kind == "u"
        kind = dtype[name] if isinstance(dtype, dict) else dtype
        stored = own[array.dtype] if kept else "I64" if array.dtype.kind == "i" else kind
        data = to_bytes(array, stored)
        header[name] = {"dtype": stored, "shape": list(array.shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        body.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(body)


def write_sharded(folder: Path, tensors: dict[str, np.ndarray], shards: int) -> None:
    """Writes `model-0000i-of-0000n.safetensors` and the index that names each tensor's file."""
    names = list(tensors)
    weight_map = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = {name: tensors[name] for name in names[shard::shards]}
        write(folder / file, part)
        weight_map |= dict.fromkeys(part, file)
    total = sum(array.size * 4 for array in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))


def read(path: Path) -> dict[str, np.ndarray]:
    """All tensors of one file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = from_bytes(data[start:end], entry["dtype"]).reshape(entry["shape"])
    return tensors


def read_folder(folder: Path) -> dict[str, np.ndarray]:
    """All tensors of a checkpoint, in one file or sharded."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return read(folder / "model.safetensors")
    tensors = {}
    for file in sorted(set(json.loads(index.read_text())["weight_map"].values())):
        tensors |= read(folder / file)
    return tensors
