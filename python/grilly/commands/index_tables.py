"""The tables of a folder's index, in SQLite: files, their parts, and the texts of these, each with a row."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grilly.closed import closed
from grilly.errors import InvalidArgumentError

__all__ = ["Tables"]

TABLES = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT NOT NULL, size INTEGER, changed INTEGER);
CREATE TABLE texts (id INTEGER PRIMARY KEY, digest BLOB NOT NULL, text TEXT NOT NULL);
CREATE TABLE pieces (file INTEGER, line INTEGER, text INTEGER, PRIMARY KEY (file, line, text)) WITHOUT ROWID;
CREATE INDEX pieces_of_text ON pieces (text);
"""
VERSION = 2
#: Rows of a statement: with each the interpreter's lock is released once. Older SQLite takes no more than 999 values.
ROWS = 100
UNUSED = "DELETE FROM texts WHERE NOT EXISTS (SELECT 1 FROM pieces WHERE pieces.text = texts.id)"


@closed()
class Tables:
    """The tables, open and locked against other processes; one thread at a time may use them.

    The id of a text is the number of its row, which it has before the row is written. Rows are written in that order,
    so that the texts that a run has left without a row have the ids that follow the last one.

    Args:
        place: The folder of the index.

    Raises:
        InvalidArgumentError: They are of a later version.
        sqlite3.Error: They cannot be read or written.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self.base = sqlite3.connect(place / "index.sqlite", timeout=0.2, check_same_thread=False)
        try:
            self._lock()
            self.base.execute("PRAGMA locking_mode = EXCLUSIVE")  # kept from now on; see `_lock`
            [(version,)] = self.base.execute("PRAGMA user_version")
            if version > VERSION:
                raise InvalidArgumentError(f"the index {place} is of another version; --rebuild makes it again")
            if 0 < version < VERSION:  # it has no digest then, by which its user is told
                for table in ("files", "texts", "pieces"):
                    self.base.execute(f"DROP TABLE {table}")
                self.base.execute("DELETE FROM settings WHERE name = 'digest'")
            if version < VERSION:
                for statement in TABLES.split(";"):
                    self.base.execute(statement)
                self.base.execute(f"PRAGMA user_version = {VERSION}")
            self.base.commit()
        except BaseException:
            self.base.close()
            raise

    def _lock(self) -> None:
        """Begins a transaction when no other process has the tables; a signal is handled in between.

        In the exclusive locking mode a process that may not write would keep its lock for reading, which the one that
        may write would meet when it commits.
        """
        said = False
        while not self.base.in_transaction:
            try:
                self.base.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
                if not said:
                    print(f"waiting for another process that has the index {self._place}", file=sys.stderr)
                said = True

    def close(self) -> None:
        """Lets other processes have them."""
        self.base.close()

    def setting(self, name: str) -> Any:
        """A value that is kept by its name, or None."""
        found = self.base.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return found[0] if found else None

    def set(self, **values: Any) -> None:
        """Keeps values by their names, when the transaction ends."""
        self.base.executemany("INSERT OR REPLACE INTO settings VALUES (?, ?)", values.items())

    def clear(self) -> None:
        """Forgets all files and texts, when the transaction ends."""
        for table in ("files", "texts", "pieces"):
            self.base.execute(f"DELETE FROM {table}")

    def follow(self, rows: int) -> bool:
        """Whether the texts without a row follow so many rows; of a file that has lost some they may not."""
        [(count, last)] = self.base.execute("SELECT count(*), max(id) FROM texts WHERE id >= ?", (rows,))
        return not count or bool(last == rows + count - 1)

    def numbers(self) -> dict[bytes, int]:
        """The ids of all texts, by their digests, which have no index: to keep one takes longer than to read them."""
        return dict(self.base.execute("SELECT digest, id FROM texts"))

    def add(self, statement: str, columns: int, values: Sequence[Any]) -> None:
        """Adds rows, whose values follow each other, when the transaction ends; `statement` is all before VALUES."""
        row = f"({','.join('?' * columns)})"
        start = 0
        for rows in (ROWS, 1):
            size = rows * columns
            end = start + (len(values) - start) // size * size
            given = (values[place : place + size] for place in range(start, end, size))
            self.base.executemany(f"{statement} VALUES {','.join([row] * rows)}", given)
            start = end

    def forget(self, files: Sequence[int]) -> None:
        """Drops files, when the transaction ends; their texts stay until all texts have rows."""
        if files:
            given = [(file,) for file in files]
            self.base.executemany("DELETE FROM pieces WHERE file = ?", given)
            self.base.executemany("DELETE FROM files WHERE id = ?", given)
            self.set(unused=1)

    def tidy(self) -> None:
        """Drops the texts that stand nowhere, when all have rows."""
        if self.setting("unused"):
            with self.base:
                self.base.execute(UNUSED)
                self.set(unused=0)

    def renumber(self, order: Sequence[int]) -> None:
        """Gives texts the ids 0, 1, ... in their order, when the transaction ends."""
        numbered = [(place, text) for place, text in enumerate(order) if place != text]  # no id that is still another's
        self.base.executemany("UPDATE texts SET id = ? WHERE id = ?", numbered)
        self.base.executemany("UPDATE pieces SET text = ? WHERE text = ?", numbered)
