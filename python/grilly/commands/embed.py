"""`grilly embed`: the rows of texts, in a file or on stdout."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from grilly import SentenceTransformer
from grilly.commands.reading import Stream, kind_of, records
from grilly.commands.table import command
from grilly.commands.writing import WRITERS, JsonLines, Writer
from grilly.errors import InvalidArgumentError

__all__ = ["counted", "main", "opened"]


@command("embed")
def main(given: argparse.Namespace) -> int:
    """Encodes texts and writes their rows; returns the exit status.

    Example:
        >>> from grilly.commands import embed
        >>> embed.main(["no/such/file.txt", "--output", "rows.npy"])
        1
    """
    target = None if given.output in (None, "-") else Path(given.output)
    checked(target, given)
    for path in given.inputs:
        if path != "-":
            open(path, "rb").close()  # one that is missing is told before a model is loaded
    texts = (record.text for path in given.inputs for record in records(path, given.input_format, given.field))
    with opened(given) as model, set_aside(target if given.overwrite else None):
        made = target is not None and not target.exists()
        options = {
            "prompt_name": given.prompt_name, "normalize_embeddings": given.normalize,
            "truncate_dim": given.truncate_dim, "batch_size": given.batch_size,
            "show_progress_bar": sys.stderr.isatty(),
        }  # fmt: skip
        count = counted(given.inputs, given.input_format)
        if target is not None and target.suffix == ".npy":
            try:
                rows = model.encode(Stream(texts, count), out=target, resume=given.resume, **options)
            except BaseException:
                if made and target.exists() and not target.stat().st_size:
                    target.unlink()
                raise
            said(len(rows), target)
            return 0
        writer: Writer = JsonLines(None, False) if target is None else WRITERS[target.suffix](target, given.resume)
        done = False
        try:
            taken: list[str] = []
            left = kept(after(writer, texts, target), taken)
            for rows in model.encode(Stream(left, count and count - writer.rows), **options):
                writer.add(taken[: len(rows)], rows)
                del taken[: len(rows)]
            done = True
        finally:
            writer.close(done)
            if made and target is not None and not done and not writer.rows:
                target.unlink(missing_ok=True)
        said(writer.rows, target)
    return 0


def opened(given: argparse.Namespace) -> SentenceTransformer:
    """The model of the options `--model`, `--device` and `--dtype`."""
    return SentenceTransformer(given.model, device=given.device, dtype=given.dtype)


def said(rows: int, target: Path | None) -> None:
    """Says how many rows a file has, to a terminal."""
    if target is not None and sys.stderr.isatty():
        print(f"{rows:,} rows in {target}", file=sys.stderr)


def checked(target: Path | None, given: argparse.Namespace) -> None:
    """Refuses a file of another kind, and one that is there unless it is to be replaced or goes on."""
    if target is None:
        if given.resume:
            raise InvalidArgumentError("--resume goes on with the file of --output, which is not given")
        return
    if target.suffix not in (".npy", *WRITERS):
        raise InvalidArgumentError(f"--output {target}: expected a file that ends with .npy, {', '.join(WRITERS)}")
    if given.resume and given.overwrite:
        raise InvalidArgumentError("--resume and --overwrite: expected one of them")
    if target.exists() and not given.resume and not given.overwrite:
        raise InvalidArgumentError(f"{target} is there already; --resume goes on with it, --overwrite replaces it")


@contextmanager
def set_aside(target: Path | None) -> Iterator[None]:
    """Gives a file that is to be replaced another name, and its own again if nothing took its place.

    Example:
        >>> import pathlib, tempfile
        >>> from grilly.commands.embed import set_aside
        >>> target = pathlib.Path(tempfile.mkdtemp()) / "rows.npy"
        >>> _ = target.write_text("old")
        >>> with set_aside(target):
        ...     target.exists()
        False
        >>> target.read_text()
        'old'
    """
    if target is None or not target.is_file():
        yield
        return
    aside = target.replace(target.with_name(f"{target.name}.replaced"))  # over one that a killed run left
    try:
        yield
    finally:
        if target.exists():
            aside.unlink()
        else:
            aside.rename(target)


def after(writer: Writer, texts: Iterator[str], target: Path | None) -> Iterator[str]:
    """The texts after those that a file has; its last text must be the one that was in this place."""
    if writer.rows:
        before = list(islice(texts, writer.rows))
        if len(before) < writer.rows or before[-1] != writer.last:
            raise InvalidArgumentError(
                f"row {writer.rows} of {target} is of the text {str(writer.last)[:60]!r}, which is not text "
                f"{writer.rows} of the input; --overwrite begins again"
            )
    return texts


def kept(texts: Iterator[str], taken: list[str]) -> Iterator[str]:
    """The texts, each of which is put into a list when it is taken."""
    for text in texts:
        taken.append(text)
        yield text


def counted(paths: list[str], kind: str | None) -> int | None:
    """How many texts there are at most, for the time left; None if that takes reading all of them.

    Example:
        >>> from grilly.commands.embed import counted
        >>> counted(["-"], None)
    """
    # A pipe, such as the shell's <(command), is read once.
    if any(not os.path.isfile(path) or kind_of(path, kind) not in ("lines", "jsonl") for path in paths):
        return None
    total = 0
    for path in paths:
        with open(path, "rb") as file:
            last: Any = b""
            while block := file.read(1 << 20):
                total, last = total + block.count(b"\n"), block
            total += not last.endswith(b"\n")
    return total
