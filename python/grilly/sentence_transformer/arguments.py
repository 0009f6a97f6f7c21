"""Constructor arguments, including those that sentence-transformers passes on to other libraries."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from grilly._core import check_arguments
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from grilly.inputs import agreed, choose_dtype, device_name, need_type, positive

DTYPE_KEYS = ("dtype", "torch_dtype")
# Keys of these arguments that are taken here; the core says of the others what they do.
HERE = {
    "model_kwargs": (*DTYPE_KEYS, "device_map", "default_task"),
    "processor_kwargs": ("model_max_length",),
    "config_kwargs": DTYPE_KEYS,
}


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The arguments of either constructor, as given."""

    name: str | os.PathLike[str] | None
    dtype: Any = None
    default_dtype: str | None = None  # of the class; config.json may say that products are in integers
    device: Any = None
    max_seq_length: int | None = None
    prompts: dict[str, str] | None = None
    default_prompt_name: str | None = None
    truncate_dim: int | None = None
    cache_folder: str | os.PathLike[str] | None = None
    revision: str | None = None
    local_files_only: bool = False
    token: bool | str | None = None
    similarity_fn_name: Any = None
    num_threads: int | None = None
    memory_limit: int | None = None
    float32_products: str | None = None
    rounded_products: str | None = None  # of a converted model: the levels of its products' matrices
    pooling: tuple[str, ...] | None = None  # modes that were set in place of the model's
    modules: Any = None
    trust_remote_code: bool = False
    use_auth_token: bool | str | None = None
    model_kwargs: Mapping[str, Any] | None = None
    processor_kwargs: Mapping[str, Any] | None = None
    tokenizer_kwargs: Mapping[str, Any] | None = None
    config_kwargs: Mapping[str, Any] | None = None
    model_card_data: Any = None
    backend: str = "torch"

    @classmethod
    def of(cls, values: Mapping[str, Any], **others: Any) -> Arguments:
        """The arguments among a constructor's local variables, and others."""
        known = {field.name for field in fields(cls)}
        return cls(**({name: value for name, value in values.items() if name in known} | others))


@dataclass(frozen=True)
class Choices:
    """The checked arguments, and a log line for each that behaves differently here."""

    device: str
    dtype: str | None
    max_seq_length: int | None
    token: bool | str | None
    default_task: str | None
    # Keyword arguments for the readers of the model's files, as JSON.
    passed: str
    notes: tuple[str, ...]


def choose(given: Arguments) -> tuple[str | os.PathLike[str], Choices]:
    """Checks all arguments that can be checked without loading the model."""
    if given.name is None:
        problem = "model_name is None, expected the name or the folder of a model"
        if given.modules is not None:
            problem += "; modules are not run here: save them there, SentenceTransformer(modules=...).save(folder)"
        raise InvalidTypeError(problem)
    device, notes = given.device, list(notes_on(given))
    given_to = {
        "model_kwargs": given.model_kwargs,
        "processor_kwargs": one_of(given),
        "config_kwargs": given.config_kwargs,
    }
    model, processor, config = (checked(name, values) for name, values in given_to.items())
    need_type(given.float32_products, str | None, "float32_products", "str")
    need_type(model.get("default_task"), str | None, "model_kwargs['default_task']", "str")
    placed = model.get("device_map")
    if placed is not None:
        if not isinstance(placed, str | int):
            raise UnsupportedError(
                f"model_kwargs['device_map'] is {placed!r}: one device runs a model; expected its name"
            )
        device = None if placed == "auto" else placed
        notes.append(f"model_kwargs['device_map'] = {placed!r} is taken as the device")
    passed = json.dumps(
        {
            name: {key: value for key, value in values.items() if key not in HERE[name]}
            for name, values in zip(HERE, (model, processor, config), strict=True)
        },
        default=plain,
    )
    notes.extend(check_arguments(passed))
    chosen = device_name(device)
    if device is not None and str(device).partition(":")[0] not in ("vulkan", "cpu"):
        notes.append(f"device {device!r} is taken as {chosen!r}")
    return given.name, Choices(
        device=chosen,
        dtype=dtype_of(given, model, config),
        max_seq_length=limit_of(given, processor),
        token=token_of(given),
        default_task=model.get("default_task"),
        passed=passed,
        notes=tuple(notes),
    )


def one_of(given: Arguments) -> Any:
    """The tokenizer arguments, under either of their two names."""
    if given.tokenizer_kwargs is not None and given.processor_kwargs is not None:
        raise InvalidArgumentError("both processor_kwargs and tokenizer_kwargs are given; they are one argument")
    return given.processor_kwargs if given.tokenizer_kwargs is None else given.tokenizer_kwargs


def checked(name: str, values: Any) -> dict[str, Any]:
    """A mapping from str, as a dict."""
    if values is None:
        return {}
    if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
        raise InvalidTypeError(f"{name} is of type {type(values).__name__}, expected a dict with str keys")
    return dict(values)


def plain(value: Any) -> Any:
    """What JSON has in place of an argument: a token's settings, else its text."""
    if hasattr(value, "content") and hasattr(value, "lstrip"):  # an AddedToken
        names = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")
        return {name: getattr(value, name) for name in names}
    return str(value)


def notes_on(given: Arguments) -> Iterator[str]:
    """Log lines for the arguments that are accepted but behave differently."""
    if given.backend not in ("torch", None):
        raise UnsupportedError(
            f"backend is {given.backend!r}: models run in this package's own engine; leave the argument out, and "
            "choose with device='vulkan' or device='cpu'"
        )
    if given.trust_remote_code:
        yield "trust_remote_code=True: no code of the model's repository is run"
    if given.modules is not None:
        yield "modules are ignored, as the name of a model is given"
    if given.model_card_data is not None:
        yield "model_card_data is ignored: the model card is README.md of the model's folder"


def dtype_of(given: Arguments, model: dict[str, Any], config: dict[str, Any]) -> str | None:
    """The element type by name, `"auto"`, or None if not given or the default."""
    named = {f"model_kwargs[{key!r}]": model.get(key) for key in DTYPE_KEYS}
    chosen = choose_dtype(given.dtype, given.default_dtype, named)
    configured = {f"config_kwargs[{key!r}]": config.get(key) for key in DTYPE_KEYS}
    silent = given.dtype in (None, "auto") and all(value in (None, "auto") for value in named.values())
    chosen = choose_dtype(None, chosen, configured) if silent else chosen
    return None if chosen == given.default_dtype else chosen


def limit_of(given: Arguments, processor: dict[str, Any]) -> int | None:
    """Most tokens of a text."""
    key = "model_max_length"
    named = {"max_seq_length": given.max_seq_length, f"processor_kwargs[{key!r}]": processor.get(key)}
    return agreed({name: positive(value, name) for name, value in named.items() if value is not None})


def token_of(given: Arguments) -> bool | str | None:
    """The hub token, under its current or its older name."""
    if given.token is not None and given.use_auth_token is not None:
        raise InvalidArgumentError("both token and use_auth_token are given; use_auth_token is the older name of token")
    return given.use_auth_token if given.token is None else given.token
