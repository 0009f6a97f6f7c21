"""The texts argument of a call, under its current and former names."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["texts_by_any_name"]

Method = TypeVar("Method", bound=Callable[..., Any])
NAMES = ("texts", "sentences", "inputs")


def texts_by_any_name(method: Method) -> Method:
    """Lets a method's first argument be given as `texts=`, `sentences=` or `inputs=`.

    Example:
        >>> from grilly.sentence_transformer.aliases import texts_by_any_name
        >>> @texts_by_any_name
        ... def count(self, texts):
        ...     return len(texts)
        >>> count(None, ["a", "b"]), count(None, sentences=["a"])
        (2, 1)
    """
    own = list(inspect.signature(method).parameters)[1]

    @functools.wraps(method)
    def renamed(self: Any, *arguments: Any, **keywords: Any) -> Any:
        for name in NAMES:
            if name != own and name in keywords:
                if arguments or own in keywords:
                    raise TypeError(f"{method.__name__}() got the texts twice, the second time as {name!r}")
                keywords[own] = keywords.pop(name)
        return method(self, *arguments, **keywords)

    return renamed  # type: ignore[return-value]
