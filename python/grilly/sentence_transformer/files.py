"""The files of a model's folder: read, written, copied and put in place."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, TypeVar

from grilly.errors import ModelFormatError
from grilly.hub import WEIGHTS

Json = TypeVar("Json", dict[str, Any], list[dict[str, Any]])

# Files of a model, its tokenizer and its weights. Weights in torch's format are copied where there are no safetensors,
# in other formats not at all.
COPIED = (".json", ".safetensors", ".txt", ".model", ".jinja", ".md")


def copy(source: Path, folder: str, place: Path, target: Path) -> list[str]:
    """Copies the files of one folder of a model; weights already in `target` are not replaced."""
    (place / folder).mkdir(parents=True, exist_ok=True)
    safe = any((source / folder / name).exists() for name in WEIGHTS[:2])
    made = []
    for file in sorted((source / folder).iterdir()) if (source / folder).is_dir() else ():
        of_torch = is_weights(file.name) and file.suffix == ".bin"
        if not file.is_file() or file.name.startswith(".") or not (file.suffix in COPIED or (of_torch and not safe)):
            continue
        if folder == "" and file.suffix == ".md" and file.name != "README.md":
            continue
        path = os.path.join(folder, file.name)
        standing = target / path
        if not (is_weights(file.name) and standing.exists() and os.path.samefile(file, standing)):
            shutil.copyfile(file, place / path)
        made.append(path)
    return made


def is_weights(name: str) -> bool:
    """Whether a file of this name holds tensors that a model is loaded from."""
    return name.endswith(".safetensors") or (name.startswith("pytorch_model") and name.endswith(".bin"))


def put(place: Path, target: Path, made: list[str]) -> None:
    """Moves finished files into place, the weights first, and removes weights that would be read in place of these."""
    for path in sorted(made, key=lambda path: (not is_weights(os.path.basename(path)), path)):
        if (place / path).exists():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            os.replace(place / path, target / path)
    for folder in {os.path.dirname(path) for path in made}:
        there = [os.path.join(folder, name) in made for name in WEIGHTS]
        if True in there:
            # Those looked for earlier, and the index beside a single file.
            for name, one in list(zip(WEIGHTS, there, strict=True))[: (there.index(True) | 1) + 1]:
                if not one:
                    (target / folder / name).unlink(missing_ok=True)


def read_json(path: Path, kind: type[Json]) -> Json:
    """A JSON file that holds an object or a list; an empty one where there is no file."""
    values = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else kind()
    if not isinstance(values, kind):
        expected = "object" if kind is dict else "list"
        raise ModelFormatError(f"{path}: holds {type(values).__name__}, expected a JSON {expected}")
    return values


def write_json(path: Path, values: Any) -> None:
    """Writes one JSON file, with a line for each value."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
