"""Texts that come one after another: their rows in parts, or in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import length_hint
from pathlib import Path
from typing import Any, TypeVar

from grilly.errors import GrillyError, InvalidArgumentError
from grilly.inputs import positive
from grilly.row_file import RowFile
from grilly.sentence_transformer.calls import Request, progress

__all__ = ["PART", "Encode", "file_of", "in_file", "in_parts", "parts_of"]

#: Texts encoded at a time: between two parts a device is idle for some milliseconds, of a sixth of a second. After a
#: few parts the allocator holds the rows of one more.
PART = 8_192

#: The result of a list of texts of which so many came before, and what is called with the number of texts done.
Encode = Callable[[list[Any], Any], Any]


Asked = TypeVar("Asked", bound=Request)
#: The result of a list of texts for a request; the last argument is called with the number of texts done, or None.
Call = Callable[[list[Any], Asked, Any], Any]


def parts_of(texts: Iterator[Any], request: Asked, encode: Call[Asked]) -> Iterator[Any]:
    """The results of a call's texts, `chunk_size` of them at a time; faults of the call itself raise at once."""
    alone, size = part_by_part(request, encode)
    return in_parts(alone, texts, size, request.show_progress_bar)


def file_of(texts: Iterator[Any], request: Asked, encode: Call[Asked], path: str, resume: bool) -> Any:
    """The rows of a call's texts in a file, written as `parts_of` gives them."""
    alone, size = part_by_part(request, encode)
    return in_file(alone, texts, size, request.show_progress_bar, path, resume)


def part_by_part(request: Asked, encode: Call[Asked]) -> tuple[Encode, int]:
    """What computes a part of a call's texts, and the number of those."""
    alone = replace(request, chunk_size=None, show_progress_bar=False)
    encode([], alone, None)  # the checks that need a model
    size = PART if request.chunk_size is None else positive(request.chunk_size, "chunk_size")
    return lambda part, advance: encode(part, alone, advance), size


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
