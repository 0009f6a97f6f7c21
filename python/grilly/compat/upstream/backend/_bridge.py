"""Counters of work that fell back to the CPU, under upstream's names."""

from __future__ import annotations

from typing import Any

from grilly import _core, devices, fallbacks

__all__ = ["get_fallback_stats", "is_available", "reset_fallback_stats"]


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
