"""The index of a folder's files: which parts they have in SQLite, and the rows of these in a .npy file.

A text has one row, wherever it stands: files that move, and parts that stay in a file that changes, keep theirs. What
is committed stays after a kill: files that were read, and texts that have a row.

Files are read in threads, stored in another, embedded in the thread of the caller, and their rows written in one more,
all at once:

    pieces of files ── taking_in ──▶ texts without a row ── encode ──▶ rows
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.commands.ahead import Ahead, Behind, beside
from grilly.commands.cutting import MOST, Cutter
from grilly.commands.documents import Listed, states
from grilly.commands.index_tables import Tables
from grilly.commands.model_digest import digest, state
from grilly.commands.pieces import pieces
from grilly.commands.taking_in import TakingIn
from grilly.errors import InvalidArgumentError
from grilly.row_file import RowFile
from grilly.search import Index

__all__ = ["FolderIndex", "Hit", "NAME"]

#: The index lies in the folder, under this name: it moves with the files, goes with them, and needs no home folder.
NAME = ".grilly-index"
#: Threads that read files, and what waits of each, and of the one that stores, at most.
READERS, WAITING = 2, 4
#: Texts that are encoded at a time at most, after which rows are written, and of a batch on a GPU.
TEXTS, TEXTS_OF_CPU, BATCH = 8192, 2048, 256
#: Calls at a time that encode on a GPU, which computes for one while another waits for the interpreter's lock.
AT_ONCE = 2
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
            self._tables = Tables(place)
        except (OSError, sqlite3.Error) as error:
            raise self._problem(error) from error
        self._base = self._tables.base
        self.setting = self._tables.setting

    def _problem(self, error: Exception) -> InvalidArgumentError:
        damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
        told = (
            f"read: {error}; --rebuild makes it again"
            if damaged
            else f"written: {getattr(error, 'strerror', None) or error}; --index PATH puts it elsewhere"
        )
        return InvalidArgumentError(f"the index {self.place} cannot be {told}")

    @staticmethod
    def remove(place: Path) -> None:
        """Removes the files of an index, and none beside them."""
        for path in [*place.glob("index.sqlite*"), *place.glob("rows-*.npy")]:
            path.unlink()

    def __enter__(self) -> FolderIndex:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._tables.close()
        if isinstance(error, sqlite3.Error):
            raise self._problem(error) from error

    @property
    def _rows(self) -> Path:
        return self.place / f"rows-{self.setting('rows') or 0}.npy"

    def begin(self, model: Any, name: str) -> str:
        """Makes the index one of a model; gives what it had been of, whose rows are gone then, or `""`.

        Two models are one if their files have the same content and they compute in the same type, wherever the files
        are and on whichever device. Files with the path, sizes and times of an earlier run are not read again.
        """
        folder = Path(model._folder)
        before, now = self.setting("digest"), state(folder)
        cut = json.dumps({"most": MOST, "limit": Cutter(model).limit})
        own = before if before and self.setting("state") == now else digest(folder)
        told = ""
        if self.setting("model") is not None:
            if not before:
                told = "of an earlier version of grilly"
            elif before != own or self.setting("cut") != cut:
                told = "of another model"
            elif self.setting("dtype") != model.dtype:
                told = f"in {self.setting('dtype')}"
        with self._base:
            if told:
                self._tables.clear()
                self._rows.unlink(missing_ok=True)
            self._tables.set(model=name, digest=own, state=now, cut=cut, dtype=model.dtype)
        return told

    def _changed(self, root: Path, files: list[str]) -> tuple[list[str], dict[str, int], list[int]]:
        """The files that are new or not as they were, the numbers of those that are not new, and of those gone.

        A file that was not read whole has no size.
        """
        there = set(files)
        before = self._base.execute("SELECT path, id, size, changed FROM files").fetchall()
        gone = [number for path, number, *_ in before if path not in there]
        left = [row for row in before if row[0] in there]
        known: dict[str, int] = {}
        same: set[str] = set()
        for (path, number, *own), now in zip(left, states(root, [row[0] for row in left]), strict=True):
            if now == tuple(own):
                same.add(path)
            else:
                known[path] = number
        return [path for path in files if path not in same], known, gone

    def _opened(self) -> RowFile:
        """The file of rows; an empty one if that is damaged, so that all texts are embedded again."""
        try:
            rows = RowFile(self._rows, resume=True)
        except InvalidArgumentError:
            self._rows.unlink(missing_ok=True)
            rows = RowFile(self._rows, resume=True)
        if not self._tables.follow(rows.rows):
            with self._base:
                self._tables.clear()
        return rows

    def update(self, root: Path, found: Listed, model: Any, told: Callable[[int, float], object] | None = None) -> int:
        """Takes in files that are new or changed, drops those that are gone, and gives each text a row that has none.

        Args:
            root: The folder.
            found: Its files; their problems get those that turn out to be left out.
            model: That of `begin`.
            told: Called with the texts that were embedded, and the share of the work that is done.

        Returns:
            How many texts were embedded.
        """
        stop = threading.Event()
        count = 0
        with self._opened() as rows:
            changed, known, gone = self._changed(root, found.files)
            taking = TakingIn(self._tables, rows.rows, known, len(changed))
            cutter = Cutter(model)
            reading = [pieces(root, changed[number::READERS], cutter) for number in range(READERS)]
            with Ahead(reading, WAITING, stop) as read, Behind(rows.add) as add:
                taken = Ahead([taking.texts(gone, read, found.problems)], WAITING, stop)
                most, at_once = (TEXTS_OF_CPU, 1) if model.backend == "cpu" else (TEXTS, AT_ONCE)
                try:
                    with closing(beside(partial(self._embed, model), _together(taken, most), at_once)) as made:
                        for (texts, share), vectors in made:
                            add(vectors)
                            count += len(texts)
                            if told is not None:
                                told(count, share)
                finally:
                    taken.join()  # it is the thread that has the tables
            self._tables.tidy()
            if changed or gone:
                self._compact(rows.rows)
        return count

    def _embed(self, model: Any, given: tuple[list[str], float]) -> npt.NDArray[Any]:
        """The rows of texts."""
        unit = model.similarity_fn_name != "dot"
        batch = 32 if model.backend == "cpu" else BATCH
        options = {"batch_size": batch, "normalize_embeddings": unit, "show_progress_bar": False}
        return np.asarray(model.encode_document(given[0], **options), np.float32)

    def _compact(self, count: int) -> None:
        """Writes the rows anew where most of them are of texts that are gone."""
        [(left,)] = self._base.execute("SELECT count(*) FROM texts")
        if count <= 2 * left + SPARE:
            return
        order = self._numbers()
        rows = np.load(self._rows, mmap_mode="r")
        before, number = self._rows, int(self.setting("rows") or 0) + 1
        path = self.place / f"rows-{number}.npy"
        path.unlink(missing_ok=True)
        with RowFile(path, resume=False) as file:
            for start in range(0, len(order), 1 << 14):
                file.add(rows[order[start : start + (1 << 14)]])
        with self._base:
            self._tables.renumber(order.tolist())
            self._tables.set(rows=number)
        before.unlink(missing_ok=True)

    def _numbers(self) -> npt.NDArray[np.int64]:
        """The rows of texts, in their order."""
        return np.fromiter((row for (row,) in self._base.execute("SELECT id FROM texts ORDER BY id")), np.int64)

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
                "JOIN files ON files.id = pieces.file WHERE texts.id = ? ORDER BY path, line LIMIT ?",
                (row, top_k - len(hits)),
            )
            hits += [Hit(score, *place) for place in places]
        return hits


def _together(taken: Ahead[tuple[list[str], float]], most: int) -> Iterator[tuple[list[str], float]]:
    """Texts that are there, up to `most` at a time, with the share of the work that is done with them."""
    done = 0.0
    for texts, share in taken:
        while len(texts) < most and taken.ready():
            more, share = next(taken, ([], share))
            texts = texts + more
        for start in range(0, len(texts), most):
            yield texts[start : start + most], done if start + most < len(texts) else share
        done = share
