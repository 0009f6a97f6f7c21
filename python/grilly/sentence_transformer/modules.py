"""Modules, those of a model and those that make one: what they have in common."""

from __future__ import annotations

import inspect
import math
import os
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from grilly.closed import closed, remedies
from grilly.errors import UnsupportedError, UnsupportedNameError
from grilly.nearest import nearest
from grilly.sentence_transformer.aliases import older_name
from grilly.sentence_transformer.described import Described
from grilly.sentence_transformer.names import ORDER
from grilly.vocabulary import UNLIMITED

if TYPE_CHECKING:
    from grilly.sentence_transformer.sequence import ModuleSequence

__all__ = ["FILES", "Input", "Module", "Wide"]

Made = TypeVar("Made", bound="Module")
SETTINGS = (
    "transformer_task modality_config module_output_name do_lower_case embedding_dimension pooling_output_dimension "
    "word_embedding_dimension pooling_strategy activation_function in_features out_features bias module_input_name "
    "use_residual dimension layer_start num_hidden_layers num_embeddings embedding_dim default_route route_mappings"
).split()
FILES = "change the module's files in a copy of the model's folder, and load that"
LEFT_OUT = remedies("module")


def arguments_of(name: str) -> Any:
    """The class of the arguments of a module's constructor."""
    from grilly.sentence_transformer import module_arguments  # whose classes take time, and most models need none

    return getattr(module_arguments, name)


class Signature:
    """The signature of a module's constructor, made when it is asked for."""

    def __get__(self, instance: object, kind: type[Module]) -> inspect.Signature:
        return inspect.signature(arguments_of(kind.arguments) if kind.arguments else kind.__init__)


@closed(**dict.fromkeys(SETTINGS, FILES))
class Module:
    """One module of a model, whose attributes are its settings, with sentence-transformers' names.

    They are read from the model when asked for. `max_seq_length` of a Transformer, and `pooling_mode` and
    `include_prompt` of a Pooling may be set, and change the model. Other settings are those of its files. A module
    that was made, or `load`ed, is one of `SentenceTransformer(modules=[...])`, and of that model from then on.

    Raises:
        UnsupportedNameError: A name that belongs to torch's modules (also an `AttributeError`).
        AttributeError: Another name, or setting one that cannot be set.

    Example:
        >>> model[0].max_seq_length, model[1].pooling_mode, model[1].get_embedding_dimension()
        (256, 'mean', 384)
    """

    #: The settings that saved files have.
    config_keys: ClassVar[tuple[str, ...]] = ()
    #: Of these the one, if any, that is the number of columns of the result.
    columns: ClassVar[str | None] = None

    #: The class of the constructor's arguments by name, None where there is none, and then what to do instead.
    arguments: ClassVar[str | None] = None
    unmade: ClassVar[str] = ORDER

    _model: ModuleSequence
    #: What it was made as, None for a view of a model that was loaded from a folder.
    _made: Described | None = None

    __signature__ = Signature()

    def __init__(self, *given: Any, **named: Any) -> None:
        kind = type(self).__name__
        if self.arguments is None:
            raise UnsupportedError(f"a new {kind} is not made: {self.unmade}")
        try:
            arguments = arguments_of(self.arguments)(*given, **named)
        except TypeError as error:
            raise TypeError(f"{kind}.__init__() {str(error).partition('() ')[2]}") from None
        self._made = arguments.described(kind)
        self._show(self._made, (0,))

    def _show(self, model: Any, place: tuple[int, ...], name: str = "") -> None:
        """Lets the module be that of a model at a place; `name` is that of a Router's route."""
        self._model, self._place, self._name = model, place, name

    def _is_free(self) -> bool:
        """Whether no model has the module yet."""
        model: Any = self._model
        return model is self._made

    @classmethod
    def load(cls: type[Made], model_name_or_path: str | os.PathLike[str], subfolder: str = "", **where: Any) -> Made:
        """A module with the settings and weights that a folder holds, for `SentenceTransformer(modules=[...])`.

        Args:
            model_name_or_path: The module's folder, or a model's folder or name, as of `grilly.hub.resolve`.
            subfolder: The module's folder within that of a model.
            **where: `cache_folder`, `revision`, `local_files_only` and `token`, as of `grilly.hub.resolve`.

        Raises:
            ModelNotFoundError: There is no such model.
            ModelFormatError: The folder has no settings, or they are not a JSON object.

        Source: `sentence_transformers.base.modules.Module.load`, version 6.2.

        Example:
            >>> from grilly.sentence_transformer.module_kinds import Pooling
            >>> Pooling.load("all-MiniLM-L6-v2", subfolder="1_Pooling").pooling_mode
            'mean'
        """
        from grilly.sentence_transformer.module_arguments import loaded

        module = cls.__new__(cls)
        module._made = loaded(
            cls.__name__, arguments_of(cls.arguments) if cls.arguments else None, model_name_or_path, subfolder, where
        )
        module._show(module._made, (0,))
        return module

    @property
    def _settings(self) -> dict[str, Any]:
        found = self._model._module_settings[self._place[0]]
        if len(self._place) > 1:
            route, number = self._place[1:]
            found = found["routes"][route][1][number]
        return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}

    @property
    def modalities(self) -> list[str]:
        """`["text"]`."""
        return ["text"]

    @property
    def training(self) -> bool:
        """False."""
        return False

    def get_config_dict(self) -> dict[str, Any]:
        """The settings that saved files have, by name.

        Example:
            >>> model[1].get_config_dict()
            {'embedding_dimension': 384, 'pooling_mode': 'mean', 'include_prompt': True}
        """
        return {name: getattr(self, name) for name in self.config_keys if hasattr(self, name)}

    def _dimension(self) -> int:
        """Columns of the module's result."""
        return int(getattr(self, self.columns or ""))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        settings = self._settings
        if name in settings and name != "kind":
            return settings[name]
        kind = type(self).__name__
        if name in LEFT_OUT:
            raise UnsupportedNameError(f"{kind}.{name} is left out: {LEFT_OUT[name]}")
        if self._is_free() and isinstance(getattr(type(self), name, None), property):
            return getattr(self._made, name)  # which says what to do
        raise AttributeError(f"{kind} has no attribute {name!r}{nearest(name, dir(self))}")

    def __dir__(self) -> list[str]:
        settings = self._settings if "_model" in vars(self) else {}
        return sorted({*object.__dir__(self), *settings} - {"kind", "routes", "columns", "arguments", "unmade"})

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Module) and self._model is other._model
        return same and self._place == other._place  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((id(self._model), self._place))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.get_config_dict()})"


