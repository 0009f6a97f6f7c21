"""Constructor arguments, including those that sentence-transformers passes on to other libraries."""

from __future__ import annotations

import functools
import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from grilly._core import check_arguments, numerics_name
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from grilly.inputs import agreed, check_device, choose_dtype, device_name, need_type, positive
from grilly.nearest import nearest

DTYPE_KEYS = ("dtype", "torch_dtype")
# Keys of these arguments that are taken here; the core says of the others what they do.
HERE = {
    "model_kwargs": (*DTYPE_KEYS, "device_map", "default_task"),
    "processor_kwargs": ("model_max_length",),
    "config_kwargs": DTYPE_KEYS,
}


@dataclass(frozen=True, eq=False, repr=False)
class ModelArguments:
    """The arguments of every constructor, in sentence-transformers' order; a class adds its own in a subclass."""

    model_name_or_path: str | os.PathLike[str] | None = None
    _: KW_ONLY
    modules: Any = None
    device: Any = None
    prompts: dict[str, str] | None = None
    default_prompt_name: str | None = None
    cache_folder: str | os.PathLike[str] | None = None
    trust_remote_code: bool = False
    revision: str | None = None
    local_files_only: bool = False
    token: bool | str | None = None
    use_auth_token: bool | str | None = field(default=None, init=False)
    model_kwargs: dict[str, Any] | None = None
    processor_kwargs: dict[str, Any] | None = None
    config_kwargs: dict[str, Any] | None = None
    model_card_data: Any = None
    backend: str = "torch"
    dtype: Any = None
    max_seq_length: int | None = None
    score_tokens: tuple[str, ...] | None = field(default=None, init=False)  # of a CrossEncoder
    num_threads: int | None = None
    memory_limit: int | None = None
    float32_products: Literal["split", "plain"] | None = None
    numerics: str | None = None
    devices: Sequence[Any] | str | None = None
    mixed: bool = False


@dataclass(frozen=True, kw_only=True, repr=False)
class Options:
    """What the core loads a folder by: its `LoadOptions`, all by name."""

    kind: str
    device: str  # several with commas between
    mixed: bool
    dtype: str | None
    default_dtype: str | None  # of the class; config.json may say that products are in integers
    max_seq_length: int | None
    num_threads: int | None
    memory_limit: int | None
    default_task: str | None
    float32_products: str | None
    numerics: str | None
    rounded_products: str | None = None  # of a converted model: the levels of its products' matrices
    pooling: tuple[str, ...] | None = None  # modes that were set in place of the model's
    score_tokens: tuple[str, ...] | None = None  # whose logits are scores, in a folder that does not say
    arguments: str  # keyword arguments for the readers of the model's files, as JSON


@dataclass(frozen=True, eq=False, repr=False)
class Choices:
    """The checked arguments, and a log line for each that behaves differently here."""

    name: str | os.PathLike[str]
    options: Options
    token: bool | str | None
    notes: tuple[str, ...]


Parameters = ParamSpec("Parameters")
Given = TypeVar("Given", bound=ModelArguments)
#: Arguments that sentence-transformers does not have; they are the last of every constructor.
OURS = (
    "dtype", "max_seq_length", "num_threads", "memory_limit", "float32_products", "numerics", "devices", "mixed",
)  # fmt: skip


