"""`grilly cluster`: groups of texts that say alike things."""

import argparse
import json
import sys
from typing import Any

from grilly.commands.embed import opened
from grilly.commands.reading import Record, records
from grilly.commands.table import command
from grilly.util import community_detection

__all__ = ["encoded", "main"]


@command("cluster")
def main(given: argparse.Namespace) -> int:
    """Prints the groups, the largest first, and returns the exit status.

    Example:
        >>> from grilly.commands import cluster
        >>> cluster.main(["no/such/file.txt"])
        1
    """
    found, rows = encoded(given)
    groups = community_detection(rows, given.threshold, given.min_size) if found else []
    for number, group in enumerate(groups, start=1):
        members = [found[place] for place in group]
        if given.json:
            texts = [{"line": record.line, "text": record.text} for record in members]
            print(json.dumps({"cluster": number, "texts": texts}, ensure_ascii=False))
        else:
            print(f"cluster {number}, {len(group)} texts")
            print("\n".join(f"  {record.line}  {' '.join(record.text.split())}" for record in members))
    if not given.json:
        alone = len(found) - sum(map(len, groups))
        print(f"{len(groups)} cluster{'s' * (len(groups) != 1)}; {alone} of {len(found)} texts are in none")
    return 0


def encoded(given: argparse.Namespace) -> tuple[list[Record], Any]:
    """The texts of the input that are not blank, and their rows `(N, D)` of length 1."""
    found = [record for record in records(given.input, given.input_format, given.field) if record.text.strip()]
    if not found:
        return [], []
    with opened(given) as model:
        texts = [record.text for record in found]
        rows = model.encode(texts, normalize_embeddings=True, show_progress_bar=sys.stderr.isatty())
    return found, rows
