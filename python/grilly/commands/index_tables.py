"""The tables of a folder's index, in SQLite: files, their parts, and which row each text has."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Any

from grilly.closed import closed
from grilly.errors import InvalidArgumentError

__all__ = ["Tables"]

TABLES = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT UNIQUE NOT NULL, size INTEGER, changed INTEGER);
CREATE TABLE texts (id INTEGER PRIMARY KEY, digest BLOB UNIQUE NOT NULL, text TEXT NOT NULL, row INTEGER);
CREATE TABLE pieces (file INTEGER NOT NULL, line INTEGER NOT NULL, text INTEGER NOT NULL);
CREATE INDEX pieces_of_file ON pieces (file);
CREATE INDEX pieces_of_text ON pieces (text);
CREATE INDEX texts_by_row ON texts (row);
"""
VERSION = 1


@closed()
class Tables:
    """The tables, open and locked against other processes; one thread at a time may use them.

    A text has the number of its row before the row is written: rows are written in the order of their numbers, and a
    number that the file does not reach is given anew.

    Args:
        place: The folder of the index.

    Raises:
        InvalidArgumentError: They are of another version.
        sqlite3.Error: They cannot be read or written.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self.base = sqlite3.connect(place / "index.sqlite", timeout=0.2, check_same_thread=False)
        try:
            self.base.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._lock()
            self.base.execute("PRAGMA cache_size = -65536")  # in KiB: digests are in no order
            [(version,)] = self.base.execute("PRAGMA user_version")
            if version not in (0, VERSION):
                raise InvalidArgumentError(f"the index {place} is of another version; --rebuild makes it again")
            if not version:
                for statement in TABLES.split(";"):
                    self.base.execute(statement)
                self.base.execute(f"PRAGMA user_version = {VERSION}")
            self.base.commit()
        except BaseException:
            self.base.close()
            raise

    def _lock(self) -> None:
        """Begins a transaction when no other process has the tables; a signal is handled in between."""
        said = False
        while not self.base.in_transaction:
            try:
                self.base.execute("BEGIN IMMEDIATE")
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
