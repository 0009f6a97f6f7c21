"""The compiled core of a model: loading, replacement on a change of type or device, freeing, pickling."""

import logging
import os
import weakref
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, TypeVar, cast

from grilly import hub
from grilly._core import EmbeddingModel
from grilly.closed import closed
from grilly.errors import GrillyError
from grilly.inputs import device_name, logger
from grilly.sentence_transformer.arguments import ModelArguments, Options, choose
from grilly.sentence_transformer.made_folder import MadeFolder
from grilly.tokenizer import Tokenizer
from grilly.unusable import Unusable
from grilly.vocabulary import Held, TokenizerSettings

__all__ = ["Loaded", "restore"]

Self = TypeVar("Self", bound="Loaded")
FOLDER = "change the files in a copy of the model's folder and load that"


@closed(
    "prompts",
    "default_prompt_name",
    tokenizer=f"{FOLDER}; model_max_length, padding_side, truncation_side and pad_token of model.tokenizer may be set",
    config=f"{FOLDER}, or pass config_kwargs",
    device="to(device) moves the model",
    dtype="to(dtype=...) changes it",
    model_name="it is the name that the model was loaded by",
)
class Loaded:
    """A model's core, which a reload replaces; calls in flight keep the old one."""

    #: sentence-transformers' class, and the organisation of bare names on the hub.
    kind: ClassVar[str] = "SentenceTransformer"
    default_huggingface_organization: ClassVar[str] = "sentence-transformers"
    #: State that a pickled model keeps besides its arguments.
    kept: ClassVar[tuple[str, ...]] = (
        "model_name", "prompts", "default_prompt_name", "_include_prompt", "config", "model_type", "_token_settings",
    )  # fmt: skip

    #: The element type where neither the caller nor config.json says otherwise; None for the model's own.
    _usual_dtype: ClassVar[str | None] = None

    model_name: str
    dtype: str
    _include_prompt: bool | None = None
    # What the core was loaded by: the device and the type that were asked for, and so on.
    _options: Options
    # Where a copy in another process finds the files.
    _source: ModelArguments

    def _load(self, arguments: ModelArguments, options: Options | None = None) -> None:
        """Finds the model, or makes its folder of modules, and loads it; a copy has the `options` of its model."""
        if arguments.model_name_or_path is not None or arguments.modules is None:
            self._load_folder(arguments, options)
            return
        self._made = made = MadeFolder(arguments.modules, self.kind)
        try:
            self._load_folder(replace(arguments, model_name_or_path=made.folder, modules=None), options)
        except GrillyError as error:
            made.told(error)
            raise
        self.model_name = self._held.name = made.name
        self._source = replace(self._source, model_name_or_path=None, modules=made.parts)
        made.give(self)

    def _load_folder(self, arguments: ModelArguments, options: Options | None) -> None:
        """Finds the model by its name and loads it."""
        choices = choose(arguments, self.kind, self._usual_dtype)
        self._held = Held(model=weakref.ref(self))
        self.tokenizer = Tokenizer(self._held)
        self._said: set[str] = set()
        where = {name: getattr(arguments, name) for name in ("cache_folder", "revision", "local_files_only")}
        organisation = self.default_huggingface_organization
        found = hub.resolve(choices.name, token=choices.token, organisation=organisation, **where)
        self._options = choices.options if options is None else options
        self._held.limit = self._options.max_seq_length
        # A folder's path must not depend on the working directory.
        self._folder = Path(os.path.abspath(found.folder))
        self._options = replace(self._options, kind=self._kind_of(self._folder))
        self._held.core = self._open(self._options)
        # A copy in another process has the same numbers.
        self._options = replace(self._options, numerics=self._core.numerics)
        self.model_name = self._held.name = os.fspath(choices.name)
        self.dtype = self._core.dtype
        self._source = type(arguments)(str(self._folder) if found.found == "path" else self.model_name, **where)
        for note in choices.notes:
            self._say(note)

    def _kind_of(self, folder: Path) -> str:
        """The class of the core that reads a folder."""
        return self.kind

    def _open(self, options: Options) -> EmbeddingModel:
        """A core for the model's folder, with the current limit."""
        return EmbeddingModel.load(self._folder, asdict(replace(options, max_seq_length=self._held.limit)))

    @property
    def _core(self) -> EmbeddingModel:
        """The current core."""
        return self._held.core

    @property
    def _token_settings(self) -> TokenizerSettings:
        """What was set on the tokenizer."""
        return self._held.settings

    @_token_settings.setter
    def _token_settings(self, settings: TokenizerSettings) -> None:
        self._held.settings = settings

    def _say(self, line: str, level: int = logging.INFO) -> None:
        """Logs a line once for this model."""
        if line not in self._said:
            self._said.add(line)
            logger.log(level, "%s: %s", self.model_name, line)

    # ---------------------------------------------------------------------------------------------- another core

    def _reload(
        self,
        device: str | None = None,
        dtype: str | None = None,
        rounded: str | None = None,
        pooling: tuple[str, ...] | None = None,
    ) -> None:
        """Loads the weights again, for another device, in another type, rounded or pooled otherwise.

        Every other setting is kept. An empty `rounded` stands for matrices as the model has them.
        """
        with self._held.swap:
            self._core.require_open()  # a closed model stays closed
            before = self._options
            if device is not None and self._is_on(device):
                before = replace(before, device=device)
            after = replace(
                before,
                device=device or before.device,
                rounded_products=before.rounded_products if rounded is None else rounded or None,
                pooling=pooling or before.pooling,
            )
            if after == before and dtype in (None, self.dtype):
                self._options = after
                return
            after = replace(after, dtype=dtype or before.dtype)
            self._held.core = self._like(after)
            self._options = after
            self.dtype = dtype or self.dtype
            self._held.elsewhere.clear()

    def _is_on(self, device: str) -> bool:
        """Whether a device by its name is the one that was asked for, or what `"auto"` has chosen."""
        asked = self._options.device
        return device == asked or asked == "auto" and device == self._core.backend

    def _like(self, options: Options) -> EmbeddingModel:
        """A core of other options with the settings of this model."""
        core = self._open(options)
        self._set_up(core)
        return core

    def _set_up(self, core: EmbeddingModel) -> None:
        """Repeats on a core what was set on the model."""
        if self._include_prompt is not None:
            core.set_pooling_include_prompt(self._include_prompt)
        if self._token_settings.truncation_side is not None:
            core.tokenizer.set_truncation_side(self._token_settings.truncation_side)

    def _core_on(self, device: Any) -> EmbeddingModel:
        """The core for a call on `device`: the model's own, or a second one that is cached for the next such call."""
        if device is None:
            return self._core
        name = device_name(device)
        with self._held.swap:
            if self._is_on(name) or name == self._core.backend == "cpu":
                return self._core
            self._core.require_open()
            core = self._held.elsewhere.get(name)
            if core is None:
                core = self._like(replace(self._options, device=name))
                self._held.elsewhere.clear()
                self._held.elsewhere[name] = core
            return core

    # ------------------------------------------------------------------------------------------------------ life

    def close(self) -> None:
        """Frees the device memory; encoding afterwards raises `UnusableError`. Closing twice is allowed.

        Example:
            >>> from grilly import VulkanSentenceTransformer
            >>> other = VulkanSentenceTransformer("all-MiniLM-L6-v2", device="cpu")
            >>> other.close()
        """
        with self._held.swap:
            for core in self._held.cores():
                core.close()
            self._held.elsewhere.clear()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickles by name and options: the copy loads the model again."""
        limit = self._core.max_seq_length  # an unusable model cannot be pickled
        options = replace(self._options, max_seq_length=None if self._held.limit is None else limit)
        return restore, (type(self), self._source, options, {name: getattr(self, name) for name in self.kept})


def restore(kind: type[Loaded], source: ModelArguments, options: Options, settings: dict[str, Any]) -> Loaded:
    """A pickled model, loaded again; where that fails, as after a fork, the first use raises the error."""
    model = kind.__new__(kind)
    failed: GrillyError | None = None
    try:
        model._load(source, options)
    except GrillyError as error:
        failed = error
        model._source, model._options, model.dtype = source, options, str(options.dtype)
    for name, value in settings.items():
        setattr(model, name, value)
    if failed is None:
        try:
            model._set_up(model._core)
        except GrillyError as error:
            failed = error
    if failed is not None:
        model._held.core = cast(EmbeddingModel, Unusable(failed))
    return model
