"""Files of `utils.save_checkpoint`: any tree of names and keys, any damage, several writers."""

import io
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from fuzz import checkpoints

from grilly import nn, utils
from grilly.errors import CheckpointError, InvalidArgumentError, InvalidTypeError


def saved(path, **options):
    utils.save_checkpoint(filepath=path, **options)
    return utils.load_checkpoint(path)


@pytest.mark.parametrize(
    "tree",
    [
        {"a.b": np.ones(2), "a": {"b": np.zeros(3)}},
        {1: np.ones(2), "1": np.zeros(3)},
        {"record": np.ones(2), "file": np.zeros(1), "sha256": np.ones(1), "allow_pickle": np.ones(1), "0": np.zeros(4)},
        {
            "../a": np.ones(1),
            "/": np.zeros(1),
            "a\0b": np.ones(2),
            "a\0c": np.zeros(2),
            "": np.ones(3),
            ".npy": np.ones(1),
        },
        {"\ud800": np.ones(1), "n" * 70000: np.zeros(2), "\u00e4": "\udfff"},
        {True: np.ones(1), None: np.zeros(2), 1.5: 3, np.inf: [np.ones(1)], -7: (), 2**70: {}},
        {"scalars": [np.float16(0.5), np.bool_(True), 2**70, np.nan, -0.0], "order": np.ones((3, 4), order="F")},
        {
            "types": [np.ones(2, dtype) for dtype in ("?", ">f4", "<i8", "u1", "f2")],
            "empty": np.ones((0, 3)),
            "one": np.array(5),
        },
    ],
    ids=lambda tree: repr(list(tree))[:40],
)
def test_a_tree_comes_back_whole(tree, tmp_path):
    found = saved(tmp_path / "a.npz", model_state={"more": tree}, metadata=tree)
    assert checkpoints.equal({"more": tree}, found["model_state"]) and checkpoints.equal(tree, found["metadata"])


def nested(levels):
    made = []
    for _ in range(levels):
        made = [made]
    return made


def test_what_cannot_come_back_is_refused(tmp_path):
    itself = []
    itself.append(itself)
    for tree, error, problem in [
        ({"key": object()}, InvalidTypeError, "metadata.key is of type object"),
        ({"key": {"inner", "set"}}, InvalidTypeError, "metadata.key is of type set"),
        ({"key": b"bytes"}, InvalidTypeError, "metadata.key is of type bytes"),
        ({"key": np.ones(2, complex)}, InvalidTypeError, "metadata.key is of type ndarray"),
        (
            {"key": np.ma.masked_array([1.0, 2.0], [True, False])},
            InvalidTypeError,
            "metadata.key is of type MaskedArray",
        ),
        ({"in": {(1, 2): 3}}, InvalidTypeError, "a key in metadata.in is of type tuple"),
        ({float("nan"): 1, float("nan") * 1: 2}, InvalidArgumentError, "metadata has a key twice"),
        ({"deep": nested(200)}, InvalidArgumentError, "nested more than 100 deep, or in itself"),
        ({"self": itself}, InvalidArgumentError, "nested more than 100 deep, or in itself"),
        ({"long": 10**5000}, InvalidArgumentError, "metadata cannot be saved"),
    ]:
        with pytest.raises(error, match=problem):
            utils.save_checkpoint(filepath=tmp_path / "a.npz", metadata=tree)
    with pytest.raises(InvalidTypeError, match="loss is of type str"):
        utils.save_checkpoint(filepath=tmp_path / "a.npz", loss="x")
    assert os.listdir(tmp_path) == []
    assert (
        saved(tmp_path / "a.npz", epoch=np.int64(3), loss=np.float32(0.5), metadata={"deep": nested(90)})["epoch"] == 3
    )


def test_names_with_dots_are_one_value_or_refused(tmp_path):
    net = nn.Module()
    net.a = nn.Linear(1, 1)
    setattr(net, "a.bias", nn.Parameter([5.0]))
    utils.save_checkpoint(net, filepath=tmp_path / "a.npz")
    assert utils.load_checkpoint(tmp_path / "a.npz")["model_state"]["a.bias"].tolist() == [5.0]
    with pytest.raises(InvalidArgumentError, match="a.bias stands for two values"):
        utils.load_checkpoint(tmp_path / "a.npz", net)
    with pytest.raises(InvalidArgumentError, match="bias stands for two values"):
        nn.Sequential(nn.Linear(1, 1)).load_state_dict({"0": {"bias": [1.0]}, "0.bias": [2.0]}, strict=False)


