"""Upstream names that this package does not support, so that the error can say so and what to do instead."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from grilly.errors import UnsupportedNameError
from grilly.names import by_name

__all__ = ["by_name", "missing"]

# `parts` of upstream, each with its names and a remedy, and where names are `here`: names.json.
_TABLE = json.loads(Path(__file__).with_name("names.json").read_text(encoding="utf-8"))

PARTS: dict[str, str] = {part: " ".join(row["names"]) for part, row in _TABLE["parts"].items()}
REMEDIES: dict[str, str] = {part: row["remedy"] for part, row in _TABLE["parts"].items()}
HERE: dict[str, str] = _TABLE["here"]


@functools.cache
def _part_of() -> dict[str, str]:
    return by_name(PARTS)


def missing(place: str, name: str) -> AttributeError:
    """The error of `place.name`; for an upstream name it says which part has it, and what to do instead.

    Example:
        >>> from grilly.upstream import missing
        >>> print(missing("grilly.functional", "fft"))
        fft is part of upstream grilly's Fourier transforms and not of this package: numpy.fft has them
        >>> print(missing("grilly.utils", "to_vulkan"))
        to_vulkan is elsewhere in this package: take grilly.to_vulkan
        >>> print(missing("grilly.utils", "nothing_like_it"))
        grilly.utils has no attribute 'nothing_like_it'
    """
    part, here = _part_of().get(name), HERE.get(name)
    take = here and f"take {here}"
    if part is not None:
        remedy = take or REMEDIES[part]
        return UnsupportedNameError(f"{name} is part of upstream grilly's {part} and not of this package: {remedy}")
    if take is not None:
        return UnsupportedNameError(f"{name} is elsewhere in this package: {take}")
    return AttributeError(f"{place} has no attribute {name!r}")
