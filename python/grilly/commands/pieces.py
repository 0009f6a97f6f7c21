"""Files as parts with a digest each, read some time before they are stored."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from grilly.closed import closed
from grilly.commands.cutting import Cutter
from grilly.commands.documents import documents
from grilly.errors import GrillyError, InvalidArgumentError

__all__ = ["Piece", "pieces", "weight"]

#: Files and parts of files that are given at a time.
TOGETHER = 512


@closed()
class Piece(NamedTuple):
    """Parts of a file that follow each other; of a long file there are several pieces.

    Attributes:
        path: The file in its folder.
        parts: Of each its line, its digest, and its text.
        ends: Whether the file ends here.
        problem: Why the file is left out; empty if it is not.
        again: Whether it may be readable the next time, as it is.
    """

    path: str
    parts: list[tuple[int, bytes, str]]
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
    size = 0  # of the pieces before the file that is read
    for path in paths:
        parts: list[tuple[int, bytes, str]] = []
        problem, again = "", False
        try:
            for own in documents(f"{place}{path}"):
                for part in cutter.cut(own):
                    content = part.text.encode(errors="replace")  # of halves of surrogate pairs
                    parts.append((part.line, hashlib.blake2b(content, digest_size=16).digest(), content.decode()))
                    if size + len(parts) >= TOGETHER:
                        yield [*held, Piece(path, parts, ends=False)]
                        held, size, parts = [], 0, []
        except (OSError, GrillyError) as error:
            problem = str(getattr(error, "strerror", None) or error)
            again = not isinstance(error, InvalidArgumentError)
        held.append(Piece(path, [] if problem else parts, True, problem, again))
        size += len(held[-1].parts) + 1
        if size >= TOGETHER:
            yield held
            held, size = [], 0
    if held:
        yield held
