"""A model as the sequence of its modules."""

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from grilly.errors import InvalidTypeError, UnsupportedError
from grilly.inputs import as_int
from grilly.sentence_transformer.module_kinds import view
from grilly.sentence_transformer.modules import Module
from grilly.sentence_transformer.names import ORDER
from grilly.sentence_transformer.properties import Properties

__all__ = ["ModuleSequence"]


class ModuleSequence(Properties):
    """A loaded model whose modules can be looked at, in order, with `model[0]`, `for module in model` and `len`."""

    def __len__(self) -> int:
        """Number of modules."""
        return len(self._core.modules)

    def __getitem__(self, place: int) -> Module:
        """A module by its number, negative ones from the end."""
        if isinstance(place, slice):
            raise InvalidTypeError("a part of the modules is not a model: list(model)[...] gives them as a list")
        number, kinds = as_int(place, "the number of a module"), self._kinds()
        if not -len(kinds) <= number < len(kinds):
            raise IndexError(f"there is no module {number} of {len(kinds)}")
        return view(self, (number % len(kinds),), kinds[number])

    def __iter__(self) -> Iterator[Module]:
        return (view(self, (number,), kind) for number, kind in enumerate(self._kinds()))

    def __setitem__(self, place: int, module: Any) -> NoReturn:
        raise UnsupportedError(f"modules are not replaced: {ORDER}")

    def __delitem__(self, place: int) -> NoReturn:
        raise UnsupportedError(f"modules are not removed: {ORDER}")

    def children(self) -> Iterator[Module]:
        """The modules, in order.

        Example:
            >>> [type(module).__name__ for module in model.children()]
            ['Transformer', 'Pooling', 'Normalize']
        """
        return iter(self)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules, each with its name: its number.

        Example:
            >>> [name for name, module in model.named_children()]
            ['0', '1', '2']
        """
        return iter(self._modules.items())

    def _first_module(self) -> Module:
        """The same as `model[0]`."""
        return self[0]

    def _last_module(self) -> Module:
        """The same as `model[-1]`."""
        return self[-1]

    @property
    def _modules(self) -> Mapping[str, Module]:
        """The modules by number."""
        return MappingProxyType({str(number): module for number, module in enumerate(self)})

    def _kinds(self) -> list[str]:
        """Names of the modules' classes."""
        return [settings["kind"] for settings in self._module_settings]

    @property
    def _module_settings(self) -> list[dict[str, Any]]:
        """The settings of each module, with its kind."""
        found: list[dict[str, Any]] = json.loads(self._core.module_settings)
        return found

    def _pool(self, modes: tuple[str, ...]) -> None:
        """Other pooling modes, with the weights loaded again."""
        self._reload(pooling=modes)

    def _include(self, include_prompt: bool) -> None:
        """Whether a prompt's tokens are pooled with the text's."""
        with self._held.swap:
            for core in self._held.cores():
                core.set_pooling_include_prompt(include_prompt)
            self._include_prompt = include_prompt
