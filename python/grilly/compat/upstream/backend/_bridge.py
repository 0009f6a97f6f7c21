"""Counters of work that fell back to the CPU, and Oja's rule for pairs of vectors, under upstream's names."""

from __future__ import annotations

import math
from typing import Any

from grilly import _core, devices, fallbacks
from grilly.functional.checks import number, whole, wrong_shape
from grilly.functional.dispatch import Operand, Result, evaluate, floats

__all__ = ["get_fallback_stats", "is_available", "oja_learning", "reset_fallback_stats"]


def is_available() -> bool:
    """Whether there is a usable Vulkan device.

    Source: upstream 1.0's `backend._bridge.is_available`.

    Example:
        >>> from grilly.backend import _bridge
        >>> _bridge.is_available() in (True, False)
        True
    """
    return devices.vulkan_available()


def get_fallback_stats() -> dict[str, Any]:
    """How often work meant for a device ran on the CPU.

    Returns:
        A dict with `total`, a count; `operations`, the part from operations of `grilly.functional`, by name; and
        `backend`, `"vulkan"` or `"cpu"`, the backend of the default device.

    Source: upstream 1.0's `backend._bridge.get_fallback_stats`.

    Example:
        >>> from grilly.backend import _bridge
        >>> sorted(_bridge.get_fallback_stats())
        ['backend', 'operations', 'total']
    """
    return {
        "total": devices.stats()["fallbacks"],
        "operations": fallbacks.operations(),
        "backend": _core.engine("vulkan").backend,
    }


def reset_fallback_stats() -> None:
    """Resets these counts and those of `grilly.stats` to zero.

    Source: upstream 1.0's `backend._bridge.reset_fallback_stats`.

    Example:
        >>> from grilly.backend import _bridge
        >>> _bridge.reset_fallback_stats()
        >>> _bridge.get_fallback_stats()["operations"]
        {}
    """
    devices.reset_stats()


def oja_learning(memories: Operand, inputs: Operand, num_vectors: int, dim: int, eta: float = 0.01) -> Result:
    """Oja's rule for pairs of vectors, each `m` with an input of its own: `y = m x`, `m = m + eta y (x - y m)`.

    A layer whose units all see the same batch is `functional.oja_update`.

    Args:
        memories: `num_vectors * dim` numbers of any shape.
        inputs: As many.
        num_vectors: The number of pairs.
        dim: The length of a vector.
        eta: Learning rate; default 0.01.

    Returns:
        The new vectors, in the shape of `memories`; the operands are unchanged.

    Raises:
        InvalidArgumentError: Another number of elements, or a rate that is not finite.

    Source: upstream 1.0's `backend._bridge.oja_learning`.

    Example:
        >>> from grilly.backend import _bridge
        >>> _bridge.oja_learning([[0.5, 0.0]], [[1.0, 1.0]], 1, 2, eta=0.5).tolist()
        [[0.6875, 0.25]]
    """
    name = "oja_learning"
    pairs, columns = whole(name, "num_vectors", num_vectors, least=0), whole(name, "dim", dim, least=0)
    m, x, rate = floats(memories, "memories"), floats(inputs, "inputs"), number(name, "eta", eta)
    for what, given in (("memories", m), ("inputs", x)):
        if math.prod(given.shape) != pairs * columns:
            raise wrong_shape(name, what, given.shape, f"{pairs * columns} elements")
    shape = list(m.shape)

    def body(r: Any, m: Any, x: Any) -> Any:
        own, seen = (r.wide(each.reshape([pairs, columns])) for each in (m, x))
        y = r("reduce", r("binary", own, seen, kind="multiply"), axis=1, kind="sum").reshape([pairs, 1])
        rest = r("binary", seen, r("binary", own, y, kind="multiply"), kind="subtract")
        change = r("binary", rest, y, kind="multiply")
        return r.like(r("add_scaled", own, change, r.constant(rate)), m).reshape(shape)

    return evaluate(name, body, m, x)
