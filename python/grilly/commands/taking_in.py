"""Pieces of files taken into the tables of an index, and the texts among them that need a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grilly.closed import closed
from grilly.commands.ahead import Ahead
from grilly.commands.documents import File
from grilly.commands.index_tables import Tables
from grilly.commands.pieces import Piece, weight

__all__ = ["TakingIn"]

#: Files and parts of a transaction at most, and texts of an earlier run that are read at a time.
TOGETHER = 4096
WAITING = "SELECT id, text FROM texts WHERE row IS NULL ORDER BY id LIMIT ?"
UNUSED = "DELETE FROM texts WHERE NOT EXISTS (SELECT 1 FROM pieces WHERE pieces.text = texts.id)"


@closed()
class TakingIn:
    """Stores files as they are read.

    A text gets the number of its row when it is stored; rows are written in that order. Numbers that no row has when
    the next run begins are given anew. A file of which pieces are missing has no size, so that a next run reads it.

    Args:
        tables: Where they are stored.
        rows: How many rows there are; texts get those that follow.
        known: Files that are there, as they were.
        found: Size and time of all that are read, by path.
    """

    def __init__(self, tables: Tables, rows: int, known: set[str], found: dict[str, File]) -> None:
        self._tables, self._base, self._rows, self._known, self._found = tables, tables.base, rows, known, found
        [(self._file,)] = self._base.execute("SELECT coalesce(max(id), 0) FROM files")
        self._unfinished: dict[str, tuple[int, int]] = {}  # the number of a file that goes on, characters of its texts

    def texts(
        self, gone: Sequence[str], read: Ahead[list[Piece]], problems: dict[str, str]
    ) -> Iterator[tuple[list[str], float]]:
        """Texts that need a row, whose transaction has ended, and the share of the work that is done with them.

        Args:
            gone: Files that are forgotten.
            read: Pieces of the files that are read.
            problems: Gets those that are left out, with the reason.
        """
        with self._base:
            self._base.execute("UPDATE texts SET row = NULL WHERE row >= ?", (self._rows,))
            for path in gone:
                self._forget(path)
        # The texts that an earlier run has left count as one file.
        [(left,)] = self._base.execute("SELECT count(*) FROM texts WHERE row IS NULL")
        work, ended, done = max(1, len(self._found) + bool(left)), 0, 0
        while waiting := self._base.execute(WAITING, (TOGETHER,)).fetchall():
            with self._base:
                numbered = ((self._rows + place, number) for place, (number, _) in enumerate(waiting))
                self._base.executemany("UPDATE texts SET row = ? WHERE id = ?", numbered)
            self._rows += len(waiting)
            done += len(waiting)
            yield [text for _, text in waiting], done / left / work
        ended += bool(left)
        for given in read:
            while weight(given) < TOGETHER and read.ready():
                given = given + next(read, [])
            problems.update((piece.path, piece.problem) for piece in given if piece.problem)
            with self._base:
                new = self._store(given)
            ended += sum(piece.ends for piece in given)
            parts = (size / max(self._found[path][0], size) for path, (_, size) in self._unfinished.items())
            yield new, (ended + sum(parts)) / work
        if self._tables.setting("unused"):
            with self._base:
                self._base.execute(UNUSED)
                self._tables.set(unused=0)

    def _store(self, given: Sequence[Piece]) -> list[str]:
        """The texts that are new, which get the next rows."""
        base = self._base
        files: list[tuple[int, str, int | None, int | None]] = []
        failed: list[tuple[int]] = []
        unread: list[tuple[int]] = []
        texts: list[tuple[bytes, str]] = []
        parts: list[tuple[int, int, bytes]] = []
        for path, own, ends, problem, again in given:
            if path in self._known:
                self._forget(path)
                self._known.remove(path)
            number, length = self._unfinished.pop(path, (0, 1))
            if not number:
                number = self._file = self._file + 1
            size, changed = self._found[path] if ends else (None, None)
            files.append((number, path, size, changed))
            texts += [(digest, text) for _, digest, text in own]
            parts += [(number, line, digest) for line, digest, _ in own]
            if not ends:
                self._unfinished[path] = number, length + sum(len(text) for _, _, text in own)
            elif problem:
                failed.append((number,))
                unread += [(number,)] * again
        [(last,)] = base.execute("SELECT coalesce(max(id), 0) FROM texts")
        base.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", files)
        base.executemany("INSERT OR IGNORE INTO texts (digest, text) VALUES (?, ?)", texts)
        base.executemany("INSERT INTO pieces SELECT ?, ?, id FROM texts WHERE digest = ?", parts)
        # New texts have the numbers after the last one, without a gap.
        new = base.execute("SELECT text FROM texts WHERE id > ? ORDER BY id", (last,)).fetchall()
        base.execute("UPDATE texts SET row = id + ? WHERE id > ?", (self._rows - last - 1, last))
        self._rows += len(new)
        if failed:
            base.executemany("DELETE FROM pieces WHERE file = ?", failed)
            base.executemany("DELETE FROM files WHERE id = ?", unread)
            self._tables.set(unused=1)
        return [text for (text,) in new]

    def _forget(self, path: str) -> None:
        """Drops a file; its texts stay until all files are read."""
        self._base.execute("DELETE FROM pieces WHERE file = (SELECT id FROM files WHERE path = ?)", (path,))
        self._base.execute("DELETE FROM files WHERE path = ?", (path,))
        self._tables.set(unused=1)
