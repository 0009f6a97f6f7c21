"""After every way in which NumPy writes into a parameter, its copy on a device has the new numbers."""

import copy
import pickle

import numpy as np
import pytest

from grilly import nn
from grilly.nn.tracked import Tracked, View

X = np.arange(12, dtype=np.float32).reshape(3, 4) + 0.5
LONG = np.arange(4, dtype=np.float32) + 7


#: Of a parameter of shape (3, 4).
WRITES = {
    "index": lambda p: p.__setitem__(1, 5),
    "operator": lambda p: p.__iadd__(1),
    "out": lambda p: np.add(X, 1, out=p),
    "positional out": lambda p: np.add(X, 1, p),
    "several outs": lambda p: np.divmod(X, 2, out=(None, p)),
    "where": lambda p: np.copyto(p, 5, where=p < 3),
    "add.at": lambda p: np.add.at(p, [0], 10.0),
    "copyto": lambda p: np.copyto(p, X),
    "copyto by name": lambda p: np.copyto(dst=p, src=X),
    "put": lambda p: np.put(p, [1], [9]),
    "method put": lambda p: p.put([1], [9]),
    "place": lambda p: np.place(p, p > 2, [9]),
    "putmask": lambda p: np.putmask(p, p > 2, [9]),
    "put_along_axis": lambda p: np.put_along_axis(p, np.zeros((1, 4), int), 9, 0),
    "fill_diagonal": lambda p: np.fill_diagonal(p, 9),
    "nan_to_num": lambda p: [p.__setitem__(0, np.nan), p.operand(), np.nan_to_num(p, copy=False)],
    "overwritten": lambda p: [p.__setitem__(..., -X), p.operand(), np.median(p, overwrite_input=True)],
    "fill": lambda p: p.fill(9),
    "sort": lambda p: p[:, ::-1].sort(),
    "method sort": lambda p: (p.__setitem__(..., -X), p.operand(), p.sort()),
    "partition": lambda p: (p.__setitem__(..., -X), p.operand(), p.partition(1)),
    "byteswap": lambda p: p.byteswap(inplace=True),
    "byteswap by position": lambda p: p.byteswap(True),
    "setfield": lambda p: p.setfield(7, np.float32),
    "flat": lambda p: p.flat.__setitem__(3, 9),
    "held flat": lambda p: [(flat := p.flat), p.operand(), flat.__setitem__(slice(2, 4), 9)],
    "all of flat": lambda p: setattr(p, "flat", 9),
    "real": lambda p: setattr(p, "real", 9),
    "take": lambda p: np.take(X, [2, 1, 0], axis=0, out=p),
    "positional take": lambda p: np.take(X, [2, 1, 0], 0, p),
    "choose": lambda p: np.choose(np.zeros((3, 4), int), [X], out=p),
    "compress": lambda p: np.compress([True] * 3, X, axis=0, out=p),
    "concatenate": lambda p: np.concatenate([X[:1], X[1:]], out=p),
    "stack": lambda p: np.stack(list(X), out=p),
    "clip": lambda p: np.clip(X, 1, 5, out=p),
    "round": lambda p: np.round(X, out=p),
    "cumsum": lambda p: np.cumsum(X, axis=1, out=p),
    "einsum": lambda p: np.einsum("ij,j->ij", X, LONG, out=p),
    "outer": lambda p: np.outer(X[:, 0], LONG, out=p),
    "dot": lambda p: np.dot(X, np.eye(4, dtype=np.float32), p),
    "matmul": lambda p: np.matmul(X, np.eye(4), out=p, casting="same_kind"),
    "own take": lambda p: nn.Parameter(X).take([2, 1, 0], axis=0, out=p),
    "own dot": lambda p: nn.Parameter(X).dot(np.eye(4, dtype=np.float32), p),
    "method cumsum": lambda p: X.cumsum(axis=1, out=p),
    "method clip": lambda p: X.clip(1, 5, out=p),
    "method round": lambda p: X.round(out=p),
    "accumulate": lambda p: np.add.accumulate(X, out=p),
    "shuffle": lambda p: np.random.default_rng(2).shuffle(p),
    "older shuffle": lambda p: np.random.RandomState(3).shuffle(p),
    "a view by an index": lambda p: p[0].__setitem__(1, 9),
    "a view of a view": lambda p: p[1:][0].__iadd__(1),
    "a view as out": lambda p: np.exp(X[0], out=p[0]),
    "a sum into a view": lambda p: np.sum(X, axis=0, out=p[1]),
    "a mean into a view": lambda p: X.mean(axis=0, out=p[1]),
    "a median into a view": lambda p: np.median(X, 0, p[1]),
    "a percentile into a view": lambda p: np.percentile(X, 40, 0, p[1]),
    "a norm of rows into a view": lambda p: np.copyto(p[:, 0], np.linalg.norm(X, axis=1)),
    "a row": lambda p: [row.fill(2) for row in p],
    "a transposed one": lambda p: p.T.fill(9),
    "a reshaped one": lambda p: p.reshape(-1).__setitem__(2, 9),
    "a flat view": lambda p: np.ravel(p).__setitem__(2, 9),
    "a swapped one": lambda p: np.copyto(np.swapaxes(p, 0, 1), 9),
    "a part": lambda p: np.split(p, 3)[1].fill(9),
    "a diagonal": lambda p: np.fill_diagonal(p.T, 9),
    "in a list": lambda p: np.add.reduce(X, axis=0, out=(p[2],)),
}


