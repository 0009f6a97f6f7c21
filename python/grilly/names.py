"""Where names are: modules that moved keep their former paths, and names that are left out say what to do instead."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from grilly.errors import UnsupportedImportError, UnsupportedNameError

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:  # their module imports files and random numbers, a fifth of the time of `import grilly`; the methods are enough
    MetaPathFinder, Loader = type("MetaPathFinder", (), {}), type("Loader", (), {})

__all__ = ["by_name", "left_out", "missing", "of_modules"]

Folders = Sequence[str] | None

#: Former path -> path. What is below a path moved with it.
MOVED = {
    "grilly.backend": "grilly.compat.upstream.backend",
    "grilly.compile_command": "grilly.commands.compile",
    "grilly.demo": "grilly.commands.demo",
    "grilly.export_command": "grilly.commands.export",
    "grilly.functional.activation_gradients": "grilly.functional.activations",
    "grilly.functional.kept": "grilly.functional.dispatch",
    "grilly.held": "grilly.vocabulary",
    "grilly.listing": "grilly.hub",
    "grilly.nn.bitlinear": "grilly.nn.layers",
    "grilly.optim.one_cycle": "grilly.optim.rates",
    "grilly.optim.plateau": "grilly.optim.rates",
    "grilly.outputs": "grilly.tensors",
    "grilly.quant.operands": "grilly.quant.rows",
    "grilly.sentence_transformer.decoding": "grilly.sentence_transformer.model",
    "grilly.sentence_transformer.exporting": "grilly.sentence_transformer.model",
    "grilly.sentence_transformer.files": "grilly.sentence_transformer.saved_files",
    "grilly.token_inputs": "grilly.token_features",
    "grilly.token_limits": "grilly.padding",
    "grilly.token_texts": "grilly.token_features",
    "grilly.train.arguments": "grilly.train.text",
    "grilly.train.events": "grilly.train.curve",
    "grilly.upstream": "grilly.compat.upstream.names",
    "grilly.utils": "grilly.compat.upstream.utils",
}

#: Modules from which names of other packages may be asked, besides packages. An import of a name that a module does not
#: have looks for a module of that name only if it is a package; so these are packages without files.
ASKED = (
    "grilly.compat.upstream.backend._bridge",
    "grilly.compat.upstream.backend.compute",
    "grilly.compat.upstream.backend.fnn",
    "grilly.compat.upstream.utils.checkpoint",
    "grilly.compat.upstream.utils.initialization",
    "grilly.functional.activations",
    "grilly.functional.attention",
    "grilly.functional.embedding",
    "grilly.nn.activations",
    "grilly.nn.attention",
    "grilly.nn.module",
    "grilly.nn.parameter",
    "grilly.nn.transformer",
    "grilly.optim.adam",
    "grilly.util",
)


def of_modules(package: Mapping[str, Any]) -> list[str]:
    """The names that a package, given as its globals, takes from its modules: its `__all__`, in the imports' order.

    Example:
        >>> import grilly.optim
        >>> from grilly.names import of_modules
        >>> of_modules(vars(grilly.optim))[:3]
        ['Adam', 'AdamW', 'Optimizer']
    """
    below = f"{package['__name__']}."
    return [name for name, value in package.items() if getattr(value, "__module__", "").startswith(below)]


def by_name(groups: Mapping[str, str]) -> dict[str, str]:
    """Name -> group, from groups that list their names in one text, separated by spaces.

    Example:
        >>> from grilly.names import by_name
        >>> by_name({"vowels": "a e", "consonants": "b"})
        {'a': 'vowels', 'e': 'vowels', 'b': 'consonants'}
    """
    return {name: group for group, names in groups.items() for name in names.split()}


def missing(place: str, name: str) -> AttributeError:
    """The error of `place.name`; that of an upstream name says what to do instead.

    Example:
        >>> from grilly.names import missing
        >>> missing("grilly.nn", "nothing_like_it")
        AttributeError("grilly.nn has no attribute 'nothing_like_it'")
    """
    found: AttributeError = importlib.import_module(MOVED["grilly.upstream"]).missing(place, name)
    return found


def left_out(place: str) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module: every name is absent, and one of upstream's says what to do instead.

    Example:
        >>> from grilly.names import left_out
        >>> left_out("grilly.nn")("nothing_like_it")
        Traceback (most recent call last):
        ...
        AttributeError: module 'grilly.nn' has no attribute 'nothing_like_it'
    """

    def __getattr__(name: str) -> NoReturn:
        # A module is an attribute once it is imported.
        if name.startswith("_") or PathFinder.find_spec(f"{place}.{name}", sys.modules[place].__path__):
            raise AttributeError(f"module {place!r} has no attribute {name!r}")
        raise missing(f"module {place!r}", name)

    return __getattr__


class _Moved(MetaPathFinder, Loader):
    """Finds moved modules by their former paths, and makes packages of the modules in `ASKED`."""

    def find_spec(self, fullname: str, path: Folders = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname in ASKED and (found := PathFinder.find_spec(fullname, path)) is not None:
            found.submodule_search_locations = []
            return found
        home = next((home for home in MOVED if f"{fullname}.".startswith(f"{home}.")), None)
        if home is None or importlib.util.find_spec(moved := MOVED[home] + fullname.removeprefix(home)) is None:
            return None
        return ModuleSpec(fullname, self, origin=moved)

    def create_module(self, spec: ModuleSpec) -> None:
        """The machinery's own."""

    def exec_module(self, module: ModuleType) -> None:
        # Both paths are one module: the machinery takes what it finds under the name.
        spec = module.__spec__
        assert spec is not None and spec.origin is not None
        sys.modules[spec.name] = importlib.import_module(spec.origin)


class _LeftOut(MetaPathFinder, Loader):
    """Finds what no other finder does: names of which a package says that they are left out; their import raises."""

    def find_spec(self, fullname: str, path: Folders = None, target: ModuleType | None = None) -> ModuleSpec | None:
        place, _, name = fullname.rpartition(".")
        if not f"{place}.".startswith("grilly."):
            return None
        own = vars(sys.modules[place]).get("__getattr__")
        try:
            if own is not None or place in ASKED:
                (own or left_out(place))(name)
        except UnsupportedNameError as error:
            return ModuleSpec(fullname, self, loader_state=str(error))
        except AttributeError:
            pass
        return None

    def create_module(self, spec: ModuleSpec) -> NoReturn:
        raise UnsupportedImportError(spec.loader_state, name=spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is created."""


def install() -> None:
    """Puts the finders in their places: before those of files, and after all."""
    finders: list[Any] = sys.meta_path
    finders[:] = [finder for finder in finders if type(finder).__module__ != __name__]
    finders.insert(0, _Moved())
    finders.append(_LeftOut())
