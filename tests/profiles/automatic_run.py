"""Loads a model under several choices of a device, which the environment makes, and writes what came of each as JSON.

`python -m profiles.automatic_run OUTPUT`, from the tests' folder; the standard input has a list of cases, in JSON:
`family`, a name of families.json, and arguments of the model.
"""

import json
import logging
import sys
import tempfile
from pathlib import Path

from models import families
from models.golden import error

import grilly
import grilly.testing
from profiles.device_run import golden


class Lines(logging.Handler):
    """The log of grilly."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.lines = []

    def emit(self, record):
        self.lines.append(f"{record.levelname} {record.getMessage()}")


def case(family: str, folder: Path, rows, arguments: dict) -> dict:
    """Where a model runs, and how far its rows of every eighth text are from the golden ones."""
    log = Lines()
    logging.getLogger("grilly").addHandler(log)
    logging.getLogger("grilly").setLevel(logging.INFO)
    before = grilly.stats()
    path = folder / family
    if not path.exists():
        families.build(family, folder)
    with grilly.SentenceTransformer(str(path), **arguments) as model:
        loaded = grilly.stats()
        found = model.encode([str(text) for text in rows["texts"]][1::8], normalize_embeddings=False)
        told = {"backend": model.backend, "reason": model.device_reason, "requested": model.requested_device}
    logging.getLogger("grilly").removeHandler(log)
    # Of one that is timed on both.
    told["timed"] = min(loaded[f"batches_{kind}"] - before[f"batches_{kind}"] for kind in ("vulkan", "cpu"))
    return told | {"error": error(found, rows[f"{family}/rows"][1::8]), "log": log.lines}


def main(output: str) -> None:
    rows, outcomes = golden("families"), []
    with tempfile.TemporaryDirectory() as folder:
        for own in json.load(sys.stdin):
            family = own.pop("family")
            outcomes.append(case(family, Path(folder), rows, own))
    found = {"auto": grilly.info()["auto"], "stats": grilly.stats(), "cases": outcomes}
    found["messages"] = grilly.testing.validation_messages()
    Path(output).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
