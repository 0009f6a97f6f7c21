"""Damaged files of `utils.save_checkpoint`: `python tests/fuzz/checkpoints.py`.

Every file is refused with CheckpointError or has the content that was saved; in between trees of random names, keys and
values are saved, which come back equal or are refused.
"""

import math
import sys
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import damage  # isort: skip
from fuzz.driver import Fault, main, pick  # isort: skip

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
    kind = int(chance.integers(9))
    return (damage.of_tables if kind == 7 else damage.rezipped if kind == 8 else damage.of_bytes)(data, chance)


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


def corpus(folder, given):
    return folder


def case(folder, chance):
    """One tree and its damaged files."""
    count, faults = run(int(chance.integers(2**63)), folder)
    if faults:
        raise Fault("; ".join(faults[:5]))
    return "refused" if count == 1 else f"trees of {count} files"


if __name__ == "__main__":
    sys.exit(main(corpus, case))
