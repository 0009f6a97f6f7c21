"""`grilly rerank`: texts by how well they answer a query, from a model that reads both at once."""

import argparse
import json
import sys

from grilly import CrossEncoder
from grilly.commands.reading import records
from grilly.commands.table import command

__all__ = ["main"]


@command("rerank")
def main(given: argparse.Namespace) -> int:
    """Prints the texts, the best first, and returns the exit status.

    Example:
        >>> from grilly.commands import rerank
        >>> rerank.main(["a cat", "no/such/file.txt"])
        1
    """
    found = [record for record in records(given.input, given.input_format, given.field) if record.text.strip()]
    if not found:
        return 0
    with CrossEncoder(given.model, device=given.device, dtype=given.dtype) as model:
        ranked = model.rank(
            given.query, [record.text for record in found], top_k=given.top_k, show_progress_bar=sys.stderr.isatty()
        )
    for row in ranked:
        record, score = found[row["corpus_id"]], float(row["score"])
        if given.json:
            # What the record has beside its text stays, but for the score of an earlier search.
            values = {"line": record.line, **record.values, "score": round(score, 6), "text": record.text}
            print(json.dumps(values, ensure_ascii=False, default=str))
        else:
            place = str(record.line)
            if "path" in record.values:  # of a search
                place = f"{record.values['path']}:{record.values.get('line', record.values.get('page', ''))}"
            print(f"{place}  {score:.3f}  {' '.join(record.text.split())}")
    return 0
