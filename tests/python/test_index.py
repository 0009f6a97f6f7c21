"""`grilly.Index` beside float64, in every type and similarity; blocks, files, masks and what is refused."""

import hashlib
import json

import numpy as np
import pytest

from grilly import Index
from grilly.errors import IndexOutOfRangeError, InvalidArgumentError, InvalidTypeError, UnsupportedError

RNG = np.random.default_rng(5)


def drawn(*shape: int) -> np.ndarray:
    """About -3 .. 3; the same numbers with any version of NumPy."""
    return np.float32(RNG.integers(-1000, 1001, (3, *shape)).sum(axis=0) / 1024)


ROWS = drawn(700, 40) * 2.0 ** RNG.integers(-3, 4, (700, 1), np.int64).astype(np.float32)
QUERIES = drawn(9, 40)
TYPES = ("float32", "float16", "int8", "binary")
#: Vectors of tokens of texts; one has none.
TEXTS = [drawn(n, 24) for n in (3, 0, 17, 1, 40, 16, 33, 8, 5, 70, 2, 9)]
ASKED = [drawn(n, 24) for n in (4, 33, 1)]


@pytest.fixture(params=["cpu", "vulkan"])
def place(request) -> str:
    return request.param if request.param == "cpu" else request.getfixturevalue("vulkan")


def stand_in(rows: np.ndarray, dtype: str, cosine: bool) -> np.ndarray:
    """The numbers that an index compares, in float64: exact but for the last bits of normalised ones."""
    rows = rows.astype(np.float64)
    if cosine:
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    if dtype == "float16":
        return rows.astype(np.float16).astype(np.float64)
    if dtype == "int8":
        scale = 127 / np.abs(rows).max(axis=1, keepdims=True)
        return np.round(rows * scale) / scale
    return np.where(rows > 0, 1.0, -1.0) if dtype == "binary" else rows


def best(scores: np.ndarray, count: int) -> np.ndarray:
    return np.argsort(-scores, axis=1, kind="stable")[:, :count]


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("dtype", TYPES)
def test_scores_and_rows(place, dtype, similarity):
    index = Index(40, similarity, dtype, device=place)
    assert index.add(ROWS[:699]) == range(699) and index.add(ROWS[699]) == range(699, 700)
    found = index.search(QUERIES, top_k=10, rescore=0)
    cosine = similarity == "cosine"
    rows, queries = (stand_in(each, dtype, cosine) for each in (ROWS, QUERIES))
    scores = queries @ rows.T
    own = np.take_along_axis(scores, found.rows, axis=1)
    # One step of int8 more or less, where a number lies at its edge.
    most = 1e-6 if dtype in ("float32", "binary") else 2e-3 if dtype == "float16" else 2e-2
    size = np.linalg.norm(rows, axis=1).max() * np.linalg.norm(queries, axis=1)[:, None]
    assert (np.abs(found.scores - own) <= most * size).all()
    # No row that is left out is better than the last that is found.
    assert (np.take_along_axis(scores, best(scores, 10), axis=1) <= own + 2 * most * size).all()
    if dtype == "binary":
        assert np.array_equal(found.rows, best(scores, 10)) and np.array_equal(found.scores, own)
    assert (np.diff(found.scores, axis=1) <= 0).all()
    assert found.scores.dtype == np.float32 and found.rows.dtype == np.int64


@pytest.mark.parametrize("dtype", TYPES)
def test_same_bits_among_other_queries_and_blocks(place, dtype):
    whole = Index(40, "dot", dtype, device=place)
    whole.add(ROWS)
    expected = whole.search(QUERIES, 12)
    for block_bytes in (1, 20_000, 40_000):
        index = Index(40, "dot", dtype, device=place, block_bytes=block_bytes, device_memory=20_000)
        for first in range(0, 700, 137):
            index.add(ROWS[first : first + 137])
        assert all(map(np.array_equal, index.search(QUERIES, 12), expected))
        alone = index.search(QUERIES[4], 12)
        assert np.array_equal(alone.rows[0], expected.rows[4]) and np.array_equal(alone.scores[0], expected.scores[4])


def test_binary_rows_are_rescored(place):
    index = Index(40, "dot", "binary", device=place)
    index.add(ROWS)
    found = index.search(QUERIES, 5, rescore=3)
    rows, queries = stand_in(ROWS, "binary", False), stand_in(QUERIES, "binary", False)
    first = best(queries @ rows.T, 15)
    scores = np.take_along_axis(QUERIES.astype(np.float64) @ rows.T, first, axis=1)
    order = np.argsort(-scores, axis=1)[:, :5]
    assert np.array_equal(found.rows, np.take_along_axis(first, order, axis=1))
    assert np.allclose(found.scores, np.take_along_axis(scores, order, axis=1), rtol=0, atol=1e-5)


