"""Signatures of the methods that encode: the texts under their current and former names, arguments passed on."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["arguments_of", "texts_by_any_name"]

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


def arguments_of(other: Method) -> Callable[[Callable[..., Any]], Method]:
    """Gives a method that passes all its arguments to another one the signature of that one.

    Example:
        >>> import inspect
        >>> from grilly.sentence_transformer.aliases import arguments_of
        >>> def count(texts, most=9):
        ...     return min(len(texts), most)
        >>> @arguments_of(count)
        ... def twice(*arguments, **keywords):
        ...     return 2 * count(*arguments, **keywords)
        >>> twice(["a"], most=3), str(inspect.signature(twice))
        (2, '(texts, most=9)')
    """

    def decorate(method: Callable[..., Any]) -> Method:
        method.__signature__ = inspect.signature(other)  # type: ignore[attr-defined]
        return method  # type: ignore[return-value]

    return decorate
