"""From tokens back to texts."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from grilly.vocabulary import Vocabulary, as_ids

__all__ = ["TokenTexts"]

logger = logging.getLogger("grilly")

# Spaces that decoding may leave out, in this order.
SPACED = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")


class TokenTexts(Vocabulary):
    """A vocabulary that decodes ids."""

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """The text of tokens.

        Example:
            >>> model.tokenizer.convert_tokens_to_string(["hello", "##s", "!"])
            'hellos!'
        """
        return self._inner.joined(list(tokens))

    def decode(
        self,
        token_ids: Any,
        skip_special_tokens: bool = False,
        *,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> Any:
        """The text of ids, or a list of texts of a list of lists.

        Args:
            token_ids: An id, a list, an array or a tensor of ids, a list of these, or a dict with `input_ids`. Ids that
                no token has are left out.
            skip_special_tokens: Whether special tokens are left out.
            clean_up_tokenization_spaces: Whether spaces before punctuation are removed; default: as
                tokenizer_config.json says, else not.

        Raises:
            InvalidTypeError: An id is no whole number (also a `TypeError`).
            InvalidArgumentError: An id is negative (also a `ValueError`).

        Source: transformers' `PreTrainedTokenizerBase.decode`, version 5.24.

        Example:
            >>> model.tokenizer.decode([101, 7592, 1010, 2088, 999, 102])
            '[CLS] hello, world! [SEP]'
        """
        given = token_ids["input_ids"] if isinstance(token_ids, Mapping) else token_ids
        given = given.tolist() if hasattr(given, "tolist") else given
        if isinstance(given, list | tuple) and len(given) > 0 and is_list(given[0]):
            rows = [as_ids(row, f"token_ids[{place}]") for place, row in enumerate(given)]
            return self._texts(rows, skip_special_tokens, clean_up_tokenization_spaces)
        return self._texts([as_ids(given, "token_ids")], skip_special_tokens, clean_up_tokenization_spaces)[0]

    def batch_decode(
        self,
        sequences: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> list[str]:
        """A list of the texts of several lists of ids, as `decode` gives them.

        Example:
            >>> model.tokenizer.batch_decode([[7592], [2088, 999]])
            ['hello', 'world!']
        """
        given = sequences["input_ids"] if isinstance(sequences, Mapping) else sequences
        if len(given) == 0:
            return []
        found = self.decode(given, skip_special_tokens, clean_up_tokenization_spaces=clean_up_tokenization_spaces)
        return [found] if isinstance(found, str) else list(found)

    def _texts(self, rows: list[list[int]], skip_special: bool, clean: bool | None) -> list[str]:
        texts = self._inner.decode(rows, bool(skip_special))
        if self.clean_up_tokenization_spaces if clean is None else clean:
            if not self._inner.described()[4]:
                logger.info("clean_up_tokenization_spaces=True changes nothing: byte pair encodings keep every space")
                return texts
            texts = [self.clean_up_tokenization(text) for text in texts]
        return texts

    def clean_up_tokenization(self, text: str) -> str:
        """A text without the spaces that tokens leave before English punctuation.

        Example:
            >>> model.tokenizer.clean_up_tokenization("It 's late , is n't it ?")
            "It's late, isn't it?"
        """
        for spaced in SPACED:
            text = text.replace(spaced, spaced.strip())
        return text

    @property
    def clean_up_tokenization_spaces(self) -> bool:
        """Whether `decode` removes spaces before punctuation unless a call says otherwise; may be set."""
        own = self._held.settings.cleans_up
        return self._inner.described()[3] if own is None else own

    @clean_up_tokenization_spaces.setter
    def clean_up_tokenization_spaces(self, value: bool) -> None:
        self._held.settings.cleans_up = bool(value)


def is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) or hasattr(value, "tolist")