def late(queries: list, texts: list) -> np.ndarray:
    wide = [[each.astype(np.float64) for each in side] for side in (queries, texts)]
    return np.array([[(q @ d.T).max(axis=1).sum() if len(d) else -1e9 for d in wide[1]] for q in wide[0]])


@pytest.mark.parametrize("dtype", TYPES)
def test_maxsim(place, dtype):
    rows = [stand_in(each, dtype, False) if len(each) else each for each in TEXTS]
    queries = [stand_in(each, dtype, False) if dtype == "float16" else each for each in ASKED]
    scores = late(queries, rows)
    results = []
    for block_bytes in (None, 2000):
        index = Index(24, "maxsim", dtype, device=place, block_bytes=block_bytes)
        index.add(TEXTS[:5])
        index.add(TEXTS[5:])
        results.append(index.search(ASKED, 12))
        assert np.array_equal(index.search([ASKED[1]], 12).scores[0], results[0].scores[1])
    assert all(map(np.array_equal, *results))
    found = results[0]
    most = 2e-5 if dtype != "int8" else 0.3
    assert (np.abs(found.scores - np.take_along_axis(scores, found.rows, axis=1)) <= most * np.abs(found.scores)).all()
    if dtype != "int8":
        assert np.array_equal(found.rows, best(scores, 12))
    assert found.rows[:, -1].tolist() == [1, 1, 1], "a text without vectors comes last"


def test_texts_added_one_by_one(place):
    whole, single = (Index(24, "maxsim", "int8", device=place, block_bytes=3000) for _ in range(2))
    whole.add(TEXTS)
    for number, text in enumerate(TEXTS):
        assert single.add([text]) == range(number, number + 1)
        single.search(ASKED[:1], 1)  # copies on the device are of texts before
    assert all(map(np.array_equal, single.search(ASKED, 12), whole.search(ASKED, 12)))
    # Padding with zeros is no text, as for maxsim; types without texts.
    padded = np.zeros((2, 40, 24), np.float32)
    padded[0, :3], padded[1] = TEXTS[0], TEXTS[4]
    assert single.add(padded) == range(12, 14) and single.add([]) == range(14, 14)
    found = single.search(ASKED[:1], 14)
    order = np.argsort(found.rows[0])
    assert np.array_equal(found.scores[0][order][12:], found.scores[0][order][[0, 4]])
    for wrong in ("ab", 3, np.zeros((2, 2, 2, 2)), [np.zeros(24)], [["a"]]):
        with pytest.raises(InvalidArgumentError):
            single.add(wrong)


def test_equal_scores_come_in_the_order_of_the_rows(place):
    index = Index(1, "dot", device=place, block_bytes=1)
    index.add(np.float32([[1], [2]] * 100))
    assert index.search([[1.0]], 120).rows[0].tolist() == [*range(1, 200, 2), *range(0, 40, 2)]


def test_masks_and_removed_rows(place):
    index = Index(40, "dot", device=place, block_bytes=16_000)
    index.add(ROWS)
    scores = QUERIES.astype(np.float64) @ ROWS.astype(np.float64).T
    mask = np.arange(700) % 3 == 0
    expected = best(np.where(mask, scores, -np.inf), 6)
    assert np.array_equal(index.search(QUERIES, 6, mask=mask).rows, expected)
    assert np.array_equal(index.search(QUERIES, 6, mask=np.flatnonzero(mask)).rows, expected)
    first = best(scores, 1)[0, 0]
    assert index.remove(first) == 1 and index.remove([first, 5]) == 1 and len(index) == 698
    scores[:, [first, 5]] = -np.inf
    assert np.array_equal(index.search(QUERIES, 7).rows, best(scores, 7))
    # Fewer rows than are asked for; none.
    assert index.search(QUERIES, 10, mask=[3, 5]).rows.tolist() == [[3]] * 9
    assert index.search(QUERIES, 10, mask=np.zeros(700, bool)).rows.shape == (9, 0)
    assert index.add(ROWS[:1]) == range(700, 701), "numbers are not given twice"
    assert len(index.search(QUERIES, 2000).rows[0]) == 699


@pytest.mark.parametrize("similarity", ["cosine", "maxsim"])
@pytest.mark.parametrize("dtype", TYPES)
def test_files(tmp_path, dtype, similarity):
    columns, rows, queries = (24, TEXTS, ASKED) if similarity == "maxsim" else (40, ROWS, QUERIES)
    index = Index(columns, similarity, dtype, device="cpu", block_bytes=2000)
    index.add(rows)
    index.remove(2)
    index.save(tmp_path / "index")
    for mmap in (False, True):
        loaded = Index.load(tmp_path / "index", device="cpu", mmap=mmap)
        assert (loaded.columns, loaded.similarity, loaded.dtype) == (columns, similarity, dtype)
        assert len(loaded) == len(index)
        assert all(map(np.array_equal, loaded.search(queries, 6), index.search(queries, 6)))
        # One that grows, saved over the files that it reads.
        assert loaded.add(rows[:3]) == index.add(rows[:3])
        loaded.save(tmp_path / "index", overwrite=True)
        assert all(map(np.array_equal, loaded.search(queries, 6), index.search(queries, 6)))
    with pytest.raises(InvalidArgumentError, match="has an index; overwrite=True"):
        index.save(tmp_path / "index")


