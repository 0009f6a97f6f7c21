"""For tests: faults on request, and what the validation layer said."""

from __future__ import annotations

from grilly import _core

__all__ = ["clear_faults", "inject_fault", "validation_messages"]


def inject_fault(kind: str, after: int = 0) -> None:
    """Makes Vulkan devices fail until `clear_faults`.

    Args:
        kind: `"allocation"` (no device memory is left) or `"device_lost"` (at a submission).
        after: Calls of that kind that still succeed; default 0.

    Raises:
        InvalidArgumentError: Another kind.

    Example:
        >>> from grilly import testing
        >>> testing.inject_fault("device_lost", after=2)
        >>> testing.clear_faults()
    """
    _core.inject_fault(kind, after)


def clear_faults() -> None:
    """Ends what `inject_fault` began.

    Example:
        >>> from grilly import testing
        >>> testing.clear_faults()
    """
    _core.clear_faults()


def validation_messages() -> list[str]:
    """Warnings and errors of the Vulkan validation layer so far; always empty unless `GRILLY_DEBUG=1`.

    Example:
        >>> from grilly import testing
        >>> testing.validation_messages()
        []
    """
    return _core.validation_messages()
