"""The folder of a model that modules make, which lives as long as the model and is loaded as any other."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from grilly import _core
from grilly.closed import closed
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from grilly.sentence_transformer.described import Described
from grilly.sentence_transformer.modules import Module
from grilly.sentence_transformer.saved_files import COPIED, TEMPLATES, is_weights, write_json

__all__ = ["TYPES", "MadeFolder"]

# Where sentence-transformers 6.2 has the class of a module; older versions have the first two there, too.
TYPES = {
    "Transformer": "sentence_transformers.models.Transformer",
    "Pooling": "sentence_transformers.models.Pooling",
    "Dense": "sentence_transformers.base.modules.dense.Dense",
    "Dropout": "sentence_transformers.sentence_transformer.modules.dropout.Dropout",
    "LayerNorm": "sentence_transformers.sentence_transformer.modules.layer_norm.LayerNorm",
    "LogitScore": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore",
    "MultiVectorMask": "sentence_transformers.multi_vector_encoder.modules.multi_vector_mask.MultiVectorMask",
    "Normalize": "sentence_transformers.base.modules.normalize.Normalize",
    "SpladePooling": "sentence_transformers.sparse_encoder.modules.splade_pooling.SpladePooling",
}
# Files beside a Transformer's own that are of the model that it comes from.
OF_MODELS = ("modules.json", "config_sentence_transformers.json", "README.md", *_core.TRANSFORMER_SETTINGS)
# Settings that a model may change, by which its modules make another model as they are now.
CHANGED = ("max_seq_length", "pooling_mode", "include_prompt")


@closed()
class MadeFolder:
    """A temporary folder with modules.json, the modules' settings, and links to the Transformer's files.

    Args:
        modules: Modules that were made, in order; `Described` ones are taken as they are.
        kind: The class of the model.

    Raises:
        InvalidTypeError: An item is not a module of this package.
        UnsupportedError: It is a view of a loaded model, or the first is not a Transformer, or another is.
        InvalidArgumentError: There are none, or the columns of a Pooling are not those of the Transformer.
    """

    def __init__(self, modules: Any, kind: str) -> None:
        given = modules.values() if isinstance(modules, Mapping) else modules
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise InvalidTypeError(f"modules is of type {type(modules).__name__}, expected a list of modules")
        self._modules = list(given)
        self.parts = [part_of(module, number) for number, module in enumerate(self._modules)]
        check_order(self.parts)
        self.name = self.parts[0].name
        import tempfile  # with shutil, whose imports would take an eighth of the time of this package's

        self.folder = Path(tempfile.mkdtemp(prefix="grilly-modules-"))
        weakref.finalize(self, remove, self.folder, os.getpid())
        rows = []
        for number, part in enumerate(self.parts):
            path = f"{number}_{part.kind}" if number else ""
            write(part, self.folder / path)
            rows.append({"idx": number, "name": str(number), "path": path, "type": TYPES[part.kind]})
        write_json(self.folder / "modules.json", rows)
        write_json(self.folder / "config_sentence_transformers.json", {"model_type": kind})

    def give(self, model: Any) -> None:
        """Makes views of the model of the modules that it was made of."""
        for number, module in enumerate(self._modules):
            if isinstance(module, Module):
                module._show(model, (number,))
        self._modules.clear()  # they hold the model, which holds this

    def told(self, error: Exception) -> None:
        """Lets the text of an error speak of the modules, not of a folder that the caller does not know."""
        error.args = (f"modules: {str(error).replace(f'{self.folder}{os.sep}', '')}", *error.args[1:])


def remove(folder: Path, process: int) -> None:
    """Removes a folder, in the process that made it and not in a fork of it."""
    import shutil

    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def part_of(module: Any, number: int) -> Described:
    """What a module is by itself, with what a model has changed."""
    if isinstance(module, Described):
        return module
    if not isinstance(module, Module):
        raise InvalidTypeError(
            f"modules[{number}] is of type {type(module).__name__}, expected a module of this package; those of "
            "sentence-transformers itself are saved there, SentenceTransformer(modules=...).save(folder), and the "
            "folder is loaded here"
        )
    made = module._made
    if made is None:
        kind = type(module).__name__
        raise UnsupportedError(
            f"modules[{number}] is a view of a loaded model, of which no other is made: make it anew, {kind}(...), or "
            f"{kind}.load(folder) with its files"
        )
    now = {} if module._is_free() else module._settings
    changed = {name: now[name] for name in CHANGED if name in now and (name != "max_seq_length" or now[name] > 0)}
    return Described(made.kind, made.settings | changed, made.folder, made.name)


def check_order(parts: list[Described]) -> None:
    """What loading would not say, or not in words of the modules."""
    if not parts:
        raise InvalidArgumentError("modules is empty, expected a Transformer and what reads its result")
    for number, part in enumerate(parts):
        if (part.kind == "Transformer") != (number == 0):
            problem = "a Transformer is the first" if number == 0 else "there is one Transformer, the first"
            raise UnsupportedError(f"modules[{number}] is a {part.kind}: {problem}")
    width = parts[0].settings.get("embedding_dimension")
    for number, part in enumerate(parts):
        read = part.settings.get("embedding_dimension")
        if part.kind == "Pooling" and width not in (None, read):
            if all(other.kind in ("Transformer", "Dropout") for other in parts[:number]):
                raise InvalidArgumentError(
                    f"modules[{number}] is a Pooling with embedding_dimension {read}, and the Transformer gives {width}"
                )


def write(part: Described, place: Path) -> None:
    """Writes a module's settings, and links its files."""
    import shutil

    place.mkdir(exist_ok=True)
    own = part.kind == "Transformer"
    if part.folder is not None:
        for file in sorted(part.folder.iterdir()):
            wanted = file.suffix in COPIED or is_weights(file.name)
            if file.is_file() and wanted and not (own and file.name in OF_MODELS):
                try:
                    (place / file.name).symlink_to(file.resolve())
                except OSError:  # a system, or a user of it, without links
                    shutil.copyfile(file, place / file.name)
        if own and (part.folder / TEMPLATES).is_dir():
            shutil.copytree(part.folder / TEMPLATES, place / TEMPLATES)
    if own:
        settings = {key: value for key, value in part.settings.items() if key != "embedding_dimension"}
        write_json(place / _core.TRANSFORMER_SETTINGS[0], settings)
    elif part.folder is None:
        write_json(place / "config.json", part.settings)
