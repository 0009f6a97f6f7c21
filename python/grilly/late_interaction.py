"""Scores of texts that have a vector for each token, in NumPy or on a device; tensors give tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grilly import _core, fallbacks
from grilly.errors import DeviceError, InvalidArgumentError
from grilly.inputs import device_name, logger
from grilly.resources import need
from grilly.search.texts import max_sim_on
from grilly.tensors import like
from grilly.token_matrices import EMPTY, matrices

__all__ = ["LATE_SIMILARITIES", "maxsim", "maxsim_pairwise", "mean_maxsim", "mean_maxsim_pairwise"]

Vectors = npt.NDArray[np.float64]
Host = npt.NDArray[Any]


def maxsim(
    a: Any,
    b: Any,
    a_mask: Any = None,
    b_mask: Any = None,
    chunk_elements: int | None = None,
    length_normalize: bool = False,
    device: Any = None,
) -> Any:
    """Scores of all queries with all documents: `s[i, j] = sum_t max_u a[i, t] . b[j, u]`, over their vectors.

    By default computed on the CPU, pair by pair in float64, and rounded to float32; on a GPU in float32, of two sides
    of float16 on its matrix cores. A score has the same bits among any others.

    Args:
        a: Vectors of queries: a list of `(T, D)`, arrays or torch tensors; `(N, T, D)`, in which rows of zeros are
            padding unless there is a mask; or `(T, D)` of one query.
        b: Those of documents, likewise.
        a_mask: Which vectors count: a list of `(T,)`, or `(N, T)`; default: all.
        b_mask: Those of documents, likewise.
        chunk_elements: Accepted; no more than one pair is in memory at a time.
        length_normalize: Whether a score is divided by the number of the query's vectors.
        device: `"vulkan"`, or `"vulkan:N"`: scores are computed there, or on the CPU in its place if it fails; default
            the CPU.

    Returns:
        float32 `(N, M)`; a torch tensor if `a` or `b` has tensors. A document without vectors scores -1e9, before it
        is divided; a query without vectors 0.

    Raises:
        InvalidArgumentError: Not matrices of as many columns, or a mask of another length.
        DeviceMemoryError: Memory does not hold the result.

    Source: `sentence_transformers.util.maxsim`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.util import maxsim
        >>> queries = [np.float32([[1, 0], [0, 1]]), np.float32([[1, 0]])]
        >>> documents = [np.float32([[0.5, 0]]), np.float32([[0, 1], [1, 0], [-1, -1]])]
        >>> maxsim(queries, documents).tolist()
        [[0.5, 2.0], [0.5, 1.0]]
    """
    queries, documents = both(a, b, a_mask, b_mask)
    need((len(queries), len(documents)), np.float32, f"scores of {len(queries)} and {len(documents)} texts")
    scores = None if device is None else scores_on(device_name(device), queries, documents)
    if scores is None:
        scores = pair_by_pair(queries, documents, length_normalize)
    elif length_normalize:
        scores /= np.array([max(len(query), 1) for query in queries], np.float32)[:, None]
    return like(scores, a, b)


def maxsim_pairwise(
    a: Any,
    b: Any,
    a_mask: Any = None,
    b_mask: Any = None,
    chunk_elements: int | None = None,
    length_normalize: bool = False,
    device: Any = None,
) -> Any:
    """Scores of each query with the document at its place: `s[i] = sum_t max_u a[i, t] . b[i, u]`, as `maxsim`.

    Args:
        a: Vectors of queries, as for `maxsim`.
        b: Those of as many documents.
        a_mask: Which vectors count; default: all.
        b_mask: Those of documents, likewise.
        chunk_elements: Accepted, like `device`.
        length_normalize: Whether a score is divided by the number of the query's vectors.
        device: Accepted; scores are computed on the CPU.

    Returns:
        float32 `(N,)`; a torch tensor if `a` or `b` has tensors.

    Raises:
        InvalidArgumentError: As `maxsim`, and for different numbers of queries and documents.

    Source: `sentence_transformers.util.maxsim_pairwise`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.util import maxsim_pairwise
        >>> maxsim_pairwise([np.float32([[1, 0], [0, 1]])], [np.float32([[0, 1], [1, 0]])]).tolist()
        [2.0]
    """
    queries, documents = both(a, b, a_mask, b_mask)
    if len(queries) != len(documents):
        raise InvalidArgumentError(f"there are {len(queries)} queries and {len(documents)} documents, expected as many")
    pairs = zip(queries, documents, strict=True)
    scores = np.array(
        [score(np.array(query, np.float64), np.array(own, np.float64), length_normalize) for query, own in pairs],
        np.float32,
    )
    return like(scores, a, b)


def mean_maxsim(
    a: Any,
    b: Any,
    a_mask: Any = None,
    b_mask: Any = None,
    chunk_elements: int | None = None,
    length_normalize: bool = True,
    device: Any = None,
) -> Any:
    """`maxsim` divided by the number of each query's vectors, with its arguments and results: `(N, M)`.

    Source: `sentence_transformers.util.mean_maxsim`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.util import mean_maxsim
        >>> mean_maxsim([np.float32([[1, 0], [0, 1]])], [np.float32([[0, 1], [0.5, 0]])]).tolist()
        [[0.75]]
    """
    return maxsim(a, b, a_mask, b_mask, chunk_elements, length_normalize, device)


def mean_maxsim_pairwise(
    a: Any,
    b: Any,
    a_mask: Any = None,
    b_mask: Any = None,
    chunk_elements: int | None = None,
    length_normalize: bool = True,
    device: Any = None,
) -> Any:
    """`maxsim_pairwise` divided by the number of each query's vectors, with its arguments and results: `(N,)`.

    Source: `sentence_transformers.util.mean_maxsim_pairwise`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.util import mean_maxsim_pairwise
        >>> mean_maxsim_pairwise([np.float32([[1, 0], [0, 1]])], [np.float32([[0, 1], [0.5, 0]])]).tolist()
        [0.75]
    """
    return maxsim_pairwise(a, b, a_mask, b_mask, chunk_elements, length_normalize, device)


#: Name -> (every text with every text, text with text).
LATE_SIMILARITIES = {"maxsim": (maxsim, maxsim_pairwise), "meanmaxsim": (mean_maxsim, mean_maxsim_pairwise)}


def score(query: Vectors, document: Vectors, mean: bool) -> float:
    """The score of a pair, or its mean over the query's vectors."""
    if len(document) == 0:
        total = EMPTY
    else:
        total = float((query @ document.T).max(axis=1).sum())
    return total / max(len(query), 1) if mean else total


