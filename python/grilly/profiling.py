"""Kernel times on a Vulkan device."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from grilly import _core
from grilly.closed import closed
from grilly.errors import DeviceError
from grilly.tables import bar, table

__all__ = ["KernelTime", "Profile", "profile"]

NOTHING = "nothing was timed: work on the CPU, or on a device without timestamps, has no entries"


@closed()
@dataclass(frozen=True)
class KernelTime:
    """Time of the dispatches of one kernel under one label.

    Attributes:
        label: The step of a model's plan, such as `layer 0 attention`, or the operation on arrays.
        kernel: The shader that ran, with its variant: one of grilly's, or a user's.
        count: Number of dispatches.
        seconds: Their total time, by the device clock.

    Example:
        >>> from grilly.profiling import KernelTime
        >>> KernelTime("layer 0 attention", "attention", 2, 0.25).seconds
        0.25
    """

    label: str
    kernel: str
    count: int
    seconds: float


@closed("times")
@dataclass
class Profile:
    """The measurements of `profile`; empty until its block ends.

    Attributes:
        times: One entry per label and kernel, the longest first.

    Example:
        >>> from grilly.profiling import KernelTime, Profile
        >>> taken = Profile([KernelTime("layer 0", "linear", 2, 0.75), KernelTime("layer 1", "linear", 2, 0.25)])
        >>> taken.seconds, taken.by_kernel()
        (1.0, {'linear': 1.0})
    """

    times: list[KernelTime] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Total of all dispatches."""
        return sum(entry.seconds for entry in self.times)

    def by_kernel(self) -> dict[str, float]:
        """Seconds per kernel, the longest first."""
        found: dict[str, float] = {}
        for entry in self.times:
            found[entry.kernel] = found.get(entry.kernel, 0.0) + entry.seconds
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def __str__(self) -> str:
        """A table: milliseconds, share, dispatches, kernel and label."""
        whole = self.seconds or 1.0
        rows = [
            f"{1e3 * x.seconds:10.3f} ms {x.seconds / whole:6.1%} {x.count:6} x {x.kernel}: {x.label}"
            for x in self.times
        ]
        rows.append(f"{1e3 * self.seconds:10.3f} ms in all" if rows else NOTHING)
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        whole = self.seconds or 1.0
        rows = [
            (entry.kernel, entry.label, entry.count, f"{1e3 * entry.seconds:.3f}", bar(entry.seconds / whole))
            for entry in self.times
        ]
        line = f"{1e3 * self.seconds:.3f} ms in {sum(entry.count for entry in self.times)} dispatches"
        return table(("kernel", "step", "dispatches", "ms", "share"), rows, first=line if rows else NOTHING)


@contextmanager
def profile() -> Iterator[Profile]:
    """Measures every dispatch on Vulkan devices within a `with` block, by the devices' own timestamps.

    Work on the CPU, and on a device without timestamps, adds no entries. Blocks do not nest: an inner one ends the
    measurement of the outer one. Measuring serialises dispatches, so the total may be longer than without.

    Returns:
        A context manager that yields a `Profile`, which is filled when the block ends.

    Source: `vkCmdWriteTimestamp2` between the dispatches.

    Example:
        >>> import grilly
        >>> with grilly.profile() as taken:
        ...     _ = grilly.functional.gelu([1.0, 2.0])
        >>> taken.seconds == sum(taken.by_kernel().values())
        True
    """
    taken = Profile()
    _synchronize()
    _core.profile(True)
    try:
        yield taken
        _synchronize()
    finally:
        found = [KernelTime(label, kernel, count, 1e-9 * ns) for label, kernel, count, ns in _core.dispatch_times()]
        taken.times = sorted(found, key=lambda entry: -entry.seconds)
        _core.profile(False)


def _synchronize() -> None:
    """Waits for array calls in flight: their times are recorded on completion."""
    with suppress(DeviceError):
        _core.engine("vulkan").synchronize()
