"""Scores of XTR, whose queries compare with the best tokens of all documents, with sentence-transformers' names."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.inputs import positive
from grilly.late_interaction import both
from grilly.late_scores import grouped, like
from grilly.resources import need
from grilly.token_matrices import EMPTY

__all__ = ["XTRKDScores", "XTRScores", "xtr_kd_scores", "xtr_scores", "xtr_scores_pairwise"]

Floats = npt.NDArray[np.float64]
Scores = npt.NDArray[np.float32]


def xtr_scores(
    queries_embeddings: Any,
    documents_embeddings: Any,
    queries_mask: Any = None,
    documents_mask: Any = None,
    top_k: int = 256,
    chunk_elements: int | None = None,
) -> Any:
    """Scores over the tokens that are retrieved: `s[i, j] = sum_t max_u q[t] . d[u] / Z` over them, as of an index.

    A query's vector retrieves the `top_k` vectors with the largest products among those of all documents, equal ones in
    their order. `Z` is the number of the query's vectors that retrieve one of the document; the others count as 0. So
    a score depends on the other documents. Computed on the CPU in float64, and rounded to float32.

    Args:
        queries_embeddings: Vectors of Q queries, as for `grilly.util.maxsim`.
        documents_embeddings: Those of G groups of N documents, as for `grilly.late_scores.colbert_scores`.
        queries_mask: Which vectors of queries count.
        documents_mask: Those of documents.
        top_k: Vectors that each of a query's retrieves.
        chunk_elements: Accepted; the products of one query are in memory at a time.

    Returns:
        float32 `(Q, G N)`; a torch tensor if there are tensors. A document without vectors scores -1e9, one of which
        none is retrieved 0.

    Raises:
        InvalidArgumentError: Other shapes, groups of different sizes, `top_k` below 1.
        DeviceMemoryError: Memory does not hold the products of a query.

    Source: `sentence_transformers.multi_vector_encoder.scoring.xtr_scores`, version 6.2; Lee et al., Rethinking the
    Role of Token Retrieval in Multi-Vector Retrieval (2023), equation 5.

    Example:
        >>> import numpy as np
        >>> from grilly.xtr_scores import xtr_scores
        >>> queries = np.float32([[[1, 0], [0, 1]]])
        >>> documents = [[np.float32([[1, 0.5]])], [np.float32([[0.5, 0], [0, 0.75]])]]
        >>> xtr_scores(queries, documents, top_k=1).tolist(), xtr_scores(queries, documents, top_k=2).tolist()
        ([[1.0, 0.75]], [[0.75, 0.625]])
    """
    most = positive(top_k, "top_k")
    groups = grouped(documents_embeddings, documents_mask)
    queries, documents = both(queries_embeddings, [text for group in groups for text in group], queries_mask, None)
    need((len(queries), len(documents)), np.float32, f"scores of {len(queries)} and {len(documents)} texts")
    lengths = np.array([len(document) for document in documents], np.int64)
    full = np.flatnonzero(lengths)
    scores = np.full((len(queries), len(documents)), EMPTY, np.float32)
    if len(full):
        tokens = np.concatenate([documents[place] for place in full]).astype(np.float64)
        starts = np.cumsum(lengths[full]) - lengths[full]
        for row, query in enumerate(queries):
            scores[row, full] = of_retrieved(query, tokens, starts, most)
    return like(scores, queries_embeddings, documents_embeddings)


def of_retrieved(query: Floats, tokens: Floats, starts: npt.NDArray[np.int64], most: int) -> Scores:
    """The scores of a query with documents, whose vectors begin at `starts`."""
    if len(query) == 0:
        return np.zeros(len(starts), np.float32)
    need((4, len(query), len(tokens)), np.float64, f"products of {len(query)} and {len(tokens)} vectors")
    products = query @ tokens.T
    if most < len(tokens):
        # Below the last one that is retrieved all are lost, and of those equal to it the later ones.
        last = np.partition(products, -most, axis=1)[:, [-most]]
        equal = products == last
        spare = most - (products > last).sum(axis=1, keepdims=True)
        products[(products < last) | equal & (np.cumsum(equal, axis=1) > spare)] = -np.inf
    best = np.maximum.reduceat(products, starts, axis=1)
    retrieved = best > -np.inf
    sums = np.where(retrieved, best, 0).sum(axis=0)
    found: Scores = (sums / np.maximum(retrieved.sum(axis=0), 1)).astype(np.float32)
    return found


def xtr_kd_scores(
    queries_embeddings: Any,
    documents_embeddings: Any,
    queries_mask: Any = None,
    documents_mask: Any = None,
    top_k: int = 256,
    chunk_elements: int | None = None,
) -> Any:
    """`xtr_scores` of each query with the group at its place, `(Q, N)`; its vectors retrieve those of all groups.

    Raises:
        InvalidArgumentError: As `xtr_scores`, and for other numbers of groups than of queries.

    Source: `sentence_transformers.multi_vector_encoder.scoring.xtr_kd_scores`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.xtr_scores import xtr_kd_scores
        >>> xtr_kd_scores(np.float32([[[1, 0]]]), np.float32([[[[1, 0]], [[0.5, 2]]]]), top_k=2).tolist()
        [[1.0, 0.5]]
    """
    groups = grouped(documents_embeddings, documents_mask, len(queries_embeddings))
    scores = xtr_scores(queries_embeddings, documents_embeddings, queries_mask, documents_mask, top_k, chunk_elements)
    count = len(groups[0]) if groups else 0
    return scores.reshape(len(groups), len(groups), count)[range(len(groups)), range(len(groups))]


def xtr_scores_pairwise(
    queries_embeddings: Any,
    documents_embeddings: Any,
    queries_mask: Any = None,
    documents_mask: Any = None,
    top_k: int = 256,
    chunk_elements: int | None = None,
) -> Any:
    """`xtr_scores` of each query with the document at its place, `(Q,)`; its vectors retrieve those of all documents.

    Args:
        queries_embeddings: As for `xtr_scores`.
        documents_embeddings: Vectors of as many documents, as for `grilly.util.maxsim`.
        queries_mask: As there.
        documents_mask: Which vectors of documents count, `(Q, T)`, or a list of `(T,)`.
        top_k: As there, like `chunk_elements`.

    Source: `sentence_transformers.multi_vector_encoder.scoring.xtr_scores_pairwise`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.xtr_scores import xtr_scores_pairwise
        >>> xtr_scores_pairwise(np.float32([[[1, 0]], [[0, 1]]]), np.float32([[[1, 0]], [[0, 2]]]), top_k=1).tolist()
        [1.0, 2.0]
    """
    documents = [each[None] if hasattr(each, "ndim") and each.ndim == 2 else each for each in documents_embeddings]
    masks = None if documents_mask is None else [each[None] for each in documents_mask]
    scores = xtr_kd_scores(queries_embeddings, documents, queries_mask, masks, top_k, chunk_elements)
    return scores.reshape(-1)


@closed("top_k", "chunk_elements")
class XTRScores:
    """`xtr_scores` with its settings: a function of queries, documents and their masks.

    Args:
        top_k: As for `xtr_scores`.
        chunk_elements: Accepted.

    Source: `sentence_transformers.multi_vector_encoder.scoring.XTRScores`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.xtr_scores import XTRScores
        >>> XTRScores(top_k=1)(np.float32([[[1, 0]]]), np.float32([[[[1, 0]]], [[[0.5, 2]]]])).tolist()
        [[1.0, 0.0]]
    """

    def __init__(self, top_k: int = 256, *, chunk_elements: int | None = None) -> None:
        self.top_k, self.chunk_elements = positive(top_k, "top_k"), chunk_elements

    def get_config_dict(self) -> dict[str, int | None]:
        """The settings by name.

        Example:
            >>> from grilly.xtr_scores import XTRScores
            >>> XTRScores(9).get_config_dict()
            {'top_k': 9, 'chunk_elements': None}
        """
        return {"top_k": self.top_k, "chunk_elements": self.chunk_elements}

    def __call__(
        self, queries_embeddings: Any, documents_embeddings: Any, queries_mask: Any = None, documents_mask: Any = None
    ) -> Any:
        given = (queries_embeddings, documents_embeddings, queries_mask, documents_mask)
        return xtr_scores(*given, top_k=self.top_k, chunk_elements=self.chunk_elements)


@closed()
class XTRKDScores(XTRScores):
    """`xtr_kd_scores` with its settings, as `XTRScores`.

    Source: `sentence_transformers.multi_vector_encoder.scoring.XTRKDScores`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.xtr_scores import XTRKDScores
        >>> XTRKDScores(top_k=2)(np.float32([[[1, 0]]]), np.float32([[[[1, 0]], [[0.5, 2]]]])).tolist()
        [[1.0, 0.5]]
    """

    def __call__(
        self, queries_embeddings: Any, documents_embeddings: Any, queries_mask: Any = None, documents_mask: Any = None
    ) -> Any:
        given = (queries_embeddings, documents_embeddings, queries_mask, documents_mask)
        return xtr_kd_scores(*given, top_k=self.top_k, chunk_elements=self.chunk_elements)
