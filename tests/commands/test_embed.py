"""`grilly embed`: what it reads and writes, how it goes on after a kill, and what it refuses."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest

from grilly import SentenceTransformer
from grilly.__main__ import main
from grilly.commands.reading import records
from grilly.commands.writing import numbers
from grilly.sentence_transformer.streaming import PART

TEXTS = ["A cat.", "Ein Kätzchen schläft.", "", "猫", 'A "quoted" text', "Snow, and more snow."]


@pytest.fixture
def expected(checkpoint):
    with SentenceTransformer(checkpoint("base"), device="cpu") as model:
        return model.encode(TEXTS)


@pytest.fixture
def inputs(tmp_path):
    """The same texts as files of each kind."""
    made = {
        "lines": "\n".join(TEXTS),
        "jsonl": "\n".join(json.dumps({"id": n, "text": t}) for n, t in enumerate(TEXTS)),
    }
    quoted = (t.replace('"', '""') for t in TEXTS)
    made["csv"] = "\ufeffid,text\r\n" + "".join(f'{n},"{t}"\r\n' for n, t in enumerate(quoted))
    made["tsv"] = "text\n" + "".join('"{}"\n'.format(t.replace('"', '""')) for t in TEXTS)
    paths = {kind: tmp_path / f"in.{'txt' if kind == 'lines' else kind}" for kind in made}
    for kind, path in paths.items():
        path.write_bytes(made[kind].encode())
    return paths


def read(path):
    """The texts and rows of an output."""
    if path.suffix == ".npy":
        return None, np.load(path)
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [row["text"] for row in rows], np.float32([row["embedding"] for row in rows])
    if path.suffix == ".parquet":
        table = pytest.importorskip("pyarrow.parquet").read_table(path).to_pydict()
        return table["text"], np.float32(table["embedding"])
    base = sqlite3.connect(path)
    rows = base.execute("SELECT text, embedding FROM embeddings ORDER BY id").fetchall()
    base.close()
    return [text for text, _ in rows], np.stack([np.frombuffer(row, "<f4") for _, row in rows])


@pytest.mark.parametrize("kind", ["lines", "jsonl", "csv", "tsv"])
@pytest.mark.parametrize("ending", [".npy", ".jsonl", ".sqlite", ".parquet"])
def test_rows_are_those_of_encode(inputs, kind, ending, small, expected, tmp_path):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    out = tmp_path / f"out{ending}"
    assert main(["embed", str(inputs[kind]), "-o", str(out), *small]) == 0
    texts, rows = read(out)
    assert rows.dtype == np.float32 and np.array_equal(rows, expected)
    assert texts is None or texts == TEXTS
    assert sorted(path.name for path in tmp_path.glob("out*")) == [out.name]


def test_stdin_and_stdout(grilly, small, expected):
    done = grilly("embed", *small, stdin="\n".join(TEXTS))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and np.array_equal(np.float32([row["embedding"] for row in rows]), expected)
    # JSON Lines are seen by their first character.
    given = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    assert grilly("embed", "-", *small, stdin=given).stdout == done.stdout
    # A text on each line that only looks like it is named.
    done = grilly("embed", "--input-format", "lines", *small, stdin="{a brace\n")
    assert json.loads(done.stdout)["text"] == "{a brace"
    assert grilly("embed", *small, stdin="").stdout == ""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")
def test_a_pipe_in_place_of_a_file_is_read_once(small, expected, tmp_path):
    """As of the shell's `<(command)`."""
    reading, writing = os.pipe()
    os.write(writing, "\n".join(TEXTS).encode())
    os.close(writing)
    assert main(["embed", f"/dev/fd/{reading}", "-o", str(tmp_path / "out.npy"), *small]) == 0
    os.close(reading)
    assert np.array_equal(np.load(tmp_path / "out.npy"), expected)


def test_parquet_is_read(small, expected, tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"body": TEXTS, "id": range(len(TEXTS))}), tmp_path / "in.parquet")
    assert main(["embed", str(tmp_path / "in.parquet"), "-o", str(tmp_path / "out.npy"), *small]) == 0
    assert np.array_equal(np.load(tmp_path / "out.npy"), expected)


def test_without_pyarrow_parquet_names_the_package(inputs, small, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["embed", str(inputs["lines"]), "-o", str(tmp_path / "out.parquet"), *small]) == 1
    assert "Parquet files need pyarrow: pip install pyarrow" in capsys.readouterr().err


