"""The compiled core of a model: loading, replacement on a change of type or device, freeing, pickling."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, TypeVar, cast

from grilly import hub
from grilly._core import EmbeddingModel
from grilly.closed import closed
from grilly.errors import GrillyError
from grilly.held import Held, TokenizerSettings
from grilly.inputs import device_name
from grilly.sentence_transformer.arguments import Arguments, choose
from grilly.tokenizer import Tokenizer
from grilly.unusable import Unusable

__all__ = ["Loaded", "restore"]

logger = logging.getLogger("grilly")

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

    model_name: str
    # The device that was asked for, by name.
    _requested: str
    dtype: str
    _include_prompt: bool | None = None
    # The element type that was asked for, None for the default of the class; routes may have ones of their own.
    _dtype_choice: str | None

    def _load(self, arguments: Arguments) -> None:
        """Finds the model and loads it."""
        name, choices = choose(arguments)
        self._held = Held()
        self.tokenizer = Tokenizer(self._held)
        self._said: set[str] = set()
        self._swap = self._held.swap
        self._elsewhere = self._held.elsewhere
        found = hub.resolve(
            name,
            cache_folder=arguments.cache_folder,
            revision=arguments.revision,
            local_files_only=arguments.local_files_only,
            token=choices.token,
            organisation=self.default_huggingface_organization,
        )
        self._resources = (
            arguments.num_threads, arguments.memory_limit, choices.default_task, self.kind, arguments.float32_products,
            arguments.default_dtype,
        )  # fmt: skip
        self._passed = choices.passed
        self._held.limit, self._dtype_choice = choices.max_seq_length, choices.dtype
        self._held.core = self._open(found.folder, choices.device, choices.dtype, arguments)
        # A folder's path must not depend on the working directory.
        self._folder = Path(os.path.abspath(found.folder))
        self.model_name = self._held.name = os.fspath(name)
        self._requested, self.dtype = choices.device, self._core.dtype
        # State needed by a copy in another process.
        self._arguments = replace(
            arguments,
            name=str(self._folder) if found.found == "path" else self.model_name,
            token=None,
            use_auth_token=None,
            model_card_data=None,
            modules=None,
        )
        for note in choices.notes:
            self._say(note)

    def _open(self, folder: Path, device: str, dtype: str | None, arguments: Arguments) -> EmbeddingModel:
        """A core for the model in `folder`, with the limit and the resources of this one."""
        changed = (arguments.rounded_products, modes_of(arguments))
        return EmbeddingModel.load(folder, device, dtype, self._limit, *self._resources, *changed, self._passed)

    @property
    def _core(self) -> EmbeddingModel:
        """The current core."""
        return self._held.core

    @property
    def _limit(self) -> int | None:
        """The limit of tokens that was set; None for the model's own."""
        return self._held.limit

    @property
    def _token_settings(self) -> TokenizerSettings:
        """What was set on the tokenizer."""
        return self._held.settings

    @_token_settings.setter
    def _token_settings(self, settings: TokenizerSettings) -> None:
        self._held.settings = settings

    def _say(self, line: str) -> None:
        """Logs a line once for this model."""
        if line not in self._said:
            self._said.add(line)
            logger.info("%s: %s", self.model_name, line)

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
        with self._swap:
            before = self._core
            before.encode([], "", 1, False)  # a closed model stays closed
            wanted = (device or self._requested, dtype or self.dtype)
            known = self._arguments.rounded_products
            levels = known if rounded is None else rounded or None
            modes = pooling or self._arguments.pooling
            same = (self._requested, self.dtype, known, self._arguments.pooling)
            if (*wanted, levels, modes) == same:
                return
            arguments = replace(self._arguments, rounded_products=levels, pooling=modes)
            self._held.core = self._like(wanted[0], dtype or self._dtype_choice, arguments)
            self._arguments = arguments
            self._dtype_choice = dtype or self._dtype_choice
            self._requested, self.dtype = wanted
            self._elsewhere.clear()

    def _like(self, device: str, dtype: str | None, arguments: Arguments) -> EmbeddingModel:
        """The same model with the same settings on another device, in another type, or of other arguments."""
        core = self._open(self._folder, device, dtype, arguments)
        if self._include_prompt is not None:
            core.set_pooling_include_prompt(self._include_prompt)
        if self._token_settings.truncation_side is not None:
            core.tokenizer.set_truncation_side(self._token_settings.truncation_side)
        return core

    def _core_on(self, device: Any) -> EmbeddingModel:
        """The core for a call on `device`: the model's own, or a second one that is cached for the next such call."""
        if device is None:
            return self._core
        name = device_name(device)
        with self._swap:
            if name == self._requested or name == self._core.backend == "cpu":
                return self._core
            self._core.encode([], "", 1, False)
            core = self._elsewhere.get(name)
            if core is None:
                core = self._like(name, self._dtype_choice, self._arguments)
                self._elsewhere.clear()
                self._elsewhere[name] = core
            return core

    # ------------------------------------------------------------------------------------------------------ life

    def close(self) -> None:
        """Frees the device memory; encoding afterwards raises `UnusableError`. Closing twice is allowed.

        Example:
            >>> from grilly import VulkanSentenceTransformer
            >>> other = VulkanSentenceTransformer("all-MiniLM-L6-v2", device="cpu")
            >>> other.close()
        """
        with self._swap:
            for core in self._held.cores():
                core.close()
            self._elsewhere.clear()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickles by name and arguments: the copy loads the model again."""
        limit = self._core.max_seq_length  # an unusable model cannot be pickled
        _, _, task, *_ = self._resources
        # Without the type, the limit, the device and the task, whose current values stand beside them.
        passed = json.loads(self._passed)
        if task is not None:
            passed["model_kwargs"]["default_task"] = task
        arguments = replace(
            self._arguments, **passed, device=self._requested, dtype=self._dtype_choice, tokenizer_kwargs=None,
            default_dtype=None if self._dtype_choice else self._arguments.default_dtype,
            prompts=None, default_prompt_name=None, truncate_dim=None, similarity_fn_name=None,
            max_seq_length=None if self._limit is None else limit, trust_remote_code=False,
        )  # fmt: skip
        return restore, (type(self), arguments, {name: getattr(self, name) for name in self.kept})


def modes_of(arguments: Arguments) -> list[str] | None:
    """The pooling modes that were chosen in place of the model's."""
    return None if arguments.pooling is None else list(arguments.pooling)


def restore(kind: type[Loaded], arguments: Arguments, settings: dict[str, Any]) -> Loaded:
    """A pickled model, loaded again; where that fails, as after a fork, the first use raises the error."""
    model = kind.__new__(kind)
    try:
        model._load(arguments)
        if settings["_include_prompt"] is not None:
            model._core.set_pooling_include_prompt(settings["_include_prompt"])
        if settings["_token_settings"].truncation_side is not None:
            model._core.tokenizer.set_truncation_side(settings["_token_settings"].truncation_side)
    except GrillyError as error:
        model._held.core = cast(EmbeddingModel, Unusable(error))
        model._arguments, model._requested = arguments, str(arguments.device)
        model.dtype = str(arguments.dtype)
    for name, value in settings.items():
        setattr(model, name, value)
    return model
