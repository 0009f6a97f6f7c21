"""The texts of a call of a tokenizer."""

from __future__ import annotations

from typing import Any

from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.inputs import as_list, need_type

__all__ = ["given"]


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
