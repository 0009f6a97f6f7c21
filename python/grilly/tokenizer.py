"""The model's tokenizer with a Python interface."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly import _core
from grilly.errors import UnsupportedError
from grilly.inputs import as_list, check_options

__all__ = ["Held", "Tokenizer", "check_padding_side"]


class Held:
    """Reference to a model's current core; users hold this instead of the model, to avoid reference cycles."""

    core: _core.EmbeddingModel


class Tokenizer:
    """Token ids as the model sees them: special tokens included, truncated to `max_seq_length`, without prompt.

    Example:
        >>> model.tokenizer.encode("Hello, world!")
        [101, 7592, 1010, 2088, 999, 102]
    """

    def __init__(self, held: Held) -> None:
        self._held = held

    def encode(self, text: str) -> list[int]:
        """Token ids of one text.

        Example:
            >>> model.tokenizer.encode("")
            [101, 102]
        """
        return self._held.core.tokenize([text])[0]

    def __call__(self, texts: Any) -> dict[str, Any]:
        """`input_ids` and `attention_mask` of one text, or lists of them for several; without padding.

        Example:
            >>> model.tokenizer(["Hello", ""])["input_ids"]
            [[101, 7592, 102], [101, 102]]
        """
        items, single = as_list(texts)
        ids = self._held.core.tokenize(items)
        mask = [[1] * len(row) for row in ids]
        if single:
            return {"input_ids": ids[0], "attention_mask": mask[0]}
        return {"input_ids": ids, "attention_mask": mask}

    def preprocess(
        self, texts: Any, prompt: str | None = None, options: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Result of a model's `preprocess`: rows of equal length, padded with the tokenizer's pad token on its side.

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
        if prompt:
            # Other types are rejected where they are converted.
            items = [prompt + text if isinstance(text, str) else text for text in items]
        ids, segments = core.tokenize_with_segments(items, task)
        filler, side = core.padding(task)
        left = side == "left"
        if filler is None and len({len(row) for row in ids}) > 1:
            raise UnsupportedError(
                "the tokenizer has no pad token: texts of different lengths make no rows of one length"
            )
        features: dict[str, Any] = {"input_ids": padded(ids, filler or 0, left)}
        if core.gives_segments(task):
            features["token_type_ids"] = padded(segments, 0, left)
        features["attention_mask"] = padded([[1] * len(row) for row in ids], 0, left)
        features = {name: as_tensor(rows) for name, rows in features.items()}
        features["modality"] = "text"
        if prompt:
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
