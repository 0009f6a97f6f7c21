"""Arguments of modules' constructors, with sentence-transformers' names, and modules of folders."""

from __future__ import annotations

import functools
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, TypeVar

from grilly import _core, hub
from grilly.errors import ModelFormatError, UnsupportedError
from grilly.inputs import choose_dtype, need_one_of, need_type, positive
from grilly.sentence_transformer.aliases import OLDER, older_keywords
from grilly.sentence_transformer.arguments import DTYPE_KEYS, checked
from grilly.sentence_transformer.described import FLAGS, Described, check_modes

__all__ = ["loaded"]

Arguments = TypeVar("Arguments", bound=type[Any])

# Keyword arguments for other libraries that say where a model is; none of them is written to a file.
PLACES = {"cache_dir": "cache_folder", "revision": "revision", "local_files_only": "local_files_only", "token": "token"}
UNWRITTEN = (*PLACES, "use_auth_token", "trust_remote_code")
# Keys of config.json for the columns of a hidden state.
WIDTHS = ("hidden_size", "dim", "d_model", "n_embd")


def renamed(place: str) -> Callable[[Arguments], Arguments]:
    """Lets a class of arguments be made with the older keywords of `place`."""

    def decorate(kind: Arguments) -> Arguments:
        kind.__init__ = older_keywords(place)(kind.__init__)
        return kind

    return decorate


def with_modes(named: Mapping[str, Any]) -> dict[str, Any]:
    """The names of modes in place of the booleans of former versions, unless both are there."""
    now = {name: value for name, value in named.items() if name not in FLAGS.values()}
    if len(now) < len(named):
        now.setdefault("pooling_mode", tuple(mode for mode, flag in FLAGS.items() if named.get(flag)) or "mean")
    return now


def by_flags(kind: Arguments) -> Arguments:
    """Lets the arguments of a Pooling be made with the booleans of former versions, one for each mode."""
    method = kind.__init__

    @functools.wraps(method)
    def flagged(self: Any, *given: Any, **named: Any) -> None:
        if any(flag in named for flag in FLAGS.values()):
            warnings.warn("pooling_mode_..._tokens are older names; use pooling_mode", FutureWarning, stacklevel=4)
        method(self, *given, **with_modes(named))

    kind.__init__ = flagged
    return kind


@renamed("Transformer")
@dataclass(frozen=True)
class TransformerArguments:
    """Those of a Transformer."""

    model_name_or_path: str | os.PathLike[str]
    _: KW_ONLY
    transformer_task: str = "feature-extraction"
    model_kwargs: dict[str, Any] | None = None
    processor_kwargs: dict[str, Any] | None = None
    config_kwargs: dict[str, Any] | None = None
    processing_kwargs: dict[str, Any] | None = None
    backend: str = "torch"
    modality_config: dict[str, Any] | None = None
    module_output_name: str | None = None
    unpad_inputs: bool | None = None
    query_length: int | None = None
    document_length: int | None = None
    query_expansion: dict[str, Any] | None = None
    max_seq_length: int | None = None
    do_lower_case: bool = False
    tokenizer_name_or_path: str | None = None
    cache_dir: str | None = None  # as in former versions

    def described(self, kind: str) -> Described:
        """With the folder found: what the arguments cannot say is in its files."""
        if self.backend != "torch":
            raise UnsupportedError(
                f"backend is {self.backend!r}: models run in this package's own engine; leave it out"
            )
        name = os.fspath(self.model_name_or_path)
        if self.tokenizer_name_or_path not in (None, name):
            raise UnsupportedError(
                f"tokenizer_name_or_path is {self.tokenizer_name_or_path!r}, another than the model's: copy its files "
                "to a copy of the model's folder, and name that"
            )
        if self.max_seq_length is not None:
            positive(self.max_seq_length, "max_seq_length")
        need_type(self.do_lower_case, bool, "do_lower_case", "bool")
        settings = {key: value for key, value in vars(self).items() if value is not None}
        for key in ("model_name_or_path", "tokenizer_name_or_path", "backend", "cache_dir"):
            settings.pop(key, None)
        where: dict[str, Any] = {} if self.cache_dir is None else {"cache_folder": self.cache_dir}
        for key in ("model_kwargs", "processor_kwargs", "config_kwargs"):
            passed = checked(key, settings.pop(key, None))
            where |= {PLACES[place]: passed[place] for place in PLACES if passed.get(place) is not None}
            for dtype in (dtype for dtype in DTYPE_KEYS if dtype in passed):
                passed[dtype] = choose_dtype(None, None, {f"{key}[{dtype!r}]": passed[dtype]}) or "auto"
            if passed := {name: value for name, value in passed.items() if name not in UNWRITTEN}:
                settings[key] = passed
        folder = Path(os.path.abspath(hub.resolve(name, **where).folder))
        if not (folder / "config.json").is_file():
            raise ModelFormatError(f"{folder}: no config.json: expected a folder with a Transformer's own files")
        made = Described("Transformer", settings, folder, name)
        inner = made.config.get("text_config")
        configs = (made.config, inner if isinstance(inner, dict) else {})
        width = next((config[key] for config in configs for key in WIDTHS if key in config), None)
        if width is not None:
            made.settings["embedding_dimension"] = width
        return made


