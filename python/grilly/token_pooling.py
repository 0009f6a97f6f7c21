"""Fewer vectors for each text: token pooling, with sentence-transformers' names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from grilly.everywhere import computed
from grilly.inputs import need_one_of, positive
from grilly.tensors import as_array, holds_tensors, to_tensor
from grilly.ward import means

__all__ = ["BaseTokenPooling", "HierarchicalTokenPooling", "LambdaTokenPooling", "pooling_of"]

Floats = npt.NDArray[np.floating[Any]]
SIDES = ("left", "right")


@closed("tasks")
class BaseTokenPooling:
    """A way to pool the vectors of a text; a subclass has `pool_one`.

    Args:
        tasks: Tasks of the texts whose vectors are pooled, or one; a text without a task counts as a document. Default:
            documents alone.

    Source: `sentence_transformers.multi_vector_encoder.modules.BaseTokenPooling`, version 6.2.

    Example:
        >>> from grilly.token_pooling import BaseTokenPooling
        >>> class First(BaseTokenPooling):
        ...     def pool_one(self, embedding, **options):
        ...         return embedding[:1]
        >>> First().pool(colbert_model.encode_document(["A cat.", "A dog."]))[1].shape
        (1, 24)
    """

    def __init__(self, *, tasks: str | list[str] | None = None) -> None:
        self.tasks = ["document"] if tasks is None else [tasks] if isinstance(tasks, str) else list(tasks)

    def applies_to(self, task: str | None) -> bool:
        """Whether the vectors of texts of a task are pooled.

        Example:
            >>> from grilly.token_pooling import HierarchicalTokenPooling
            >>> HierarchicalTokenPooling(2).applies_to("query")
            False
        """
        return (task or "document") in self.tasks

    def pool(
        self, embeddings: Any, *, task: str | None = None, attention_mask: Any = None, padding_side: str = "right"
    ) -> Any:
        """The pooled vectors of each text.

        Args:
            embeddings: A list of `(T, D)`, arrays or torch tensors; or `(N, T, D)`.
            task: That of the texts; where it is not one of `tasks`, the result is `embeddings` itself.
            attention_mask: `(N, T)`, which vectors of `(N, T, D)` are a text's; default: all but rows of zeros at
                `padding_side`.
            padding_side: `"right"` or `"left"`, also of the result.

        Returns:
            A list of `(T', D)`, or `(N, T', D)`, padded with zeros: tensors for tensors, of their type.

        Raises:
            InvalidArgumentError: Other shapes.
            NotFiniteError: A vector that is clustered contains NaN or infinity.

        Source: `sentence_transformers.multi_vector_encoder.modules.BaseTokenPooling.pool`, version 6.2.

        Example:
            >>> from grilly.token_pooling import HierarchicalTokenPooling
            >>> rows = colbert_model.encode_document(["A cat sits on the mat."])
            >>> len(rows[0]), len(HierarchicalTokenPooling(2).pool(rows)[0])
            (12, 6)
        """
        need_one_of(padding_side, SIDES, "padding_side")
        if not self.applies_to(task):
            return embeddings
        if isinstance(embeddings, list | tuple):
            return [self._checked(each, f"embeddings[{place}]") for place, each in enumerate(embeddings)]
        rows = as_array(embeddings)
        if getattr(rows, "ndim", None) != 3:
            shape = getattr(rows, "shape", type(embeddings).__name__)
            raise InvalidArgumentError(f"embeddings are {shape}, expected a list of (T, D), or (N, T, D)")
        if len(rows) == 0:
            return embeddings[:, :0]
        texts = unpadded(rows, None if attention_mask is None else np.asarray(as_array(attention_mask)), padding_side)
        # Each as what was given: a function may be one of tensors.
        given = [like(text, embeddings) for text in texts]
        found = padded([as_array(self._checked(each, "embeddings")) for each in given], padding_side)
        return like(found, embeddings)

    def pool_one(self, embedding: Any, **options: Any) -> Any:
        """The pooled vectors `(T', D)` of those of one text, `(T, D)`.

        Raises:
            UnsupportedError: The subclass has no such method.

        Example:
            >>> from grilly.token_pooling import HierarchicalTokenPooling
            >>> HierarchicalTokenPooling(2).pool_one(colbert_model.encode_document("A cat.")).shape
            (3, 24)
        """
        raise UnsupportedError(f"{type(self).__name__} has no method pool_one, which pools the vectors of one text")

    def _checked(self, embedding: Any, name: str) -> Any:
        """The pooled vectors of a text, if they are a matrix."""
        if getattr(embedding, "ndim", None) != 2:
            shape = getattr(embedding, "shape", type(embedding).__name__)
            raise InvalidArgumentError(f"{name} are {shape}, expected (T, D)")
        found = self.pool_one(embedding)
        if getattr(found, "ndim", None) != 2:
            shape = getattr(found, "shape", type(found).__name__)
            raise InvalidArgumentError(f"{type(self).__name__} gives {shape}, expected (T, D)")
        return found


@closed("tasks", "pool_factor", "num_protected_tokens", "normalize_embeddings")
class HierarchicalTokenPooling(BaseTokenPooling):
    """Clusters of vectors by Ward's method on `1 - x . y`, each replaced by its mean: `T // pool_factor` of T vectors.

    The first vectors of a text stay, and the clusters of the others follow, in the order of the tree. The vectors are
    taken for normalised ones. The result has the same bits on every machine.

    Args:
        pool_factor: Vectors for each that stays, from 1 on; 1 pools nothing.
        num_protected_tokens: First vectors of a text that are not pooled, usually that of `[CLS]`.
        normalize_embeddings: Whether all vectors of the result are divided by their norm.
        tasks: As for `BaseTokenPooling`.

    Raises:
        InvalidArgumentError: `pool_factor` below 1, or a negative number of tokens.

    Source: `sentence_transformers.multi_vector_encoder.modules.HierarchicalTokenPooling`, version 6.2.

    Example:
        >>> from grilly.token_pooling import HierarchicalTokenPooling
        >>> pooling = HierarchicalTokenPooling(pool_factor=2)
        >>> colbert_model.encode_document("A cat sits on the mat.", token_pooling=pooling).shape
        (6, 24)
    """

    def __init__(
        self,
        pool_factor: float = 1.0,
        *,
        num_protected_tokens: int = 1,
        normalize_embeddings: bool = True,
        tasks: str | list[str] | None = None,
    ) -> None:
        super().__init__(tasks=tasks)
        if isinstance(pool_factor, bool) or not isinstance(pool_factor, int | float) or not pool_factor >= 1:
            raise InvalidArgumentError(f"pool_factor is {pool_factor!r}, expected a number from 1 on")
        if num_protected_tokens != 0:
            positive(num_protected_tokens, "num_protected_tokens")
        self.pool_factor = pool_factor
        self.num_protected_tokens = num_protected_tokens
        self.normalize_embeddings = normalize_embeddings

    def pool_one(self, embedding: Any, **options: Any) -> Any:
        """The first vectors, then the mean of each cluster `(T', D)`, of the vectors `(T, D)` of a text.

        Example:
            >>> from grilly.token_pooling import HierarchicalTokenPooling
            >>> HierarchicalTokenPooling(3).pool_one(colbert_model.encode_document("A cat.")).shape
            (2, 24)
        """
        rows = np.asarray(as_array(embedding), np.float32)
        kept = self.num_protected_tokens
        found = np.concatenate([rows[:kept], means(rows[kept:], self.pool_factor)])
        if self.normalize_embeddings and found.size:
            found = computed("normalize", found)
        return like(found, embedding)


@closed("tasks", "pool_fn")
class LambdaTokenPooling(BaseTokenPooling):
    """Pooling by a function of the vectors of one text, `(T, D)` to `(T', D)`.

    Args:
        pool_fn: It gets an array, or a torch tensor where tensors are pooled or `encode` gives tensors.
        tasks: As for `BaseTokenPooling`.

    Raises:
        InvalidTypeError: `pool_fn` is no function.

    Source: `sentence_transformers.multi_vector_encoder.modules.LambdaTokenPooling`, version 6.2.

    Example:
        >>> from grilly.token_pooling import LambdaTokenPooling
        >>> colbert_model.encode_document("A cat.", token_pooling=LambdaTokenPooling(lambda rows: rows[::2])).shape
        (3, 24)
    """

    def __init__(self, pool_fn: Callable[[Any], Any], *, tasks: str | list[str] | None = None) -> None:
        super().__init__(tasks=tasks)
        if not callable(pool_fn):
            raise InvalidTypeError(f"pool_fn is of type {type(pool_fn).__name__}, expected a function")
        self.pool_fn = pool_fn

    def pool_one(self, embedding: Any, **options: Any) -> Any:
        """What the function gives.

        Example:
            >>> from grilly.token_pooling import LambdaTokenPooling
            >>> LambdaTokenPooling(lambda rows: rows[:1]).pool_one(colbert_model.encode_document("A cat.")).shape
            (1, 24)
        """
        return self.pool_fn(embedding)


class Theirs(BaseTokenPooling):
    """A pooling of sentence-transformers, which takes tensors."""

    def __init__(self, pooling: Any) -> None:
        super().__init__(tasks=pooling.tasks)
        self.pooling = pooling

    def pool_one(self, embedding: Any, **options: Any) -> Any:
        tensor = embedding if holds_tensors(embedding) else to_tensor(embedding)
        return like(as_array(self.pooling.pool_one(tensor)), embedding)


def pooling_of(given: Any) -> BaseTokenPooling | None:
    """What the argument `token_pooling` of a call means: a pooling, a factor, a function, or None.

    Raises:
        InvalidTypeError: Something else.

    Example:
        >>> from grilly.token_pooling import pooling_of
        >>> pooling_of(2).pool_factor, pooling_of(None)
        (2, None)
    """
    if given is None or isinstance(given, BaseTokenPooling):
        return given
    if hasattr(given, "pool_one") and hasattr(given, "tasks"):
        return Theirs(given)
    if isinstance(given, int | float):
        return HierarchicalTokenPooling(given)
    if callable(given):
        return LambdaTokenPooling(given)
    kind = type(given).__name__
    raise InvalidTypeError(f"token_pooling is of type {kind}, expected a pooling, a factor or a function")


def like(rows: Floats, given: Any) -> Any:
    """Rows in the type of what was given, tensors for tensors."""
    if not holds_tensors(given):
        return rows.astype(given.dtype, copy=False) if given.dtype.kind == "f" else rows
    return to_tensor(np.ascontiguousarray(rows)).to(given.dtype)


def unpadded(rows: Floats, mask: npt.NDArray[Any] | None, side: str) -> list[Floats]:
    """The vectors of each text of `(N, T, D)`; without a mask, rows of zeros at the side of the padding are none."""
    if mask is not None:
        if mask.shape != rows.shape[:2]:
            raise InvalidArgumentError(f"attention_mask has shape {mask.shape}, expected {rows.shape[:2]}")
        return [text[counts] for text, counts in zip(rows, mask.astype(bool), strict=True)]
    found = []
    for text in rows:
        places = np.flatnonzero(text.any(axis=1))
        first, last = (places[0], places[-1] + 1) if len(places) else (0, 0)
        found.append(text[:last] if side == "right" or not len(places) else text[first:])
    return found


def padded(texts: list[Floats], side: str) -> Floats:
    """The vectors of texts as `(N, T, D)`."""
    longest = max(len(text) for text in texts)
    found = np.zeros((len(texts), longest, texts[0].shape[1]), texts[0].dtype)
    for place, text in enumerate(texts):
        found[place, longest - len(text) if side == "left" else 0 :][: len(text)] = text
    return found
