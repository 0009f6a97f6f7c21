"""Names of sentence-transformers' classes that this package does not support, each with the alternative."""

from typing import NoReturn

from grilly.closed import remedies, texts
from grilly.errors import UnsupportedNameError
from grilly.nearest import nearest as nearest  # its place in earlier versions

TRAINING, ADAPTER, UPLOAD, CARD, FORWARD, ORDER, TENSORS = (
    texts()[name] for name in ("TRAINING", "ADAPTER", "UPLOAD", "CARD", "FORWARD", "ORDER", "TENSORS")
)
#: Name -> the alternative.
REMEDIES = remedies("model")


class Refused:
    """An unsupported name: lookup raises, on the class and on a model."""

    def __init__(self, name: str, remedy: str) -> None:
        self.name, self.remedy = name, remedy

    def __get__(self, instance: object, owner: type | None = None) -> NoReturn:
        kind = (owner or type(instance)).__name__
        raise UnsupportedNameError(f"{kind}.{self.name} is left out: {self.remedy}")


def refuse(kind: type) -> None:
    """Lets a class refuse every unsupported name that it does not have, its own ones included."""
    for name, remedy in (REMEDIES | remedies(kind.__name__)).items():
        if not hasattr(kind, name):
            setattr(kind, name, Refused(name, remedy))
