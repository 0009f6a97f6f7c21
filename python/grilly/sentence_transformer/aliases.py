"""Methods with the arguments of others: older keywords that sentence-transformers accepts, the tasks of `encode`."""

import functools
import inspect
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from grilly.inputs import logger

__all__ = ["arguments_of", "as_request", "older_keywords", "older_name", "texts_by_any_name"]

Method = TypeVar("Method", bound=Callable[..., Any])

# Of older.json: `keywords` of former versions that sentence-transformers 6.2 accepts, by class and method, each with
# its present name, or null for one without effect; and the arguments that a class took by `positions` after its name.
_OLDER: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("older.json").read_text(encoding="utf-8"))
OLDER: dict[str, dict[str, str | None]] = _OLDER["keywords"]
OLDER_POSITIONS = {place: tuple(names) for place, names in _OLDER["positions"].items()}
NAMES = ("texts", "sentences", "inputs")
_said: set[str] = set()


def say_once(line: str) -> None:
    """Logs a warning once in this process."""
    if line not in _said:
        _said.add(line)
        logger.warning(line)


def older_keywords(place: str) -> Callable[[Method], Method]:
    """Lets a method be called with the keywords of former versions that `OLDER` lists; each is logged once.

    Where the present name is given, too, it counts, as in sentence-transformers.

    Example:
        >>> from grilly.sentence_transformer.aliases import older_keywords
        >>> @older_keywords("CrossEncoder.predict")
        ... def count(self, inputs, activation_fn=None):
        ...     return len(inputs), activation_fn
        >>> count(None, ["a", "b"], activation_fct=abs, num_workers=2)
        (2, <built-in function abs>)
    """
    older, positions = OLDER[place], OLDER_POSITIONS.get(place, ())

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def renamed(self: Any, *arguments: Any, **keywords: Any) -> Any:
            if positions and len(arguments) <= 1 + len(positions):
                for name, value in zip(positions, arguments[1:], strict=False):
                    say_once(f"{place}: {name} is no longer given by position; give it by its name, {name}=")
                    keywords.setdefault(name, value)  # the one given by name counts
                arguments = arguments[:1]
            for name, now in older.items():
                if name not in keywords:
                    continue
                value = keywords.pop(name)
                say_once(f"{place}: {name} is an older keyword{f' of {now}' if now else ' without effect'}")
                if now:
                    keywords.setdefault(now, value)
            return method(self, *arguments, **keywords)

        return renamed  # type: ignore[return-value]

    return decorate


def older_name(now: str, category: type[Warning]) -> Callable[[Method], Method]:
    """Lets a method give the warning of sentence-transformers 6.2 that `now` is its present name.

    Example:
        >>> from grilly.sentence_transformer.aliases import older_name
        >>> older_name("count", FutureWarning)(len)([1, 2])
        2
    """

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def warned(*arguments: Any, **keywords: Any) -> Any:
            warnings.warn(f"{method.__name__} is an older name; use {now}", category, stacklevel=2)
            return method(*arguments, **keywords)

        return warned  # type: ignore[return-value]

    return decorate


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
    plain = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    # As dataclasses do: Python binds the arguments of a call at a tenth of the time that `Signature.bind` takes.
    header = str(signature.replace(parameters=plain, return_annotation=signature.empty))[1:-1]
    named = eval(f"lambda {header}: dict({', '.join(f'{name}={name}' for name in signature.parameters)})")
    named.__qualname__ = like.__qualname__

    def decorate(method: Callable[..., Any]) -> Method:
        @functools.wraps(method)
        def bound(*arguments: Any, **keywords: Any) -> Any:
            return method(**named(*arguments, **keywords))

        bound.__signature__ = signature  # type: ignore[attr-defined]
        return texts_by_any_name(bound)  # type: ignore[return-value]

    return decorate


def as_request(kind: Callable[..., Any]) -> Callable[[Method], Method]:
    """Makes a method without a body pass its texts, and a request of all its other arguments, to `_encode`.

    Example:
        >>> from grilly.sentence_transformer.aliases import as_request
        >>> class Counts:
        ...     def _encode(self, texts, request):
        ...         return len(texts), request
        ...     @as_request(dict)
        ...     def encode(self, texts, least=1):
        ...         pass
        >>> Counts().encode(["a", "b"]), Counts().encode(sentences=["a"], least=2)
        ((2, {'least': 1}), (1, {'least': 2}))
    """

    def decorate(method: Method) -> Method:
        _, own, *_ = inspect.signature(method).parameters

        @functools.wraps(method)
        def asked(self: Any, **named: Any) -> Any:
            return self._encode(named.pop(own), kind(**named))

        return arguments_of(method)(asked)

    return decorate
