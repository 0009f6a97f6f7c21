"""The index of a folder's files: which parts they have in SQLite, and the rows of these in a .npy file.

A text has one row, wherever it stands: files that move, and parts that stay in a file that changes, keep theirs. What
is committed stays after a kill: files that were read, and texts that have a row.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.commands.cutting import MOST, Cutter
from grilly.commands.documents import File, documents
from grilly.commands.reading import Stream
from grilly.errors import GrillyError, InvalidArgumentError
from grilly.row_file import RowFile
from grilly.search import Index

__all__ = ["FolderIndex", "Hit", "NAME"]

#: The index lies in the folder, under this name: it moves with the files, goes with them, and needs no home folder.
NAME = ".grilly-index"
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
#: A text whose vector tells models apart, and the least cosine of two that are the same in different types.
PROBE, SAME = "Which model wrote this index? 1, 2, 3.", 0.98
#: Files that are read, and texts that a CPU encodes, between two commits.
FILES, TEXTS_OF_CPU = 1000, 2048
#: Rows of texts that are gone, beside as many as there are others, before rows are written anew.
SPARE = 1024


@closed()
class Hit(NamedTuple):
    """A part that was found: its score, its file in the folder, its line there, and its text."""

    score: float
    path: str
    line: int
    text: str


@closed()
class FolderIndex:
    """An index that is open, and locked against other processes.

    Args:
        place: Its own folder; created if missing.

    Raises:
        InvalidArgumentError: It cannot be written, or is damaged.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        try:
            place.mkdir(parents=True, exist_ok=True)
            ignored = place / ".gitignore"
            if not ignored.exists():
                ignored.write_text("*\n", encoding="utf-8")
            self._base = self._open()
        except (OSError, sqlite3.Error) as error:
            raise self._problem(error) from error

    def _problem(self, error: Exception) -> InvalidArgumentError:
        damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
        told = (
            f"read: {error}; --rebuild makes it again"
            if damaged
            else f"written: {error}; --index PATH puts it elsewhere"
        )
        return InvalidArgumentError(f"the index {self.place} cannot be {told}")

    def _open(self) -> sqlite3.Connection:
        """The tables, which no other process has until they are closed."""
        base = sqlite3.connect(self.place / "index.sqlite", timeout=0.2)
        try:
            base.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._lock(base)
            [(version,)] = base.execute("PRAGMA user_version")
            if version not in (0, VERSION):
                raise InvalidArgumentError(f"the index {self.place} is of another version; --rebuild makes it again")
            if not version:
                for statement in TABLES.split(";"):
                    base.execute(statement)
                base.execute(f"PRAGMA user_version = {VERSION}")
            base.commit()
        except BaseException:
            base.close()
            raise
        return base

    def _lock(self, base: sqlite3.Connection) -> None:
        """Begins a transaction when no other process has the tables; a signal is handled in between."""
        said = False
        while not base.in_transaction:
            try:
                base.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
                if not said:
                    print(f"waiting for another process that has the index {self.place}", file=sys.stderr)
                said = True

    @staticmethod
    def remove(place: Path) -> None:
        """Removes the files of an index, and none beside them."""
        for path in [*place.glob("index.sqlite*"), *place.glob("rows-*.npy")]:
            path.unlink()

    def __enter__(self) -> FolderIndex:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._base.close()
        if isinstance(error, sqlite3.Error):
            raise self._problem(error) from error

    def setting(self, name: str) -> Any:
        """A value that the index keeps by its name, or None."""
        found = self._base.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return found[0] if found else None

    def _set(self, **values: Any) -> None:
        self._base.executemany("INSERT OR REPLACE INTO settings VALUES (?, ?)", values.items())

    @property
    def _rows(self) -> Path:
        return self.place / f"rows-{self.setting('rows') or 0}.npy"

    def changed(self, found: dict[str, File]) -> tuple[list[str], list[str]]:
        """The files that are new or not as they were, and those that are gone."""
        known = {path: File(*own) for path, *own in self._base.execute("SELECT path, size, changed FROM files")}
        changed = sorted(path for path, own in found.items() if known.get(path) != own)
        return changed, sorted(known.keys() - found.keys())

    def begin(self, model: Any, name: str) -> bool:
        """Makes the index one of a model; whether it had been one of another, whose rows are gone then."""
        vector = np.asarray(self._encoded(model, PROBE, show_progress_bar=False), np.float32)
        stored, before = self.setting("probe"), self.setting("model")
        other = np.frombuffer(stored or b"", "<f4")
        cut = json.dumps({"most": MOST, "limit": Cutter(model).limit})
        norms = float(np.linalg.norm(vector) * np.linalg.norm(other)) or 1.0
        same = other.shape == vector.shape and float(vector @ other) / norms >= SAME and self.setting("cut") == cut
        with self._base:
            if not same or not self._is_whole():
                for table in ("files", "texts", "pieces"):
                    self._base.execute(f"DELETE FROM {table}")
                self._rows.unlink(missing_ok=True)
                self._set(probe=vector.astype("<f4").tobytes(), cut=cut)
            self._set(model=name)
        return before is not None and not same

    def _is_whole(self) -> bool:
        """Whether the file has every row that the tables name."""
        [(most,)] = self._base.execute("SELECT max(row) FROM texts")
        if most is None:
            return True
        try:
            return bool(most < len(np.load(self._rows, mmap_mode="r")))
        except Exception:  # whatever NumPy and Python's tokenizer raise for bytes that they were not made for
            return False

    def _encoded(self, model: Any, texts: Any, **options: Any) -> Any:
        encode = model.encode_document
        return encode(texts, normalize_embeddings=model.similarity_fn_name != "dot", **options)

    def read(
        self, root: Path, files: dict[str, File], changed: Sequence[str], gone: Sequence[str], model: Any
    ) -> Iterator[tuple[str, str]]:
        """Takes in files that changed, drops those that are gone; gives each that changed with its problem, or `""`."""
        cutter = Cutter(model)
        with self._base:
            for path in gone:
                self._forget(path)
        for start in range(0, len(changed), FILES):
            with self._base:
                for path in changed[start : start + FILES]:
                    self._forget(path)
                    parts, problem = list[tuple[int, int]](), ""
                    try:
                        for own in documents(root / path):
                            parts += [(part.line, self._text(part.text)) for part in cutter.cut(own)]
                    except (OSError, GrillyError) as error:
                        problem = str(getattr(error, "strerror", None) or error)
                        if not isinstance(error, InvalidArgumentError):  # it may be readable the next time
                            yield path, problem
                            continue
                        parts = []
                    file = self._base.execute(
                        "INSERT INTO files (path, size, changed) VALUES (?, ?, ?)", (path, *files[path])
                    ).lastrowid
                    self._base.executemany("INSERT INTO pieces VALUES (?, ?, ?)", ((file, *part) for part in parts))
                    yield path, problem
        with self._base:
            self._base.execute("DELETE FROM texts WHERE NOT EXISTS (SELECT 1 FROM pieces WHERE pieces.text = texts.id)")

    def _forget(self, path: str) -> None:
        """Drops a file; its texts stay until all files are read."""
        self._base.execute("DELETE FROM pieces WHERE file = (SELECT id FROM files WHERE path = ?)", (path,))
        self._base.execute("DELETE FROM files WHERE path = ?", (path,))

    def _text(self, text: str) -> int:
        """The number of a text, which it gets if it has none."""
        content = text.encode(errors="replace")
        digest = hashlib.blake2b(content, digest_size=16).digest()
        statement = "INSERT OR IGNORE INTO texts (digest, text) VALUES (?, ?)"
        added = self._base.execute(statement, (digest, content.decode()))
        if added.rowcount:
            return int(added.lastrowid or 0)
        [(number,)] = self._base.execute("SELECT id FROM texts WHERE digest = ?", (digest,))
        return int(number)

    def embed(self, model: Any, shown: bool) -> int:
        """Gives a row to each text that has none; how many there were."""
        [(count,)] = self._base.execute("SELECT count(*) FROM texts WHERE row IS NULL")
        if not count:
            return 0
        numbers: list[int] = []

        def waiting() -> Iterator[str]:
            statement = "SELECT id, text FROM texts WHERE row IS NULL AND id > ? ORDER BY id LIMIT 1000"
            last = 0
            while found := self._base.execute(statement, (last,)).fetchall():
                for last, text in found:
                    numbers.append(last)
                    yield text

        size = {"chunk_size": TEXTS_OF_CPU} if model.backend == "cpu" else {}
        with RowFile(self._rows, resume=True) as file:
            for rows in self._encoded(model, Stream(waiting(), count), show_progress_bar=shown, **size):
                first = file.rows
                file.add(np.asarray(rows, np.float32))
                pairs = zip(range(first, file.rows), numbers[: len(rows)], strict=True)
                with self._base:
                    self._base.executemany("UPDATE texts SET row = ? WHERE id = ?", pairs)
                del numbers[: len(rows)]
        return int(count)

    def compact(self) -> None:
        """Writes the rows anew where most of them are of texts that are gone."""
        order = self._base.execute("SELECT row, id FROM texts WHERE row IS NOT NULL ORDER BY row").fetchall()
        if not self._rows.exists() or (rows := np.load(self._rows, mmap_mode="r")).shape[0] <= 2 * len(order) + SPARE:
            return
        before, number = self._rows, int(self.setting("rows") or 0) + 1
        path = self.place / f"rows-{number}.npy"
        path.unlink(missing_ok=True)
        with RowFile(path, resume=False) as file:
            for start in range(0, len(order), 1 << 14):
                file.add(rows[[row for row, _ in order[start : start + (1 << 14)]]])
        with self._base:
            renumbered = ((row, text) for row, (_, text) in enumerate(order))
            self._base.executemany("UPDATE texts SET row = ? WHERE id = ?", renumbered)
            self._set(rows=number)
        before.unlink(missing_ok=True)

    def _numbers(self) -> npt.NDArray[np.int64]:
        """The rows of texts, in their order."""
        found = self._base.execute("SELECT row FROM texts WHERE row IS NOT NULL ORDER BY row")
        return np.fromiter((row for (row,) in found), np.int64)

    def search(self, query: npt.NDArray[Any], top_k: int) -> list[Hit]:
        """The parts with the highest scores, the best first; a text that stands in several places is found in each.

        Rows are read from their file once, for which a CPU is as fast as a GPU to which they are sent.
        """
        counted = self._numbers()
        if not len(counted):
            return []
        index = Index(len(query), "dot", device="cpu")
        index.add(np.load(self._rows, mmap_mode="r"))
        found = index.search(np.asarray(query, np.float32), top_k, mask=counted)
        hits: list[Hit] = []
        for score, row in zip(found.scores[0].tolist(), found.rows[0].tolist(), strict=True):
            places = self._base.execute(
                "SELECT path, line, texts.text FROM texts JOIN pieces ON pieces.text = texts.id "
                "JOIN files ON files.id = pieces.file WHERE row = ? ORDER BY path, line LIMIT ?",
                (row, top_k - len(hits)),
            )
            hits += [Hit(score, *place) for place in places]
        return hits
