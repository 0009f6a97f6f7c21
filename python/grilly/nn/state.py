"""Loading of values into a module's parameters and buffers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from grilly.errors import InvalidArgumentError
from grilly.inputs import need_type
from grilly.operands import host_array

if TYPE_CHECKING:
    from grilly.nn.module import Module

__all__ = ["flattened", "load"]


def flattened(state: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values of nested dicts.

    Example:
        >>> from grilly.nn.state import flattened
        >>> dict(flattened({"a": {"b": 1}, "c.d": 2}))
        {'a.b': 1, 'c.d': 2}
    """
    for name, value in state.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def load(module: Module, state: Mapping[str, Any], strict: bool) -> None:
    """`Module.load_state_dict`: everything is checked before anything is written.

    Example:
        >>> from grilly import nn
        >>> from grilly.nn.state import load
        >>> layer = nn.Linear(1, 1)
        >>> load(layer, {"bias": [3.0]}, strict=False)
        >>> layer.bias.tolist()
        [3.0]
    """
    owner = type(module).__name__
    need_type(state, Mapping, f"{owner}: the state", "a dict")
    pairs = list(flattened(state))
    given = dict(pairs)
    held: dict[str, Any] = {}
    twice = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
    for prefix, inner in module.named_modules():
        for name, values in [*inner._parameters.items(), *inner._buffers.items()]:
            full = f"{prefix}.{name}" if prefix else name
            twice += [full] if full in held else []
            held[full] = values
    # Of a name with a dot in it, such as "a.b" beside b of a.
    faults = [f"{name} stands for two values" for name in dict.fromkeys(twice)]
    faults += [f"{name} is missing" for name in held if name not in given] if strict else []
    faults += [f"{name} is unknown" for name in given if name not in held] if strict else []
    ready = []
    for name, target in held.items():
        if name in given:
            values = host_array(given[name], name)
            if values.shape != target.shape:
                faults.append(f"{name} has shape {list(values.shape)}, expected {list(target.shape)}")
            if getattr(target, "lent", False):
                faults.append(f"{name} belongs to a program; release that first")
            ready.append((target, values))
    if faults:
        raise InvalidArgumentError(f"{owner}: {'; '.join(faults)}")
    for target, values in ready:
        target[...] = values
