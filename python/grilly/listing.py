"""The modules that a model's folder lists, those within Routers included."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["ROUTERS", "listed"]

# Names of the module that has others for each of its routes, the second of older versions, and of its settings.
ROUTERS = ("Router", "Asym")
ROUTER_FILES = ("router_config.json", "config.json")


def listed(folder: Path, rows: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Folder, relative to the model's, and kind of each module of `rows` of modules.json; a Router's follow it.

    Raises:
        OSError: A Router has no settings.
        ValueError: They are not JSON (`LookupError` and `TypeError`: not those of a Router).

    Example:
        >>> from pathlib import Path
        >>> from grilly.listing import listed
        >>> list(listed(Path("."), [{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]))
        [('1_Pooling', 'Pooling')]
    """
    for row in rows:
        path, kind = str(row["path"]), str(row["type"]).rpartition(".")[2]
        yield path, kind
        if kind in ROUTERS:
            settings = next((folder / path / name for name in ROUTER_FILES if (folder / path / name).is_file()), None)
            if settings is None:
                raise FileNotFoundError(f"{folder / path / ROUTER_FILES[0]}: no such file")
            modules = json.loads(settings.read_text(encoding="utf-8"))["types"]
            for name, inner in modules.items():
                yield os.path.join(path, name), str(inner).rpartition(".")[2]
