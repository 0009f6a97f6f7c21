"""LangChain's text splitters: parts of at most so many tokens of a model."""

from __future__ import annotations

import os
from typing import Any

from grilly.errors import InvalidArgumentError
from grilly.integrations.loading import library, loaded
from grilly.sentence_transformer import SentenceTransformer, VulkanSentenceTransformer

with library("langchain-text-splitters"):
    from langchain_text_splitters import TextSplitter

__all__ = ["GrillyTokenTextSplitter"]


class GrillyTokenTextSplitter(TextSplitter):
    """Parts of a text that the model reads whole: at most so many of its tokens, the special ones included.

    A part is the text between its first and its last token as it stands, not made from ids again.

    Args:
        model: The name or the folder of a model, or a `SentenceTransformer`, of which the tokenizer is used.
        tokens_per_chunk: Most tokens of a part; default: the model's `max_seq_length`.
        chunk_overlap: Tokens that a part has in common with the one before.
        model_options: Arguments of the constructor of `SentenceTransformer`, for a name.
        **options: Arguments of `TextSplitter`, such as `add_start_index`.

    Raises:
        InvalidArgumentError: No token, besides the special and the common ones, fits into a part.

    Source: `TextSplitter` of langchain-text-splitters 1.1.

    Example:
        >>> from grilly.integrations.langchain_text_splitters import GrillyTokenTextSplitter
        >>> splitter = GrillyTokenTextSplitter(model, tokens_per_chunk=6, chunk_overlap=1)
        >>> splitter.split_text("The cat sat on the mat. It slept.")
        ['The cat sat on', 'on the mat.', '. It slept.']
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | SentenceTransformer | VulkanSentenceTransformer = "all-MiniLM-L6-v2",
        *,
        tokens_per_chunk: int | None = None,
        chunk_overlap: int = 50,
        model_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        held: Any = loaded(model, model_options or {}, SentenceTransformer, VulkanSentenceTransformer)
        self.tokenizer = held.tokenizer
        most = held.max_seq_length if tokens_per_chunk is None else tokens_per_chunk
        self.tokens = most - self.tokenizer.num_special_tokens_to_add()
        if not 0 <= chunk_overlap < self.tokens:
            raise InvalidArgumentError(
                f"chunk_overlap is {chunk_overlap}, and a part has {self.tokens} tokens beside the special ones"
            )
        super().__init__(chunk_size=most, chunk_overlap=chunk_overlap, **options)

    def split_text(self, text: str) -> list[str]:
        """The parts of a text; none of one without tokens.

        Example:
            >>> from grilly.integrations.langchain_text_splitters import GrillyTokenTextSplitter
            >>> GrillyTokenTextSplitter(model).split_text("")
            []
        """
        found = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, truncation=False)
        spans = [(start, end) for start, end in found["offset_mapping"] if end > start]
        parts, step = [], self.tokens - self._chunk_overlap
        for first in range(0, len(spans), step):
            last = min(first + self.tokens, len(spans))
            parts.append(text[spans[first][0] : spans[last - 1][1]])
            if last == len(spans):
                break
        return parts
