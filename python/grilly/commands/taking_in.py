"""Pieces of files taken into the tables of an index, and the texts among them that need a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grilly.closed import closed
from grilly.commands.ahead import Ahead
from grilly.commands.index_tables import Tables
from grilly.commands.pieces import Piece, weight

__all__ = ["TakingIn"]

#: Files and parts of a transaction at most, and texts of an earlier run that are read at a time.
TOGETHER = 16384
WAITING = "SELECT text FROM texts WHERE id >= ? ORDER BY id LIMIT ?"


@closed()
class TakingIn:
    """Stores files as they are read.

    A file of which pieces are missing has no size, so that a next run reads it.

    Args:
        tables: Where they are stored.
        rows: How many rows there are; texts without one get those that follow.
        known: The numbers of files that are there as they were, by path.
        files: How many are read.
    """

    def __init__(self, tables: Tables, rows: int, known: dict[str, int], files: int) -> None:
        self._tables, self._base, self._rows, self._known, self._files = tables, tables.base, rows, known, files
        [(self._file,)] = self._base.execute("SELECT coalesce(max(id), 0) FROM files")
        self._texts = tables.numbers() if files else {}
        # Of a file that goes on: its number, characters of its texts so far, and its size.
        self._unfinished: dict[str, tuple[int, int, int]] = {}

    def texts(
        self, gone: Sequence[int], read: Ahead[list[Piece]], problems: dict[str, str]
    ) -> Iterator[tuple[list[str], float]]:
        """Texts that need a row, whose transaction has ended, and the share of the work that is done with them.

        Args:
            gone: Files that are forgotten.
            read: Pieces of the files that are read.
            problems: Gets those that are left out, with the reason.
        """
        with self._base:
            self._tables.forget(gone)
        # The texts that an earlier run has left count as one file.
        [(left,)] = self._base.execute("SELECT count(*) FROM texts WHERE id >= ?", (self._rows,))
        work, ended, done = max(1, self._files + bool(left)), 0, 0
        while waiting := self._base.execute(WAITING, (self._rows, TOGETHER)).fetchall():
            self._rows += len(waiting)
            done += len(waiting)
            yield [text for (text,) in waiting], done / left / work
        ended += bool(left)
        for given in read:
            size = weight(given)
            while size < TOGETHER and read.ready():
                more = next(read, [])
                given, size = given + more, size + weight(more)
            problems.update((piece.path, piece.problem) for piece in given if piece.problem)
            with self._base:
                new = self._store(given)
            ended += sum(piece.ends for piece in given)
            parts = (length / max(whole, length) for _, length, whole in self._unfinished.values())
            yield new, (ended + sum(parts)) / work

    def _store(self, given: Sequence[Piece]) -> list[str]:
        """The texts that are new, which get the next rows."""
        tables, texts = self._tables, self._texts
        tables.forget([self._known.pop(piece.path) for piece in given if piece.path in self._known])
        new: list[str] = []
        # Rows of the tables, whose values follow each other.
        files: list[str | int | None] = []
        stored: list[int | bytes | str] = []
        parts: list[int] = []
        failed: list[tuple[int]] = []
        unread: list[tuple[int]] = []
        for path, own, state, ends, problem, again in given:
            number, length, _ = self._unfinished.pop(path, (0, 1, 0))
            if not number:
                number = self._file = self._file + 1
            for line, digest, text in own:
                row = texts.get(digest)
                if row is None:
                    row = texts[digest] = self._rows + len(new)
                    new.append(text)
                    stored += (row, digest, text)
                parts += (number, line, row)
            size, changed = (ends and state) or (None, None)
            files += (number, path, size, changed)
            if not ends:
                length += sum(len(text) for _, _, text in own)
                self._unfinished[path] = number, length, state[0] if state else 0
            elif problem:
                failed.append((number,))
                unread += [(number,)] * again
        self._rows += len(new)
        tables.add("INSERT OR REPLACE INTO files", 4, files)
        tables.add("INSERT INTO texts", 3, stored)
        tables.add("INSERT OR IGNORE INTO pieces", 3, parts)
        if failed:
            self._base.executemany("DELETE FROM pieces WHERE file = ?", failed)
            self._base.executemany("DELETE FROM files WHERE id = ?", unread)
            tables.set(unused=1)
        return new
