"""The files of a model's folder: copied, replaced when all are complete, read and written as JSON."""

import json
import os
from pathlib import Path
from typing import Any, TypeVar

from grilly.errors import InvalidArgumentError, ModelFormatError
from grilly.hub import WEIGHTS
from grilly.safetensors_file import safetensors_of

__all__ = ["copy", "put", "read_json", "refuse_links", "write_json", "write_tensors"]

Json = TypeVar("Json", dict[str, Any], list[dict[str, Any]])

# Folder of further chat templates.
TEMPLATES = "additional_chat_templates"
# Bytes that are copied at a time.
PIECE = 8 << 20
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
            duplicate(file, place / path)
        made.append(path)
    return made


def duplicate(file: Path, made: Path) -> None:
    """Copies the content of a file in pieces, between which a signal handler runs."""
    with file.open("rb") as source, made.open("xb") as target:
        while piece := source.read(PIECE):
            target.write(piece)


def refuse_links(target: Path, folders: list[str]) -> None:
    """Refuses folders of the model that are links in `target`, through which files elsewhere would be replaced."""
    for folder in folders:
        for place in (Path(folder), *Path(folder).parents):
            if place != Path() and (target / place).is_symlink():
                raise InvalidArgumentError(f"{target / place} is a link, which is not followed; remove it")


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


def write_tensors(path: Path, tensors: dict[str, tuple[str, list[int], bytes]]) -> None:
    """Writes a safetensors file, of each tensor by its name the type, the axes and the bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(safetensors_of(tensors))
