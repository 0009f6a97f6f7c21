"""Texts of files and of stdin, one after another: lines, JSON Lines, CSV, Parquet."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from grilly.closed import closed
from grilly.errors import InvalidArgumentError
from grilly.libraries import imported

__all__ = ["EVERY", "KINDS", "Record", "Stream", "kind_of", "need_module", "records"]

#: Endings of files, and what they hold; any other holds a text in each line.
KINDS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
#: The name of the texts among the values of a record, if it is not given.
FIELD = "text"
#: In place of a name: all texts of a record that have letters, a line each, where none has that name.
EVERY = "*"


@closed()
class Record(NamedTuple):
    """A text, its line in the file, counted from 1 (of Parquet its row), and the other values beside it."""

    line: int
    text: str
    values: dict[str, Any]


@closed()
class Stream:
    """Texts on their way into `encode`, which tells how many are left if that is known."""

    def __init__(self, texts: Iterable[str], count: int | None = None) -> None:
        self._texts, self._left = iter(texts), count or 0

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> str:
        text = next(self._texts)
        self._left = max(0, self._left - 1)
        return text

    def __length_hint__(self) -> int:
        return self._left


def need_module(name: str, files: str) -> Any:
    """A module of another package that reads or writes such files.

    Raises:
        MissingLibraryError: It is not installed.

    Example:
        >>> from grilly.commands.reading import need_module
        >>> need_module("nothing_like_it", "Such files")
        Traceback (most recent call last):
        grilly.errors.MissingLibraryError: Such files need nothing_like_it: pip install nothing_like_it
    """
    package = name.partition(".")[0]
    return imported(name, f"{files} need {package}: pip install {package}")


def kind_of(path: str, named: str | None = None) -> str:
    """What a file holds: the kind that is named, else that of its ending.

    Example:
        >>> from grilly.commands.reading import kind_of
        >>> kind_of("a.CSV"), kind_of("-"), kind_of("-", "jsonl")
        ('csv', 'lines', 'jsonl')
    """
    return named or KINDS.get(Path(path).suffix.lower(), "lines")


def records(path: str, kind: str | None = None, field: str | None = None) -> Iterator[Record]:
    """The texts of a file, or of stdin for `"-"`.

    Args:
        path: The file.
        kind: `"lines"`, `"jsonl"`, `"csv"`, `"tsv"` or `"parquet"`; default: by the file's ending. Stdin of which the
            first line begins with `{` is JSON Lines.
        field: The name of the texts, of all kinds but lines; default `"text"`, or the only value that is a text. With
            `"*"` it is `"text"`, or all texts of a record.

    Raises:
        OSError: The file cannot be read.
        InvalidArgumentError: It is not of that kind, or a record has no such field; the message names the line.
        MissingLibraryError: Parquet without pyarrow.

    Example:
        >>> import pathlib, tempfile
        >>> from grilly.commands.reading import records
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.csv"
        >>> _ = path.write_text("id,text\\n1,A cat.\\n")
        >>> list(records(str(path)))
        [Record(line=2, text='A cat.', values={'id': '1'})]
    """
    if path == "-":
        file: BinaryIO = sys.stdin.buffer
        if sys.stdin.isatty() and sys.stderr.isatty():
            print("texts are read from this terminal, a line each; Ctrl-D ends them", file=sys.stderr)
        if kind is None and isinstance(file, io.BufferedReader) and file.peek(1)[:1] == b"{":
            kind = "jsonl"
        yield from _of(file, "stdin", kind or "lines", field)
        return
    with open(path, "rb") as opened:
        yield from _of(opened, path, kind_of(path, kind), field)


def _of(file: BinaryIO, name: str, kind: str, field: str | None) -> Iterator[Record]:
    if kind == "parquet":
        yield from _rows(file, name, field)
    elif kind in ("csv", "tsv"):
        yield from _table(file, name, field, "\t" if kind == "tsv" else ",")
    elif kind == "jsonl":
        for number, line in enumerate(_lines(file, name), start=1):
            if line.strip():
                yield _chosen(_parsed(line, name, number), field, name, number)
    else:
        for number, line in enumerate(_lines(file, name), start=1):
            yield Record(number, line.rstrip("\r\n"), {})


def _lines(file: BinaryIO, name: str) -> Iterator[str]:
    """Lines of UTF-8, without the mark that some programs write at the start."""
    for number, line in enumerate(file, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidArgumentError(
                f"{name}:{number} is not UTF-8: byte {error.start + 1} of the line is {line[error.start]:#04x}; "
                "iconv -t utf-8 converts a file"
            ) from None


def _parsed(line: str, name: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"{name}:{number} is not JSON: {error}") from None
    if isinstance(found, str):
        return {FIELD: found}
    if not isinstance(found, dict):
        raise InvalidArgumentError(f"{name}:{number} is a {type(found).__name__}, expected an object or a text")
    return found


def _table(file: BinaryIO, name: str, field: str | None, delimiter: str) -> Iterator[Record]:
    lines = _lines(file, name)
    csv.field_size_limit(1 << 30)  # texts may be longer than its 131,072 characters
    reader = csv.DictReader(lines, delimiter=delimiter)
    try:
        for row in reader:
            values = {key: value for key, value in row.items() if key is not None and value is not None}
            yield _chosen(values, field, name, reader.line_num)
    except csv.Error as error:
        raise InvalidArgumentError(f"{name}:{reader.line_num} is not CSV: {error}") from None


def _rows(file: BinaryIO, name: str, field: str | None) -> Iterator[Record]:
    parquet = need_module("pyarrow.parquet", "Parquet files")
    pyarrow = need_module("pyarrow", "Parquet files")
    try:
        # Rows are read from their ends, which stdin does not have.
        opened = parquet.ParquetFile(file if file.seekable() else io.BytesIO(file.read()))
        number = 0
        for batch in opened.iter_batches():
            for row in batch.to_pylist():
                number += 1
                yield _chosen(row, field, name, number)
    except pyarrow.ArrowException as error:
        raise InvalidArgumentError(f"{name} is not a Parquet file that can be read: {error}") from None


def _chosen(values: dict[str, Any], field: str | None, name: str, number: int) -> Record:
    """A record's text, by its name."""
    texts = [key for key, value in values.items() if isinstance(value, str)]
    if field == EVERY:
        if FIELD not in texts:
            words = [values[key] for key in texts if any(map(str.isalpha, values[key]))]
            return Record(number, "\n".join(words), {})
        field = FIELD
    wanted = field or (texts[0] if len(texts) == 1 and FIELD not in values else FIELD)
    if wanted not in texts:
        raise InvalidArgumentError(
            f"{name}:{number} has no text called {field or FIELD}; --field takes the name of one that it has: "
            f"{', '.join(texts) or 'there is none'}"
        )
    return Record(number, values[wanted], {key: value for key, value in values.items() if key != wanted})
