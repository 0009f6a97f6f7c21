"""Texts that come one after another: their rows in parts, or in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from operator import length_hint
from pathlib import Path
from typing import Any

from grilly.errors import GrillyError, InvalidArgumentError
from grilly.row_file import RowFile
from grilly.sentence_transformer.calls import progress

__all__ = ["PART", "Encode", "in_file", "in_parts"]

#: Texts encoded at a time: between two parts a device is idle for some milliseconds, of a third of a second.
PART = 16_384

#: The result of a list of texts of which so many came before, and what is called with the number of texts done.
Encode = Callable[[list[Any], Any], Any]


def in_parts(encode: Encode, texts: Iterator[Any], size: int, shown: bool | None, done: int = 0) -> Iterator[Any]:
    """The results of `size` texts at a time, which are taken from the iterator when the one before was taken.

    Args:
        encode: Of a list of texts.
        texts: The texts.
        size: Texts of a part; the last one may have fewer.
        shown: Whether a bar shows how many texts are done, their rate, and the time left if the number is known.
        done: Texts that were taken before.
    """
    left = length_hint(texts)
    with progress(done + left if left else None, shown, done) as advance:
        while part := list(islice(texts, size)):
            try:
                found = encode(part, advance and partial(counted, advance, done))
            except GrillyError as error:
                if done and error.args:  # it counts from the first text of the part
                    error.args = (f"{error.args[0]} (counted from text {done})", *error.args[1:])
                raise
            done += len(part)
            yield found


def in_file(encode: Encode, texts: Iterator[Any], size: int, shown: bool | None, path: str, resume: bool) -> Any:
    """The rows of texts in a file, mapped from it; with `resume` after those that it has.

    The last row there is computed again: with another model, text or device it is another.
    """
    with RowFile(Path(path), resume) as file:
        last = list[Any]()
        for number in range(file.rows):
            last = list(islice(texts, 1))
            if not last:
                raise InvalidArgumentError(f"{path} has {file.rows} rows, and there are {number} texts")
        if last:
            row = encode(last, None)[0]
            if row.tobytes() != file.last().tobytes():
                raise InvalidArgumentError(
                    f"row {file.rows - 1} of {path} is not that of this text, model, device and arguments"
                )
        for rows in in_parts(encode, texts, size, shown, file.rows):
            file.add(rows)
        if not file.rows:
            file.add(encode([""], None)[:0])
        return file.matrix()


def counted(advance: Callable[[int], object], before: int, done: int) -> None:
    """Tells of the texts done in a part, and those before it."""
    advance(before + done)