@pytest.fixture
def p(monkeypatch):
    keep = nn.Parameter._keep

    def kept(self, copy):
        # What is seen in the numbers themselves does not help here.
        keep(self, copy)
        self._some, self._seen = np.zeros(0), b""

    monkeypatch.setattr(nn.Parameter, "_keep", kept)
    made = nn.Parameter(np.arange(12).reshape(3, 4))
    made.place("cpu")
    return made


@pytest.mark.parametrize("way", WRITES)
def test_a_write_renews_the_copy(p, way):
    before = p.operand().numpy()
    WRITES[way](p)
    assert not np.array_equal(p, before, equal_nan=True)
    assert np.array_equal(p.operand().numpy(), p, equal_nan=True)


@pytest.mark.parametrize(
    "read",
    [
        lambda p: np.sum(p, axis=0),
        lambda p: np.linalg.norm(p),
        lambda p: np.sort(p),
        lambda p: np.add(p, 1, out=np.zeros((3, 4))),
        lambda p: np.take(p, [0], out=np.zeros(1, np.float32)),
        lambda p: np.copyto(np.zeros((3, 4), np.float32), p),
        lambda p: np.nan_to_num(p),
        lambda p: p.copy().fill(3),
        lambda p: p[[0, 1]].__setitem__(0, 5),
        lambda p: p.flat[2] + len(p.flat) + sum(p.flat) + np.asarray(p.flat).sum(),
        lambda p: (p == p).all() and p.real.max(),
    ],
)
def test_reading_keeps_the_copy(p, read):
    copied = p.operand()
    read(p)
    assert p.operand() is copied


def test_writes_of_which_numpy_tells_nobody_are_noticed_by_their_numbers():
    p = nn.Parameter(np.zeros((100, 100)))
    p.place("cpu")
    for write in (
        lambda: np.random.default_rng(1).random(dtype=np.float32, out=p),
        lambda: np.random.default_rng(1).standard_normal(dtype=np.float32, out=p),
        lambda: np.full((100, 100), 3, np.float32).take(np.arange(100), axis=0, out=p),
        lambda: np.full((100, 100), 2, np.float32).dot(np.eye(100, dtype=np.float32), p),
        lambda: memoryview(p).cast("B").cast("f").__setitem__(0, 9.0),
        lambda: setattr(p, "shape", (50, 200)),
    ):
        before = p.operand()
        write()
        assert p.operand() is not before and np.array_equal(p.operand().numpy(), p)
    # One number among many is not: then touch is needed.
    np.asarray(p)[0, 1] = -5
    assert p.operand().numpy()[0, 1] != -5
    p.touch()
    assert p.operand().numpy()[0, 1] == -5


def test_views_are_arrays_like_others(p):
    row = p[1]
    assert isinstance(row, View) and not isinstance(row, nn.Parameter) and repr(row) == repr(np.asarray(row))
    assert type(row + 1) is np.ndarray and type(p[[0, 1]]) is np.ndarray and type(p[1, 2]) is np.float32
    for again in (copy.deepcopy(row), pickle.loads(pickle.dumps(row)), copy.copy(row)):
        assert np.array_equal(again, row) and not np.shares_memory(again, p)
        again[...] = 7
    assert row.tolist() == [4, 5, 6, 7]
    owner = nn.Parameter([1.0, 2.0])
    view = owner[:1]
    del owner
    view[...] = 3  # of a parameter that is gone
    assert view.tolist() == [3] and isinstance(view, Tracked)


def test_in_place_operators_of_views_write_through(p):
    p[0] += 1
    p[1:, :2] *= 2
    assert p.operand().tolist() == [[1, 2, 3, 4], [8, 10, 6, 7], [16, 18, 10, 11]]
    first, second = np.divmod(X, 2, out=(p, None))
    assert first is p and type(second) is np.ndarray
