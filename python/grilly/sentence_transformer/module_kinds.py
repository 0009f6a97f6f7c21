"""Each kind of module: what `model[0]`, iteration and `_first_module()` give, and `modules=[...]` takes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from grilly.errors import InvalidArgumentError, UnsupportedNameError
from grilly.sentence_transformer.described import FLAGS, check_modes
from grilly.sentence_transformer.modules import FILES, Input, Module, Wide

if TYPE_CHECKING:
    from grilly.sentence_transformer.sequence import ModuleSequence

__all__ = ["FLAGS", "KINDS", "Pooling", "Router", "Transformer", "view"]


NEW_WEIGHTS = (
    "its weights would be random, of use in training alone: load(folder) has those of a saved one, and "
    "sentence-transformers trains and saves it"
)


class Transformer(Input):
    """The encoder, with its tokenizer, as `model[0]`; `Transformer(name)` makes the first of other modules."""

    arguments = "TransformerArguments"
    config_keys = (
        "transformer_task", "modality_config", "module_output_name", "query_length", "document_length",
        "query_expansion",
    )  # fmt: skip
    columns = "embedding_dimension"

    @property
    def modality_config(self) -> dict[str, dict[str, str]]:
        """What sentence-transformers calls for texts, and the output that it reads."""
        hidden = self.transformer_task == "feature-extraction"
        return {"text": {"method": "forward", "method_output_name": "last_hidden_state" if hidden else "logits"}}

    @property
    def config(self) -> dict[str, Any]:
        """The model's config.json."""
        return self._model.config

    @property
    def backend(self) -> str:
        """`"vulkan"` or `"cpu"`, as of the model."""
        return self._model.backend


class MLMTransformer(Transformer):
    """A Transformer whose `transformer_task` is `"fill-mask"`, under its older name."""

    arguments = "MaskedArguments"


class StaticEmbedding(Input):
    """A table of token vectors, of which a text's are averaged."""

    columns = "embedding_dim"


class Pooling(Wide):
    """From the vectors of tokens to one vector per text."""

    arguments = "PoolingArguments"
    POOLING_MODES: ClassVar[tuple[str, ...]] = tuple(FLAGS)
    config_keys = ("embedding_dimension", "pooling_mode", "include_prompt")
    columns = "pooling_output_dimension"

    @property
    def pooling_mode(self) -> str | tuple[str, ...]:
        """The name of a mode, or several, concatenated. Setting it loads the weights again."""
        modes: tuple[str, ...] = self._settings["pooling_mode"]
        return modes[0] if len(modes) == 1 else modes

    @pooling_mode.setter
    def pooling_mode(self, value: str | tuple[str, ...] | list[str]) -> None:
        modes = check_modes(value)
        if len(self._place) > 1:
            raise UnsupportedNameError(f"the pooling of one route cannot be set: {FILES}")
        self._model._pool(modes)

    @property
    def include_prompt(self) -> bool:
        """Whether a prompt's tokens are pooled, too; setting it is the model's `set_pooling_include_prompt`."""
        return bool(self._settings["include_prompt"])

    @include_prompt.setter
    def include_prompt(self, value: bool) -> None:
        if len(self._place) > 1:
            raise UnsupportedNameError("set_pooling_include_prompt of the model sets that of all routes")
        self._model._include(bool(value))

    @property
    def word_embedding_dimension(self) -> int:
        """The older name of `embedding_dimension`."""
        return int(self.embedding_dimension)

    def get_pooling_mode_str(self) -> str:
        """The names of the modes, joined by `+`.

        Example:
            >>> model[1].get_pooling_mode_str()
            'mean'
        """
        return "+".join(self._settings["pooling_mode"])


def flag(mode: str) -> property:
    """Whether a mode is among the modes; may be set, as in former versions of sentence-transformers."""

    def read(self: Pooling) -> bool:
        return mode in self._settings["pooling_mode"]

    def change(self: Pooling, value: bool) -> None:
        chosen = {*self._settings["pooling_mode"], mode} if value else {*self._settings["pooling_mode"]} - {mode}
        if not chosen:
            raise InvalidArgumentError(
                f"without {FLAGS[mode]} no mode is left: set another to True first, or pooling_mode to its name"
            )
        self.pooling_mode = tuple(name for name in FLAGS if name in chosen)

    return property(read, change, doc=f"Whether {mode!r} is one of the modes: the older way to read and set them.")