@pytest.mark.parametrize("seed", range(12))
def test_random_trees_and_damage(seed, tmp_path):
    count, faults = checkpoints.run(seed, tmp_path, 40)
    assert faults == [] and count > 0


def rewritten(whole, change):
    """The file with the array `0` or the record changed, and right checksums of the ZIP file."""
    with zipfile.ZipFile(io.BytesIO(whole)) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    change(parts)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return made.getvalue()


def test_damage_made_by_hand_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    utils.save_checkpoint(
        model_state={"w": np.ones((3, 4), np.float32), "v": np.zeros((3, 4), np.float32)}, filepath=path
    )
    whole = path.read_bytes()

    def record(text):
        file = io.BytesIO()
        np.save(file, np.frombuffer(text.encode(), np.uint8))
        return lambda parts: parts.update({"record.npy": file.getvalue()})

    deep = json.dumps({"format": 1, "model_state": None, "optimizer_state": None}).replace(
        "null", "[" * 9999 + "]" * 9999, 1
    )
    damaged = {
        # Fewer rows than there are: the checksum of the part was never reached.
        "shape": whole.replace(b"'shape': (3, 4), }", b"'shape': (1, 4), }", 1),
        "size": whole.replace(b"'shape': (3, 4), }  ", b"'shape': (9**9,), }", 1),
        "exchanged": rewritten(whole, lambda parts: parts.update({"0.npy": parts["1.npy"], "1.npy": parts["0.npy"]})),
        "no sum": rewritten(whole, lambda parts: parts.pop("sha256.npy")),
        "no array": rewritten(whole, lambda parts: parts.pop("1.npy")),
        "deep": rewritten(whole, record(deep)),
        "empty key": rewritten(
            whole, record('{"format": 1, "model_state": {"dict": {"": 1}}, "optimizer_state": null}')
        ),
        "a list": rewritten(whole, record("[]")),
        "no text": rewritten(whole, record('"')),
        "head": whole.replace(b"{'descr'", b"{'descr'[", 1),
    }
    for name, content in damaged.items():
        assert content != whole, name
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="a.npz: (is no checkpoint of|cannot be read)"):
            utils.load_checkpoint(path)
    for kind in ("fifo", "folder"):
        other = tmp_path / kind
        os.mkfifo(other) if kind == "fifo" else other.mkdir()
        with pytest.raises(CheckpointError, match="it is not a regular file"):
            utils.load_checkpoint(other)


def test_a_file_of_an_earlier_build_loads(tmp_path):
    record = {
        "format": 1,
        "epoch": 4,
        "loss": None,
        "model_state": {"dict": {"sweight": {"array": "model_state.weight"}}},
        "optimizer_state": None,
        "metadata": {"dict": {"i7": {"tuple": [1, {"array": "metadata.7.1"}]}}},
    }
    arrays = {"model_state.weight": np.ones((2, 3)), "metadata.7.1": np.arange(3)}
    np.savez(tmp_path / "a.npz", record=np.frombuffer(json.dumps(record).encode(), np.uint8), **arrays)
    found = utils.load_checkpoint(tmp_path / "a.npz")
    assert found["epoch"] == 4 and found["model_state"]["weight"].shape == (2, 3)
    assert found["metadata"][7][1].tolist() == [0, 1, 2]


WRITER = """
import sys
import numpy as np
from grilly import utils
path, number = sys.argv[1], int(sys.argv[2])
for _ in range(40):
    utils.save_checkpoint(model_state={"w": np.full(50_000, number, np.float32)}, epoch=number, filepath=path)
    found = utils.load_checkpoint(path)
    assert (found["model_state"]["w"] == found["epoch"]).all()
"""


def test_two_writers_of_one_path_leave_one_whole_file(tmp_path):
    path = tmp_path / "a.npz"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, str(number)]) for number in (1, 2)]
    assert [writer.wait() for writer in writers] == [0, 0] and os.listdir(tmp_path) == ["a.npz"]


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(file, **parts):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", interrupted)
    with pytest.raises(KeyboardInterrupt):
        utils.save_checkpoint(filepath=tmp_path / "a.npz")
    assert os.listdir(tmp_path) == []
