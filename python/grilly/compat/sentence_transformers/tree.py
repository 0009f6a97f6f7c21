"""The modules of sentence-transformers, made when they are imported: their names are those of modules.json."""

import importlib
import json
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from grilly.compat.sentence_transformers.homes import HOMES, remedy
from grilly.compat.sentence_transformers.stand_in import stand_in
from grilly.errors import UnsupportedNameError
from grilly.names import Folders
from grilly.sentence_transformer.names import nearest

__all__ = ["OLDER", "ROOT", "TABLE", "VERSION", "install"]

ROOT = __name__.rpartition(".")[0]
_read = json.loads(Path(__file__).with_name("modules.json").read_text(encoding="utf-8"))
VERSION: str = _read["version"]
#: Module -> its names. The package itself is "".
TABLE: dict[str, list[str]] = {place: names.split() for place, names in _read["modules"].items()}
#: Older path of a module -> path.
OLDER: dict[str, str] = _read["older"]


def below(place: str) -> str:
    """The path of a module below the package."""
    return place.removeprefix(ROOT).removeprefix(".")


class Listed(ModuleType):
    """A module of the tree."""

    def __setattr__(self, name: str, value: Any) -> None:
        # Importing a module by an older path, such as sentence_transformers.SentenceTransformer, would put it in the
        # place of the class that has its name.
        if not (isinstance(value, ModuleType) and name in TABLE[below(self.__name__)]):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *TABLE[below(self.__name__)]})


def names_of(module: ModuleType) -> Any:
    """The `__getattr__` of a module of the tree."""
    path = below(module.__name__)
    shown = ".".join(filter(None, ["sentence_transformers", path]))

    def __getattr__(name: str) -> Any:
        if name in TABLE[path]:
            found = at_home(name, path)
            vars(module)[name] = found
            return found
        child = f"{path}.{name}".lstrip(".")
        if child in TABLE or child in OLDER:
            return importlib.import_module(f"{ROOT}.{child}")
        if name.startswith("__"):
            raise AttributeError(f"module {shown!r} has no attribute {name!r}")
        raise UnsupportedNameError(
            f"{shown} has no {name}, here and in sentence-transformers {VERSION}{nearest(name, TABLE[path])}"
        )

    return __getattr__


def at_home(name: str, path: str) -> Any:
    """What a name of the module at `path` is here: its object, or a class that raises the alternative when used."""
    if name in HOMES:
        return getattr(importlib.import_module(HOMES[name]), name)
    defined = [place for place, names in TABLE.items() if name in names]
    full = ".".join(filter(None, ["sentence_transformers", path, name]))
    return stand_in(name, f"{full} is left out of grilly: {remedy(name, path, defined)}")


class Tree(MetaPathFinder, Loader):
    """Finds the modules of the table, and those of older paths."""

    def find_spec(self, fullname: str, path: Folders = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not fullname.startswith(f"{ROOT}.") or below(fullname) not in TABLE | OLDER:
            return None
        # Packages all: only then does an import of a name that a module lacks reach the finder that says what to do.
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return Listed(spec.name) if below(spec.name) in TABLE else None

    def exec_module(self, module: ModuleType) -> None:
        place = below(module.__name__)
        if place not in TABLE:
            sys.modules[module.__name__] = importlib.import_module(f"{ROOT}.{OLDER[place]}")
            return
        vars(module)["__getattr__"] = names_of(module)
        vars(module)["__all__"] = TABLE[place]


def install() -> None:
    """Puts the finder before others, and the names of the package into it."""
    finders: list[Any] = sys.meta_path
    finders[:] = [finder for finder in finders if type(finder).__module__ != __name__]
    finders.insert(0, Tree())
    vars(sys.modules[ROOT])["__getattr__"] = names_of(sys.modules[ROOT])