def pair_by_pair(queries: list[Host], documents: list[Host], mean: bool) -> npt.NDArray[np.float32]:
    """Scores `(N, M)`, or their means, each rounded from float64."""
    scores = np.empty((len(queries), len(documents)), np.float32)
    wide = [np.array(query, np.float64) for query in queries]
    for column, document in enumerate(documents):
        own = np.array(document, np.float64)
        for row, query in enumerate(wide):
            scores[row, column] = score(query, own, mean)
    return scores


def scores_on(device: str, queries: list[Host], documents: list[Host]) -> npt.NDArray[np.float32] | None:
    """Scores `(N, M)` that a GPU computes; None where it cannot, or is not asked to."""
    if device == "cpu":
        return None
    columns = next((rows.shape[1] for rows in [*queries, *documents] if len(rows)), 1)
    narrow = all(rows.dtype == np.float16 for rows in [*queries, *documents])
    try:
        return max_sim_on(_core.engine(device.replace("auto", "vulkan")), columns, narrow, queries, documents)
    except DeviceError as error:
        fallbacks.to_cpu("maxsim", error)
        return None


def both(a: Any, b: Any, a_mask: Any, b_mask: Any) -> tuple[list[Host], list[Host]]:
    """The vectors of queries and those of documents, as they are."""
    queries, documents = (
        matrices(given, mask, name) for given, mask, name in ((a, a_mask, "a"), (b, b_mask, "b"))
    )  # fmt: skip
    widths = {rows.shape[1] for rows in [*queries, *documents] if len(rows)}
    if len(widths) > 1:
        raise InvalidArgumentError(f"vectors have {' and '.join(map(str, sorted(widths)))} columns, expected as many")
    if any(len(document) == 0 for document in documents):
        logger.warning("a document without a vector that is scored has the score %g", EMPTY)
    return queries, documents
