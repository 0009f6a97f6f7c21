"""Damaged files of `utils.save_checkpoint`: `python tests/fuzz/checkpoints.py`.

Every file is refused with CheckpointError or has the content that was saved; in between trees of random names, keys and
values are saved, which come back equal or are refused.
"""

import argparse
import io
import math
import struct
import sys
import tempfile
import time
import warnings
import zipfile
from pathlib import Path

import numpy as np

from grilly import utils
from grilly.errors import CheckpointError, GrillyError

NAMES = [
    "a",
    "b",
    "a.b",
    "",
    "0",
    "1",
    "record",
    "sha256",
    "file",
    "x.npy",
    "../a",
    "/",
    "a\0b",
    "\ud800",
    "\u00e4" * 9,
    "n" * 300,
]
KEYS = [*NAMES, 0, 1, -1, 2**70, 1.5, math.inf, True, False, None, (1, 2), b"a"]


def pick(chance, values):
    return values[chance.integers(len(values))]


def tree(chance, levels=3):
    """A random tree; some of its parts cannot be saved."""
    kind = chance.integers(10 if levels else 7)
    if kind < 3:
        dtype = pick(chance, [np.float32, np.float16, np.float64, np.int64, np.uint8, bool, ">f4"])
        return (chance.standard_normal(pick(chance, [(), (0,), (3,), (2, 3), (1, 2, 2)])) * 9).astype(dtype)
    if kind == 3:
        return pick(
            chance,
            [0, -5, 2**80, 0.5, math.nan, -math.inf, True, None, "", "text", "\ud800", np.float32(3), np.int8(4)],
        )
    if kind == 4:
        return np.asfortranarray(chance.standard_normal((3, 4)))
    if kind < 7:
        return pick(chance, [1, 2.5, "x", object() if chance.random() < 0.05 else 7])
    if kind == 7:
        return [tree(chance, levels - 1) for _ in range(chance.integers(4))]
    if kind == 8:
        return tuple(tree(chance, levels - 1) for _ in range(chance.integers(4)))
    keys = KEYS if chance.random() < 0.1 else KEYS[:-2]
    return {pick(chance, keys): tree(chance, levels - 1) for _ in range(chance.integers(6))}


def equal(a, b):
    """Whether two trees are the same, NaN and types of keys included; scalars of NumPy are Python's."""
    if isinstance(a, dict):
        same_keys = isinstance(b, dict) and [(type(k), k) for k in a] == [(type(k), k) for k in b]
        return same_keys and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    a = a.item() if isinstance(a, np.generic) else a
    return type(a) is type(b) and (a == b or (a != a and b != b))


def mutated(data, chance):
    """Damaged bytes, by a random kind of damage."""
    data, size = bytearray(data), len(data)
    kind = chance.integers(9)
    if kind == 0:
        data[chance.integers(size)] ^= 1 << int(chance.integers(8))
    elif kind == 1:
        for place in chance.integers(size, size=chance.integers(2, 9)):
            data[place] = chance.integers(256)
    elif kind == 2:
        del data[chance.integers(size) :]
    elif kind == 3:
        first, second = sorted(chance.integers(size, size=2).tolist())
        del data[first:second]
    elif kind == 4:
        length = int(chance.integers(1, size // 4))
        a, b = chance.integers(size - length, size=2).tolist()
        data[a : a + length], data[b : b + length] = data[b : b + length], data[a : a + length]
    elif kind == 5:
        place = int(chance.integers(size))
        data[place:place] = chance.bytes(int(chance.integers(1, 40)))
    elif kind == 6:
        data = bytearray(chance.bytes(int(chance.integers(200))))
    elif kind == 7:
        # A number of 2 or 4 bytes in one of the tables of a ZIP file.
        marks = [place for mark in (b"PK\1\2", b"PK\3\4", b"PK\5\6") for place in found(data, mark)]
        at = pick(chance, marks) + int(chance.integers(4, 46))
        value = pick(chance, [0, 1, 8, 99, 0x7FFF, 0xFFFF, 2**31 - 1, 2**32 - 1])
        form = "<H" if value < 2**16 and chance.random() < 0.5 else "<I"
        data[at : at + struct.calcsize(form)] = struct.pack(form, value)
    else:
        data = rezipped(data, chance)
    return bytes(data)


def found(data, mark):
    place = data.find(mark)
    while place >= 0:
        yield place
        place = data.find(mark, place + 1)


def rezipped(data, chance):
    """Parts changed, exchanged, left out or compressed, in a ZIP file with right checksums."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        parts = [(name, bytearray(file.read(name))) for name in file.namelist()]
    kind = chance.integers(5)
    place, other = chance.integers(len(parts), size=2).tolist()
    name, content = parts[place]
    if kind == 0 and content:
        content[chance.integers(len(content))] ^= 1 << int(chance.integers(8))
    elif kind == 1:
        parts[place], parts[other] = (name, parts[other][1]), (parts[other][0], content)
    elif kind == 2:
        del parts[place]
    elif kind == 3:
        digits = [at for at, byte in enumerate(content) if chr(byte).isdigit()]
        if digits:
            content[pick(chance, digits)] = ord(pick(chance, list("0123456789")))
    made = io.BytesIO()
    with (
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED if kind == 4 else zipfile.ZIP_STORED) as file,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        for name, content in parts:
            file.writestr(name, bytes(content))
    return made.getvalue()


def saved(chance, path):
    """A random tree in a file, with what a load gives; None if it was refused as it must be."""
    states = {"model_state": {"a": tree(chance)}, "metadata": {"more": tree(chance), 7: tree(chance)}}
    if chance.random() < 0.3:
        states["optimizer_state"] = {"state": {0: {"step": 3}}, "param_groups": [{"lr": 0.5, "betas": (0.9, 0.5)}]}
    try:
        utils.save_checkpoint(**states, epoch=5, loss=0.25, filepath=path)
    except GrillyError as error:
        assert isinstance(error, ValueError | TypeError), error
        return None
    return {"epoch": 5, "loss": 0.25, "model_state": None, "optimizer_state": None, "metadata": {}} | states


def run(seed, folder, count=60):
    """Saves one tree and damages it; the number of files that were tried and the texts of the faults."""
    chance, path = np.random.default_rng(seed), Path(folder) / "a.npz"
    try:
        states = saved(chance, path)
    except Exception as error:
        return 1, [f"seed {seed}: saving: {error!r}"]
    if states is None:
        return 1, []
    whole, faults = path.read_bytes(), []
    for number in range(count):
        data = whole if number == 0 else mutated(whole, chance)
        path.write_bytes(data)
        try:
            given = utils.load_checkpoint(path)
            if not equal(states, {name: given[name] for name in states}):
                faults.append(f"seed {seed}, file {number}: other content")
        except CheckpointError as error:
            if number == 0:
                faults.append(f"seed {seed}: an intact file: {error}")
        except Exception as error:
            faults.append(f"seed {seed}, file {number}: {error!r}")
    return count, faults


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", type=int, default=10**9, help="at most so many trees")
    given = parser.parse_args(arguments)
    end, trees, files, faults = time.monotonic() + given.seconds, 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end and trees < given.programs:
            count, wrong = run(given.seed + trees, folder)
            trees, files, faults = trees + 1, files + count, faults + wrong
    print(*faults[:20], sep="\n", end="\n" if faults else "")
    print(f"checkpoints: {files} files of {trees} trees from seed {given.seed}: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
