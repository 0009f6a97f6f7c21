"""`grilly search`: what is found, what is read again, and what a kill, a fault or another process leaves."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from grilly import SentenceTransformer
from grilly.__main__ import main
from grilly.commands import cutting, folder_index, pieces, search, taking_in
from grilly.commands.cutting import Cutter, paragraphs
from grilly.commands.folder_index import FolderIndex
from grilly.commands.index_tables import Tables

FILES = {
    "cats.txt": "Cats sleep for most of the day.\n\nThey purr when they are content.\n",
    "deep/er/money.md": "# Rates\n\nThe central bank raised interest rates in March.\n",
    "page.html": "<head><style>p {}</style><title>Bread</title></head>\n<p>Bake the\nbread for an hour.</p>",
    "records.jsonl": '{"id": 1, "text": "A volcano erupted."}\n{"id": 2, "text": "The ship sank in a storm."}\n',
    "table.csv": "id,text\n1,Ten people signed the contract.\n",
}


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """A file that a test has just changed is as it will stay."""
    monkeypatch.setattr(cutting, "RECENT", 0)


@pytest.fixture
def folder(tmp_path) -> Path:
    root = tmp_path / "files"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    (root / ".hidden").write_text("Cats sleep in secret.")
    return root


def found(capsys, query: str, root: Path, *options: str) -> list[dict]:
    status = main(["search", query, str(root), "--json", *options])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    return [json.loads(line) for line in captured.out.splitlines()]


@pytest.mark.parametrize(
    ("query", "path", "line"),
    [
        ("feline rest", "cats.txt", 1),
        ("monetary policy", "deep/er/money.md", 1),
        ("oven recipe", "page.html", 1),
        ("eruption of lava", "records.jsonl", 1),
        ("a vessel went down", "records.jsonl", 2),
        ("an agreement was made", "table.csv", 2),
    ],
)
def test_the_passage_is_found_by_its_meaning(query, path, line, folder, real, capsys):
    first = found(capsys, query, folder, *real)[0]
    assert (first["path"], first["line"]) == (str(folder / path), line)
    assert ".hidden" not in {hit["path"] for hit in found(capsys, query, folder, *real, "--top-k", "50")}


def test_scores_are_cosines_and_text_is_as_json(folder, real, real_model_path, capsys):
    hits = found(capsys, "a ship", folder, *real, "--top-k", "3")
    with SentenceTransformer(real_model_path, device="cpu") as model:
        rows = model.encode(["a ship", *(hit["text"] for hit in hits)], normalize_embeddings=True).astype(np.float64)
    assert [hit["score"] for hit in hits] == pytest.approx((rows[1:] @ rows[0]).tolist(), abs=1e-5)
    assert main(["search", "a ship", str(folder), "--top-k", "3", *real]) == 0
    lines = capsys.readouterr().out.splitlines()
    for number, hit in enumerate(hits):
        assert lines[2 * number] == f"{hit['path']}:{hit['line']}  {hit['score']:.3f}"
        assert lines[2 * number + 1] == f"    {' '.join(hit['text'].split())}"


class Counted:
    """How many texts were encoded as documents, and how many files were read, in a run."""

    def __init__(self, monkeypatch) -> None:
        self.texts, self.files = [], []
        update, documents, read = FolderIndex.update, pieces.documents, Cutter.read

        def counted(cutter, folder, paths):
            found = read(cutter, folder, paths)
            self.files += [os.path.basename(path) for path in paths[: len(found)]]
            return found

        monkeypatch.setattr(FolderIndex, "update", lambda *given: self.texts.append(update(*given)))
        monkeypatch.setattr(pieces, "documents", lambda path: self.files.append(Path(path).name) or documents(path))
        monkeypatch.setattr(Cutter, "read", counted)

    def run(self, capsys, root, *options) -> tuple[int, list[str]]:
        self.texts, self.files = [], []
        self.hits = found(capsys, "cats", root, "--top-k", "50", *options)
        return self.texts[0], sorted(self.files)


def test_a_record_without_a_text_of_that_name_is_all_that_it_says(folder, small, capsys):
    (folder / "people.csv").write_text("id,name,town,born\n7,Ada,London,1815\n8,,,1900\n")
    (folder / "points.csv").write_text("x,y\n1,2\n3,4\n")
    hits = found(capsys, "Ada", folder, "--top-k", "50", *small)
    told = [(Path(hit["path"]).name, hit["line"], hit["text"]) for hit in hits]
    assert ("people.csv", 2, "Ada\nLondon") in told and len(told) == 7


def test_only_what_changed_is_read_and_embedded_again(folder, small, capsys, monkeypatch):
    counted = Counted(monkeypatch)
    assert counted.run(capsys, folder, *small) == (
        6,
        ["cats.txt", "money.md", "page.html", "records.jsonl", "table.csv"],
    )
    assert counted.run(capsys, folder) == (0, [])  # the model of the index
    with (folder / "records.jsonl").open("a") as file:
        file.write('{"id": 3, "text": "A new record."}\n')
    assert counted.run(capsys, folder) == (1, ["records.jsonl"])
    # A file that moves, a copy, a new time alone.
    (folder / "cats.txt").rename(folder / "deep" / "felines.txt")
    shutil.copy(folder / "page.html", folder / "copy.html")
    os.utime(folder / "table.csv", ns=(1, 1))
    assert counted.run(capsys, folder) == (0, ["copy.html", "felines.txt", "table.csv"])
    paths = [Path(hit["path"]).name for hit in counted.hits]
    assert sorted(paths) == sorted(
        ["felines.txt", "money.md", "page.html", "copy.html", *["records.jsonl"] * 3, "table.csv"]
    )
    (folder / "deep" / "felines.txt").unlink()
    shutil.rmtree(folder / "deep" / "er")
    assert counted.run(capsys, folder) == (0, [])
    assert {Path(hit["path"]).name for hit in counted.hits} == {"page.html", "copy.html", "records.jsonl", "table.csv"}


def test_a_file_that_changed_a_moment_ago_is_read_again(folder, small, capsys, monkeypatch):
    """Its next change may have the same time and the same size."""
    counted = Counted(monkeypatch)
    for name in FILES:
        os.utime(folder / name, ns=(1, 1))
    monkeypatch.setattr(cutting, "RECENT", 10**12)
    (folder / "cats.txt").write_text("It is so.")
    counted.run(capsys, folder, *small)
    assert counted.run(capsys, folder) == (0, [])  # it is still a moment ago
    monkeypatch.setattr(cutting, "RECENT", 0)
    assert counted.run(capsys, folder) == (0, ["cats.txt"])


def test_results_are_those_of_a_new_index(folder, small, capsys, monkeypatch, tmp_path):
    """After many changes, with rows that are written anew."""
    monkeypatch.setattr(taking_in, "TOGETHER", 60)
    monkeypatch.setattr(pieces, "TOGETHER", 30)
    found(capsys, "cats", folder, *small)
    for number in range(40):
        (folder / f"{number}.txt").write_text("".join(f"Text {number} {n}.\n\n" for n in range(40)) * (1 + number % 3))
    found(capsys, "cats", folder, *small)
    before = set((folder / ".grilly-index").glob("rows-*"))
    monkeypatch.setattr(folder_index, "SPARE", 0)
    for number in range(35):
        (folder / f"{number}.txt").unlink()
    hits = found(capsys, "cats", folder, "--top-k", "1000", *small)
    assert set((folder / ".grilly-index").glob("rows-*")) != before
    anew = found(capsys, "cats", folder, "--top-k", "1000", "--index", str(tmp_path / "new"), *small)
    assert sorted(map(str, hits)) == sorted(map(str, anew)) and len(hits) > 8


def test_the_index_is_one_of_a_model(folder, small, checkpoint, capsys, monkeypatch):
    counted = Counted(monkeypatch)
    assert counted.run(capsys, folder, *small)[0] == 6
    # The same model under another name keeps the rows; its files are not read again where they are as they were.
    again = folder.parent / "again"
    shutil.copytree(checkpoint("base"), again)
    (again / "README.md").write_text("A copy.")
    assert counted.run(capsys, folder, "--model", str(again))[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr(folder_index, "digest", lambda folder: pytest.fail("the files of the model are read"))
        assert counted.run(capsys, folder)[0] == 0
    assert main(["search", "cats", str(folder), "--model", str(checkpoint("pooling_old_cls"))]) == 0
    assert "the index was of another model: all files are embedded again" in capsys.readouterr().err


def test_a_model_that_differs_in_one_number_is_another(folder, small, checkpoint, capsys):
    """Its vectors would be near those of the index, and of no use beside them."""
    found(capsys, "cats", folder, *small)
    near = folder.parent / "near"
    shutil.copytree(checkpoint("base"), near)
    weights = near / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    assert main(["search", "cats", str(folder), "--model", str(near), "--device", "cpu"]) == 0
    assert "the index was of another model" in capsys.readouterr().err


def test_the_type_of_the_rows_is_kept(folder, small, capsys):
    found(capsys, "cats", folder, *small)
    assert main(["search", "cats", str(folder), "--dtype", "bfloat16"]) == 0
    told = capsys.readouterr().err
    assert told.startswith("the index was in float32: all files are embedded again") and "in bfloat16" in told
    for options in ([], ["--dtype", "bfloat16"]):
        assert main(["search", "cats", str(folder), *options]) == 0
        assert capsys.readouterr().err == ""


def test_an_index_that_does_not_tell_its_model_is_made_again(folder, small, capsys):
    """As earlier versions made them, with the vector of a text in place of the digest."""
    expected = found(capsys, "cats", folder, *small)
    with sqlite3.connect(folder / ".grilly-index" / "index.sqlite") as base:
        base.execute("DELETE FROM settings WHERE name IN ('digest', 'state', 'dtype')")
        base.execute("INSERT INTO settings VALUES ('probe', x'00')")
    assert main(["search", "cats", str(folder), "--device", "cpu"]) == 0
    assert "the index was of an earlier version of grilly: all files are embedded again" in capsys.readouterr().err
    assert found(capsys, "cats", folder) == expected


def test_an_index_with_the_tables_of_an_earlier_version_is_made_again(folder, small, capsys):
    expected = found(capsys, "cats", folder, *small)
    with sqlite3.connect(folder / ".grilly-index" / "index.sqlite") as base:
        for statement in (
            "DROP TABLE files", "DROP TABLE texts", "DROP TABLE pieces", "PRAGMA user_version = 1",
            "CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT UNIQUE NOT NULL, size INTEGER, changed INTEGER)",
            "CREATE TABLE texts (id INTEGER PRIMARY KEY, digest BLOB UNIQUE NOT NULL, text TEXT NOT NULL, row INTEGER)",
            "CREATE TABLE pieces (file INTEGER NOT NULL, line INTEGER NOT NULL, text INTEGER NOT NULL)",
            "INSERT INTO files VALUES (1, 'cats.txt', 1, 1)", "INSERT INTO texts VALUES (1, x'00', 'A text.', 0)",
            "INSERT INTO pieces VALUES (1, 1, 1)",
        ):  # fmt: skip
            base.execute(statement)
    assert main(["search", "cats", str(folder), "--device", "cpu"]) == 0  # with the model that it had
    assert "the index was of an earlier version of grilly: all files are embedded again" in capsys.readouterr().err
    assert found(capsys, "cats", folder) == expected


def test_what_cannot_be_read_is_named_and_the_rest_is_found(folder, small, capsys, monkeypatch):
    (folder / "latin.txt").write_bytes("Kätzchen".encode("latin-1"))
    (folder / "binary.bin").write_bytes(bytes(range(256)) * 10)
    (folder / "broken.jsonl").write_text("{")
    (folder / "empty.txt").write_text("")
    (folder / "gone").symlink_to(folder / "nowhere")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    documents, read = pieces.documents, Cutter.read

    def denied(path):
        if os.path.basename(path) == "page.html":
            raise PermissionError(13, "Permission denied", path)
        return documents(path)

    def denied_texts(cutter, folder, paths):
        found = zip(paths, read(cutter, folder, paths), strict=True)
        return [(None, [], "Permission denied", True) if path == "cats.txt" else own for path, own in found]

    monkeypatch.setattr(pieces, "documents", denied)
    monkeypatch.setattr(Cutter, "read", denied_texts)
    assert main(["search", "cats", str(folder), "--top-k", "50", *small]) == 0
    captured = capsys.readouterr()
    told = captured.err.splitlines()
    for name in ("cats.txt", "page.html"):
        assert f"{folder / name}: left out: Permission denied" in told
    assert any(line.startswith(f"{folder / 'latin.txt'}: left out: byte 2 is not UTF-8") for line in told)
    assert any(line.startswith(f"{folder / 'broken.jsonl'}: left out: ") and "is not JSON" in line for line in told)
    assert len(told) == 4 and "money.md" in captured.out and "binary" not in captured.out
    # Those that may be read now are; the others are as they were.
    monkeypatch.setattr(pieces, "documents", documents)
    monkeypatch.setattr(Cutter, "read", read)
    assert main(["search", "cats", str(folder), "--top-k", "50"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "" and "cats.txt" in captured.out and "page.html" in captured.out


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="it has no such names")
def test_names_that_are_not_utf_8_are_named(folder, small, capsys):
    (folder / os.fsdecode(b"bad\xff.txt")).write_text("Cats.")
    (folder / os.fsdecode(b"bad\xfe")).mkdir()
    assert main(["search", "cats", str(folder), "--top-k", "50", *small]) == 0
    told = sorted(capsys.readouterr().err.splitlines())
    assert told == [f"{folder}/'bad\\udc{end}: left out: its name is not UTF-8" for end in ("fe'", "ff.txt'")]


def test_files_that_change_after_they_were_listed(folder, small, capsys, monkeypatch):
    """What is read is found, and not read again; a file that is gone is named."""
    walk = search.walk

    def changing(root):
        listed = walk(root)
        (folder / "cats.txt").write_text("Dogs bark at night, and sleep by day.")
        os.utime(folder / "cats.txt", ns=(1, 1))
        (folder / "page.html").unlink()
        (folder / "deep" / "er" / "money.md").unlink()
        return listed

    counted = Counted(monkeypatch)
    monkeypatch.setattr(search, "walk", changing)
    assert main(["search", "cats", str(folder), "--top-k", "50", *small]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("left out: No such file or directory") == 2 and "Dogs bark" in captured.out
    monkeypatch.setattr(search, "walk", walk)
    assert counted.run(capsys, folder) == (0, [])
    assert len(counted.hits) == 4


def test_ten_thousand_files_in_one_folder(tmp_path, small, capsys, monkeypatch):
    root = tmp_path / "many"
    root.mkdir()
    for number in range(10_000):
        (root / f"{number}.txt").write_text(f"Text {number % 100}.\n")
    counted = Counted(monkeypatch)
    texts, files = counted.run(capsys, root, *small)
    assert texts == 100 and len(set(files)) == len(files) == 10_000
    assert counted.run(capsys, root) == (0, [])
    with FolderIndex(root / ".grilly-index") as index:
        assert index._base.execute("SELECT count(*) FROM files").fetchall() == [(10_000,)]
        assert index._base.execute("SELECT count(*), max(id) FROM texts").fetchall() == [(100, 99)]
    for number in range(0, 10_000, 2):
        (root / f"{number}.txt").unlink()
    (root / "1.txt").write_text("Another text.")
    assert counted.run(capsys, root) == (1, ["1.txt"])


def test_pdfs_have_pages_or_name_the_package(folder, small, capsys, monkeypatch):
    (folder / "a.pdf").write_bytes(b"%PDF-1.4 broken")
    monkeypatch.setitem(sys.modules, "pypdf", None)
    assert main(["search", "cats", str(folder), *small]) == 0
    assert "a.pdf: left out: PDF files need pypdf: pip install pypdf" in capsys.readouterr().err

    class Page:
        def __init__(self, text: str) -> None:
            self.text = text

        def extract_text(self) -> str:
            return self.text

    class Package:
        @staticmethod
        def PdfReader(path):
            return type("Reader", (), {"pages": [Page("The first page."), Page("The second.\n\n" + "A word. " * 300)]})

    monkeypatch.setitem(sys.modules, "pypdf", Package)
    hits = [hit for hit in found(capsys, "page", folder, "--top-k", "90") if hit["path"].endswith("a.pdf")]
    assert {hit["page"] for hit in hits} == {1, 2} and all("line" not in hit for hit in hits)


@pytest.mark.parametrize(
    ("name", "words"),
    [("nothing", "is not a folder"), ("cats.txt", "is not a folder; search its folder")],
)
def test_what_is_no_folder(name, words, folder, capsys):
    assert main(["search", "cats", str(folder / name)]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")
def test_a_name_of_two_lines_is_printed_on_one(folder, small, capsys):
    (folder / "two\nlines.txt").write_text("A cat.")
    assert main(["search", "cats", str(folder), "--top-k", "50", *small]) == 0
    assert "two\\nlines.txt':1  " in capsys.readouterr().out


def test_an_empty_folder(tmp_path, small, capsys):
    (tmp_path / "empty").mkdir()
    assert main(["search", "cats", str(tmp_path / "empty"), *small]) == 1
    assert "there is no text in it" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written(folder, small, capsys, tmp_path):
    (folder / ".grilly-index").write_text("a file in its place")
    assert main(["search", "cats", str(folder), *small]) == 1
    assert "cannot be written" in (told := capsys.readouterr().err) and "--index PATH puts it elsewhere" in told
    assert main(["search", "cats", str(folder), "--index", str(tmp_path / "elsewhere"), *small]) == 0
    assert sorted(path.name for path in (tmp_path / "elsewhere").iterdir()) == [
        ".gitignore",
        "index.sqlite",
        "rows-0.npy",
    ]


def test_a_damaged_index(folder, small, capsys):
    found(capsys, "cats", folder, *small)
    base, rows = folder / ".grilly-index" / "index.sqlite", folder / ".grilly-index" / "rows-0.npy"
    # Rows that are lost are computed again.
    expected = found(capsys, "cats", folder)
    rows.write_bytes(rows.read_bytes()[:200])
    assert found(capsys, "cats", folder) == expected
    rows.unlink()
    assert found(capsys, "cats", folder) == expected
    # Also where the texts that are left are not the first ones.
    (folder / "cats.txt").unlink()
    fewer = sorted(map(str, found(capsys, "cats", folder)))
    rows.unlink()
    assert sorted(map(str, found(capsys, "cats", folder))) == fewer
    (folder / "cats.txt").write_text(FILES["cats.txt"], encoding="utf-8")
    expected = found(capsys, "cats", folder)
    base.write_bytes(b"no database" * 1000)
    assert main(["search", "cats", str(folder)]) == 1
    assert "cannot be read" in (told := capsys.readouterr().err) and "--rebuild makes it again" in told
    (folder / ".grilly-index" / "mine.txt").write_text("stays")
    assert sorted(map(str, found(capsys, "cats", folder, "--rebuild", *small))) == sorted(map(str, expected))
    assert (folder / ".grilly-index" / "mine.txt").exists()
    with sqlite3.connect(base) as opened:
        opened.execute("PRAGMA user_version = 99")
    assert main(["search", "cats", str(folder)]) == 1
    assert "of another version; --rebuild" in capsys.readouterr().err


def test_a_file_of_several_pieces(folder, small, capsys, monkeypatch, tmp_path):
    """Also one that turns out to be wrong in a later piece, and one whose reading ends there."""
    monkeypatch.setattr(pieces, "TOGETHER", 4)
    monkeypatch.setattr(taking_in, "TOGETHER", 6)
    lines = [json.dumps({"text": f"Text number {n}."}) for n in range(30)]
    (folder / "long.jsonl").write_text("\n".join(lines))
    counted = Counted(monkeypatch)
    assert counted.run(capsys, folder, *small)[0] == 36
    assert sum(hit["path"].endswith("long.jsonl") for hit in counted.hits) == 30
    (folder / "long.jsonl").write_text("\n".join([*lines, "{"]))
    assert main(["search", "cats", str(folder), "--top-k", "90"]) == 0
    told = capsys.readouterr()
    assert "long.jsonl:31 is not JSON" in told.err and "long.jsonl:" not in told.out
    assert counted.run(capsys, folder)[1] == []  # it is as it was
    (folder / "long.jsonl").write_text("\n".join(lines))
    read = pieces.documents

    def interrupted(path):
        for number, own in enumerate(read(path)):
            if number == 20:
                raise OSError(5, "Input/output error", path)
            yield own

    monkeypatch.setattr(pieces, "documents", interrupted)
    assert main(["search", "cats", str(folder), "--top-k", "90"]) == 0
    told = capsys.readouterr()
    assert "long.jsonl: left out: Input/output error" in told.err and "long.jsonl:" not in told.out
    monkeypatch.setattr(pieces, "documents", read)
    hits = found(capsys, "cats", folder, "--top-k", "90", *small)
    anew = found(capsys, "cats", folder, "--top-k", "90", "--index", str(tmp_path / "new"), *small)
    assert sorted(map(str, hits)) == sorted(map(str, anew))  # of equal scores the order is that of rows
    assert len(hits) == 36


def test_what_stops_an_update_leaves_an_index_that_goes_on(folder, small, capsys, monkeypatch, tmp_path):
    """An error of the model, of the tables, and Ctrl-C, after some rows."""
    monkeypatch.setattr(pieces, "TOGETHER", 4)
    monkeypatch.setattr(taking_in, "TOGETHER", 4)
    monkeypatch.setattr(folder_index, "TEXTS", 4)
    for number in range(50):
        (folder / f"{number}.txt").write_text(f"Text number {number}.")
    store, embed = taking_in.TakingIn._store, FolderIndex._embed
    for error, kind, name, whole in (
        (KeyboardInterrupt(), FolderIndex, "_embed", embed),
        (sqlite3.OperationalError("disk is full"), taking_in.TakingIn, "_store", store),
        (MemoryError(), FolderIndex, "_embed", embed),
    ):
        calls = []

        def fails(*given, error=error, whole=whole, calls=calls):
            calls.append(1)
            if len(calls) == 3:
                raise error
            return whole(*given)

        monkeypatch.setattr(kind, name, fails)
        if isinstance(error, sqlite3.Error):
            assert main(["search", "cats", str(folder), *small]) == 1
            assert "cannot be written: disk is full" in capsys.readouterr().err
        else:
            with pytest.raises(type(error)):
                main(["search", "cats", str(folder), *small])
        monkeypatch.setattr(kind, name, whole)
        rows = np.load(folder / ".grilly-index" / "rows-0.npy")
        assert 0 < len(rows) < 56
    end = time.monotonic() + 10
    while (running := [thread for thread in threading.enumerate() if "_run" in thread.name]) and time.monotonic() < end:
        time.sleep(0.01)
    assert not running
    counted = Counted(monkeypatch)
    texts, _ = counted.run(capsys, folder, *small)
    assert 0 < texts < 56
    hits = found(capsys, "cats", folder, "--top-k", "90", *small)
    anew = found(capsys, "cats", folder, "--top-k", "90", "--index", str(tmp_path / "new"), *small)
    assert sorted(map(str, hits)) == sorted(map(str, anew))  # of equal scores the order is that of rows


@pytest.fixture(params=["a file", "files"])
def many(request, tmp_path) -> Path:
    """A folder with 20,000 texts, in a file or in as many."""
    root = tmp_path / "many"
    root.mkdir()
    texts = [f"Text number {n}." for n in range(20000)]
    if request.param == "a file":
        (root / "all.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    else:
        for number, text in enumerate(texts):
            (root / f"{number:05}.txt").write_text(text)
    return root


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
def test_ctrl_c_ends_a_search_at_once(shell, small, many):
    # What starts the tests may ignore SIGINT, as a shell does for its background jobs, and children inherit that.
    heard = "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    heard += "runpy.run_module('grilly', run_name='__main__')"
    command = [sys.executable, "-c", heard, "search", "x", str(many), *small]
    process = subprocess.Popen(command, env=shell, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    rows, end = many / ".grilly-index" / "rows-0.npy", time.monotonic() + 100
    while time.monotonic() < end and not (rows.exists() and rows.stat().st_size):
        time.sleep(0.01)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)
    assert process.returncode == 130 and told == (b"", b"")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
def test_a_kill_loses_no_text_that_has_a_row(shell, small, many, tmp_path, capsys, monkeypatch):
    process = subprocess.Popen([sys.executable, "-m", "grilly", "search", "x", str(many), *small], env=shell)
    rows, end = many / ".grilly-index" / "rows-0.npy", time.monotonic() + 100
    while time.monotonic() < end and not (rows.exists() and rows.stat().st_size > 2 * 2048 * 32 * 4):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = len(np.load(rows, mmap_mode="r"))
    counted = Counted(monkeypatch)
    count, files = counted.run(capsys, many, *small)
    assert 0 < kept < 20000 and count == 20000 - kept and len(counted.hits) == 50
    # A file that was stored is not read again; one that was not read to its end is, and many of its texts have a row.
    assert files == ["all.jsonl"] or len(files) <= count
    with FolderIndex(many / ".grilly-index") as index:
        stored = index._base.execute("SELECT count(*), max(id) FROM texts").fetchall()
    assert stored == [(20000, 19999)] and len(np.load(rows, mmap_mode="r")) == 20000
    hits = found(capsys, "cats", many, "--top-k", "50", "--index", str(tmp_path / "new"), *small)
    assert [hit["text"] for hit in hits] == [hit["text"] for hit in counted.hits]


def test_two_at_once_take_turns(shell, small, folder):
    for number in range(200):
        (folder / f"{number}.txt").write_text(f"Text number {number}.")
    command = [sys.executable, "-m", "grilly", "search", "Text number 7.", str(folder), "--json", *small]
    processes = [
        subprocess.Popen(command, env=shell, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in "abc"
    ]
    results = [(*process.communicate(timeout=200), process.returncode) for process in processes]
    assert {status for *_, status in results} == {0} and len({output for output, *_ in results}) == 1
    assert all("Traceback" not in errors for _, errors, _ in results)


def test_those_that_wait_let_the_other_write(tmp_path):
    """The first commit needs a lock that no reader may hold, nor one that waits."""
    together = threading.Barrier(4)

    def turns():
        for number in range(16):
            together.wait(timeout=60)
            place = tmp_path / str(number // 2)  # a new index, then one that is there
            place.mkdir(exist_ok=True)
            tables = Tables(place)
            with tables.base:
                tables.set(name=number)
            tables.close()

    with ThreadPoolExecutor(4) as threads:
        for turn in [threads.submit(turns) for _ in range(4)]:
            turn.result(timeout=200)


def test_halves_of_surrogate_pairs_are_question_marks(folder, small, capsys):
    """UTF-8 has none, JSON does; in a text of one part, and in one that is cut."""
    lines = [json.dumps({"text": "A \ud83d cat." * count}) for count in (1, 100)]
    (folder / "records.jsonl").write_text("\n".join(lines))
    texts = [hit["text"] for hit in found(capsys, "cats", folder, "--top-k", "90", *small) if ".jsonl" in hit["path"]]
    assert "A ? cat." in texts and len(texts) > 2 and all("A ? cat." in text for text in texts)


def test_parts_are_read_whole_and_nothing_is_lost(real_model_path):
    long = " ".join(f"Sentence {n} is about matter {n * 7919}." for n in range(400))
    text = f"# Heading\n\nShort.\n\n{long}\n\n{'word' * 3000}\n\n" + "\n\n".join(f"Paragraph {n}." for n in range(300))
    with SentenceTransformer(real_model_path, device="cpu") as model:
        parts = Cutter(model).cut(paragraphs(text))
        tokens = [len(ids) for ids in model.tokenizer([part for _, _, part in parts])["input_ids"]]
    assert max(tokens) <= 256 and len(parts) > 20
    assert "".join("".join(part.split()) for _, _, part in parts) == "".join(text.split())
    lines = text.split("\n")
    for line, _, part in parts:
        assert part.split("\n")[0].strip()[:20] in lines[line - 1]
    # A heading stays with what it is of.
    assert parts[0][2].startswith("# Heading\nShort.\nSentence 0")
