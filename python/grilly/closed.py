"""Which public attributes of an object callers may set; an error that names the nearest one refuses all others."""

import functools
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

from grilly.errors import UnsupportedNameError
from grilly.nearest import nearest

__all__ = ["closed", "refusal", "remedies", "texts"]

Kind = TypeVar("Kind", bound=type[Any])


@functools.cache
def _left_out() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name("left_out.json").read_text(encoding="utf-8"))
    return found


def texts() -> dict[str, str]:
    """The alternatives that several names have, each by a name of its own."""
    return dict(_left_out()["texts"])


def remedies(place: str) -> dict[str, str]:
    """Name -> the alternative, for names of another package that a class or module of ours does not have.

    left_out.json lists them by place, below the alternative itself or its name in `texts`.

    Example:
        >>> from grilly.closed import remedies
        >>> remedies("CrossEncoder")["model"]
        "there is no torch module: the weights are in the model.safetensors of the model's folder"
    """
    shared, listed = _left_out()["texts"], _left_out()["places"].get(place, {})
    return {name: shared.get(remedy, remedy) for remedy, names in listed.items() for name in names}


def closed(*settable: str, **remedies: str) -> Callable[[Kind], Kind]:
    """Lets callers set only some public attributes of a class, of its own subclasses too: a misspelt name is an error.

    Besides `settable` these are properties with a setter, and methods, which another function may replace. Names with a
    leading underscore, this package's own code and subclasses of callers may set anything.

    Args:
        settable: The attributes.
        **remedies: By the name of an attribute that cannot be set, what to do in its place.

    Example:
        >>> from grilly.closed import closed, refusal
        >>> @closed("scale")
        ... class Scaled:
        ...     pass
        >>> refusal(Scaled(), "scales")
        AttributeError("Scaled has no attribute 'scales' to set; the nearest name is 'scale'; settable: scale")
    """

    def close(kind: Kind) -> Kind:
        kind._settable = getattr(kind, "_settable", frozenset()) | set(settable)
        kind._remedies = {**getattr(kind, "_remedies", {}), **remedies}
        # A frozen dataclass has a method of its own here, with messages that name nothing else.
        kind.__setattr__ = set_attribute  # type: ignore[assignment]
        return kind

    return close


def set_attribute(self: Any, name: str, value: Any) -> None:
    """`object.__setattr__` for the attributes that may be set."""
    kind = type(self)
    if not (name.startswith("_") or may_set(kind, name, value) or is_own(sys._getframe(1).f_globals["__name__"])):
        raise refusal(self, name)
    object.__setattr__(self, name, value)


def may_set(kind: type[Any], name: str, value: Any) -> bool:
    """Whether callers may set an attribute of objects of a class to a value."""
    if name in kind._settable or not is_own(kind.__module__):
        return True
    known = inspect.getattr_static(kind, name, None)
    if isinstance(known, property):
        return known.fset is not None
    if isinstance(known, FunctionType | staticmethod | classmethod):
        return callable(value)
    return hasattr(known, "__set__")  # of NumPy's arrays


def is_own(module: str) -> bool:
    """Whether a module is one of this package."""
    return module == "grilly" or module.startswith("grilly.")


def refusal(self: Any, name: str) -> AttributeError:
    """The error for setting an attribute of an object.

    Example:
        >>> from grilly.closed import refusal
        >>> refusal(model, "dtype")
        AttributeError('VulkanSentenceTransformer.dtype cannot be set: to(dtype=...) changes it')
    """
    kind = type(self)
    known = inspect.getattr_static(kind, name, None)
    if isinstance(remedy := getattr(known, "remedy", None), str):
        return UnsupportedNameError(f"{kind.__name__}.{name} is left out: {remedy}")
    settable = settable_names(kind)
    remedies: Mapping[str, str] = getattr(kind, "_remedies", {})
    if name in remedies:
        return AttributeError(f"{kind.__name__}.{name} cannot be set: {remedies[name]}")
    listed = f"settable: {', '.join(settable)}" if settable else "nothing of it may be set"
    public = {other for other in [*dir(self), *remedies, *settable] if not other.startswith("_")}
    if name in public:
        return AttributeError(f"{kind.__name__}.{name} cannot be set; {listed}")
    return AttributeError(
        f"{kind.__name__} has no attribute {name!r} to set{nearest(name, settable, public)}; {listed}"
    )


def settable_names(kind: type[Any]) -> list[str]:
    """Attributes that callers may set, methods left out."""
    members = ((name, inspect.getattr_static(kind, name)) for name in dir(kind) if not name.startswith("_"))
    setters = {name for name, member in members if isinstance(member, property) and member.fset is not None}
    return sorted(getattr(kind, "_settable", frozenset()) | setters)
