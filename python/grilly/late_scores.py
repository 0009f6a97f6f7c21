"""Scores of queries with groups of documents by MaxSim, with sentence-transformers' names."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grilly import tensors
from grilly.errors import InvalidArgumentError
from grilly.late_interaction import maxsim, maxsim_pairwise
from grilly.tensors import as_array
from grilly.token_matrices import matrices

__all__ = [
    "colbert_kd_scores", "colbert_scores", "colbert_scores_pairwise", "grouped", "mean_colbert_kd_scores",
    "mean_colbert_scores", "mean_colbert_scores_pairwise",
]  # fmt: skip

Texts = list[npt.NDArray[Any]]


def colbert_scores(
    queries_embeddings: Any,
    documents_embeddings: Any,
    queries_mask: Any = None,
    documents_mask: Any = None,
    chunk_elements: int | None = None,
    length_normalize: bool = False,
) -> Any:
    """`grilly.util.maxsim` of all queries with all groups: column `g N + n` is document n of group g.

    Args:
        queries_embeddings: Vectors of Q queries, as for `maxsim`.
        documents_embeddings: Those of G groups of N documents: `(G, N, T, D)`, or a list of groups, each as documents
            for `maxsim`.
        queries_mask: Which vectors of queries count; default: as for `maxsim`.
        documents_mask: Those of documents, `(G, N, T)`, or a list of a group's.
        chunk_elements: Accepted.
        length_normalize: Whether a score is divided by the number of the query's vectors.

    Returns:
        float32 `(Q, G N)`; a torch tensor if there are tensors.

    Raises:
        InvalidArgumentError: Other shapes, or groups of different sizes.

    Source: `sentence_transformers.multi_vector_encoder.scoring.colbert_scores`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.late_scores import colbert_scores
        >>> colbert_scores(np.float32([[[1, 0]], [[0, 1]]]), np.float32([[[[1, 0]]], [[[0, 2]]]])).tolist()
        [[1.0, 0.0], [0.0, 2.0]]
    """
    queries = matrices(queries_embeddings, queries_mask, "queries_embeddings")
    groups = grouped(documents_embeddings, documents_mask)
    scores = maxsim(queries, [text for group in groups for text in group], length_normalize=length_normalize)
    return like(scores, queries_embeddings, documents_embeddings)


def colbert_scores_pairwise(
    queries_embeddings: Any,
    documents_embeddings: Any,
    queries_mask: Any = None,
    documents_mask: Any = None,
    chunk_elements: int | None = None,
    length_normalize: bool = False,
) -> Any:
    """`grilly.util.maxsim_pairwise`, of each query with the document at its place: `(Q,)`.

    Source: `sentence_transformers.multi_vector_encoder.scoring.colbert_scores_pairwise`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.late_scores import colbert_scores_pairwise
        >>> colbert_scores_pairwise(np.float32([[[1, 0]], [[0, 1]]]), np.float32([[[1, 0]], [[0, 2]]])).tolist()
        [1.0, 2.0]
    """
    given = (queries_embeddings, documents_embeddings, queries_mask, documents_mask)
    return maxsim_pairwise(*given, chunk_elements, length_normalize)


def colbert_kd_scores(
    queries_embeddings: Any,
    documents_embeddings: Any,
    queries_mask: Any = None,
    documents_mask: Any = None,
    chunk_elements: int | None = None,
    length_normalize: bool = False,
) -> Any:
    """`grilly.util.maxsim` of each query with the group of documents at its place: `(Q, N)`.

    Arguments are those of `colbert_scores`, with as many groups as queries.

    Source: `sentence_transformers.multi_vector_encoder.scoring.colbert_kd_scores`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.late_scores import colbert_kd_scores
        >>> colbert_kd_scores(np.float32([[[1, 0]]]), np.float32([[[[1, 0]], [[0, 2]]]])).tolist()
        [[1.0, 0.0]]
    """
    queries = matrices(queries_embeddings, queries_mask, "queries_embeddings")
    groups = grouped(documents_embeddings, documents_mask, len(queries))
    repeated = [query for query, group in zip(queries, groups, strict=True) for _ in group]
    texts = [text for group in groups for text in group]
    scores = maxsim_pairwise(repeated, texts, length_normalize=length_normalize).reshape(len(queries), -1)
    return like(scores, queries_embeddings, documents_embeddings)


def mean_colbert_scores(
    queries_embeddings: Any,
    documents_embeddings: Any,
    queries_mask: Any = None,
    documents_mask: Any = None,
    chunk_elements: int | None = None,
    length_normalize: bool = True,
) -> Any:
    """`colbert_scores` divided by the number of each query's vectors.

    Source: `sentence_transformers.multi_vector_encoder.scoring.mean_colbert_scores`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.late_scores import mean_colbert_scores
        >>> mean_colbert_scores(np.float32([[[1, 0], [0, 1]]]), np.float32([[[[1, 0]]]])).tolist()
        [[0.5]]
    """
    given = (queries_embeddings, documents_embeddings, queries_mask, documents_mask)
    return colbert_scores(*given, chunk_elements, length_normalize)


def mean_colbert_scores_pairwise(
    queries_embeddings: Any,
    documents_embeddings: Any,
    queries_mask: Any = None,
    documents_mask: Any = None,
    chunk_elements: int | None = None,
    length_normalize: bool = True,
) -> Any:
    """`colbert_scores_pairwise` divided by the number of each query's vectors.

    Source: `sentence_transformers.multi_vector_encoder.scoring.mean_colbert_scores_pairwise`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.late_scores import mean_colbert_scores_pairwise
        >>> mean_colbert_scores_pairwise(np.float32([[[1, 0], [0, 1]]]), np.float32([[[1, 0]]])).tolist()
        [0.5]
    """
    given = (queries_embeddings, documents_embeddings, queries_mask, documents_mask)
    return colbert_scores_pairwise(*given, chunk_elements, length_normalize)


def mean_colbert_kd_scores(
    queries_embeddings: Any,
    documents_embeddings: Any,
    queries_mask: Any = None,
    documents_mask: Any = None,
    chunk_elements: int | None = None,
    length_normalize: bool = True,
) -> Any:
    """`colbert_kd_scores` divided by the number of each query's vectors.

    Source: `sentence_transformers.multi_vector_encoder.scoring.mean_colbert_kd_scores`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.late_scores import mean_colbert_kd_scores
        >>> mean_colbert_kd_scores(np.float32([[[1, 0], [0, 1]]]), np.float32([[[[1, 0]]]])).tolist()
        [[0.5]]
    """
    given = (queries_embeddings, documents_embeddings, queries_mask, documents_mask)
    return colbert_kd_scores(*given, chunk_elements, length_normalize)


def grouped(documents: Any, mask: Any, count: int | None = None) -> list[Texts]:
    """The vectors that count of each document of each group, of `count` groups if it is given.

    Raises:
        InvalidArgumentError: Neither `(G, N, T, D)` nor a list of groups, or groups of different sizes.

    Example:
        >>> import numpy as np
        >>> from grilly.late_scores import grouped
        >>> [[text.shape for text in group] for group in grouped([[np.ones((2, 4)), np.ones((3, 4))]], None)]
        [[(2, 4), (3, 4)]]
    """
    if not isinstance(documents, list | tuple):
        documents = as_array(documents)
        if getattr(documents, "ndim", None) != 4:
            shape = getattr(documents, "shape", type(documents).__name__)
            raise InvalidArgumentError(f"documents_embeddings are {shape}, expected (G, N, T, D), or a list of groups")
    if not isinstance(mask, list | tuple):
        mask = [None] * len(documents) if mask is None else as_array(mask)
    if len(mask) != len(documents):
        raise InvalidArgumentError(f"documents_mask has {len(mask)} groups, documents_embeddings {len(documents)}")
    groups = [
        matrices(group, own, f"documents_embeddings[{place}]")
        for place, (group, own) in enumerate(zip(documents, mask, strict=True))
    ]
    if count is not None and len(groups) != count:
        raise InvalidArgumentError(f"there are {count} queries and {len(groups)} groups of documents, expected as many")
    if len({len(group) for group in groups}) > 1:
        raise InvalidArgumentError(
            f"groups have {sorted({len(group) for group in groups})} documents, expected as many"
        )
    return groups


def like(scores: npt.NDArray[np.float32], *given: Any) -> Any:
    """Scores as a tensor if there are tensors among what was given, or in its lists."""
    lists = [each[0] for each in given if isinstance(each, list | tuple) and each]
    return tensors.like(scores, *given, *lists)
