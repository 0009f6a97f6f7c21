"""Texts as a tokenizer takes them, the rows of ids that a model reads, and ids as texts."""

import importlib.util
from collections.abc import Mapping
from typing import Any

from grilly.encoded import as_tensors
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from grilly.inputs import as_list, check_options, logger, need_type
from grilly.padding import filled
from grilly.vocabulary import Vocabulary, as_ids

__all__ = ["TokenFeatures", "TokenTexts", "given"]


def given(text: Any, pair: Any, words: bool) -> tuple[list[Any], list[Any] | None, bool]:
    """First and second texts of a call, and whether it was a single one; items are checked where they are converted."""
    if words:
        need_type(text, list | tuple, "text", "a list of words, or of such lists")
        single = not (len(text) > 0 and isinstance(text[0], list | tuple))
        items = [text] if single else list(text)
    else:
        items, single = as_list(text, "text")
    if single:
        pairs = [pair] if pair else None
    elif pair is None:
        pairs = None
        # The items distinguish a pair of lists of words from a list of words.
        paired = [is_pair(item, words) for item in items]
        if items and all(paired):
            items, pairs = [first for first, _ in items], [second for _, second in items]
        elif any(paired):
            raise InvalidTypeError(f"text[{paired.index(True)}] is a pair, and text[{paired.index(False)}] is not")
    else:
        pairs, is_text = as_list(pair, "text_pair")
        if is_text:
            raise InvalidTypeError("text_pair is a str and text a list, expected a list for both")
        if len(pairs) != len(items):
            raise InvalidArgumentError(f"{len(items)} first and {len(pairs)} second texts, expected as many of each")
    if words:
        items, pairs = [list(item) for item in items], None if pairs is None else [list(item) for item in pairs]
    return items, pairs, single


def is_pair(item: Any, words: bool) -> bool:
    """Whether an item is two texts, or two lists of words."""
    kind = list | tuple if words else str
    return isinstance(item, list | tuple) and len(item) == 2 and all(isinstance(text, kind) for text in item)


class TokenFeatures(Vocabulary):
    """A vocabulary that makes the rows which a model reads."""

    def preprocess(
        self, texts: Any, prompt: str | None = None, options: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Result of a model's `preprocess`: rows of equal length, truncated to `model_max_length` and padded.

        Example:
            >>> model.tokenizer.preprocess(["Hello", ""])["input_ids"].tolist()
            [[101, 7592, 102], [101, 102, 0]]
        """
        core = self._held.core
        check_options("preprocess", options or {}, core.call_options)
        if (options or {}).get("processing_kwargs"):
            raise UnsupportedError("processing_kwargs: tokenizer(texts, padding=..., max_length=...) takes them")
        task = (options or {}).get("task")
        items, _ = as_list(texts)
        if not items:
            return {}
        ids, segments = core.tokenize_with_segments(items, task, prompt or "")
        messages = core.messages(task) is not None
        filler, side = core.padding(task)
        filler = self.pad_token_id if self._held.settings.pad_token is not None else filler
        side = self._held.settings.padding_side or side
        if filler is None and len({len(row) for row in ids}) > 1:
            raise UnsupportedError(
                "the tokenizer has no pad token: texts of different lengths make no rows of one length; "
                "model.tokenizer.pad_token = model.tokenizer.eos_token sets one"
            )
        rows = {"input_ids": ids} | ({"token_type_ids": segments} if core.gives_segments(task) else {})
        padded, _ = filled(rows, (None, None, side, "", filler or 0), masked=True)
        features = as_tensors(padded, "pt" if importlib.util.find_spec("torch") else "np")
        features["modality"] = "message" if messages else "text"
        if prompt and not messages:
            features["prompt_length"] = core.prompt_length(prompt, task)
        return features


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
