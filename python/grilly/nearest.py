"""The nearest of the known names, for errors about an unknown one."""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["nearest"]


def nearest(name: str, *known: Iterable[str]) -> str:
    """What to add to an error about an unknown name: the known one most like it, of the first list that has one.

    Example:
        >>> from grilly.nearest import nearest
        >>> nearest("batchsize", ["prompt", "batch_size"]), nearest("other", ["prompt"])
        ("; the nearest name is 'batch_size'", '')
    """
    found = next(filter(None, (get_close_matches(name, list(names), 1) for names in known)), None)
    return f"; the nearest name is {found[0]!r}" if found else ""
