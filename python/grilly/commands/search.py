"""`grilly search`: the parts of a folder's files that are nearest to a query."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grilly import SentenceTransformer
from grilly.commands.ahead import Ahead
from grilly.commands.documents import Listed, walk
from grilly.commands.folder_index import NAME, FolderIndex, Hit
from grilly.commands.table import command
from grilly.errors import InvalidArgumentError

__all__ = ["main", "update"]

MODEL = "all-MiniLM-L6-v2"
#: Characters of a part that are shown, and problems that are listed.
SHOWN, LISTED = 300, 10


@command("search")
def main(given: argparse.Namespace) -> int:
    """Brings the index up to date and prints what is found; returns the exit status, 1 where there is no text.

    Example:
        >>> from grilly.commands import search
        >>> search.main(["a cat", "no/such/folder"])
        1
    """
    root: Path = given.folder
    if not root.is_dir():
        remedy = f"; search its folder: {root.parent}" if root.is_file() else ""
        raise InvalidArgumentError(f"{root} is not a folder{remedy}")
    place = given.index or root / NAME
    if given.rebuild:
        FolderIndex.remove(place)
    with FolderIndex(place) as index, Ahead([listed(root)], 1, threading.Event()) as walked:
        name = given.model or index.setting("model") or MODEL
        own = index.setting("dtype") if name == index.setting("model") else None
        with SentenceTransformer(name, device=given.device, dtype=given.dtype or own) as model:
            update(index, root, model, name, next(walked))
            unit = model.similarity_fn_name != "dot"
            query = model.encode_query(given.query, normalize_embeddings=unit, show_progress_bar=False)
        hits = index.search(query, given.top_k)
    if not hits:
        print(f"{root}: there is no text in it", file=sys.stderr)
        return 1
    for hit in hits:
        print(json.dumps(as_json(root, hit), ensure_ascii=False) if given.json else as_text(root, hit))
    return 0


def listed(root: Path) -> Iterator[Listed]:
    """The files of a folder, which a thread lists while the model is loaded."""
    yield walk(root)


def update(index: FolderIndex, root: Path, model: Any, name: str, found: Listed) -> None:
    """Brings the index of a folder up to date; problems and progress are on stderr."""
    before = index.begin(model, name)
    if before:
        print(f"the index was {before}: all files are embedded again with {name} in {model.dtype}", file=sys.stderr)
    if index.place.resolve().is_relative_to(root.resolve()):  # one whose name does not begin with a dot
        own = index.place.resolve().relative_to(root.resolve()).as_posix()
        found.files[:] = [path for path in found.files if not path.startswith(f"{own}/")]
    with shown() as told:
        index.update(root, found, model, told)
    for path, problem in list(found.problems.items())[:LISTED]:
        print(f"{root / path}: left out: {problem}", file=sys.stderr)
    if len(found.problems) > LISTED:
        print(f"and {len(found.problems) - LISTED} more files are left out", file=sys.stderr)


@contextmanager
def shown() -> Iterator[Callable[[int, float], object] | None]:
    """What shows the texts that were embedded, their rate, and the time that is left, on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    form = "{desc}: {percentage:3.0f}%|{bar}| [{elapsed}<{remaining}{postfix}]"
    bars: list[Any] = []  # none before something is done, as where no file has changed
    begun = time.time()

    def told(texts: int, share: float) -> None:
        if not bars:
            bars.append(tqdm(total=1.0, desc="Files", bar_format=form))
            bars[0].start_t = begun
        rate = texts / max(1e-3, time.time() - begun)
        bars[0].set_postfix_str(f"{texts:,} texts, {rate:,.0f} text/s", refresh=False)
        bars[0].update(share - bars[0].n)

    try:
        yield told
    finally:
        for bar in bars:
            bar.close()


def as_json(root: Path, hit: Hit) -> dict[str, Any]:
    """A hit as an object: of a PDF with its page in place of the line."""
    unit = "page" if hit.path.lower().endswith(".pdf") else "line"
    return {"path": str(root / hit.path), unit: hit.line, "score": round(hit.score, 6), "text": hit.text}


def as_text(root: Path, hit: Hit) -> str:
    """A hit in lines: its place and score, then the beginning of its text."""
    shown = textwrap.shorten(hit.text, SHOWN, placeholder=" ...")
    width = max(min(shutil.get_terminal_size().columns, 120), 40)
    indent = "    "
    text = textwrap.fill(shown, width, initial_indent=indent, subsequent_indent=indent)
    path = str(root / hit.path)
    return f"{path if path.isprintable() else ascii(path)}:{hit.line}  {hit.score:.3f}\n{text}"