@renamed("Transformer")
@dataclass(frozen=True)
class MaskedArguments(TransformerArguments):
    """Those of an MLMTransformer."""

    _: KW_ONLY
    transformer_task: str = "fill-mask"


@by_flags
@renamed("Pooling")
@dataclass(frozen=True)
class PoolingArguments:
    """Those of a Pooling."""

    embedding_dimension: int
    pooling_mode: str | Sequence[str] = "mean"
    include_prompt: bool = True

    def described(self, kind: str) -> Described:
        """With as many columns as the modes together give."""
        modes = check_modes(self.pooling_mode)
        columns = positive(self.embedding_dimension, "embedding_dimension")
        need_type(self.include_prompt, bool, "include_prompt", "bool")
        return Described(kind, vars(self) | {"embedding_dimension": columns, "pooling_mode": modes})


@renamed("SpladePooling")
@dataclass(frozen=True)
class SpladeArguments:
    """Those of a SpladePooling."""

    pooling_strategy: str = "max"
    activation_function: str = "relu"
    embedding_dimension: int | None = None
    chunk_size: int | None = None

    def described(self, kind: str) -> Described:
        """Without the chunk, which changes no number."""
        need_one_of(self.pooling_strategy, ("max", "sum"), "pooling_strategy")
        need_one_of(self.activation_function, ("relu", "log1p_relu"), "activation_function")
        return Described(kind, {key: value for key, value in vars(self).items() if key != "chunk_size"})


class Written:
    """Arguments that are all settings of the module's file, which loading checks."""

    def described(self, kind: str) -> Described:
        return Described(kind, vars(self))


@dataclass(frozen=True)
class NormalizeArguments(Written):
    """Those of a Normalize."""

    module_input_name: str = "sentence_embedding"
    module_output_name: str | None = None

    def described(self, kind: str) -> Described:
        """With what it reads as what it gives, unless another name is given."""
        return Described(kind, vars(self) | {"module_output_name": self.module_output_name or self.module_input_name})


@dataclass(frozen=True)
class DropoutArguments(Written):
    """Those of a Dropout."""

    dropout: float = 0.2


@dataclass(frozen=True)
class MaskArguments(Written):
    """Those of a MultiVectorMask."""

    skiplist_words: list[str] | None = None
    _: KW_ONLY
    skiplist_tasks: str | list[str] | None = None
    keep_only_token_ids: list[int] | None = None


@dataclass(frozen=True)
class LogitArguments(Written):
    """Those of a LogitScore."""

    true_token_id: int
    false_token_id: int | None = None
    module_input_name: str = "causal_logits"


def loaded(
    kind: str, arguments: type[Any] | None, name: str | os.PathLike[str], subfolder: str, where: dict[str, Any]
) -> Described:
    """A module with the settings and weights of a folder, in that of a model or alone."""
    folder = Path(os.path.abspath(hub.resolve(name, **where).folder)) / subfolder
    transformer = arguments is not None and issubclass(arguments, TransformerArguments)
    names = _core.TRANSFORMER_SETTINGS if transformer else ("config.json",)
    file = next((folder / name for name in names if (folder / name).is_file()), folder / names[0])
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except OSError:
        raise ModelFormatError(f"{file}: no such file: expected the folder of a {kind}") from None
    except ValueError as error:
        raise ModelFormatError(f"{file}: {error}") from None
    if not isinstance(settings, dict):
        raise ModelFormatError(f"{file}: holds {type(settings).__name__}, expected a JSON object")
    if arguments is None:
        return Described(kind, settings, folder)
    now = OLDER.get(kind, {})
    settings = {now.get(name, name): settings[name] for name in sorted(settings, key=lambda name: name not in now)}
    try:
        made: Described = arguments(*[folder] * transformer, **with_modes(settings)).described(kind)
    except TypeError as error:
        raise ModelFormatError(f"{file}: {error}") from None
    return made
