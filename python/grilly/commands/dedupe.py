"""`grilly dedupe`: texts without those that say what an earlier one said."""

import argparse
import json
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.commands.cluster import encoded
from grilly.commands.table import command
from grilly.errors import InvalidArgumentError
from grilly.search import Index

__all__ = ["main", "originals"]

#: Texts that are compared at a time.
BLOCK = 1024


@command("dedupe")
def main(given: argparse.Namespace) -> int:
    """Prints the texts that are kept, or with `--duplicates` the others, and returns the exit status.

    Example:
        >>> from grilly.commands import dedupe
        >>> dedupe.main(["no/such/file.txt"])
        1
    """
    if not -1 <= given.threshold <= 1:
        raise InvalidArgumentError(f"--threshold is {given.threshold}, expected a cosine, from -1 to 1")
    found, rows = encoded(given)
    if not found:
        return 0
    for place, (record, (first, score)) in enumerate(zip(found, originals(rows, given.threshold), strict=True)):
        if given.duplicates == (first == place):
            continue
        if given.json:
            more = {"duplicate_of": found[first].line, "score": round(score, 6)} if given.duplicates else {}
            values = {"line": record.line, **record.values, "text": record.text, **more}
            print(json.dumps(values, ensure_ascii=False, default=str))
        elif given.duplicates:
            print(f"{record.line} of {found[first].line}  {score:.3f}  {' '.join(record.text.split())}")
        else:
            print(record.text)
    return 0


def originals(rows: Any, threshold: float) -> list[tuple[int, float]]:
    """For each row the kept one that is nearest, and their cosine, if it is at least `threshold`; else the row itself.

    Rows are taken in their order: one that is near no kept row is kept.

    Args:
        rows: `(N, D)`, of length 1.
        threshold: A cosine.

    Example:
        >>> import numpy as np
        >>> from grilly.commands.dedupe import originals
        >>> originals(np.float32([[1, 0], [0, 1], [1, 0], [0.6, 0.8]]), 0.9)
        [(0, 1.0), (1, 1.0), (0, 1.0), (3, 1.0)]
    """
    kept = Index(rows.shape[1], "dot", device="cpu")
    numbers: list[int] = []
    found: list[tuple[int, float]] = []
    for start in range(0, len(rows), BLOCK):
        block: npt.NDArray[Any] = np.asarray(rows[start : start + BLOCK], np.float32)
        before = kept.search(block, top_k=1)
        inside = block @ block.T
        own: list[int] = []
        for place in range(len(block)):
            score, first = -np.inf, start + place
            if before.scores.shape[1] and before.scores[place, 0] > score:
                score, first = before.scores[place, 0], numbers[before.rows[place, 0]]
            if own and inside[place, own].max() > score:
                near = own[int(inside[place, own].argmax())]
                score, first = inside[place, near], start + near
            if score < threshold:
                own.append(place)
                score, first = 1.0, start + place
            found.append((first, float(score)))
        numbers += [start + place for place in own]
        kept.add(block[own])
    return found