def constructor(
    arguments: Callable[Parameters, Given],
) -> Callable[[Callable[[Any, Given], None]], Callable[Concatenate[Any, Parameters], None]]:
    """Lets `__init__`, which takes the arguments as one value, be called with them one by one.

    Names, types, defaults and order of the signature are those of the fields of the class of `arguments`.

    Example:
        >>> import inspect
        >>> from grilly.sentence_transformer.arguments import ModelArguments, constructor
        >>> class Named:
        ...     @constructor(ModelArguments)
        ...     def __init__(self, given):
        ...         self.name = given.model_name_or_path
        >>> Named("a").name, list(inspect.signature(Named).parameters)[:2]
        ('a', ['model_name_or_path', 'modules'])
    """
    parameters = list(inspect.signature(arguments).parameters.values())
    parameters.sort(key=lambda parameter: parameter.name in OURS)
    known = [parameter.name for parameter in parameters]

    def decorate(method: Callable[[Any, Given], None]) -> Callable[Concatenate[Any, Parameters], None]:
        own = list(inspect.signature(method).parameters.values())[:1]
        signature = inspect.Signature([*own, *parameters], return_annotation="None")

        @functools.wraps(method)
        def constructed(self: Any, /, *given: Parameters.args, **named: Parameters.kwargs) -> None:
            unknown = next((name for name in named if name not in known), None)
            if unknown is not None:
                problem = f"__init__() got an unexpected keyword argument {unknown!r}{nearest(unknown, known)}"
                raise TypeError(f"{type(self).__name__}.{problem}")
            try:
                made = arguments(*given, **named)
            except TypeError as error:
                raise TypeError(f"{type(self).__name__}.__init__() {str(error).partition('() ')[2]}") from None
            method(self, made)

        constructed.__signature__ = signature  # type: ignore[attr-defined]
        return constructed

    return decorate


def choose(given: ModelArguments, kind: str, default_dtype: str | None) -> Choices:
    """Checks all arguments for a model of a class that can be checked without loading it."""
    if given.model_name_or_path is None:
        raise InvalidTypeError("model_name is None, expected the name or the folder of a model, or modules=[...]")
    device, notes = check_device(given.device, given.devices), list(notes_on(given))
    given_to = {name: getattr(given, name) for name in HERE}
    model, processor, config = (checked(name, values) for name, values in given_to.items())
    need_type(given.float32_products, str | None, "float32_products", "str")
    need_type(given.numerics, str | None, "numerics", "str")
    need_type(given.mixed, bool, "mixed", "bool")
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
    if device is not None and str(device) != chosen and str(device).partition(":")[0] not in ("vulkan", "cpu"):
        notes.append(f"device {device!r} is taken as {chosen!r}")
    options = Options(
        kind=kind,
        device=chosen,
        mixed=given.mixed,
        dtype=dtype_of(given, default_dtype, model, config),
        default_dtype=default_dtype,
        max_seq_length=limit_of(given, processor),
        num_threads=given.num_threads,
        memory_limit=given.memory_limit,
        default_task=model.get("default_task"),
        float32_products=given.float32_products,
        numerics=None if given.numerics is None else numerics_name(given.numerics),
        score_tokens=given.score_tokens,
        arguments=passed,
    )
    return Choices(given.model_name_or_path, options, token_of(given), tuple(notes))


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


def notes_on(given: ModelArguments) -> Iterator[str]:
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


def dtype_of(given: ModelArguments, default: str | None, model: dict[str, Any], config: dict[str, Any]) -> str | None:
    """The element type by name, `"auto"`, or None if not given or the default."""
    named = {f"model_kwargs[{key!r}]": model.get(key) for key in DTYPE_KEYS}
    chosen = choose_dtype(given.dtype, default, named)
    configured = {f"config_kwargs[{key!r}]": config.get(key) for key in DTYPE_KEYS}
    silent = given.dtype in (None, "auto") and all(value in (None, "auto") for value in named.values())
    chosen = choose_dtype(None, chosen, configured) if silent else chosen
    return None if chosen == default else chosen


def limit_of(given: ModelArguments, processor: dict[str, Any]) -> int | None:
    """Most tokens of a text."""
    key = "model_max_length"
    named = {"max_seq_length": given.max_seq_length, f"processor_kwargs[{key!r}]": processor.get(key)}
    return agreed({name: positive(value, name) for name, value in named.items() if value is not None})


def token_of(given: ModelArguments) -> bool | str | None:
    """The hub token, under its current or its older name."""
    if given.token is not None and given.use_auth_token is not None:
        raise InvalidArgumentError("both token and use_auth_token are given; use_auth_token is the older name of token")
    return given.use_auth_token if given.token is None else given.token
