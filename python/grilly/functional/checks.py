"""Checks of the arguments of operations and layers; the messages name the operation and the argument."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.functional.dispatch import Prepared
from grilly.inputs import as_int

#: NumPy counts the bytes of an array of float64 in 63 bits.
MOST_ELEMENTS = 2**59
__all__ = [
    "allocated", "broadcast", "broadcasts", "divisor", "flag", "fraction", "need_axes", "need_shape", "number",
    "one_of", "whole", "wrong_shape",
]  # fmt: skip


def wrong_shape(operation: str, name: str, axes: Sequence[int], expected: object) -> InvalidArgumentError:
    """The error for an operand whose shape does not fit.

    Example:
        >>> from grilly.functional.checks import wrong_shape
        >>> str(wrong_shape("relu", "x", (2, 3), "an even last axis"))
        'relu: x has shape [2, 3], expected an even last axis'
    """
    return InvalidArgumentError(f"{operation}: {name} has shape {list(axes)}, expected {expected}")


def need_axes(operation: str, name: str, operand: Prepared, least: int, most: int | None = None) -> tuple[int, ...]:
    """The shape of an operand that has between `least` and `most` axes.

    Example:
        >>> import numpy as np
        >>> from grilly.functional.checks import need_axes
        >>> need_axes("relu", "x", np.ones((2, 3)), least=1)
        (2, 3)
    """
    found = operand.shape
    if len(found) < least or (most is not None and len(found) > most):
        expected = f"{least}" if most == least else f"at least {least}" if most is None else f"{least} to {most}"
        raise wrong_shape(operation, name, found, f"{expected} axes")
    return found


def need_shape(operation: str, name: str, operand: Prepared | None, expected: Sequence[int]) -> None:
    """Rejects an operand of another shape."""
    if operand is not None and operand.shape != tuple(expected):
        raise wrong_shape(operation, name, operand.shape, list(expected))


def broadcasts(axes: Sequence[int], wanted: tuple[int, ...]) -> bool:
    """Whether an array of the shape `axes` broadcasts to `wanted`.

    Example:
        >>> from grilly.functional.checks import broadcasts
        >>> broadcasts((3,), (2, 3)), broadcasts((2, 3), (3,))
        (True, False)
    """
    return broadcast(axes, wanted) == wanted


def broadcast(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...] | None:
    """The shape that two broadcast to, or None; `numpy.broadcast_shapes` takes 32 axes, and arrays have up to 64.

    Example:
        >>> from grilly.functional.checks import broadcast
        >>> broadcast((2, 1, 3), (4, 1)), broadcast((2,), (3,))
        ((2, 4, 3), None)
    """
    axes = max(len(first), len(second))
    pairs = zip(*((1,) * (axes - len(shape)) + tuple(shape) for shape in (first, second)), strict=True)
    sizes = [a if b == 1 else b if a in (1, b) else None for a, b in pairs]
    return None if None in sizes else tuple(size for size in sizes if size is not None)


def flag(operation: str, name: str, value: Any) -> bool:
    """True or False; an array here is a misplaced argument."""
    if not isinstance(value, bool | int | np.bool_):
        raise InvalidTypeError(f"{operation}: {name} is of type {type(value).__name__}, expected bool")
    return bool(value)


def one_of(operation: str, name: str, value: Any, allowed: Sequence[str]) -> str:
    """One of the names that are allowed."""
    if not isinstance(value, str):
        raise InvalidTypeError(f"{operation}: {name} is of type {type(value).__name__}, expected str")
    if value not in allowed:
        raise InvalidArgumentError(f"{operation}: {name} is {value!r}, expected one of {', '.join(map(repr, allowed))}")
    return str(value)


def number(operation: str, name: str, value: Any, least: float = -math.inf) -> float:
    """A number of at least `least`, neither NaN nor infinite."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidTypeError(f"{operation}: {name} is of type {type(value).__name__}, expected a number") from None
    if not math.isfinite(found):
        raise InvalidArgumentError(f"{operation}: {name} is {found}, expected a finite number")
    if found < least:
        raise InvalidArgumentError(f"{operation}: {name} is {found}, expected at least {least}")
    return found


def divisor(operation: str, name: str, value: Any) -> float:
    """A finite number other than 0."""
    found = number(operation, name, value)
    if found == 0:
        raise InvalidArgumentError(f"{operation}: {name} is 0, and divides")
    return found


def fraction(operation: str, name: str, value: Any) -> float:
    """A number in 0 .. 1, such as a probability.

    Example:
        >>> from grilly.functional.checks import fraction
        >>> fraction("dropout", "p", 0.5)
        0.5
    """
    found = number(operation, name, value)
    if not 0 <= found <= 1:
        raise InvalidArgumentError(f"{operation}: {name} is {found}, expected 0 to 1")
    return found


def whole(operation: str, name: str, value: Any, least: int = 1, most: int = 2**64 - 1) -> int:
    """A whole number from `least` to `most`, which the core takes."""
    found = as_int(value, f"{operation}: {name}")
    if found < least:
        raise InvalidArgumentError(f"{operation}: {name} is {found}, expected at least {least}")
    if found > most:
        raise InvalidArgumentError(f"{operation}: {name} is {found}, expected at most {most}")
    return found


def allocated(operation: str, name: str, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of new parameters, of which an array can have so many."""
    if math.prod(shape) > MOST_ELEMENTS:
        raise InvalidArgumentError(f"{operation}: {name} is of shape {list(shape)}, at most 2^59 elements are possible")
    return tuple(shape)
