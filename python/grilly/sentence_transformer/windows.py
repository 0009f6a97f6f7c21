"""Texts of more tokens than a model reads at once: the rows of their tokens, from windows that overlap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.errors import InvalidArgumentError, UnsupportedError
from grilly.inputs import as_int, need_type
from grilly.sentence_transformer.after_pooling import after_pooling, check_after
from grilly.sentence_transformer.calls import Call
from grilly.vocabulary import UNLIMITED

__all__ = ["TokenRows", "check_model", "overlap_of", "pooled", "token_rows", "windowed"]

Floats = npt.NDArray[np.float32]


@closed()
@dataclass(frozen=True, eq=False, repr=False)
class TokenRows:
    """The tokens of a text, in its order.

    Attributes:
        ids: Their ids.
        rows: Their vectors, `(T, H)`.
        offsets: The characters of each in the text with its prompt, from and to, `(T, 2)`.
        special: Whether each is one of those around the text, `(T,)`.
        whole: The text's embedding, if it needed one window.
    """

    ids: list[int]
    rows: Floats
    offsets: npt.NDArray[np.int64]
    special: npt.NDArray[np.bool_]
    whole: Floats | None


def token_rows(model: Any, call: Call, texts: Sequence[str], overlap: int | None) -> list[TokenRows]:
    """The tokens of each text, of which windows of `max_seq_length` tokens are encoded if it has more.

    Each window has the special tokens around it, and `overlap` tokens of the text in common with the one before. Of
    these the first half, rounded up, has its rows from the earlier window and the rest from the later one, so that each
    token is as far from an end as can be. The special tokens before the text are those of the first window, the others
    those of the last one.

    Args:
        model: The model, for its tokenizer and its limit.
        call: How rows are computed.
        texts: The texts; the prompt of the call begins each.
        overlap: Tokens; None refuses texts that need more than one window.

    Raises:
        InvalidTypeError: A text is not a str.
        InvalidArgumentError: An overlap of as many tokens as a window has, or a text that is longer than one.
    """
    for number, each in enumerate(texts):
        need_type(each, str, f"texts[{number}]", "str")
    limit = int(min(model.max_seq_length, UNLIMITED))
    encoded = model.tokenizer(
        [call.options["prompt"] + text for text in texts], truncation=True, max_length=limit, stride=overlap or 0,
        return_overflowing_tokens=True, return_offsets_mapping=True, return_special_tokens_mask=True,
        return_token_type_ids=True, return_attention_mask=False,
    )  # fmt: skip
    of_text: list[list[int]] = [[] for _ in texts]
    for row, text in enumerate(encoded["overflow_to_sample_mapping"]):
        of_text[text].append(row)
    for text, rows in enumerate(of_text):
        if overlap is None and len(rows) > 1:
            raise InvalidArgumentError(
                f"texts[{text}] has more than max_seq_length = {limit} tokens; windows=64 encodes it in windows that "
                "have 64 tokens in common"
            )
    found = call.encode_rows(encoded["input_ids"], encoded["token_type_ids"])
    offsets = [np.array(each, dtype=np.int64).reshape(-1, 2) for each in encoded["offset_mapping"]]
    special = [np.array(each, dtype=bool) for each in encoded["special_tokens_mask"]]
    joined = []
    for rows in of_text:
        # A tokenizer that truncates on the left begins with the last window.
        rows.sort(key=lambda row: offsets[row][~special[row]][:1].tolist())
        kept = [
            (row, kept_places(special[row], number > 0, number + 1 < len(rows), overlap or 0))
            for number, row in enumerate(rows)
        ]
        joined.append(
            TokenRows(
                ids=[token for row, places in kept for token in encoded["input_ids"][row][places]],
                rows=np.concatenate([found.tokens[row][places] for row, places in kept]),
                offsets=np.concatenate([offsets[row][places] for row, places in kept]),
                special=np.concatenate([special[row][places] for row, places in kept]),
                whole=found.texts[rows[0]] if len(rows) == 1 else None,
            )
        )
    return joined


def kept_places(special: npt.NDArray[np.bool_], before: bool, after: bool, overlap: int) -> slice:
    """Which tokens of a window are the text's, where another window comes before or after.

    Example:
        >>> import numpy as np
        >>> from grilly.sentence_transformer.windows import kept_places
        >>> window = np.array([True, False, False, False, False, False, True])
        >>> first, last = kept_places(window, False, True, 3), kept_places(window, True, False, 3)
        >>> np.arange(7)[first].tolist(), np.arange(7)[last].tolist()
        ([0, 1, 2, 3, 4], [3, 4, 5, 6])
    """
    own = np.flatnonzero(~special)
    first = own[(overlap + 1) // 2] if before else 0
    end = own[len(own) - overlap // 2 - 1] + 1 if after else len(special)
    return slice(int(first), int(end))


def check_model(model: Any) -> tuple[str, ...]:
    """Rejects models of which token rows are not pooled as they are; the modes of pooling."""
    kinds = [type(module).__name__ for module in model]
    if kinds[:2] != ["Transformer", "Pooling"]:
        raise UnsupportedError(
            f"windows and chunks of a model of {', '.join(kinds)}: the rows of a Transformer's tokens are joined where "
            "Pooling reads them"
        )
    check_after(model)
    if model._core.messages(None) is not None:
        raise UnsupportedError("windows and chunks of a model with a chat template: each text is a message there")
    modes = model[1].pooling_mode
    return (modes,) if isinstance(modes, str) else tuple(modes)


def overlap_of(windows: Any) -> int | None:
    """A checked overlap of windows.

    Example:
        >>> from grilly.sentence_transformer.windows import overlap_of
        >>> overlap_of(64), overlap_of(None)
        (64, None)
    """
    if windows is None:
        return None
    overlap = as_int(windows, "windows")
    if overlap < 0:
        raise InvalidArgumentError(f"windows is {overlap}, expected the tokens that windows have in common, 0 or more")
    return overlap


#: A text's vector of the vectors of its tokens, `(T, H)` to `(H,)`, by pooling mode.
POOLS: dict[str, Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]] = {
    "cls": lambda rows: rows[0],
    "lasttoken": lambda rows: rows[-1],
    "max": lambda rows: rows.max(axis=0),
    "mean": lambda rows: rows.sum(axis=0) / len(rows),
    "mean_sqrt_len_tokens": lambda rows: rows.sum(axis=0) / np.sqrt(len(rows)),
    "weightedmean": lambda rows: weighted(rows, np.arange(1.0, len(rows) + 1)),
}


def weighted(rows: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The mean of rows with weights."""
    found: npt.NDArray[np.float64] = (rows * weights[:, None]).sum(axis=0) / weights.sum()
    return found


