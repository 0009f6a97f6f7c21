"""Texts as a tokenizer takes them, and as the rows of ids that a model reads."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from grilly.inputs import as_list, check_options, need_type
from grilly.vocabulary import Vocabulary

__all__ = ["TokenFeatures", "given"]


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
        task = (options or {}).get("task")
        items, _ = as_list(texts)
        if not items:
            return {}
        ids, segments = core.tokenize_with_segments(items, task, prompt or "")
        messages = core.messages(task) is not None
        filler, side = core.padding(task)
        filler = self.pad_token_id if self._held.settings.pad_token is not None else filler
        left = (self._held.settings.padding_side or side) == "left"
        if filler is None and len({len(row) for row in ids}) > 1:
            raise UnsupportedError(
                "the tokenizer has no pad token: texts of different lengths make no rows of one length; "
                "model.tokenizer.pad_token = model.tokenizer.eos_token sets one"
            )
        features: dict[str, Any] = {"input_ids": padded(ids, filler or 0, left)}
        if core.gives_segments(task):
            features["token_type_ids"] = padded(segments, 0, left)
        features["attention_mask"] = padded([[1] * len(row) for row in ids], 0, left)
        features = {name: as_tensor(rows) for name, rows in features.items()}
        features["modality"] = "message" if messages else "text"
        if prompt and not messages:
            features["prompt_length"] = core.prompt_length(prompt, task)
        return features


def padded(rows: list[list[int]], filler: int, left: bool) -> npt.NDArray[np.int64]:
    """Rows as one array, padded on one side to the longest."""
    longest = max(len(row) for row in rows)
    result = np.full((len(rows), longest), filler, dtype=np.int64)
    for place, row in zip(result, rows, strict=True):
        place[longest - len(row) if left else 0 :][: len(row)] = row
    return result


def as_tensor(rows: npt.NDArray[np.int64]) -> Any:
    """Converts rows to a torch tensor if torch is installed."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return rows
    return torch.from_numpy(rows)