class Wide(Module):
    """A module that says how many columns its result has."""

    def get_embedding_dimension(self) -> int:
        """Columns of the module's result.

        Example:
            >>> model[0].get_embedding_dimension()
            384
        """
        return self._dimension()

    @older_name("get_embedding_dimension", FutureWarning)
    def get_sentence_embedding_dimension(self) -> int:
        """The same as `get_embedding_dimension`.

        Example:
            >>> model[1].get_sentence_embedding_dimension()
            384
        """
        return self._dimension()

    @older_name("get_embedding_dimension", FutureWarning)
    def get_word_embedding_dimension(self) -> int:
        """The same as `get_embedding_dimension`.

        Example:
            >>> model[0].get_word_embedding_dimension()
            384
        """
        return self._dimension()


class Input(Wide):
    """A first module: it makes tokens of texts."""

    @property
    def max_seq_length(self) -> int | float:
        """Maximum tokens of a text; setting it sets that of the model."""
        settings = self._settings
        limit = settings["max_seq_length"] if "max_seq_length" in settings else self._model.max_seq_length
        return math.inf if limit == UNLIMITED else limit

    @max_seq_length.setter
    def max_seq_length(self, value: int) -> None:
        if len(self._place) > 1:
            raise UnsupportedNameError("the limit of one route cannot be set: model.max_seq_length sets that of all")
        self._model.max_seq_length = value

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        if len(self._place) > 1:
            raise UnsupportedNameError(
                f"the tokenizer of a route is left out: model.preprocess(texts, task={self._name!r}) gives its ids"
            )
        return self._model.tokenizer

    @property
    def processor(self) -> Any:
        """The same as `tokenizer`."""
        return self.tokenizer

    def preprocess(self, inputs: Any, prompt: str | None = None, **options: Any) -> dict[str, Any]:
        """The model's `preprocess`.

        Example:
            >>> model[0].preprocess(["Hello"])["input_ids"].tolist()
            [[101, 7592, 102]]
        """
        if len(self._place) > 1:
            options.setdefault("task", self._name)
        return self._model.preprocess(inputs, prompt, **options)

    def tokenize(self, texts: Any, **options: Any) -> dict[str, Any]:
        """The older name of `preprocess`.

        Example:
            >>> model[0].tokenize(["Hello"])["input_ids"].tolist()
            [[101, 7592, 102]]
        """
        return self.preprocess(texts, **options)
