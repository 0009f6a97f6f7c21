"""The model's tokenizer, with transformers' interface."""

from collections.abc import Mapping
from typing import Any

from grilly.closed import closed, remedies
from grilly.encoded import Encoded, as_tensors
from grilly.errors import InvalidArgumentError, UnsupportedNameError, UnusableError
from grilly.inputs import need_type
from grilly.padding import TokenLimits, filled, shape_of
from grilly.padding import check_padding_side as check_padding_side  # its former place
from grilly.token_features import TokenFeatures, TokenTexts, given
from grilly.vocabulary import Held as Held  # its former place

__all__ = ["Tokenizer"]

REMEDIES = remedies("tokenizer")
#: Arguments of a call that say how long rows are.
LENGTHS = ("padding", "truncation", "max_length", "stride", "pad_to_multiple_of", "padding_side")


@closed(**REMEDIES)
class Tokenizer(TokenTexts, TokenFeatures, TokenLimits):
    """Token ids as transformers' tokenizer of the model's folder gives them: by default of the whole text.

    `preprocess` gives what the model reads: truncated, padded, with a prompt. Of a model with several routes it is the
    first one's. Threads may share the object.

    Attributes that may be set are `model_max_length` (the model's `max_seq_length`), `truncation_side`, `padding_side`,
    `pad_token`, `pad_token_id` and `clean_up_tokenization_spaces`; the first two count for embeddings, too.

    Source: transformers' `PreTrainedTokenizerBase`, version 5.24.

    Example:
        >>> model.tokenizer.encode("Hello, world!")
        [101, 7592, 1010, 2088, 999, 102]
        >>> model.tokenizer.decode(model.tokenizer.encode("Hello, world!"), skip_special_tokens=True)
        'hello, world!'
        >>> model.tokenizer.model_max_length, len(model.tokenizer), model.tokenizer.pad_token
        (256, 30522, '[PAD]')
    """

    def __getattr__(self, name: str) -> Any:
        if name in REMEDIES:
            raise UnsupportedNameError(f"Tokenizer.{name} is left out: {REMEDIES[name]}")
        return super().__getattr__(name)

    def encode(
        self,
        text: Any,
        text_pair: Any = None,
        add_special_tokens: bool = True,
        padding: Any = False,
        truncation: Any = None,
        max_length: int | None = None,
        stride: int = 0,
        padding_side: str | None = None,
        return_tensors: Any = None,
        **options: Any,
    ) -> Any:
        """Token ids of a text, or of a pair; arguments as in a call of the tokenizer, which also takes those left out.

        Example:
            >>> model.tokenizer.encode("Hello, world!", truncation=True, max_length=4)
            [101, 7592, 1010, 102]
            >>> model.tokenizer.encode("", add_special_tokens=False)
            []
        """
        return self(
            text, text_pair, add_special_tokens=add_special_tokens, padding=padding, truncation=truncation,
            max_length=max_length, stride=stride, padding_side=padding_side, return_tensors=return_tensors, **options,
        )["input_ids"]  # fmt: skip

    def __call__(
        self,
        text: Any = None,
        text_pair: Any = None,
        text_target: Any = None,
        text_pair_target: Any = None,
        add_special_tokens: bool = True,
        padding: Any = False,
        truncation: Any = None,
        max_length: int | None = None,
        stride: int = 0,
        is_split_into_words: bool = False,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_tensors: Any = None,
        return_token_type_ids: bool | None = None,
        return_attention_mask: bool | None = None,
        return_overflowing_tokens: bool = False,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
        return_length: bool = False,
        verbose: bool = True,
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        *,
        split_special_tokens: bool | None = None,
        max_target_length: int | None = None,
    ) -> Encoded:
        """Rows of one text or of several: `input_ids`, `attention_mask`, and `token_type_ids` if the model reads them.

        Args:
            text: A str, or a list of str or of pairs.
            text_pair: The second text of a pair, or a list of them.
            text_target: Texts whose `input_ids` are added as `labels`; without `text` they are encoded in its place.
            text_pair_target: Their second texts.
            add_special_tokens: Whether the special tokens are put around a text.
            padding: True or `"longest"`, `"max_length"`, or False.
            truncation: True or `"longest_first"`, `"only_first"`, `"only_second"`, or False; by default a `max_length`
                alone truncates.
            max_length: Maximum tokens, special ones included; default `model_max_length`.
            stride: Tokens that a part of a long text has in common with the one before.
            is_split_into_words: Whether a text is a list of words, each of which is tokenized alone.
            pad_to_multiple_of: The number of tokens of a padded row is a multiple of it.
            padding_side: `"left"` or `"right"`; default `self.padding_side`.
            return_tensors: `"np"` for arrays, `"pt"` for torch's tensors; default lists.
            return_token_type_ids: Whether segments are returned; default: if the model reads them.
            return_attention_mask: Whether `attention_mask` is returned; default True.
            return_overflowing_tokens: Whether the parts that truncation cuts off follow their text as rows of their
                own; `overflow_to_sample_mapping` has the text of each row.
            return_special_tokens_mask: Adds `special_tokens_mask`: 1 for special tokens around a text and for padding.
            return_offsets_mapping: Adds `offset_mapping`: the characters of each token, from and to.
            return_length: Adds `length`: the tokens of each row.
            verbose: No effect.
            tokenizer_kwargs: More of these arguments; they take precedence.
            split_special_tokens: Whether special tokens inside a text are split as other words are; default: as the
                tokenizer's files say.
            max_target_length: `max_length` of `text_target`.

        Raises:
            InvalidTypeError: A text is not a str (also a `TypeError`).
            InvalidArgumentError: An invalid value, or sizes that do not go together (also a `ValueError`).
            UnsupportedError: `padding` without a padding token.

        Source: transformers' `PreTrainedTokenizerBase.__call__`, version 5.24.

        Example:
            >>> model.tokenizer(["Hello", ""], padding=True)["input_ids"]
            [[101, 7592, 102], [101, 102, 0]]
            >>> model.tokenizer("Hello, world!", return_offsets_mapping=True)["offset_mapping"]
            [(0, 0), (0, 5), (5, 6), (7, 12), (12, 13), (0, 0)]
        """
        options = {name: value for name, value in locals().items() if name not in ("self", "tokenizer_kwargs")}
        if tokenizer_kwargs:
            return self(**options | dict(tokenizer_kwargs))
        if text is None and text_target is None:
            raise InvalidArgumentError("text is None, expected a str or a list of str")
        found = None if text is None else self._encoded(text, text_pair, options)
        if text_target is None:
            assert found is not None
            return found
        if max_target_length is not None:
            options["max_length"] = max_target_length
        target = self._encoded(text_target, text_pair_target, options)
        if found is None:
            return target
        found["labels"] = target["input_ids"]
        return found

    def _encoded(self, text: Any, text_pair: Any, options: Mapping[str, Any]) -> Encoded:
        """What a call with these arguments gives for texts and their second ones."""
        words, overflows = options["is_split_into_words"], options["return_overflowing_tokens"]
        firsts, seconds, single = given(text, text_pair, words)
        shape = shape_of(self, **{name: options[name] for name in LENGTHS})
        rows = self._inner.encodings(
            firsts, seconds, words, not options["add_special_tokens"], options["split_special_tokens"], shape.limit,
            shape.filled, overflows,
        )  # fmt: skip
        inputs = self.model_input_names
        wanted = {
            "input_ids": (True, rows.ids),
            "token_type_ids": (returned(options["return_token_type_ids"], "token_type_ids", inputs), rows.segments),
            "attention_mask": (returned(options["return_attention_mask"], "attention_mask", inputs), rows.attended),
            "special_tokens_mask": (options["return_special_tokens_mask"], rows.special),
            "offset_mapping": (options["return_offsets_mapping"], rows.offsets),
            "length": (options["return_length"], lambda: [len(row) for row in rows.ids()]),
            "overflow_to_sample_mapping": (overflows, rows.texts),
        }
        values: dict[str, Any] = {name: column() for name, (is_wanted, column) in wanted.items() if is_wanted}
        if options["return_tensors"] is not None:
            values = as_tensors(values, options["return_tensors"])
        elif single and not overflows:
            values = {name: value if name == "length" else value[0] for name, value in values.items()}
        return Encoded(values, rows)

    def tokenize(
        self,
        text: str,
        pair: str | None = None,
        add_special_tokens: bool = False,
        *,
        split_special_tokens: bool | None = None,
    ) -> list[str]:
        """The tokens of a text, or of a pair, by default without those around it.

        Example:
            >>> model.tokenizer.tokenize("Hello, worlds!")
            ['hello', ',', 'worlds', '!']
        """
        need_type(text, str, "text", "str")
        return self(
            text, pair, add_special_tokens=add_special_tokens, split_special_tokens=split_special_tokens
        ).tokens()

    def pad(
        self,
        encoded_inputs: Any,
        padding: Any = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_attention_mask: bool | None = None,
        return_tensors: Any = None,
        verbose: bool = True,
    ) -> Encoded:
        """Encoded texts with rows of equal length.

        Args:
            encoded_inputs: What a call returned, for one text or several, or a list of such results.
            padding: As in a call, like the other arguments.

        Raises:
            InvalidArgumentError: There are no `input_ids`, or columns have different numbers of rows.

        Source: transformers' `PreTrainedTokenizerBase.pad`, version 5.24.

        Example:
            >>> model.tokenizer.pad([model.tokenizer("Hello"), model.tokenizer("")])["input_ids"]
            [[101, 7592, 102], [101, 102, 0]]
        """
        shape = shape_of(
            self, padding=padding, truncation=False, max_length=max_length, pad_to_multiple_of=pad_to_multiple_of,
            padding_side=padding_side,
        )  # fmt: skip
        masked = returned(return_attention_mask, "attention_mask", self.model_input_names)
        values, tensors = filled(encoded_inputs, shape.filled, masked)
        return Encoded(as_tensors(values, tensors if return_tensors is None else return_tensors))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles with its model: the copy, also a deep one, loads that again."""
        model = self._held.model()
        if model is None:
            raise UnusableError("the tokenizer's model is gone, with which it is pickled: keep the model")
        return tokenizer_of, (model,)

    def __repr__(self) -> str:
        return (
            f"Tokenizer(name_or_path={self.name_or_path!r}, vocab_size={self.vocab_size}, "
            f"model_max_length={self.model_max_length}, padding_side={self.padding_side!r}, "
            f"truncation_side={self.truncation_side!r}, special_tokens={self.special_tokens_map})"
        )


def tokenizer_of(model: Any) -> Tokenizer:
    """The tokenizer of a model that a pickle has loaded again."""
    tokenizer: Tokenizer = model.tokenizer
    tokenizer._held.model = lambda: model  # nothing else holds it
    return tokenizer


def returned(asked: bool | None, name: str, inputs: list[str]) -> bool:
    """Whether a column is returned: as asked, else if the model reads it."""
    return name in inputs if asked is None else bool(asked)
