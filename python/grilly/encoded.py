"""What a call of a tokenizer returns: a dict of rows, which also knows tokens, words and characters."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from grilly import _core
from grilly.closed import closed
from grilly.errors import IndexOutOfRangeError, InvalidArgumentError, UnusableError

__all__ = ["Encoded", "Row", "Span", "as_tensors"]


@closed()
class Span(NamedTuple):
    """Tokens or characters from `start` up to, and without, `end`."""

    start: int
    end: int


@closed()
class Row:
    """The tokens of one row of an `Encoded`.

    Example:
        >>> row = model.tokenizer("Hello, world!")[0]
        >>> row.tokens[1:3], row.offsets[1:3]
        (['hello', ','], [(0, 5), (5, 6)])
    """

    def __init__(self, rows: _core.Encodings, number: int) -> None:
        if not -len(rows) <= number < len(rows):
            raise IndexOutOfRangeError(f"there is no row {number} of {len(rows)}")
        self._rows, self._number = rows, number % len(rows)

    @property
    def ids(self) -> list[int]:
        """Token ids."""
        return self._rows.ids()[self._number]

    @property
    def type_ids(self) -> list[int]:
        """The segment of each token."""
        return self._rows.segments()[self._number]

    @property
    def attention_mask(self) -> list[int]:
        """0 for padding, else 1."""
        return self._rows.attended()[self._number]

    @property
    def special_tokens_mask(self) -> list[int]:
        """1 for tokens around the text and for padding, else 0."""
        return self._rows.special()[self._number]

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """The characters of each token, from and to."""
        return self._rows.offsets()[self._number]

    @property
    def tokens(self) -> list[str]:
        """The tokens."""
        return self._rows.tokens(self._number)

    @property
    def word_ids(self) -> list[int | None]:
        """The number of the word of each token, None for those around the text."""
        return self._rows.words(self._number)

    @property
    def sequence_ids(self) -> list[int | None]:
        """The number of the text of a pair that each token is of, None for those around the texts."""
        return self._rows.sequences(self._number)

    def __len__(self) -> int:
        return len(self.ids)


@closed()
class Encoded(dict[str, Any]):
    """Rows by name, which are attributes too, with the methods of transformers' `BatchEncoding`.

    Rows are counted from 0; a text alone has the row 0. Offsets are in characters.

    Args:
        values: The rows by name.
        rows: The tokens, for the methods; lost in copies by pickle.

    Source: transformers' `BatchEncoding`, version 5.24.

    Example:
        >>> encoded = model.tokenizer("Hello, world!", return_offsets_mapping=True)
        >>> encoded.input_ids, encoded.tokens()
        ([101, 7592, 1010, 2088, 999, 102], ['[CLS]', 'hello', ',', 'world', '!', '[SEP]'])
        >>> encoded["offset_mapping"]
        [(0, 0), (0, 5), (5, 6), (7, 12), (12, 13), (0, 0)]
    """

    def __init__(self, values: dict[str, Any], rows: _core.Encodings | None = None) -> None:
        super().__init__(values)
        self._rows = rows

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"there is no {name!r}; there are {', '.join(self) or 'no rows'}")

    def __getitem__(self, name: Any) -> Any:
        """The rows of a name, or, by a number or a slice, a `Row` or a list of them."""
        if isinstance(name, int):
            return Row(self._known(), name)
        return self.encodings[name] if isinstance(name, slice) else super().__getitem__(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return Encoded, (dict(self),)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self})

    @property
    def encodings(self) -> list[Row]:
        """Every row's tokens."""
        rows = self._known()
        return [Row(rows, number) for number in range(len(rows))]

    @property
    def n_sequences(self) -> int:
        """Texts in each row: 1, or 2 of pairs."""
        return self._known().count()

    @property
    def is_fast(self) -> bool:
        """Whether tokens, words and characters are known."""
        return self._rows is not None

    def tokens(self, batch_index: int = 0) -> list[str]:
        """The tokens of a row.

        Example:
            >>> model.tokenizer(["Hello", "Rust"]).tokens(1)
            ['[CLS]', 'rust', '[SEP]']
        """
        return Row(self._known(), batch_index).tokens

    def word_ids(self, batch_index: int = 0) -> list[int | None]:
        """The number of the word of each token of a row, None for those around the text.

        Example:
            >>> model.tokenizer("Hello!").word_ids()
            [None, 0, 1, None]
        """
        return Row(self._known(), batch_index).word_ids

    def sequence_ids(self, batch_index: int = 0) -> list[int | None]:
        """The number of the text of a pair that each token of a row is of, None for those around the texts.

        Example:
            >>> model.tokenizer("Hello", "Rust").sequence_ids()
            [None, 0, None, 1, None]
        """
        return Row(self._known(), batch_index).sequence_ids

    def token_to_sequence(self, batch_or_token_index: int, token_index: int | None = None) -> int | None:
        """The number of the text of a pair that a token is of; the row comes first if it is not the only one."""
        return self._known().token_to_sequence(*self._place(batch_or_token_index, token_index))

    def token_to_word(self, batch_or_token_index: int, token_index: int | None = None) -> int | None:
        """The number of the word of a token."""
        return self._known().token_to_word(*self._place(batch_or_token_index, token_index))

    def token_to_chars(self, batch_or_token_index: int, token_index: int | None = None) -> Span | None:
        """The characters of a token.

        Example:
            >>> model.tokenizer("Hello, world!").token_to_chars(3)
            Span(start=7, end=12)
        """
        return span(self._known().token_to_chars(*self._place(batch_or_token_index, token_index)))

    def word_to_tokens(
        self, batch_or_word_index: int, word_index: int | None = None, sequence_index: int = 0
    ) -> Span | None:
        """The tokens of a word."""
        return span(self._known().word_to_tokens(*self._place(batch_or_word_index, word_index), sequence_index))

    def word_to_chars(
        self, batch_or_word_index: int, word_index: int | None = None, sequence_index: int = 0
    ) -> Span | None:
        """The characters of a word."""
        place = self._place(batch_or_word_index, word_index, counts_back=False)
        return span(self._known().word_to_chars(*place, sequence_index))

    def char_to_token(
        self, batch_or_char_index: int, char_index: int | None = None, sequence_index: int = 0
    ) -> int | None:
        """The token of a character.

        Example:
            >>> model.tokenizer("Hello, world!").char_to_token(7)
            3
        """
        place = self._place(batch_or_char_index, char_index, counts_back=False)
        return self._known().char_to_token(*place, sequence_index)

    def char_to_word(
        self, batch_or_char_index: int, char_index: int | None = None, sequence_index: int = 0
    ) -> int | None:
        """The word of a character."""
        place = self._place(batch_or_char_index, char_index, counts_back=False)
        return self._known().char_to_word(*place, sequence_index)

    def convert_to_tensors(self, tensor_type: Any = None, prepend_batch_axis: bool = False) -> Encoded:
        """The same object with arrays (`"np"`) or torch's tensors (`"pt"`) in place of lists.

        Raises:
            InvalidArgumentError: Rows of different lengths for torch, or another type.

        Example:
            >>> model.tokenizer(["Hello"]).convert_to_tensors("np")["input_ids"].shape
            (1, 3)
        """
        self.update(as_tensors({name: [v] if prepend_batch_axis else v for name, v in self.items()}, tensor_type))
        return self

    def to(self, device: Any, *, non_blocking: bool = False) -> Encoded:
        """The same object with torch's tensors moved to a device of torch; lists and arrays stay."""
        for name, value in self.items():
            if hasattr(value, "to"):
                self[name] = value.to(device, non_blocking=non_blocking)
        return self

    def _known(self) -> _core.Encodings:
        if self._rows is None:
            raise UnusableError("only the rows are known here, as in a copy by pickle: encode the texts again")
        return self._rows

    def _place(self, first: int, second: int | None, counts_back: bool = True) -> tuple[int, int]:
        """Row and place in it; negative ones count from the end."""
        rows = self._known()
        number, place = (0, first) if second is None else (first, second)
        row = Row(rows, number)
        if place < 0 and counts_back:
            place += len(row)
        if place < 0:
            raise IndexOutOfRangeError(f"there is no place {place} in row {number}")
        return row._number, place


