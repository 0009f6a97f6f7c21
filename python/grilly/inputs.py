"""Validation and normalisation of callers' arguments, before any work begins."""

from __future__ import annotations

import logging
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from types import UnionType
from typing import Any, TypeVar

import numpy as np

from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from grilly.nearest import nearest
from grilly.place import Place

#: Where the package says what it makes of arguments that have another effect here, or none.
logger = logging.getLogger("grilly")

Value = TypeVar("Value")
DTYPES = ("float32", "float16", "bfloat16", "int8")
# Names for a GPU: this package's own and torch's.
ACCELERATORS = ("vulkan", "gpu", "cuda", "mps")
# Other names of types: torch's, and those of its users.
TORCH_DTYPES = {"half": "float16", "float": "float32", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


def as_list(texts: Any, name: str = "texts") -> tuple[list[Any], bool]:
    """The texts as a list, and whether it was a single one.

    A str is a single text; lists, tuples, arrays of NumPy and Arrow and other collections are batches. The items are
    checked later, where they are converted.
    """
    if isinstance(texts, str):
        return [texts], True
    if isinstance(texts, list):
        return texts, False
    if isinstance(texts, np.ndarray) and texts.ndim == 0 and texts.dtype.kind == "U":
        return [texts.item()], True
    if isinstance(texts, np.ndarray) and (texts.ndim == 0 or (texts.dtype.kind not in "UO" and texts.size)):
        raise InvalidTypeError(f"{name} is an array of {texts.dtype} of shape {texts.shape}, expected one of str")
    if isinstance(texts, Mapping) and list(texts) == ["text"]:
        return [texts], True
    if hasattr(texts, "to_pylist"):  # of pyarrow, whose items are scalars of its own
        return texts.to_pylist(), False
    if isinstance(texts, bytes | bytearray | Mapping | set | frozenset) or not isinstance(texts, Iterable):
        raise InvalidTypeError(f"{name} is of type {type(texts).__name__}, expected str or a list of str")
    return (texts.tolist() if isinstance(texts, np.ndarray) else list(texts)), False


def parted(items: list[Any], name: str = "texts") -> tuple[list[Any], list[int]]:
    """The items, with the text of each `{"text": ...}` in its place, and the places of the pairs among them.

    Example:
        >>> from grilly.inputs import parted
        >>> parted([{"text": "a"}, ("b", "c")])
        (['a', ('b', 'c')], [1])
    """
    if all(isinstance(item, str) for item in items):
        return items, []
    items = [item["text"] if isinstance(item, Mapping) and list(item) == ["text"] else item for item in items]
    pairs = [place for place, item in enumerate(items) if isinstance(item, list | tuple)]
    for place in pairs:
        if len(items[place]) != 2:
            raise InvalidArgumentError(f"{name}[{place}] has {len(items[place])} texts, expected one, or a pair of 2")
    for place, item in enumerate(items):
        if isinstance(item, Mapping):
            raise InvalidTypeError(
                f"{name}[{place}] is a dict of {sorted(item, key=str)}, expected a str or {{'text': ...}}"
            )
    return items, pairs


def as_pairs(inputs: Any) -> tuple[list[str], list[str], list[str]]:
    """Single texts, or the first and the second texts of pairs; items are checked where they are converted."""
    if isinstance(inputs, str | Mapping) or not isinstance(inputs, Sequence | np.ndarray):
        raise InvalidTypeError(f"inputs is of type {type(inputs).__name__}, expected a pair of str or a list of pairs")
    items = [item.tolist() if isinstance(item, np.ndarray) else item for item in inputs]
    if items and all(isinstance(item, str) for item in items):
        return items, [], []
    for place, item in enumerate(items):
        need_type(item, list | tuple, f"inputs[{place}]", "a pair of str")
        if len(item) != 2:
            raise InvalidArgumentError(f"inputs[{place}] has {len(item)} texts, expected 2")
    return [], [first for first, _ in items], [second for _, second in items]


def need_type(value: Any, kind: type[Any] | UnionType, name: str, expected: str) -> None:
    """Rejects a value of another type."""
    if not isinstance(value, kind):
        raise InvalidTypeError(f"{name} is of type {type(value).__name__}, expected {expected}")


def need_one_of(value: Any, known: Iterable[str | None], name: str) -> None:
    """Rejects what is none of the names that are known.

    Example:
        >>> from grilly.inputs import need_one_of
        >>> need_one_of("mean", ("mean", "max"), "mode")
    """
    names = list(known)
    if value not in names:
        raise InvalidArgumentError(f"{name} is {value!r}, expected one of {', '.join(map(str, names))}")


def path_text(path: Any, name: str) -> str:
    """A path as a str that is a valid file name."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str):
        raise InvalidTypeError(f"{name} is of type {type(path).__name__}, expected str or a path")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise InvalidArgumentError(
            f"{name} is {text!r}, which is not a path: it contains a lone surrogate (half a character)"
        ) from None
    return text


def as_int(value: Any, name: str) -> int:
    """A whole number of any type that has `__index__`."""
    try:
        return int(operator.index(value))
    except TypeError:
        raise InvalidTypeError(f"{name} is of type {type(value).__name__}, expected int") from None


def as_float(value: Any, name: str) -> float:
    """A number, which may be infinite or NaN."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidTypeError(f"{name} is of type {type(value).__name__}, expected a number") from None


def axes_of(shape: Iterable[int | str]) -> list[str]:
    """Axes as the core takes them."""
    if not isinstance(shape, Iterable):
        raise InvalidTypeError(f"shape is of type {type(shape).__name__}, expected a sequence of axes")
    return list(map(str, shape))


def as_count(value: Any, name: str) -> int:
    """A whole number from 0 that 63 bits hold."""
    number = as_int(value, name)
    if not 0 <= number < 2**63:
        raise InvalidArgumentError(f"{name} is {number}, expected a number from 0 to 2^63 - 1")
    return number


def positive(value: Any, name: str) -> int:
    """A whole number above 0."""
    number = as_int(value, name)
    if number <= 0:
        raise InvalidArgumentError(f"{name} is {number}, expected at least 1")
    return min(number, 2**62)


def check_dtype(dtype: Any, name: str = "dtype") -> str:
    """The name of an element type given by name or as NumPy's or torch's type; also `"auto"`."""
    text = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype)
    text = text.removeprefix("torch.")
    text = TORCH_DTYPES.get(text, text)
    if text in (*DTYPES, "auto"):
        return text
    raise InvalidArgumentError(f"{name} is {text!r}, expected one of {', '.join(DTYPES)}, or 'auto'")


