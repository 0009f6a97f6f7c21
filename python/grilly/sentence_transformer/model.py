"""Common base of both classes."""

from __future__ import annotations

from grilly.sentence_transformer.encoding import Encoding
from grilly.sentence_transformer.moving import Moving
from grilly.sentence_transformer.names import REMEDIES, Refused
from grilly.sentence_transformer.saving import Saving


class Model(Encoding, Moving, Saving):
    """A model that encodes, moves and saves; its names are sentence-transformers'."""


for name in REMEDIES:
    setattr(Model, name, Refused(name))
