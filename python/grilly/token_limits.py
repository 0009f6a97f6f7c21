"""Limits and sides of a tokenizer."""

from __future__ import annotations

from typing import Any

from grilly import _core
from grilly.errors import InvalidArgumentError, UnsupportedError
from grilly.held import UNLIMITED
from grilly.inputs import positive
from grilly.vocabulary import Vocabulary

__all__ = ["LARGE", "TokenLimits", "check_padding_side", "check_side"]

SIDES = ("left", "right")
# What stands for a tokenizer without a limit, and from where on a limit is none, in the reference.
VERY_LARGE, LARGE = int(1e30), int(1e20)


class TokenLimits(Vocabulary):
    """A vocabulary with a limit of tokens and with sides of padding and truncation."""

    @property
    def model_max_length(self) -> int:
        """The model's `max_seq_length`; setting one sets the other. Without a limit it is 10 ** 30."""
        limit = self._held.core.max_seq_length
        return VERY_LARGE if limit == UNLIMITED else limit

    @model_max_length.setter
    def model_max_length(self, value: int | float) -> None:
        whole = int(value) if isinstance(value, float) and value >= LARGE else value
        self._held.set_limit(min(positive(whole, "model_max_length"), UNLIMITED))

    @property
    def max_len_single_sentence(self) -> int:
        """`model_max_length` without the special tokens around a text."""
        return self.model_max_length - self.num_special_tokens_to_add()

    @property
    def max_len_sentences_pair(self) -> int:
        """`model_max_length` without the special tokens of a pair."""
        return self.model_max_length - self.num_special_tokens_to_add(pair=True)

    @property
    def padding_side(self) -> str:
        """`"right"` or `"left"`: where rows are padded; may be set, unless the model has a table of positions.

        Embeddings are computed without padding.
        """
        _, side = self._held.core.padding()
        return self._held.settings.padding_side or side

    @padding_side.setter
    def padding_side(self, value: str) -> None:
        check_padding_side(value, self._held.core)
        self._held.settings.padding_side = value

    @property
    def truncation_side(self) -> str:
        """`"right"` or `"left"`: the end at which long texts are truncated, by the model too; may be set."""
        return self._inner.truncation_side

    @truncation_side.setter
    def truncation_side(self, value: str) -> None:
        self._held.set_truncation_side(check_side(value, "truncation_side"))

    @property
    def model_input_names(self) -> list[str]:
        """Names of what the model reads, which a call returns."""
        return self._inner.described()[2] or ["input_ids", "attention_mask"]

    @property
    def split_special_tokens(self) -> bool:
        """Whether special tokens inside a text are split as other words are."""
        return self._inner.described()[5]

    @property
    def name_or_path(self) -> str:
        """The model's name as it was given."""
        return self._held.name


def check_side(side: Any, name: str) -> str:
    """A side, which must be `"left"` or `"right"`.

    Example:
        >>> from grilly.token_limits import check_side
        >>> check_side("left", "padding_side")
        'left'
    """
    if side not in SIDES:
        raise InvalidArgumentError(f"{name} is {side!r}, expected 'left' or 'right'")
    return str(side)


def check_padding_side(side: Any, core: _core.EmbeddingModel) -> None:
    """Rejects a side other than the model's where it would shift positions in the reference, which pads batches."""
    _, own = core.padding()
    if side is not None and check_side(side, "padding_side") != own and core.tokenizer.counts_positions:
        raise UnsupportedError(
            f"padding_side is {side!r}, and the model's is {own!r}: padding before a text moves it in the table of "
            "positions, so that embeddings depend on the batch; change tokenizer_config.json in a copy of the model's "
            f"folder, or pad rows alone: model.tokenizer(texts, padding=True, padding_side={side!r})"
        )
