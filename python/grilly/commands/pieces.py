"""Files as parts with a digest each, read some time before they are stored."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from grilly.closed import closed
from grilly.commands.cutting import Cutter, File, Passage
from grilly.commands.documents import documents, is_text, states
from grilly.errors import GrillyError, InvalidArgumentError

__all__ = ["Piece", "pieces", "weight"]

#: Files that are read at a time, and files and parts of files that are given at a time.
TOGETHER = 1024


@closed()
class Piece(NamedTuple):
    """Parts of a file that follow each other; of a long file there are several pieces.

    Attributes:
        path: The file in its folder.
        parts: Of each its line, its digest, and its text.
        state: The file's before it was read, if it has one.
        ends: Whether the file ends here.
        problem: Why the file is left out; empty if it is not.
        again: Whether it may be readable the next time, as it is.
    """

    path: str
    parts: list[Passage]
    state: File | None
    ends: bool = True
    problem: str = ""
    again: bool = False


def weight(given: Sequence[Piece]) -> int:
    """How many files and parts there are."""
    return sum(len(piece.parts) + 1 for piece in given)


def pieces(root: Path, paths: Sequence[str], cutter: Cutter) -> Iterator[list[Piece]]:
    """Reads files and cuts them.

    Example:
        >>> import pathlib, tempfile
        >>> from grilly.commands.cutting import Cutter
        >>> from grilly.commands.pieces import pieces
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (root / "a.txt").write_text("A cat.")
        >>> [[piece]] = pieces(root, ["a.txt"], Cutter(model))
        >>> piece.path, [(line, text) for line, _, text in piece.parts], piece.ends
        ('a.txt', [(1, 'A cat.')], True)
    """
    place = os.path.join(root, "")
    held: list[Piece] = []
    size = 0
    for start in range(0, len(paths), TOGETHER):
        own = paths[start : start + TOGETHER]
        for piece in _of_files(place, own, cutter):
            held.append(piece)
            size += len(piece.parts) + 1
            if size >= TOGETHER:
                yield held
                held, size = [], 0
    if held:
        yield held


def _of_files(place: str, paths: Sequence[str], cutter: Cutter) -> Iterator[Piece]:
    texts: list[str] = []
    others: list[str] = []
    for path in paths:
        (texts if is_text(path) else others).append(path)
    while texts:
        found = cutter.read(place, texts)
        for path, (state, parts, problem, again) in zip(texts, found, strict=False):
            last = max(0, len(parts) - 1) // TOGETHER * TOGETHER
            for start in range(0, last, TOGETHER):
                yield Piece(path, parts[start : start + TOGETHER], state, ends=False)
            yield Piece(path, parts[last:] if last else parts, state, True, problem, again)
        del texts[: len(found)]
    for path in others:
        yield from _of_documents(place, path, cutter)


def _of_documents(place: str, path: str, cutter: Cutter) -> Iterator[Piece]:
    """The pieces of a file that is not text."""
    parts: list[Passage] = []
    problem, again = "", False
    [state] = states(place, [path])
    try:
        for own in documents(f"{place}{path}"):
            parts += cutter.cut(own)
            if len(parts) >= TOGETHER:
                yield Piece(path, parts, state, ends=False)
                parts = []
    except (OSError, GrillyError) as error:
        problem = str(getattr(error, "strerror", None) or error)
        again = not isinstance(error, InvalidArgumentError)
    yield Piece(path, [] if problem else parts, state, True, problem, again)