def test_options_are_those_of_encode(inputs, small, checkpoint, tmp_path):
    options = ["--normalize", "--truncate-dim", "8", "--dtype", "float16", "--batch-size", "2"]
    assert main(["embed", str(inputs["lines"]), "-o", str(tmp_path / "out.npy"), *small, *options]) == 0
    with SentenceTransformer(checkpoint("base"), device="cpu", dtype="float16") as model:
        rows = model.encode(TEXTS, normalize_embeddings=True, truncate_dim=8)
    found = np.load(tmp_path / "out.npy")
    assert found.dtype == np.float16 and np.array_equal(found, rows)


def test_nine_digits_are_a_float32_number():
    drawn = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    for row in (drawn, drawn * np.float32(1e-30), np.float32([0, -0.0, 1, 1e-45, 3.4e38])):
        assert np.array_equal(np.float32(json.loads(numbers(row))), row)


@pytest.mark.parametrize("ending", [".npy", ".jsonl", ".sqlite"])
def test_a_file_is_kept_gone_on_with_or_replaced(inputs, ending, small, expected, tmp_path, capsys):
    out, part = tmp_path / f"out{ending}", tmp_path / "part.txt"
    part.write_text("\n".join(TEXTS[:2]), encoding="utf-8")
    assert main(["embed", str(part), "-o", str(out), *small]) == 0
    before = out.read_bytes()
    assert main(["embed", str(part), "-o", str(out), *small]) == 1
    assert "is there already; --resume goes on with it, --overwrite replaces it" in capsys.readouterr().err
    assert out.read_bytes() == before
    assert main(["embed", str(inputs["lines"]), "-o", str(out), "--resume", *small]) == 0
    assert np.array_equal(read(out)[1], expected)
    assert main(["embed", str(inputs["lines"]), "-o", str(out), "--resume", *small]) == 0
    assert np.array_equal(read(out)[1], expected)
    # Other texts are refused, and fewer.
    whole = out.read_bytes()
    for lines in (["x", *TEXTS[1:-1], "another"], TEXTS[:3]):
        part.write_text("\n".join(lines), encoding="utf-8")
        assert main(["embed", str(part), "-o", str(out), "--resume", *small]) == 1
        assert str(out) in capsys.readouterr().err and out.read_bytes() == whole
    assert main(["embed", str(part), "-o", str(out), "--overwrite", *small]) == 0
    assert np.array_equal(read(out)[1], expected[:2])  # a line that is empty at the end is none


@pytest.mark.parametrize("ending", [".npy", ".jsonl", ".sqlite"])
def test_a_file_is_replaced_by_rows_alone(ending, inputs, small, tmp_path, capsys):
    """Whatever keeps a run from its first rows: a model, a prompt or a text that is none."""
    out, broken = tmp_path / f"out{ending}", tmp_path / "broken.jsonl"
    broken.write_text('{"text": "a"}\n{"text": \n')
    assert main(["embed", str(inputs["lines"]), "-o", str(out), *small]) == 0
    before = out.read_bytes()
    again = ["embed", str(inputs["lines"]), "-o", str(out), "--overwrite", *small]
    for other in (["--model", str(tmp_path)], ["--prompt-name", "no"]):
        assert main([*again, *other]) == 1
        assert out.read_bytes() == before
    assert main(["embed", str(broken), *again[2:]]) == 1
    assert out.read_bytes() == before
    assert main([*again, "--normalize"]) == 0
    assert out.read_bytes() != before
    assert [path.name for path in tmp_path.glob("out*")] == [out.name]
    # What a killed run has left is older than the file that is there.
    whole = out.read_bytes()
    out.with_name(f"{out.name}.replaced").write_bytes(before)
    assert main([*again, "--prompt-name", "no"]) == 1
    assert out.read_bytes() == whole
    assert [path.name for path in tmp_path.glob("out*")] == [out.name]


def test_a_folder_is_not_replaced(inputs, small, tmp_path):
    for ending in (".npy", ".jsonl", ".sqlite"):
        out = tmp_path / f"folder{ending}"
        out.mkdir()
        (out / "kept").touch()
        assert main(["embed", str(inputs["lines"]), "-o", str(out), "--overwrite", *small]) == 1
        assert (out / "kept").exists()
    assert not list(tmp_path.glob("*.replaced"))


