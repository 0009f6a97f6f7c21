"""Documents cut into parts that a model reads whole: paragraphs, joined where short and divided where long."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from grilly import _core
from grilly.closed import closed

__all__ = ["Cutter", "File", "Part", "Passage", "a_moment_ago", "paragraphs", "unpaired"]

#: Tokens of a part at most, also of a model that reads more: a long part has one vector for many subjects.
MOST = 256
#: A file that was changed so many nanoseconds ago may change again without another time; the next run reads it again.
RECENT = 100_000_000
#: A file's size, and when it was last changed, in nanoseconds; -1 for a moment ago.
File = tuple[int, int]
#: The line that a part begins in, its digest, and its text.
Passage = tuple[int, bytes, str]


def a_moment_ago() -> int:
    """The time in nanoseconds since which a file has changed a moment ago.

    Example:
        >>> import time
        >>> from grilly.commands.cutting import a_moment_ago
        >>> a_moment_ago() < time.time_ns()
        True
    """
    return time.time_ns() - RECENT


@closed()
class Part(NamedTuple):
    """A text, and the line that it begins in."""

    line: int
    text: str


def unpaired(text: str) -> str:
    """A text with a question mark in place of each half of a surrogate pair, which UTF-8 does not have.

    Example:
        >>> from grilly.commands.cutting import unpaired
        >>> unpaired("a " + chr(0xD83D))
        'a ?'
    """
    return text if text.isascii() else text.encode(errors="replace").decode()


def paragraphs(text: str) -> list[Part]:
    """What blank lines divide, with the first line of each.

    Example:
        >>> from grilly.commands.cutting import paragraphs
        >>> paragraphs("A cat.\\nIt sleeps.\\n\\nSnow.")
        [Part(line=1, text='A cat.\\nIt sleeps.'), Part(line=4, text='Snow.')]
    """
    return [Part(*own) for own in _core.paragraphs(unpaired(text))]


@closed()
class Cutter:
    """Cuts for a model: parts of at most its `max_seq_length` tokens, of `MOST` if it reads more.

    Args:
        model: A model with a tokenizer.

    Example:
        >>> from grilly.commands.cutting import Cutter, paragraphs
        >>> cutter = Cutter(model)
        >>> [line for line, _, _ in cutter.cut(paragraphs("A cat sleeps. " * 100 + "\\n\\nSnow."))]
        [1, 1, 3]
    """

    def __init__(self, model: Any) -> None:
        self._tokenizer: _core.Tokenizer = model.tokenizer._inner
        around = len(model.tokenizer.encode(model._prompt(None, None, "document")))
        self.limit = int(max(min(model.max_seq_length, MOST) - around, 8))

    def cut(self, parts: Sequence[Part]) -> list[Passage]:
        """The parts of a document's paragraphs; each begins with a paragraph, or in one that is longer than a part.

        Paragraphs are joined until they have half of the tokens, so that a heading stays with what it is of.
        """
        given = [(part.line, unpaired(part.text)) for part in parts]
        return _core.cut_passages(self._tokenizer, self.limit, given)

    def read(self, folder: str, paths: list[str]) -> list[tuple[File | None, list[Passage], str, bool]]:
        """The parts of the first of some text files, of all unless together they are large.

        With those of a file are its state before it was read, why it has no parts, or `""`, and whether it may have
        some the next time, as it is.
        """
        return _core.read_files(self._tokenizer, self.limit, folder, paths, a_moment_ago())