def span(found: tuple[int, int] | None) -> Span | None:
    return None if found is None else Span(*found)


def as_tensors(values: dict[str, Any], tensor_type: Any) -> dict[str, Any]:
    """Lists as arrays (`"np"`) or torch's tensors (`"pt"`); unchanged for None.

    Rows of different lengths are an array of arrays, as in the reference, and no tensor.

    Raises:
        InvalidArgumentError: Rows of different lengths for torch, or another type.
        ImportError: torch is not installed.

    Example:
        >>> from grilly.encoded import as_tensors
        >>> as_tensors({"input_ids": [[1, 2]]}, "np")["input_ids"].shape
        (1, 2)
    """
    kind = getattr(tensor_type, "value", tensor_type)
    if kind is None:
        return values
    if kind not in ("np", "pt"):
        raise InvalidArgumentError(f"return_tensors is {kind!r}, expected 'np' or 'pt'")
    make: Callable[[Any], Any] = importlib.import_module("torch").from_numpy if kind == "pt" else np.asarray
    made = {}
    for name, rows in values.items():
        if not isinstance(rows, list | tuple):
            made[name] = rows
            continue
        lengths = {len(row) for row in rows if isinstance(row, list | tuple)}
        if len(lengths) > 1 and kind == "np":
            made[name] = np.empty(len(rows), object)
            made[name][:] = [np.asarray(row) for row in rows]
            continue
        if len(lengths) > 1:
            raise InvalidArgumentError(
                f"{name} has rows of {min(lengths)} to {max(lengths)} tokens: padding=True makes them equally long"
            )
        made[name] = make(np.asarray(rows, np.int64))
    return made
