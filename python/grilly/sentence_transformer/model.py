"""Common base of both classes."""

from __future__ import annotations

from grilly.sentence_transformer.decoding import Decoding
from grilly.sentence_transformer.exporting import Exporting
from grilly.sentence_transformer.moving import Moving
from grilly.sentence_transformer.names import refuse
from grilly.sentence_transformer.saving import Saving


class Model(Decoding, Moving, Saving, Exporting):
    """A model that encodes, decodes, moves, saves and exports; its names are sentence-transformers' but for
    `decode_states` and `export`."""


refuse(Model)
