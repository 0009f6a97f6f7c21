"""Texts with their rows in a file: JSON Lines and SQLite, which go on where they ended, and Parquet."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.commands.reading import need_module
from grilly.errors import InvalidArgumentError

__all__ = ["WRITERS", "JsonLines", "Parquet", "Sqlite", "Writer", "numbers"]

Rows = npt.NDArray[Any]


@closed()
class Writer(Protocol):
    """What writes texts with their rows."""

    #: How many rows there are, and the text of the last one.
    rows: int
    last: str | None

    def add(self, texts: list[str], rows: Rows) -> None:
        """Adds texts with their rows; what is written before stays whole if this fails."""

    def close(self, done: bool) -> None:
        """Ends the file; `done` after the last text."""


def numbers(row: Rows) -> str:
    """A row as JSON, with nine digits, which give every float32 number again.

    Example:
        >>> import numpy as np
        >>> from grilly.commands.writing import numbers
        >>> numbers(np.float32([0.1, -2]))
        '[0.100000001,-2]'
    """
    return f"[{','.join([f'{number:.9g}' for number in row.tolist()])}]"


@closed()
class JsonLines:
    """A line for each text: `{"text": ..., "embedding": [...]}`; to stdout without a path."""

    def __init__(self, path: Path | None, resume: bool) -> None:
        self.rows = 0
        self.last: str | None = None
        if path is None:
            self._file: TextIO = sys.stdout
            return
        if resume and path.exists():
            self._read(path)
        self._file = path.open("a" if resume else "w", encoding="utf-8", newline="\n")

    def _read(self, path: Path) -> None:
        """Counts the lines that are whole, and cuts off one that is not."""
        end, line = 0, b""
        with path.open("r+b") as file:
            for found in file:
                if found.endswith(b"\n"):
                    self.rows, end, line = self.rows + 1, end + len(found), found
            file.truncate(end)
        try:
            self.last = json.loads(line)["text"] if line else None
        except (ValueError, LookupError, TypeError):
            raise InvalidArgumentError(f"{path}:{self.rows} is not a line that `grilly embed` wrote") from None

    def add(self, texts: list[str], rows: Rows) -> None:
        """Adds a line for each of the texts."""
        for text, row in zip(texts, rows, strict=True):
            self._file.write(f'{{"text": {json.dumps(text, ensure_ascii=False)}, "embedding": {numbers(row)}}}\n')
        self._file.flush()
        self.rows += len(texts)

    def close(self, done: bool) -> None:
        """Ends the file, unless it is stdout."""
        if self._file is not sys.stdout:
            self._file.close()


@closed()
class Sqlite:
    """A table `embeddings(id, text, embedding)`, ids from 1 in the order of the texts, rows as float32 bytes."""

    def __init__(self, path: Path, resume: bool) -> None:
        try:
            self._base = sqlite3.connect(path)
            self._base.execute(
                "CREATE TABLE IF NOT EXISTS embeddings "
                "(id INTEGER PRIMARY KEY, text TEXT NOT NULL, embedding BLOB NOT NULL)"
            )
            [(self.rows,)] = self._base.execute("SELECT count(*) FROM embeddings")
            last = self._base.execute("SELECT text FROM embeddings ORDER BY id DESC LIMIT 1").fetchone()
        except sqlite3.Error as error:
            raise InvalidArgumentError(f"{path} cannot be written: {error}") from error
        self._path, self.last = path, last[0] if last else None

    def add(self, texts: list[str], rows: Rows) -> None:
        """Adds rows, all or none."""
        content = (np.asarray(row, "<f4").tobytes() for row in rows)
        try:
            with self._base:
                self._base.executemany(
                    "INSERT INTO embeddings (text, embedding) VALUES (?, ?)", zip(texts, content, strict=True)
                )
        except sqlite3.Error as error:
            raise InvalidArgumentError(f"{self._path} cannot be written: {error}") from error
        self.rows += len(texts)

    def close(self, done: bool) -> None:
        """Ends the file, whose rows are committed."""
        self._base.close()


@closed()
class Parquet:
    """Columns `text` and `embedding`, lists of float32; under another name until it is whole."""

    def __init__(self, path: Path, resume: bool) -> None:
        if resume:
            raise InvalidArgumentError(
                f"{path}: a Parquet file is readable when it is whole, so that --resume has nothing to go on from; "
                "write .npy, .jsonl or .sqlite"
            )
        self._arrow, self._parquet = (need_module(name, "Parquet files") for name in ("pyarrow", "pyarrow.parquet"))
        self._path, self._part = path, path.with_name(f"{path.name}.part")
        self.rows = 0
        self.last: str | None = None
        self._file: Any = None

    def add(self, texts: list[str], rows: Rows) -> None:
        """Adds a group of rows."""
        width = self._arrow.list_(self._arrow.float32(), rows.shape[1])
        flat = self._arrow.array(np.asarray(rows, np.float32).reshape(-1))
        vectors = self._arrow.FixedSizeListArray.from_arrays(flat, rows.shape[1])
        schema = self._arrow.schema([("text", self._arrow.string()), ("embedding", width)])
        if self._file is None:
            self._file = self._parquet.ParquetWriter(self._part, schema)
        self._file.write_table(self._arrow.table([self._arrow.array(texts), vectors], schema))
        self.rows += len(texts)

    def close(self, done: bool) -> None:
        """Gives the file its name if it is whole, and removes it if not."""
        if self._file is None:
            return
        try:
            self._file.close()
        finally:
            if done:
                os.replace(self._part, self._path)
            else:
                self._part.unlink(missing_ok=True)


#: Endings of files, and what writes them.
WRITERS: dict[str, Callable[[Path, bool], Writer]] = {
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".sqlite": Sqlite,
    ".db": Sqlite,
    ".parquet": Parquet,
}
