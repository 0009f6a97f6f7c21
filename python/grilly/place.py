"""The place of results."""

from __future__ import annotations

from typing import Any

from grilly.closed import closed


@closed()
class Place(str):
    """`"cpu"`, where all results of a model are: a str that torch takes for a device.

    Given back to a model, as an argument of its class or of its methods, it stands for the model's own device.

    Attributes:
        type: `"cpu"`, as of a `torch.device`.
        index: None, likewise.
        requested: The device that the model was asked to run on.

    Example:
        >>> from grilly.place import Place
        >>> place = Place("vulkan:1")
        >>> place, place.type, place.index, place == "cpu"
        ('cpu', 'cpu', None, True)
    """

    type = "cpu"
    index = None  # type: ignore[assignment]  # torch.device has an attribute of this name
    requested: str

    def __new__(cls, requested: str = "cpu") -> Place:
        place = super().__new__(cls, "cpu")
        place.requested = requested
        return place

    def __eq__(self, other: object) -> bool:
        """Whether `other` is the same name, or a device of torch of that name."""
        of_torch = not isinstance(other, str) and hasattr(other, "type") and hasattr(other, "index")
        return str.__eq__(self, str(other) if of_torch else other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.requested,)
