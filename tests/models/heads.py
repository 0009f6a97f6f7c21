"""Tiny checkpoints with a head for another task than embeddings, written as those of `families`.

`fixtures/heads.json` holds what transformers and sentence-transformers wrote for each.
"""

import json
from pathlib import Path

from . import families

TABLE = families.FIXTURES / "heads.json"


def table() -> dict[str, dict[str, dict]]:
    """Rows by task, `scores` or `words`, then by name."""
    return json.loads(TABLE.read_text(encoding="utf-8"))


def build(task: str, name: str, folder: Path) -> Path:
    """Writes a checkpoint into `folder/name` and returns that path."""
    return families.write(table()[task][name], folder / name)


def build_for_reference(task: str, name: str, folder: Path) -> Path:
    """The same for transformers: with its own configuration where it cannot read that of the fixture."""
    fixture = table()[task][name]
    config = fixture.get("reference_config", fixture["files"]["config.json"])
    return families.write(fixture | {"files": fixture["files"] | {"config.json": config}}, folder / name)


def build_both(task: str, name: str, folder: Path) -> tuple[Path, Path]:
    """The checkpoint of `build` and that of `build_for_reference`."""
    return build(task, name, folder / "ours"), build_for_reference(task, name, folder / "theirs")