for _mode, _flag in FLAGS.items():
    setattr(Pooling, _flag, flag(_mode))


class SpladePooling(Wide):
    """From logits of words to one weight per word."""

    arguments = "SpladeArguments"
    config_keys = ("pooling_strategy", "activation_function", "embedding_dimension")
    columns = "embedding_dimension"

    @property
    def embedding_dimension(self) -> int:
        """Words of the vocabulary."""
        return self._settings["embedding_dimension"] if self._is_free() else self._model._core.dimension

    @property
    def chunk_size(self) -> int | None:
        """None; setting it has no effect: logits are never computed for more than a slice of the words at a time."""
        return None

    @chunk_size.setter
    def chunk_size(self, value: int | None) -> None:
        pass


class LogitScore(Module):
    """From logits of words to scores."""

    arguments = "LogitArguments"
    config_keys = ("true_token_id", "false_token_id", "module_input_name")


class Dense(Wide):
    """A product with a bias and a nonlinearity."""

    unmade = NEW_WEIGHTS
    config_keys = (
        "in_features", "out_features", "bias", "activation_function", "module_input_name", "module_output_name",
        "use_residual",
    )  # fmt: skip
    columns = "out_features"


class LayerNorm(Wide):
    """Layer normalisation of each vector."""

    unmade = NEW_WEIGHTS
    config_keys = ("dimension",)
    columns = "dimension"


class WeightedLayerPooling(Wide):
    """A weighted mean of the layers' hidden states."""

    config_keys = ("embedding_dimension", "layer_start", "num_hidden_layers")
    columns = "embedding_dimension"


class Normalize(Module):
    """Division of each vector by its norm."""

    arguments = "NormalizeArguments"
    config_keys = ("module_input_name", "module_output_name")


class MultiVectorMask(Module):
    """The choice of a text's token vectors that are scored."""

    arguments = "MaskArguments"
    config_keys = ("skiplist_words", "skiplist_tasks", "keep_only_token_ids")


class HierarchicalTokenPooling(Module):
    """Clusters of a text's token vectors, each replaced by its mean."""

    config_keys = ("pool_factor", "num_protected_tokens", "normalize_embeddings", "tasks")


class Dropout(Module):
    """A module that does nothing when encoding."""

    arguments = "DropoutArguments"
    config_keys = ("dropout",)


class Router(Input):
    """Modules for each of several routes, of which a task chooses one."""

    config_keys = ("default_route", "route_mappings")

    @property
    def sub_modules(self) -> Mapping[str, tuple[Module, ...]]:
        """The modules of each route, by its name."""
        routes = self._settings["routes"]
        return MappingProxyType({
            name: tuple(
                view(self._model, (*self._place, route, number), settings["kind"], name)
                for number, settings in enumerate(modules)
            )
            for route, (name, modules) in enumerate(routes)
        })  # fmt: skip

    @property
    def route_mappings(self) -> dict[tuple[str | None, str | None], str]:
        """Names of routes by task and modality."""
        return {(task, modality): route for (task, modality), route in self._settings["route_mappings"]}

    @property
    def max_seq_length(self) -> Any:
        """The largest of the routes' limits, None where they read no texts; setting it sets all."""
        first = [modules[0] for modules in self.sub_modules.values()]
        return max((module.max_seq_length for module in first if isinstance(module, Input)), default=None)

    @max_seq_length.setter
    def max_seq_length(self, value: int) -> None:
        self._model.max_seq_length = value

    def _dimension(self) -> int:
        """Columns of the first route."""
        modules = next(iter(self.sub_modules.values()))
        return next(module._dimension() for module in reversed(modules) if module.columns)


#: The class of each module's view, by its name.
KINDS: dict[str, type[Module]] = {
    kind.__name__: kind
    for kind in (
        Transformer, StaticEmbedding, Pooling, SpladePooling, LogitScore, Dense, LayerNorm, WeightedLayerPooling,
        Normalize, MultiVectorMask, HierarchicalTokenPooling, Dropout, Router,
    )
}  # fmt: skip


def view(model: ModuleSequence, place: tuple[int, ...], kind: str, name: str = "") -> Module:
    """The view of a module: its number, or that of a Router, of a route and within it; `name` is the route's."""
    # A module without a view of its own has its settings alone.
    module: Module = object.__new__(KINDS.get(kind) or type(kind, (Module,), {}))
    module._show(model, place, name)
    return module
