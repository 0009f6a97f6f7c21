"""Methods with the arguments of others: the texts under former names too, and the tasks of `encode`."""

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


def arguments_of(like: Method) -> Callable[[Callable[..., Any]], Method]:
    """Lets a method be called as another, and passes it all of that one's arguments by name.

    Example:
        >>> from grilly.sentence_transformer.aliases import arguments_of
        >>> def count(self, texts, least=1):
        ...     return max(least, len(texts))
        >>> @arguments_of(count)
        ... def given(self, texts, **options):
        ...     return options
        >>> given(None, ["a", "b"]), given(None, sentences=["a"], least=2)
        ({'least': 1}, {'least': 2})
    """
    signature = inspect.signature(like)

    def decorate(method: Callable[..., Any]) -> Method:
        @functools.wraps(method)
        def bound(*arguments: Any, **keywords: Any) -> Any:
            given = signature.bind(*arguments, **keywords)
            given.apply_defaults()
            return method(**given.arguments)

        bound.__signature__ = signature  # type: ignore[attr-defined]
        return texts_by_any_name(bound)  # type: ignore[return-value]

    return decorate
