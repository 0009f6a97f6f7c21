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
from grilly.tensors import as_array, holds_tensors, to_tensor

__all__ = ["LATE_SIMILARITIES", "maxsim", "maxsim_pairwise", "mean_maxsim", "mean_maxsim_pairwise"]

Vectors = npt.NDArray[np.float64]
Host = npt.NDArray[Any]
#: The score of a document without a vector, below that of any other.
EMPTY = -1e9


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
    found = None if device is None else scores_on(device_name(device), queries, documents)
    if found is not None:
        if length_normalize:
            found /= np.array([max(len(query), 1) for query in queries], np.float32)[:, None]
        return to_tensor(found) if holds_tensors(a) or holds_tensors(b) else found
    scores = np.empty((len(queries), len(documents)), np.float32)
    wide_queries = [np.array(query, np.float64) for query in queries]
    for column, document in enumerate(documents):
        wide = np.array(document, np.float64)
        for row, query in enumerate(wide_queries):
            scores[row, column] = score(query, wide, length_normalize)
    return to_tensor(scores) if holds_tensors(a) or holds_tensors(b) else scores


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
    return to_tensor(scores) if holds_tensors(a) or holds_tensors(b) else scores


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


def scores_on(device: str, queries: list[Host], documents: list[Host]) -> npt.NDArray[np.float32] | None:
    """Scores `(N, M)` that a GPU computes; None where it cannot, or is not asked to."""
    if device == "cpu":
        return None
    columns = next((rows.shape[1] for rows in [*queries, *documents] if len(rows)), 1)
    narrow = all(rows.dtype == np.float16 for rows in [*queries, *documents])
    try:
        return max_sim_on(_core.engine(device.replace("auto", "vulkan")), columns, narrow, queries, documents)
    except DeviceError as error:
        if fallbacks.strict():
            raise
        fallbacks.note("maxsim", error)
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


def matrices(given: Any, mask: Any, name: str) -> list[npt.NDArray[Any]]:
    """The vectors of each text that count `(T, D)`."""
    if isinstance(given, list | tuple):
        texts = [np.asarray(as_array(text)) for text in given]
        whole = False
    else:
        array = np.asarray(as_array(given))
        texts, whole = list(array[None] if array.ndim == 2 else array), array.ndim == 3
    for place, text in enumerate(texts):
        if text.ndim != 2 or text.dtype.kind not in "fiu":
            raise InvalidArgumentError(
                f"{name}[{place}] is {text.dtype} of shape {text.shape}, expected numbers (T, D)"
            )
    if mask is None:
        return [text[text.any(axis=1)] for text in texts] if whole else texts
    if isinstance(mask, list | tuple):
        masks = [np.asarray(as_array(each)) for each in mask]
    else:
        array = np.asarray(as_array(mask))
        masks = list(array[None] if array.ndim == 1 and len(texts) == 1 else array)
    if len(masks) != len(texts):
        raise InvalidArgumentError(f"{name}_mask has {len(masks)} masks for {len(texts)} texts")
    kept = [each.astype(bool) for each in masks]
    for place, (text, each) in enumerate(zip(texts, kept, strict=True)):
        # As in the reference, the mask of a batch covers its longest text.
        if each.ndim != 1 or len(each) < len(text) or each[len(text) :].any():
            raise InvalidArgumentError(
                f"{name}_mask[{place}] has shape {each.shape}, but {name}[{place}] {len(text)} vectors"
            )
    return [text[each[: len(text)]] for text, each in zip(texts, kept, strict=True)]
