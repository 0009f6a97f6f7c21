"""Models with a Router, written as `families` writes the encoders in them: `fixtures/routers.json` has each."""

import json
from pathlib import Path

from . import families

TABLE = families.FIXTURES / "routers.json"


def table() -> dict[str, dict]:
    return json.loads(TABLE.read_text(encoding="utf-8"))


def build(name: str, folder: Path) -> Path:
    """Writes the model `name` into `folder/name` and returns that path."""
    return families.write(table()[name], folder / name)


def as_asym(folder: Path) -> Path:
    """The same model in the files of versions before 5: another class, in its settings' older file."""
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    for module in modules:
        if module["type"].endswith(".Router"):
            module["type"] = "sentence_transformers.models.Asym"
            (folder / module["path"] / "router_config.json").rename(folder / module["path"] / "config.json")
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    return folder
