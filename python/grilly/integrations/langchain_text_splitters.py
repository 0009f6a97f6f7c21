"""LangChain's text splitters: parts of at most so many tokens of a model."""

from __future__ import annotations

import os
from copy import deepcopy
from typing import Any

from grilly.errors import InvalidArgumentError
from grilly.integrations.loading import library, loaded
from grilly.sentence_transformer import SentenceTransformer, VulkanSentenceTransformer

with library("langchain-text-splitters"):
    from langchain_text_splitters import TextSplitter
with library("langchain-core"):
    from langchain_core.documents import Document

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
        self.model: Any = loaded(model, model_options or {}, SentenceTransformer, VulkanSentenceTransformer)
        most = self.model.max_seq_length if tokens_per_chunk is None else tokens_per_chunk
        self.tokens = most - self.tokenizer.num_special_tokens_to_add()
        if not 0 <= chunk_overlap < self.tokens:
            raise InvalidArgumentError(
                f"chunk_overlap is {chunk_overlap}, and a part has {self.tokens} tokens beside the special ones"
            )
        super().__init__(chunk_size=most, chunk_overlap=chunk_overlap, **options)

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        return self.model.tokenizer

    def split_text(self, text: str) -> list[str]:
        """The parts of a text; none of one without tokens.

        Example:
            >>> from grilly.integrations.langchain_text_splitters import GrillyTokenTextSplitter
            >>> GrillyTokenTextSplitter(model).split_text("")
            []
        """
        return [text[start:end] for start, end in self._spans(text)]

    def create_documents(self, texts: list[str], metadatas: list[dict[Any, Any]] | None = None) -> list[Document]:
        """A document for each part of each text, with a copy of the text's metadata.

        With `add_start_index` they have the place of a part in its text as `start_index`: TextSplitter's own method
        searches for a part as though what it has in common with the one before were counted in characters.

        Example:
            >>> from grilly.integrations.langchain_text_splitters import GrillyTokenTextSplitter
            >>> splitter = GrillyTokenTextSplitter(model, tokens_per_chunk=6, chunk_overlap=1, add_start_index=True)
            >>> found = splitter.create_documents(["The cat sat on the mat. It slept."])
            >>> [document.metadata["start_index"] for document in found]
            [0, 12, 22]
        """
        found = []
        for text, metadata in zip(texts, metadatas or [{}] * len(texts), strict=True):
            for start, end in self._spans(text):
                place = {"start_index": start} if self._add_start_index else {}
                found.append(Document(text[start:end], metadata=deepcopy(metadata) | place))
        return found

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Start and end of each part."""
        found = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, truncation=False)
        spans = [(start, end) for start, end in found["offset_mapping"] if end > start]
        parts, first, last = [], 0, 0
        while last < len(spans):
            last = min(first + self.tokens, len(spans))
            # What begins or ends within a word can be more tokens alone than it is there.
            while last > first + 1 and self._count(text[spans[first][0] : spans[last - 1][1]]) > self.tokens:
                last -= 1
            parts.append((spans[first][0], spans[last - 1][1]))
            first = max(first + 1, last - self._chunk_overlap)
        return parts

    def _count(self, part: str) -> int:
        """The tokens of a part."""
        return len(self.tokenizer(part, add_special_tokens=False, truncation=False)["input_ids"])
