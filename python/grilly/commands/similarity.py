"""`grilly similarity`: how alike texts are."""

import argparse
import json

from grilly.commands.embed import opened
from grilly.commands.table import command
from grilly.errors import InvalidArgumentError

__all__ = ["main"]


@command("similarity")
def main(given: argparse.Namespace) -> int:
    """Prints the similarity of the first text with each of the others, and returns the exit status.

    Example:
        >>> from grilly.commands import similarity
        >>> similarity.main(["A cat.", "A cat.", "--device", "cpu"])
        1.0000
        0
    """
    first, *others = given.texts
    if not others:
        raise InvalidArgumentError("expected two texts or more")
    with opened(given) as model:
        rows = model.encode(given.texts, show_progress_bar=False)
        scores = model.similarity(rows[:1], rows[1:])[0].tolist()
    for text, score in zip(others, scores, strict=True):
        if given.json:
            print(json.dumps({"score": round(score, 6), "first": first, "second": text}, ensure_ascii=False))
        else:
            print(f"{score:.4f}" + (f"  {text}" if len(others) > 1 else ""))
    return 0
