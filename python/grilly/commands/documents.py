"""The files of a folder as documents: text, Markdown, HTML, PDF, and records of JSON Lines, CSV and Parquet."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from grilly import _core
from grilly.closed import closed
from grilly.commands.cutting import File, Part, a_moment_ago, paragraphs
from grilly.commands.reading import EVERY, KINDS, need_module, records
from grilly.errors import InvalidArgumentError

__all__ = ["Listed", "documents", "is_text", "states", "walk"]

HTML = {".html", ".htm", ".xhtml"}
#: Endings of files that are not read as text.
OTHERS = {*KINDS, *HTML, ".pdf"}
#: Elements that divide text, and those of which no text is shown.
BLOCKS = set(
    "address article aside blockquote body br caption dd div dl dt figcaption figure footer form h1 h2 h3 h4 h5 h6 "
    "header hr li main nav ol option p pre section table td th title tr ul".split()
)
HIDDEN = {"script", "style", "template", "noscript"}


@closed()
class Listed(NamedTuple):
    """The paths of a folder's files in it, in order, and those that are left out, with the reason."""

    files: list[str]
    problems: dict[str, str]


def walk(root: Path) -> Listed:
    """The files below a folder, without files and folders whose name starts with a dot.

    Args:
        root: The folder. A link to a folder is not followed.

    Example:
        >>> import pathlib, tempfile
        >>> from grilly.commands.documents import walk
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (root / "a.txt").write_text("A cat."), (root / ".b.txt").write_text("hidden")
        >>> walk(root).files
        ['a.txt']
    """
    found, unnamed, problems = _core.walk_files(root)
    problems += [(ascii(path), "its name is not UTF-8") for path in unnamed]
    return Listed(found, dict(problems))


def states(root: Path | str, paths: list[str]) -> list[File | None]:
    """The states of files of a folder, None of one that has none now.

    Example:
        >>> import pathlib, tempfile
        >>> from grilly.commands.documents import states
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (root / "a.txt").write_text("A cat.")
        >>> states(root, ["a.txt", "b.txt"])
        [(6, -1), None]
    """
    return _core.file_states(root, paths, a_moment_ago())


def _ending(path: str) -> str:
    return path[path.rfind(".") :].lower()


def is_text(path: str) -> bool:
    """Whether a file is read as text, by its ending.

    Example:
        >>> from grilly.commands.documents import is_text
        >>> is_text("a.md"), is_text("a.PDF")
        (True, False)
    """
    return _ending(path) not in OTHERS


def documents(path: str) -> Iterator[list[Part]]:
    """The paragraphs of each document in a file, with their lines, or pages of a PDF; none of a binary file.

    Raises:
        OSError: The file cannot be read.
        InvalidArgumentError: It is not what its ending says.
        MissingLibraryError: A PDF without pypdf, Parquet without pyarrow.

    Example:
        >>> import pathlib, tempfile
        >>> from grilly.commands.documents import documents
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.html"
        >>> _ = path.write_text("<h1>Cats</h1>\\n<p>A <b>cat</b> sleeps.</p>")
        >>> list(documents(str(path)))
        [[Part(line=1, text='Cats'), Part(line=2, text='A cat sleeps.')]]
    """
    ending = _ending(path)
    if ending in KINDS:
        for record in records(path, field=EVERY):
            yield [Part(record.line, record.text)] if record.text.strip() else []
    elif ending == ".pdf":
        yield from _pages(path)
    elif (text := _core.read_text(path)) is not None:
        yield _shown(text) if ending in HTML else paragraphs(text)


def _pages(path: str) -> list[list[Part]]:
    """The paragraphs of each page; the number of the page is their line."""
    pypdf = need_module("pypdf", "PDF files")
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what it says of a file does not name it
    try:
        pages = [page.extract_text() for page in pypdf.PdfReader(path).pages]
    except OSError:
        raise
    except Exception as error:  # pypdf lets errors of many classes pass
        raise InvalidArgumentError(f"it is not a PDF that pypdf reads: {error}") from error
    return [[Part(number, part.text) for part in paragraphs(page)] for number, page in enumerate(pages, start=1)]


class _Shown(HTMLParser):
    """The text that a page shows, divided by its blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Part] = []
        self._words: list[str] = []
        self._line = self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in HIDDEN
        self._divide(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._divide(tag)

    def handle_endtag(self, tag: str) -> None:
        self._hidden = max(0, self._hidden - (tag in HIDDEN))
        self._divide(tag)

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            if not "".join(self._words).strip() and data.strip():
                before = data[: len(data) - len(data.lstrip())]
                self._line = self.getpos()[0] + before.count("\n")
            self._words.append(data)

    def _divide(self, tag: str) -> None:
        if tag in BLOCKS:
            text = " ".join("".join(self._words).split())
            if text:
                self.parts.append(Part(self._line, text))
            self._words = []

    def close(self) -> None:
        super().close()
        self._divide("body")


def _shown(text: str) -> list[Part]:
    parser = _Shown()
    try:
        parser.feed(text)
        parser.close()
    except AssertionError as error:  # of html.parser, for some declarations
        raise InvalidArgumentError(f"it is not HTML that Python's html.parser reads: {error}") from None
    return parser.parts
