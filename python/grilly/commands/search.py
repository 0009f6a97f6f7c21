"""`grilly search`: the parts of a folder's files that are nearest to a query."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any

from grilly import SentenceTransformer
from grilly.commands.documents import walk
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
    with FolderIndex(place) as index:
        name = given.model or index.setting("model") or MODEL
        with SentenceTransformer(name, device=given.device, dtype=given.dtype) as model:
            update(index, root, model, name)
            unit = model.similarity_fn_name != "dot"
            query = model.encode_query(given.query, normalize_embeddings=unit, show_progress_bar=False)
        hits = index.search(query, given.top_k)
    if not hits:
        print(f"{root}: there is no text in it", file=sys.stderr)
        return 1
    for hit in hits:
        print(json.dumps(as_json(root, hit), ensure_ascii=False) if given.json else as_text(root, hit))
    return 0


def update(index: FolderIndex, root: Path, model: Any, name: str) -> None:
    """Brings the index of a folder up to date; problems and progress are on stderr."""
    terminal = sys.stderr.isatty()
    if index.begin(model, name):
        print(f"the index was of another model: all files are embedded again with {name}", file=sys.stderr)
    problems: dict[str, str] = {}
    files = walk(root, problems)
    if index.place.resolve().is_relative_to(root.resolve()):  # one whose name does not begin with a dot
        own = index.place.resolve().relative_to(root.resolve()).as_posix()
        files = {path: file for path, file in files.items() if not path.startswith(f"{own}/")}
    changed, gone = index.changed(files)
    if changed or gone:
        from tqdm import tqdm

        taken = index.read(root, files, changed, gone, model)
        for path, problem in tqdm(taken, "Files", len(changed), unit="file", disable=not terminal or not changed):
            if problem:
                problems[path] = problem
    for path, problem in list(problems.items())[:LISTED]:
        print(f"{root / path}: left out: {problem}", file=sys.stderr)
    if len(problems) > LISTED:
        print(f"and {len(problems) - LISTED} more files are left out", file=sys.stderr)
    index.embed(model, terminal)
    if gone or changed:
        index.compact()


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
    return f"{root / hit.path}:{hit.line}  {hit.score:.3f}\n{text}"
