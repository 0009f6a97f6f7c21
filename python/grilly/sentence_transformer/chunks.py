"""Late chunking: vectors of parts of a text, of tokens that have read all of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from grilly.everywhere import normalized
from grilly.inputs import as_int, as_list, need_type, positive
from grilly.sentence_transformer.calls import Request
from grilly.sentence_transformer.encoding import Encoding, Texts
from grilly.sentence_transformer.windows import (
    TokenRows,
    check_model,
    overlap_of,
    pooled,
    token_rows,
)
from grilly.tensors import stored

__all__ = ["Chunking"]

# Modes that read the end tokens of a text, of which a chunk has none.
OF_ENDS = {"cls", "lasttoken"}


class Chunking(Encoding):
    """A model that gives vectors of parts of a text."""

    def encode_chunks(
        self,
        text: Texts,
        spans: Sequence[Any],
        *,
        windows: int | None = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        device: Any = None,
    ) -> Any:
        """Embeddings of parts of a text: `pool(rows of the tokens in the part)`, where tokens read the whole text.

        A token is in a part if they share a character. The special tokens around a text are in none. Rows are those of
        `encode(text, output_value="token_embeddings")`, before they are rounded to a narrower type; they are pooled in
        float64, then normalised if the model does.

        Args:
            text: A str, or a list of str.
            spans: The parts of the text: pairs `(start, end)` of characters, or parts of the text as str, such as its
                sentences, in their order. For a list of texts, a list of these.
            windows: Tokens that two windows of a text have in common, which has more than `max_seq_length`; default:
                such a text is refused.
            prompt_name: Name of a prompt in `prompts`, which begins the text; spans are counted without it.
            prompt: A prompt itself; takes precedence over `prompt_name`.
            batch_size: Maximum texts per batch. No number depends on it.
            normalize_embeddings: Whether each row is divided by `max(norm, 1e-12)`.
            truncate_dim: Dimensions kept in this call; default: `self.truncate_dim`.
            device: The device for this call only.

        Returns:
            `(C, D)`, a row for each span, or for a list of texts a list of these; float16 for a model of that dtype,
            otherwise float32.

        Raises:
            InvalidArgumentError: A span outside the text, without a token, or a part that is not there; a text that
                needs `windows`.
            UnsupportedError: A model that pools the first or the last token, or has modules between its tokens and the
                pooling.

        Source: Günther et al. 2024, "Late Chunking: Contextual Chunk Embeddings Using Long-Context Embedding Models".

        Example:
            >>> text = "The cat sat down. It slept."
            >>> rows = model.encode_chunks(text, ["The cat sat down.", "It slept."])
            >>> rows.shape, bool((rows == model.encode_chunks(text, [(0, 17), (18, 27)])).all())
            ((2, 384), True)
        """
        need_type(normalize_embeddings, bool, "normalize_embeddings", "bool")
        overlap = overlap_of(windows)
        kept = self.truncate_dim if truncate_dim is None else positive(truncate_dim, "truncate_dim")
        items, single = as_list(text, "text")
        need_type(spans, list | tuple | np.ndarray, "spans", "a list")
        parts = [spans] if single else list(spans)
        if len(parts) != len(items):
            raise InvalidArgumentError(f"{len(items)} texts and {len(parts)} lists of spans, expected as many of each")
        modes = check_model(self)
        if OF_ENDS & set(modes):
            raise UnsupportedError(f"chunks of a model that pools by {'+'.join(modes)}: they have no end tokens")
        found = [
            characters(each, own, f"spans[{place}]") for place, (each, own) in enumerate(zip(items, parts, strict=True))
        ]
        request = Request(prompt_name=prompt_name, prompt=prompt, batch_size=batch_size, device=device)
        call = self._call(request, None)
        begun = len(call.options["prompt"])
        chunks = [
            rows_in(tokens, begun + start, begun + end, f"spans[{place}][{number}]")
            for place, (own, tokens) in enumerate(zip(found, token_rows(self, call, items, overlap), strict=True))
            for number, (start, end) in enumerate(own)
        ]
        rows = pooled(self, chunks, modes) if chunks else np.empty((0, self.get_embedding_dimension()), np.float32)
        rows = rows if kept is None else np.ascontiguousarray(rows[:, :kept])
        rows = normalized(rows, call.core.numerics) if normalize_embeddings else rows
        ends = accumulate(len(own) for own in found)
        results = np.split(stored(rows, call.core.dtype_for(None)), list(ends))[: len(found)]
        return results[0] if single else results


def characters(text: Any, spans: Any, name: str) -> list[tuple[int, int]]:
    """The characters of each span, from and to.

    Example:
        >>> from grilly.sentence_transformer.chunks import characters
        >>> characters("A cat. A cat.", ["A cat.", "A cat."], "spans"), characters("A cat.", [(0, 1)], "spans")
        ([(0, 6), (7, 13)], [(0, 1)])
    """
    need_type(text, str, "text", "str")
    need_type(spans, list | tuple | np.ndarray, name, "a list of spans")
    found, after = list[tuple[int, int]](), 0
    for number, span in enumerate(spans):
        if isinstance(span, str):
            start = text.find(span, after)
            if not span or start < 0:
                raise InvalidArgumentError(
                    f"{name}[{number}] is {span!r}, which is not in the text after character {after}"
                )
            after = start + len(span)
            found.append((start, after))
            continue
        if not isinstance(span, list | tuple | np.ndarray) or len(span) != 2:
            raise InvalidTypeError(f"{name}[{number}] is {span!r}, expected (start, end) or a part of the text")
        start, end = (as_int(each, f"{name}[{number}]") for each in span)
        if not 0 <= start < end <= len(text):
            raise InvalidArgumentError(
                f"{name}[{number}] is {start} to {end}, expected a part of {len(text)} characters"
            )
        found.append((start, end))
    return found


def rows_in(tokens: TokenRows, start: int, end: int, name: str) -> npt.NDArray[np.float32]:
    """The rows of the tokens that have one of these characters."""
    own = ~tokens.special & (tokens.offsets[:, 0] < end) & (tokens.offsets[:, 1] > start)
    if not own.any():
        raise InvalidArgumentError(f"{name} has no token of the text")
    return tokens.rows[own]
