"""Results beside the model's, bit by bit."""

from typing import Any

import numpy as np

NUMERICS = "everywhere-1"


def difference(found: np.ndarray, expected: np.ndarray) -> str | None:
    """What differs, if anything: how many numbers, and the first as both have it."""
    if found.dtype != expected.dtype or found.dtype == np.float64 or found.shape != expected.shape:
        return f"{found.dtype} {found.shape}, expected {expected.dtype} {expected.shape}"
    if found.dtype != np.float32:
        other = np.argwhere(found != expected)
        if not len(other):
            return None
        place = tuple(int(axis) for axis in other[0])
        return f"{len(other)} of {found.size} integers; at {place} {found[place]}, expected {expected[place]}"
    found, expected = (np.ascontiguousarray(x).view(np.uint32) for x in (found, expected))
    if np.array_equal(found, expected):
        return None
    other = found != expected
    place = tuple(int(axis) for axis in np.argwhere(other)[0])
    pair = [f"{x[place]:#010x} ({x.view(np.float32)[place]})" for x in (found, expected)]
    return f"{other.sum()} of {other.size} numbers; at {place} {pair[0]}, expected {pair[1]}"


def call(engine: Any, op: str, operands: list[np.ndarray], attributes: dict[str, Any]) -> np.ndarray:
    """The first result of an operation on a device, in the mode."""
    return call_all(engine, op, operands, attributes)[0]


def call_all(engine: Any, op: str, operands: list[np.ndarray], attributes: dict[str, Any]) -> list[np.ndarray]:
    """All its results."""
    given = [engine.upload(np.asarray(value, order="C")) for value in operands]
    return [result.numpy() for result in engine.call_all(op, given, attributes, None, NUMERICS)]
