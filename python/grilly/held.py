"""What a model shares with its tokenizer."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from grilly import _core
from grilly.closed import closed

__all__ = ["UNLIMITED", "Held", "TokenizerSettings"]

# The core's limit for a table of token vectors, which has none.
UNLIMITED = 2**31 - 1


@closed()
@dataclass
class TokenizerSettings:
    """What callers changed on a tokenizer; None for what its files say."""

    padding_side: str | None = None
    truncation_side: str | None = None
    pad_token: str | None = None
    cleans_up: bool | None = None

    def changed(self) -> dict[str, str | bool]:
        """What was changed, by its key in tokenizer_config.json."""
        keys = {"cleans_up": "clean_up_tokenization_spaces"}
        return {keys.get(name, name): value for name, value in vars(self).items() if value is not None}


@closed()
@dataclass(eq=False)
class Held:
    """A model's current core and its settings; users hold this instead of the model, to avoid reference cycles."""

    core: _core.EmbeddingModel = field(init=False)
    #: The model's name as it was given.
    name: str = ""
    #: The limit of tokens that was set; None for the model's own.
    limit: int | None = None
    #: Cores on other devices, by device.
    elsewhere: dict[str, _core.EmbeddingModel] = field(default_factory=dict)
    settings: TokenizerSettings = field(default_factory=TokenizerSettings)
    #: Held while the core, or a setting of all cores, changes.
    swap: threading.RLock = field(default_factory=threading.RLock)

    def cores(self) -> list[_core.EmbeddingModel]:
        """The cores of all routes, which read tokens with the same tokenizer."""
        return [self.core, *self.elsewhere.values()]

    def set_limit(self, limit: int) -> None:
        """Changes the limit of tokens."""
        with self.swap:
            for core in self.cores():
                core.set_max_seq_length(limit)
            self.limit = limit

    def set_truncation_side(self, side: str) -> None:
        """Changes the end at which long texts are truncated."""
        with self.swap:
            for core in self.cores():
                core.tokenizer.set_truncation_side(side)
            self.settings.truncation_side = side
