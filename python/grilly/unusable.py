"""Placeholder for a pickled model or array that could not be restored."""

from typing import NoReturn

from grilly.errors import GrillyError


class Unusable:
    """Replaces the compiled part of a model or an array: every use raises the error of the restore.

    Unpickling itself must not raise: it would end a worker of `multiprocessing`, and the pool would wait forever.

    Example:
        >>> from grilly.errors import UnusableError
        >>> from grilly.unusable import Unusable
        >>> Unusable(UnusableError("after a fork")).shape
        Traceback (most recent call last):
            ...
        grilly.errors.UnusableError: after a fork
    """

    def __init__(self, error: GrillyError) -> None:
        self._why = type(error), str(error)

    def close(self) -> None:
        """Does nothing: there is nothing to free."""

    def __getattr__(self, name: str) -> NoReturn:
        kind, text = self._why
        raise kind(text)
