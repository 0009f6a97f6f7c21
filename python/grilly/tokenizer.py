"""The model's tokenizer as Python code expects one."""

from __future__ import annotations

from typing import Any

from grilly import _core
from grilly.inputs import as_list

__all__ = ["Tokenizer"]


class Tokenizer:
    """Token ids as the model sees them: special tokens included, truncated to `max_seq_length`, without prompt.

    Example:
        >>> model.tokenizer.encode("Hello, world!")
        [101, 7592, 1010, 2088, 999, 102]
    """

    def __init__(self, core: _core.EmbeddingModel) -> None:
        self._core = core

    def encode(self, text: str) -> list[int]:
        """Token ids of one text.

        Example:
            >>> model.tokenizer.encode("")
            [101, 102]
        """
        return self._core.tokenize([text])[0]

    def __call__(self, texts: Any) -> dict[str, Any]:
        """`input_ids` and `attention_mask` of one text, or lists of them for several; without padding.

        Example:
            >>> model.tokenizer(["Hello", ""])["input_ids"]
            [[101, 7592, 102], [101, 102]]
        """
        items, single = as_list(texts)
        ids = self._core.tokenize(items)
        mask = [[1] * len(row) for row in ids]
        if single:
            return {"input_ids": ids[0], "attention_mask": mask[0]}
        return {"input_ids": ids, "attention_mask": mask}
