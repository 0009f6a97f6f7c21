"""Tiny checkpoints with a head for another task than embeddings, written as those of `families`.

`fixtures/heads.json` holds what transformers and sentence-transformers wrote for each.
"""

import json
from pathlib import Path

from . import families

TABLE = families.FIXTURES / "heads.json"


def table() -> dict[str, dict[str, dict]]:
    """Rows by task, `scores`, `words` or `vectors`, then by name."""
    return json.loads(TABLE.read_text(encoding="utf-8"))


def batch_size(name: str) -> int | None:
    """Pairs of a batch of the reference's where the scores of a pair depend there on the others of its batch.

    Of Gemma 2 and MobileBERT as in `families.batch_size`; where the padding token of config.json is not the
    tokenizer's, the vector of one of the latter is scored; with LogitScore padding comes first and moves positions,
    whose angles are rounded.
    """
    files = table()["scores"][name]["files"]
    apart = files["config.json"]["model_type"] in ("gemma2", "mobilebert") or "1_LogitScore/config.json" in files
    return 1 if apart or name == "mistral" else None


def write(fixture: dict, folder: Path) -> Path:
    """Writes a row of the table, whose markers become added tokens, as PyLate's."""
    families.write(fixture, folder)
    if markers := fixture.get("markers"):
        path = folder / "tokenizer.json"
        tokenizer = json.loads(path.read_text(encoding="utf-8"))
        first = 1 + max(tokenizer["model"]["vocab"].values())
        plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": False}
        tokenizer["added_tokens"] += [
            {"id": first + place, "content": marker} | plain for place, marker in enumerate(markers)
        ]
        path.write_text(json.dumps(tokenizer), encoding="utf-8")
    return folder


def build(task: str, name: str, folder: Path) -> Path:
    """Writes a checkpoint into `folder/name` and returns that path."""
    return write(table()[task][name], folder / name)


def build_for_reference(task: str, name: str, folder: Path) -> Path:
    """The same for transformers: with its own configuration where it cannot read that of the fixture."""
    fixture = table()[task][name]
    config = fixture.get("reference_config", fixture["files"]["config.json"])
    return write(fixture | {"files": fixture["files"] | {"config.json": config}}, folder / name)


def build_both(task: str, name: str, folder: Path) -> tuple[Path, Path]:
    """The checkpoint of `build` and that of `build_for_reference`."""
    return build(task, name, folder / "ours"), build_for_reference(task, name, folder / "theirs")
