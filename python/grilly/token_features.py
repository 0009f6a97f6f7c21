"""What a model reads of texts."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.errors import UnsupportedError
from grilly.inputs import as_list, check_options
from grilly.vocabulary import Vocabulary

__all__ = ["TokenFeatures"]


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
