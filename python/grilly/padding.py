"""The lengths of rows: a tokenizer's limits and sides, and padding and truncation by the arguments of a call."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from grilly import _core
from grilly.closed import closed
from grilly.errors import InvalidArgumentError, UnsupportedError
from grilly.inputs import as_int, positive
from grilly.vocabulary import UNLIMITED, Vocabulary

__all__ = ["LARGE", "Shape", "TokenLimits", "check_padding_side", "check_side", "filled", "shape_of"]


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
        >>> from grilly.padding import check_side
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


PADDINGS = ("longest", "max_length", "do_not_pad")
#: Tokens of each row or None for those of the longest, the number that these are a multiple of, side, token and id.
Filled = tuple[int | None, int | None, str, str, int]
TRUNCATIONS = ("longest_first", "only_first", "only_second", "do_not_truncate")


@closed()
@dataclass(frozen=True)
class Shape:
    """The lengths of the rows of a call."""

    #: Maximum tokens, tokens in common with the part before, what is shortened; None for whole texts.
    limit: tuple[int, int, str] | None
    filled: Filled | None


def one_of(value: Any, name: str, choices: tuple[str, ...], usual: str) -> str:
    """The choice that a bool or a name stands for: True for the first, False and None for the last."""
    value = getattr(value, "value", value)  # transformers' enumerations
    if value in (None, False):
        return choices[-1]
    if value is True:
        return usual
    if value not in choices:
        raise InvalidArgumentError(f"{name} is {value!r}, expected True, False or one of {', '.join(choices)}")
    return str(value)


def shape_of(
    tokenizer: TokenLimits,
    *,
    padding: Any = False,
    truncation: Any = None,
    max_length: Any = None,
    stride: Any = 0,
    pad_to_multiple_of: Any = None,
    padding_side: Any = None,
) -> Shape:
    """The lengths that a call asks for: without arguments whole texts, and rows of different lengths.

    A `max_length` alone truncates. Without one, `model_max_length` is the limit; a tokenizer without a limit neither
    truncates nor pads to it.

    Raises:
        InvalidArgumentError: A value that is not known, or sizes that do not go together.
        UnsupportedError: Rows are to be padded, and the tokenizer has no padding token.

    Source: transformers' `PreTrainedTokenizerBase._get_padding_truncation_strategies`, version 5.24.

    Example:
        >>> from grilly.padding import shape_of
        >>> shape_of(model.tokenizer, max_length=8)
        Shape(limit=(8, 0, 'longest_first'), filled=None)
    """
    pads = one_of(padding, "padding", PADDINGS, "longest")
    cuts = one_of(truncation, "truncation", TRUNCATIONS, "longest_first")
    most = None if max_length is None else as_int(max_length, "max_length")
    multiple = None if pad_to_multiple_of is None else positive(pad_to_multiple_of, "pad_to_multiple_of")
    overlap = as_int(stride, "stride")
    if (most is not None and most < 0) or overlap < 0:
        raise InvalidArgumentError(f"max_length is {most} and stride {overlap}, expected at least 0")
    if most is not None and padding is False and truncation is None:
        cuts = "longest_first"
    if most is not None and padding is True and cuts == "do_not_truncate":
        warnings.warn(
            "max_length has no effect with padding=True and without truncation; padding='max_length' pads to it",
            stacklevel=4,
        )
    if most is None and tokenizer.model_max_length <= LARGE:
        most = tokenizer.model_max_length
    elif most is None:
        cuts, pads = "do_not_truncate", "do_not_pad" if pads == "max_length" else pads
    limit = None if cuts == "do_not_truncate" or most is None else (most, overlap, cuts)
    if pads == "do_not_pad":
        return Shape(limit, None)
    token, number = tokenizer.pad_token, tokenizer.pad_token_id
    if token is None or number is None:
        raise UnsupportedError(
            "the tokenizer has no padding token; tokenizer.pad_token = tokenizer.eos_token, or another token, sets one"
        )
    if limit is not None and multiple is not None and limit[0] % multiple:
        raise InvalidArgumentError(f"max_length is {limit[0]}, expected a multiple of pad_to_multiple_of={multiple}")
    side = tokenizer.padding_side if padding_side is None else check_side(padding_side, "padding_side")
    return Shape(limit, (most if pads == "max_length" else None, multiple, side, token, number))


def filled(given: Any, shape: Filled | None, masked: bool) -> tuple[dict[str, Any], str | None]:
    """Columns of encoded texts with rows of equal length, and the kind of their arrays, if they were arrays or tensors.

    Raises:
        InvalidArgumentError: There are no `input_ids`, or columns have different numbers of rows.
    """
    if isinstance(given, list | tuple):
        if not given or not all(isinstance(item, Mapping) for item in given):
            raise InvalidArgumentError("there are no texts to pad, expected a dict with input_ids or a list of such")
        given = {name: [item[name] for item in given] for name in given[0]}
    if not isinstance(given, Mapping) or "input_ids" not in given:
        raise InvalidArgumentError("there are no input_ids to pad, expected what a call of the tokenizer returns")
    columns = {name: as_rows(column) for name, column in given.items()}
    kind = next((kind for _, kind in columns.values() if kind is not None), None)
    values = {name: rows for name, (rows, _) in columns.items()}
    rows = values["input_ids"]
    if len(rows) == 0:
        return {**values, "attention_mask": []} if masked else values, kind
    if not isinstance(rows[0], list | tuple):
        return filled_row(values, shape, masked, len(rows)), kind
    if any(not isinstance(column, list | tuple) or len(column) != len(rows) for column in values.values()):
        raise InvalidArgumentError(f"the columns have different numbers of rows, expected {len(rows)} in each")
    longest = max(len(row) for row in rows)
    made = [
        filled_row({name: column[place] for name, column in values.items()}, shape, masked, longest)
        for place in range(len(rows))
    ]
    return {name: [row[name] for row in made] for name in made[0]}, kind


def filled_row(row: dict[str, Any], shape: Filled | None, masked: bool, longest: int) -> dict[str, Any]:
    """One row of each column, padded."""
    count = len(row["input_ids"])
    row = row | ({"attention_mask": [1] * count} if masked and "attention_mask" not in row else {})
    if shape is None:
        return row
    length, multiple, side, _, number = shape
    target = longest if length is None else length
    target += -target % (multiple or 1)
    fillers = {"input_ids": number, "token_type_ids": 0, "special_tokens_mask": 1} | (
        {"attention_mask": 0} if masked else {}
    )
    for name, filler in fillers.items():
        if name in row:
            rest = [filler] * (target - count)
            row[name] = [*rest, *row[name]] if side == "left" else [*row[name], *rest]
    return row


def as_rows(column: Any) -> tuple[Any, str | None]:
    """A column as lists, and `"np"` or `"pt"` if it was an array or a tensor, or a list of these."""
    first = column[0] if isinstance(column, list | tuple) and column else column
    if not hasattr(first, "tolist"):
        return column, None
    kind = "np" if isinstance(first, np.ndarray | np.generic) else "pt"
    return (column.tolist() if hasattr(column, "tolist") else [row.tolist() for row in column]), kind
