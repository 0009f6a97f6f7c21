"""Classes that stand for names that are left out: importing and subclassing them is possible, any use raises."""

from typing import Any, NoReturn

from grilly.errors import UnsupportedError, UnsupportedNameError

__all__ = ["stand_in"]


class StandIn(type):
    """The class of such classes."""

    message: str

    def __call__(cls, *arguments: Any, **options: Any) -> NoReturn:
        raise UnsupportedError(cls.message)

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        raise UnsupportedNameError(cls.message)


def stand_in(name: str, message: str) -> StandIn:
    """A class that raises `message` when it, or a subclass of it, is called or asked for an attribute.

    Example:
        >>> from grilly.compat.sentence_transformers.stand_in import stand_in
        >>> stand_in("TripletLoss", "TripletLoss is left out: train elsewhere")(margin=1)
        Traceback (most recent call last):
        grilly.errors.UnsupportedError: TripletLoss is left out: train elsewhere
    """
    return StandIn(name, (), {"message": message, "__doc__": message, "__module__": __name__})
