"""`grilly check`: whether a model's folder loads, as what, and if not why."""

from __future__ import annotations

import argparse
import json
import logging
import math
from pathlib import Path
from typing import Any

import grilly
from grilly import hub
from grilly.commands.table import command
from grilly.errors import GrillyError

__all__ = ["classes_of", "loaded", "main"]

#: Classes of models, the usual one first.
CLASSES = ("SentenceTransformer", "CrossEncoder", "SparseEncoder", "MultiVectorEncoder")
PROBE = "A text that every model reads."


class _Kept(logging.Handler):
    """Keeps the lines that are logged."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@command("check")
def main(given: argparse.Namespace) -> int:
    """Loads a model, encodes a text and prints what it is, or what is wrong; returns 1 if it does not load.

    Example:
        >>> from grilly.commands import check
        >>> check.main(["no-such-folder/"])  # doctest: +ELLIPSIS
        no-such-folder/ does not load
        ModelNotFoundError: no model called 'no-such-folder/': ...
        1
    """
    logger, kept = logging.getLogger("grilly"), _Kept()
    logger.addHandler(kept)
    try:
        facts = checked(given)
    finally:
        logger.removeHandler(kept)
    facts["notes"] = list(dict.fromkeys(kept.lines))
    if given.json:
        print(json.dumps({"model": given.model, **facts}, indent=2, ensure_ascii=False))
        return 0 if facts["loads"] else 1
    if not facts["loads"]:
        print(f"{given.model} does not load\n{facts['error']}: {facts['problem']}")
    else:
        print(f"{given.model} loads as {facts['class']}")
        rows = ((name, value) for name, value in facts.items() if name not in ("loads", "class", "notes"))
        print("\n".join(f"  {name:<10} {value}" for name, value in rows))
    print("".join(f"note: {line}\n" for line in facts["notes"]), end="")
    return 0 if facts["loads"] else 1


def checked(given: argparse.Namespace) -> dict[str, Any]:
    """Whether the model loads, with what it is, or the error of the class that it names."""
    try:
        folder = hub.resolve(given.model).folder
        model, name = loaded(given.model, folder, given.kind, device=given.device, dtype=given.dtype)
        with model:
            facts: dict[str, Any] = {"loads": True, "class": name, "folder": str(folder), "family": model.model_type}
            if name == "CrossEncoder":
                model.predict([(PROBE, PROBE)])
                facts["result"] = f"scores of pairs, {model.num_labels} for each"
            else:
                model.encode([PROBE])
                facts["result"] = f"{model.get_embedding_dimension()} numbers, compared by {model.similarity_fn_name}"
            most = model.max_seq_length
            facts |= {"reads": "any number of tokens" if most == math.inf else f"{most} tokens", "type": model.dtype}
            return facts | {"device": model.device_name if model.backend == "vulkan" else "cpu"}
    except (GrillyError, OSError) as error:
        return {"loads": False, "error": type(error).__name__, "problem": str(error)}


def loaded(name: str, folder: Path, kind: str | None = None, **options: Any) -> tuple[Any, str]:
    """A model by the first class that loads its folder, and the name of that.

    Raises:
        GrillyError: None loads it: the error of the class that its files name.
    """
    first: Exception | None = None
    for each in [kind] if kind else classes_of(folder):
        try:
            return getattr(grilly, each)(name, **options), each
        except (GrillyError, OSError) as error:
            first = first or error
    assert first is not None
    raise first


def classes_of(folder: Path) -> list[str]:
    """The classes to load a folder by: first the one that its files name.

    Example:
        >>> from pathlib import Path
        >>> from grilly.commands.check import classes_of
        >>> classes_of(Path("no-such-folder"))[0]
        'SentenceTransformer'
    """
    named = str(_read(folder / "config_sentence_transformers.json").get("model_type"))
    if named not in CLASSES and not (folder / "modules.json").is_file():
        heads = _read(folder / "config.json").get("architectures")
        if isinstance(heads, list) and any(str(head).endswith("ForSequenceClassification") for head in heads):
            named = "CrossEncoder"
        elif (folder / "artifact.metadata").is_file():
            named = "MultiVectorEncoder"
    return sorted(CLASSES, key=lambda each: each != named)


def _read(path: Path) -> dict[str, Any]:
    """The values of a JSON file; none if it is not one, which loading tells."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