def is_dtype(value: Any) -> bool:
    """Whether `value` names an element type rather than a device."""
    if isinstance(value, str):
        return value in DTYPES or value in TORCH_DTYPES
    return isinstance(value, type) or (hasattr(value, "itemsize") and not hasattr(value, "shape"))


def check_options(
    method: str, options: Mapping[str, Any], known: Iterable[str] = (), named: Iterable[str] = ()
) -> None:
    """Accepts `task`, `processing_kwargs` and those `known`; errors name the nearest, of `named` too."""
    accepted = ("task", "processing_kwargs", *known)
    for name, value in options.items():
        if name not in accepted:
            meant = nearest(name, (*accepted, *named))
            raise InvalidArgumentError(f"{method}() does not know the keyword {name!r}{meant}")
        if name == "modality" and value not in (None, "text"):
            raise UnsupportedError(f"modality is {value!r}: only 'text' is supported")
    need_type(options.get("task"), str | None, "task", "str")


def agreed(named: Mapping[str, Value]) -> Value | None:
    """The value that all of these arguments have; None without any."""
    if len(set(named.values())) > 1:
        raise InvalidArgumentError(" and ".join(f"{name} is {value!r}" for name, value in named.items()) + ": which?")
    return next(iter(named.values()), None)


def choose_dtype(dtype: Any, default: str | None, given: Mapping[str, Any]) -> str | None:
    """The element type from the argument `dtype` and the options `given`; if both name one, they must agree.

    A `dtype` equal to the default is overridden. `"auto"` and None leave the choice to the model's files.
    """
    named = {} if dtype is None else {"dtype": check_dtype(dtype)}
    named |= {name: check_dtype(value, name) for name, value in given.items() if value is not None}
    if len(named) > 1 and dtype is not None and named["dtype"] in (default, "auto"):
        del named["dtype"]
    return agreed(named) or default