def test_an_empty_index(tmp_path):
    for similarity in ("dot", "maxsim"):
        index = Index(3, similarity, device="cpu")
        asked = [np.ones((1, 3), np.float32)] if similarity == "maxsim" else [[1, 2, 3]]
        assert index.add([]) == range(0) and index.search(asked).rows.shape == (1, 0)
        index.save(tmp_path / similarity)
        assert len(Index.load(tmp_path / similarity, device="cpu")) == 0


def test_bad_files(tmp_path):
    folder = tmp_path / "index"
    with pytest.raises(InvalidArgumentError, match=r"index\.json cannot be read"):
        Index.load(folder)
    index = Index(40, "dot", "int8", device="cpu")
    index.add(ROWS)
    index.save(folder)
    whole = {path: path.read_bytes() for path in folder.iterdir()}
    for path, content in whole.items():
        for bad in (content[: len(content) // 2], b"", None):
            path.unlink() if bad is None else path.write_bytes(bad)
            with pytest.raises(InvalidArgumentError, match=path.name.replace(".", r"\.")):
                Index.load(folder, device="cpu")
        path.write_bytes(content)
    settings = json.loads((folder / "index.json").read_text())
    wrong = ("dtype", "int4"), ("rows", 701), ("columns", 41), ("version", 2), ("rows", -1), ("similarity", 3)
    for name, value in wrong:
        (folder / "index.json").write_text(json.dumps(settings | {name: value}))
        with pytest.raises(InvalidArgumentError):
            Index.load(folder, device="cpu")


def test_what_is_refused():
    index = Index(2, device="cpu")
    for vectors in ([[1, 2, 3]], [[[1, 2]]], np.ones((2, 3))):
        with pytest.raises(InvalidArgumentError, match=r"expected \(N, 2\)"):
            index.add(vectors)
    for vectors, error in (([[1, np.nan]], "row 0"), (np.float64([[1, 2], [1e300, 1]]), "row 1")):
        with pytest.raises(InvalidArgumentError, match=error):
            index.add(vectors)
    for vectors in ("ab", [["a", "b"]], [[True, False]], [[1j, 1]]):
        with pytest.raises((InvalidTypeError, InvalidArgumentError)):
            index.add(vectors)
    assert len(index) == 0
    index.add([[1.0, 2.0]])
    for rows in (1, -1, [0, 7]):
        with pytest.raises(IndexOutOfRangeError, match="expected 0 to 0"):
            index.remove(rows)
    with pytest.raises(InvalidTypeError):
        index.remove("a")
    with pytest.raises(InvalidArgumentError, match="mask has shape"):
        index.search([[1.0, 2.0]], mask=[True, False])
    for arguments in ({"top_k": -1}, {"rescore": -1}):
        with pytest.raises(InvalidArgumentError):
            index.search([[1.0, 2.0]], **arguments)
    for arguments in ({"similarity": "euclidean"}, {"dtype": "float64"}, {"columns": 0}, {"block_bytes": 0}):
        with pytest.raises(InvalidArgumentError):
            Index(**{"columns": 2} | arguments)
    with pytest.raises(UnsupportedError, match="refuses float16"):
        Index(2, dtype="float16", numerics="everywhere")


@pytest.mark.parametrize("dtype", ["float32", "int8", "binary"])
def test_everywhere(place, dtype):
    index = Index(40, "cosine", dtype, device=place, numerics="everywhere")
    index.add(ROWS[:200])
    texts = Index(24, "maxsim", dtype, device=place, numerics="everywhere")
    texts.add(TEXTS)
    found = [*index.search(QUERIES, 20), *texts.search(ASKED, 12)]
    if dtype == "float32":
        exact = stand_in(QUERIES, dtype, True) @ stand_in(ROWS[:200], dtype, True).T
        assert np.abs(found[0] - np.take_along_axis(exact, found[1], axis=1)).max() < 2e-6
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in found)).hexdigest()[:16]
    assert digest == HASHES[dtype]


#: The same on every device.
HASHES = {"float32": "0eb37d35b42705a0", "int8": "7509ce6804a5c304", "binary": "1dbcb1f706b75eef"}


def test_a_device_that_is_lost(vulkan, faults):
    index = Index(40, "dot", device="vulkan")
    index.add(ROWS)
    expected = index.search(QUERIES, 5)
    faults("device_lost")
    found = index.search(QUERIES, 5)
    assert index.device == "cpu" and np.array_equal(found.rows, expected.rows)
