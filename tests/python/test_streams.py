"""Texts that come one after another: their rows in parts, and in a file that goes on where it ended."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from grilly import SentenceTransformer, VulkanSentenceTransformer
from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.quantization import quantize_embeddings
from grilly.row_file import HEADER, RowFile

TEXTS = [f"Text {number} is {'very ' * (number % 7)}short." for number in range(23)]


@pytest.fixture(scope="module")
def model(real_model_path: Path) -> Iterator[VulkanSentenceTransformer]:
    with VulkanSentenceTransformer(real_model_path, device="cpu") as model:
        yield model


class Counted:
    """Texts, and how many of them were taken."""

    def __init__(self, texts: list[str], fault: int | None = None) -> None:
        self.texts, self.taken, self.fault = iter(texts), 0, fault

    def __iter__(self) -> "Counted":
        return self

    def __next__(self) -> str:
        if self.taken == self.fault:
            raise OSError("the source has ended")
        text = next(self.texts)
        self.taken += 1
        return text


def test_parts_have_the_rows_of_one_list_and_are_taken_one_by_one(model: VulkanSentenceTransformer) -> None:
    texts = Counted(TEXTS)
    parts = model.encode(texts, chunk_size=10)
    assert texts.taken == 0
    first = next(parts)
    assert texts.taken == 10 and first.shape == (10, 384)
    rows = [first, *parts]
    assert [len(part) for part in rows] == [10, 10, 3]
    assert np.array_equal(np.concatenate(rows), model.encode(TEXTS))
    assert list(model.encode(iter([]))) == []
    assert [len(part) for part in model.encode(iter(TEXTS[:10]), chunk_size=5)] == [5, 5]


def test_parts_are_of_the_kind_asked_for(model: VulkanSentenceTransformer, real_model_path: Path) -> None:
    tokens = [
        each for part in model.encode(iter(TEXTS), chunk_size=9, output_value="token_embeddings") for each in part
    ]
    expected = model.encode(TEXTS, output_value="token_embeddings")
    assert len(tokens) == 23 and all(np.array_equal(a, b) for a, b in zip(tokens, expected, strict=True))
    bits = np.concatenate(list(model.encode_document(iter(TEXTS), chunk_size=9, precision="binary")))
    assert np.array_equal(bits, quantize_embeddings(model.encode_document(TEXTS), "binary"))
    with SentenceTransformer(real_model_path, device="cpu") as plain:
        rows = np.concatenate(list(plain.encode_query(iter(TEXTS), prompt="query: ", chunk_size=20, truncate_dim=64)))
        assert np.array_equal(rows, plain.encode_query(TEXTS, prompt="query: ", truncate_dim=64))


def test_a_file_has_the_rows_of_one_list(model: VulkanSentenceTransformer, tmp_path: Path) -> None:
    expected = model.encode(TEXTS)
    for number, texts in enumerate((TEXTS, tuple(TEXTS), np.array(TEXTS), iter(TEXTS))):
        path = tmp_path / f"{number}.npy"
        rows = model.encode(texts, out=path, chunk_size=7)
        assert isinstance(rows, np.memmap) and not rows.flags.writeable
        assert np.array_equal(rows, expected) and np.array_equal(np.load(path), expected)
    assert path.stat().st_size == HEADER + expected.nbytes
    bits = model.encode(iter(TEXTS), out=str(tmp_path / "bits.npy"), precision="ubinary", chunk_size=7)
    assert np.array_equal(bits, model.encode(TEXTS, precision="ubinary"))
    empty = model.encode(iter([]), out=tmp_path / "empty.npy")
    assert empty.shape == (0, 384) and empty.dtype == np.float32 and np.load(tmp_path / "empty.npy").shape == (0, 384)
    # No rows are more than none: the file goes on.
    assert np.array_equal(model.encode(TEXTS, out=tmp_path / "empty.npy", resume=True), expected)


def test_a_source_that_ends_early_leaves_whole_parts_to_go_on_from(
    model: VulkanSentenceTransformer, tmp_path: Path
) -> None:
    path, expected = tmp_path / "rows.npy", model.encode(TEXTS)
    with pytest.raises(OSError, match="the source has ended"):
        model.encode(Counted(TEXTS, fault=17), out=path, chunk_size=5, resume=True)
    assert np.array_equal(np.load(path), expected[:15])
    with path.open("ab") as file:  # a part of which the header does not tell yet
        file.write(bytes(1000))
    texts = Counted(TEXTS)
    assert np.array_equal(model.encode(texts, out=path, chunk_size=5, resume=True), expected)
    assert texts.taken == 23 and path.stat().st_size == HEADER + expected.nbytes
    assert np.array_equal(model.encode(TEXTS, out=path, resume=True), expected)


def test_a_file_of_other_rows_is_left_as_it_is(model: VulkanSentenceTransformer, tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    model.encode(TEXTS[:9], out=path)
    before = path.read_bytes()
    cases = [
        ({"resume": False}, TEXTS, "is there; resume=True"),
        ({"prompt": "query: "}, TEXTS, "row 8 of .* is not that of this text"),
        ({"truncate_dim": 12}, TEXTS, "row 8 of .* is not that of this text"),
        ({"precision": "binary"}, TEXTS, "row 8 of .* is not that of this text"),
        ({}, TEXTS[:8] + TEXTS[9:], "row 8 of .* is not that of this text"),
        ({}, TEXTS[:5], "has 9 rows, and there are 5 texts"),
    ]
    for options, texts, problem in cases:
        with pytest.raises(InvalidArgumentError, match=problem):
            model.encode(texts, out=path, **{"resume": True} | options)
        assert path.read_bytes() == before
    for damaged in (before[:-1], before[:60], b"not rows", before.replace(b"False", b"True ", 1)):
        path.write_bytes(damaged)
        with pytest.raises(InvalidArgumentError, match="rows.npy"):
            model.encode(TEXTS, out=path, resume=True)
        assert path.read_bytes() == damaged
    np.save(path, np.zeros(4, np.float32))
    with pytest.raises(InvalidArgumentError, match="is not a matrix in NumPy's format"):
        model.encode(TEXTS, out=path, resume=True)
    with pytest.raises(InvalidArgumentError, match="cannot be written"):
        model.encode(TEXTS, out=tmp_path / "none" / "rows.npy")
    assert not (tmp_path / "none").exists()


def test_rows_of_another_type_are_not_added(tmp_path: Path) -> None:
    with RowFile(tmp_path / "rows.npy", resume=False) as file:
        file.add(np.ones((2, 3), np.float32))
        with pytest.raises(InvalidArgumentError, match="rows of 3 float32, and those to add have 3 float64"):
            file.add(np.ones((2, 3)))
        with pytest.raises(InvalidArgumentError, match="rows of 3 float32, and those to add have 4 float32"):
            file.add(np.ones((2, 4), np.float32))
        assert file.rows == 2 and file.matrix().tolist() == [[1, 1, 1], [1, 1, 1]]


def test_bad_arguments_are_told_before_a_text_is_taken(model: VulkanSentenceTransformer, tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    cases = [
        ({"batch_size": 0}, InvalidArgumentError, "batch_size"),
        ({"chunk_size": 0}, InvalidArgumentError, "chunk_size"),
        ({"prompt_name": "none"}, InvalidArgumentError, "prompt_name"),
        ({"precision": "int8"}, InvalidArgumentError, "quantize_embeddings"),
        ({"precision": "uint8", "out": path}, InvalidArgumentError, "quantize_embeddings"),
        ({"resume": True}, InvalidArgumentError, "which is not given"),
        ({"resume": 1, "out": path}, InvalidTypeError, "resume"),
        ({"out": 3}, InvalidTypeError, "out is of type int"),
        ({"out": path, "output_value": "token_embeddings"}, InvalidArgumentError, "out is a file of embeddings"),
        ({"out": path, "convert_to_tensor": True}, InvalidArgumentError, "out is a file of embeddings"),
    ]
    for options, kind, problem in cases:
        texts = Counted(TEXTS)
        with pytest.raises(kind, match=problem):
            model.encode(texts, **options)
        assert texts.taken == 0 and not path.exists()


def test_an_error_tells_where_its_part_begins(model: VulkanSentenceTransformer) -> None:
    parts = model.encode(iter([*TEXTS[:10], 5]), chunk_size=4)
    assert len(next(parts)) == len(next(parts)) == 4
    with pytest.raises(InvalidTypeError, match=r"texts\[2\].*\(counted from text 8\)"):
        next(parts)


def test_a_bar_counts_all_parts(
    model: VulkanSentenceTransformer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = model.encode(TEXTS, out=tmp_path / "rows.npy", chunk_size=4, show_progress_bar=True)
    shown = capsys.readouterr().err
    assert "23/23" in shown and shown.count("Texts:") >= 1 and len(rows) == 23
    for part in model.encode((text for text in TEXTS), chunk_size=10, show_progress_bar=True):
        assert len(part) in (10, 3)
    assert "23text" in capsys.readouterr().err