def device_name(device: Any, name: str = "device") -> str:
    """`"auto"`, `"cpu"`, `"vulkan"` or `"vulkan:N"` for a device name of this package or torch; None is `"auto"`.

    A model's `device` stands for the one that it was asked to run on; several of a list are joined by commas.
    """
    if device is None:
        return "auto"
    if isinstance(device, list | tuple):
        if not device:
            raise InvalidArgumentError(f"{name} is an empty list, expected at least one device")
        return ",".join(device_name(one, name) for one in device)
    if device in ("all", "auto"):
        return str(device)
    if isinstance(device, Place):
        return device.requested
    if isinstance(device, int) and not isinstance(device, bool):
        device = f"vulkan:{device}"
    elif not isinstance(device, str) and hasattr(device, "type") and hasattr(device, "index"):
        device = str(device)
    need_type(device, str, name, "str")
    kind, colon, number = device.partition(":")
    if kind == "cpu" and number in ("", "0"):
        return "cpu"
    if kind in ACCELERATORS and (number.isascii() and number.isdecimal() if colon else True):
        return f"vulkan{colon}{number}"
    raise InvalidArgumentError(
        f"{name} is {device!r}, expected 'vulkan', 'vulkan:N', 'auto', 'all' or 'cpu', or torch's 'cuda', 'cuda:N' or "
        "'mps'; a GPU of any maker is 'vulkan'"
    )


def device_and_dtype(arguments: Iterable[Any], device: Any, dtype: Any) -> tuple[Any, Any]:
    """What the arguments of torch's `to` name: a device, an element type, or the two of an array.

    Example:
        >>> from grilly.inputs import device_and_dtype
        >>> device_and_dtype(["cpu", "float16"], None, None)
        ('cpu', 'float16')
    """
    for argument in arguments:
        if argument is None or isinstance(argument, bool):
            continue
        if is_dtype(argument):
            dtype = argument
        elif hasattr(argument, "dtype") and hasattr(argument, "device"):
            device, dtype = argument.device, argument.dtype
        else:
            device = argument
    return device, dtype


def check_device(device: Any, devices: Any) -> Any:
    """What `devices`, or else `device`, names."""
    if devices is None:
        return device
    if devices != "all":
        if isinstance(devices, str) or not isinstance(devices, Iterable):
            kind = type(devices).__name__
            raise InvalidTypeError(f"devices is of type {kind}, expected a list of device strings or 'all'")
        devices = list(devices)
        if not devices:
            raise InvalidArgumentError("devices is empty, expected at least one device")
    if device not in (None, "auto", "vulkan"):
        raise InvalidArgumentError("both device and devices are given; devices stands in place of device")
    return devices


def merge_prompts(given: Any, configured: Iterable[tuple[str, str]], usual: Iterable[str]) -> dict[str, str]:
    """The caller's prompts override the model's own; the usual ones always exist, empty by default."""
    need_type(given, Mapping | None, "prompts", "a dict of str to str")
    prompts: dict[str, str | None] = {**dict.fromkeys(usual), **(given or {})}
    for name, prompt in prompts.items():
        if not isinstance(name, str) or not isinstance(prompt, str | None):
            raise InvalidTypeError(f"prompts[{name!r}] is of type {type(prompt).__name__}, expected str")
    for name, prompt in configured:
        if prompts.get(name) is None:
            prompts[name] = prompt
    return {name: prompt or "" for name, prompt in prompts.items()}


def pairs_of(names: Mapping[str, str] | None) -> list[tuple[str, str]]:
    """A shader's own names and grilly's, checked."""
    need_type(names, Mapping | None, "names", "a dict of names")
    pairs = list((names or {}).items())
    for name in (name for pair in pairs for name in pair):
        need_type(name, str, "a name in names", "str")
    return pairs
