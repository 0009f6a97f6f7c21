"""The format of `torch.save`, without torch: a zip archive of which data.pkl describes the tensors."""

import io
import json
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np

from . import safetensors_file

STORAGES = {"F64": "DoubleStorage", "F32": "FloatStorage", "F16": "HalfStorage", "BF16": "BFloat16Storage"}
STORAGES |= {"I64": "LongStorage", "BOOL": "BoolStorage"}
TYPES = {"F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E4M3FNUZ": "float8_e4m3fnuz"}


class Name:
    """A function or class that the pickle names, and that need not be there."""

    def __init__(self, module: str, name: str):
        self.text = f"c{module}\n{name}\n"

    def __call__(self):
        raise AssertionError


class Call:
    """What the pickle calls: a name with arguments."""

    def __init__(self, module: str, name: str, *arguments):
        self.called = Name(module, name), arguments

    def __reduce__(self):
        return self.called


class Storage:
    """An entry of the archive."""

    def __init__(self, kind: str, key: str, count: int):
        name = Name("torch.storage", "UntypedStorage") if kind in TYPES else Name("torch", STORAGES[kind])
        self.kind = kind
        self.identity = ("storage", name, key, "cpu", count)


class Pickler(pickle._Pickler):  # the one in Python, whose methods can be replaced
    def save(self, item, **options):
        if isinstance(item, Name):
            self.write(item.text.encode())
        else:
            super().save(item, **options)

    def persistent_id(self, item):
        return item.identity if isinstance(item, Storage) else None


def tensor(storage: Storage, shape: tuple[int, ...], *marks: dict) -> Call:
    """All of a storage."""
    strides = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
    arguments = storage, 0, shape, strides, False, OrderedDict()
    if storage.kind in TYPES:
        return Call("torch._utils", "_rebuild_tensor_v3", *arguments, Name("torch", TYPES[storage.kind]), *marks)
    return Call("torch._utils", "_rebuild_tensor_v2", *arguments, *marks)


def pickled(values) -> bytes:
    """The pickle of a state dict or of anything else, in protocol 2."""
    file = io.BytesIO()
    Pickler(file, 2).dump(values)
    return file.getvalue()


def archive(path: Path, description: bytes, storages: list[bytes], compression: int = zipfile.ZIP_STORED) -> None:
    """Writes the archive."""
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr(f"{path.stem}/data.pkl", description)
        file.writestr(f"{path.stem}/byteorder", "little")
        for number, data in enumerate(storages):
            file.writestr(f"{path.stem}/data/{number}", data)


def write(path: Path, tensors: dict[str, np.ndarray], dtype: str | dict[str, str] = "F32") -> None:
    """Writes float tensors as `dtype`, or as it says of each name, and integer ones as I64."""
    state, storages = OrderedDict(), []
    for name, array in tensors.items():
        kind = "I64" if array.dtype.kind == "i" else dtype[name] if isinstance(dtype, dict) else dtype
        state[name] = tensor(Storage(kind, str(len(storages)), array.size), array.shape)
        storages.append(safetensors_file.to_bytes(array, kind))
    archive(path, pickled(state), storages)


def convert(folder: Path, dtype: str = "F32", shards: int = 1) -> None:
    """Writes every model.safetensors under `folder` as pytorch_model.bin, or as that many shards, in its place."""
    for path in sorted(folder.rglob("model.safetensors")):
        tensors = safetensors_file.read(path)
        path.unlink()
        if shards == 1:
            write(path.with_name("pytorch_model.bin"), tensors, dtype)
            continue
        weight_map = {}
        for shard in range(shards):
            file = f"pytorch_model-{shard + 1:05}-of-{shards:05}.bin"
            part = {name: tensors[name] for name in list(tensors)[shard::shards]}
            write(path.with_name(file), part, dtype)
            weight_map |= dict.fromkeys(part, file)
        path.with_name("pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))