def pooled(model: Any, tokens: Sequence[Floats], modes: Sequence[str]) -> Floats:
    """The embedding `(D,)` of each `(T, H)`, by pooling modes one after the other and the modules after Pooling.

    Sums of pooling are of float64, in the order of the tokens.
    """
    wide = [rows.astype(np.float64) for rows in tokens]
    found = np.stack([np.concatenate([POOLS[mode](rows) for mode in modes]) for rows in wide]).astype(np.float32)
    return after_pooling(model, found)


def windowed(model: Any, call: Call, texts: Sequence[str], overlap: int) -> Windowed:
    """As `call.encode`, of texts of any number of tokens."""
    modes, prompt = check_model(model), call.options["prompt"]
    found = token_rows(model, call, texts, overlap)
    first = 0 if not prompt or model[1].include_prompt else model._core.prompt_length(prompt)
    long = [each.rows[first:] for each in found if each.whole is None]
    pools = iter(pooled(model, long, modes) if long else ())
    rows = [next(pools) if each.whole is None else each.whole for each in found]
    return Windowed(np.stack(rows), [each.rows for each in found], [each.ids for each in found])


class Windowed(NamedTuple):
    """The outputs of texts, as `grilly._core.Encoded` has them."""

    texts: Floats
    tokens: list[Floats]
    ids: list[list[int]]