def test_a_line_that_was_cut_is_written_again(inputs, small, expected, tmp_path):
    out = tmp_path / "out.jsonl"
    assert main(["embed", str(inputs["lines"]), "-o", str(out), *small]) == 0
    whole = out.read_bytes()
    out.write_bytes(whole[: len(whole) // 2])
    assert main(["embed", str(inputs["lines"]), "-o", str(out), "--resume", *small]) == 0
    assert out.read_bytes() == whole


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
@pytest.mark.parametrize("ending", [".npy", ".sqlite"])
def test_a_kill_loses_no_more_than_a_part(ending, small, shell, tmp_path):
    """The texts come slowly: the process is killed when the file has some rows."""
    texts, out = [f"Text {number}." for number in range(2 * PART)], tmp_path / f"out{ending}"
    command = [sys.executable, "-m", "grilly", "embed", "-o", str(out), *small]
    process = subprocess.Popen(command, env=shell, stdin=subprocess.PIPE, text=True)
    process.stdin.write("\n".join(texts[: PART + 4000]) + "\n")
    process.stdin.flush()
    end = time.monotonic() + 100
    unfinished = out.with_name(f"{out.name}-journal")  # of SQLite, until all rows of a part are there
    while time.monotonic() < end and not (
        out.exists() and out.stat().st_size > PART * 32 * 4 and not unfinished.exists()
    ):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _, found = read(out)
    assert len(found) == PART
    (tmp_path / "in.txt").write_text("\n".join(texts[: PART + 600]))
    assert main(["embed", str(tmp_path / "in.txt"), "-o", str(out), "--resume", *small]) == 0
    _, rows = read(out)
    assert len(rows) == PART + 600 and np.array_equal(rows[:PART], found)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("no.txt", "no.txt: No such file or directory"),
        ("in.txt -o out.pickle", "expected a file that ends with .npy, .jsonl"),
        ("in.txt --resume", "--resume goes on with the file of --output"),
        ("in.txt -o out.parquet --resume", "a Parquet file is readable when it is whole"),
        ("in.txt -o out.npy --resume --overwrite", "expected one of them"),
        ("in.txt -o no/out.npy", "no/out.npy cannot be written"),
        ("in.txt -o no/out.jsonl", "no/out.jsonl"),
        ("in.txt -o no/out.sqlite", "no/out.sqlite cannot be written"),
        ("in.txt -o out.npy --prompt-name quest", "prompt_name is 'quest'"),
        ("in.jsonl --field body", "in.jsonl:1 has no text called body"),
        ("broken.jsonl", "broken.jsonl:2 is not JSON"),
        ("broken.jsonl -o out.npy", "broken.jsonl:2 is not JSON"),
        ("broken.jsonl -o out.jsonl", "broken.jsonl:2 is not JSON"),
        ("broken.jsonl -o out.sqlite", "broken.jsonl:2 is not JSON"),
        ("number.jsonl", "number.jsonl:1 is a int"),
        ("latin.txt", "latin.txt:2 is not UTF-8: byte 2 of the line is 0xe4; iconv"),
        ("two.csv", "two.csv:2 has no text called text; --field takes the name of one that it has: a, b"),
        ("in.txt --input-format parquet", "not a Parquet file"),
    ],
)
def test_what_is_refused(arguments, words, inputs, small, tmp_path, capsys, monkeypatch):
    if "parquet" in arguments:
        pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.jsonl").write_text('{"text": "a"}\n{"text": \n')
    (tmp_path / "number.jsonl").write_text("7\n")
    (tmp_path / "latin.txt").write_bytes(b"a\nK\xe4tzchen\n")
    (tmp_path / "two.csv").write_text("a,b\n1,2\n")
    assert main(["embed", *arguments.split(), *small]) == 1
    assert words in capsys.readouterr().err
    assert not list(tmp_path.glob("out*"))


def test_an_unknown_model_names_every_place(inputs, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert main(["embed", str(inputs["lines"]), "--model", "nobody/nothing"]) == 1
    assert "no model called 'nobody/nothing'" in capsys.readouterr().err


def test_lines_end_as_every_system_ends_them(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\nthree\x0bmore")
    assert [record.text for record in records(str(tmp_path / "a.txt"))] == ["one", "two", "three\x0bmore"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other terminals")
def test_progress_is_for_terminals(shell, small, inputs, tmp_path):
    import fcntl
    import pty
    import struct
    import termios

    for name, arguments in {"embed": [inputs["lines"], "-o", tmp_path / "out.npy"], "search": ["x", tmp_path]}.items():
        main_end, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))
        command = [sys.executable, "-m", "grilly", name, *map(str, arguments), *small]
        done = subprocess.run(command, env=shell, cwd=tmp_path, stdout=subprocess.PIPE, stderr=terminal, timeout=120)
        os.close(terminal)
        told = os.read(main_end, 1 << 16).decode()
        os.close(main_end)
        assert done.returncode == 0 and "text/s" in told and "100%" in told, told
    done = subprocess.run([*command, "--rebuild"], env=shell, cwd=tmp_path, capture_output=True, timeout=120)
    assert done.returncode == 0 and done.stderr == b""
