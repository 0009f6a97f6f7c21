"""What callers pass, checked and made uniform before any work begins."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError

__all__ = ["as_list", "check_device", "check_dtype", "choose_dtype", "merge_prompts", "positive"]

DTYPES = ("float32", "float16", "bfloat16")


def as_list(texts: Any) -> tuple[list[Any], bool]:
    """The texts as a list, and whether it was a single one.

    A str is a single text; lists, tuples, NumPy arrays of str and other collections are batches. The items are checked
    later, where they are converted.
    """
    if isinstance(texts, str):
        return [texts], True
    if isinstance(texts, list):
        return texts, False
    if isinstance(texts, np.ndarray) and texts.ndim == 0 and texts.dtype.kind == "U":
        return [texts.item()], True
    if isinstance(texts, np.ndarray) and (texts.ndim == 0 or (texts.dtype.kind not in "UO" and texts.size)):
        raise InvalidTypeError(f"texts is an array of {texts.dtype} of shape {texts.shape}, expected one of str")
    if isinstance(texts, bytes | bytearray | Mapping | set | frozenset) or not isinstance(texts, Iterable):
        raise InvalidTypeError(f"texts is of type {type(texts).__name__}, expected str or a list of str")
    return (texts.tolist() if isinstance(texts, np.ndarray) else list(texts)), False


def positive(value: Any, name: str) -> int:
    """A whole number above 0."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidTypeError(f"{name} is of type {type(value).__name__}, expected int") from None
    if number <= 0:
        raise InvalidArgumentError(f"{name} is {number}, expected at least 1")
    return min(number, 2**62)


def check_dtype(dtype: Any, name: str = "dtype") -> str:
    """The name of an element type that is given by name, as NumPy's or as torch's."""
    text = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype)
    text = text.removeprefix("torch.")
    if text in DTYPES:
        return text
    raise InvalidArgumentError(f"{name} is {text!r}, expected one of {', '.join(DTYPES)}")


def choose_dtype(dtype: Any, model_kwargs: Any) -> str:
    """The element type that `model_kwargs` names, or else `dtype`, which must agree where it is not the default."""
    named = {"dtype": check_dtype(dtype)}
    for key, value in (model_kwargs or {}).items():
        if key not in ("dtype", "torch_dtype"):
            raise InvalidTypeError(f"model_kwargs has the key {key!r}, expected only 'dtype' or 'torch_dtype'")
        named[f"model_kwargs[{key!r}]"] = check_dtype(value, f"model_kwargs[{key!r}]")
    if len(named) > 1 and named["dtype"] == DTYPES[0]:
        del named["dtype"]
    if len(set(named.values())) > 1:
        raise InvalidArgumentError(" and ".join(f"{name} is {text!r}" for name, text in named.items()) + ": which?")
    return next(iter(named.values()))


def check_device(device: Any, devices: Any) -> str:
    """The one device of `device` and `devices`."""
    if devices is not None:
        if isinstance(devices, str) or not isinstance(devices, Iterable):
            raise InvalidTypeError(f"devices is of type {type(devices).__name__}, expected a list of device strings")
        listed = list(devices)
        if not listed:
            raise InvalidArgumentError("devices is empty, expected at least one device")
        if len(listed) > 1:
            raise UnsupportedError(f"devices={listed!r}: this version runs a model on one device")
        device = listed[0]
    if device is None:
        return "vulkan"
    if not isinstance(device, str):
        raise InvalidTypeError(f"device is of type {type(device).__name__}, expected str")
    return device


def merge_prompts(given: Any, configured: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The caller's prompts before the model's own; `query` and `document` are always there, empty by default."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidTypeError(f"prompts is of type {type(given).__name__}, expected a dict of str to str")
    prompts: dict[str, str | None] = {"query": None, "document": None, **(given or {})}
    for name, prompt in prompts.items():
        if not isinstance(name, str) or not isinstance(prompt, str | None):
            raise InvalidTypeError(f"prompts[{name!r}] is of type {type(prompt).__name__}, expected str")
    for name, prompt in configured:
        if prompts.get(name) is None:
            prompts[name] = prompt
    return {name: prompt or "" for name, prompt in prompts.items()}
