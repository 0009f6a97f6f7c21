"""Searching embeddings: sentence-transformers' functions."""

import heapq
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError
from grilly.inputs import as_int, device_name, positive
from grilly.resources import row_products
from grilly.search.index import Index
from grilly.similarity import cos_sim, dot_score, floats
from grilly.sparse import SparseRows, is_sparse
from grilly.tensors import as_array, holds_tensors, need_columns

__all__ = ["Score", "chunks", "information_retrieval", "largest", "matrix", "products", "rows_of", "semantic_search"]

Score = Callable[[Any, Any], Any]
Floats = npt.NDArray[Any]
#: Score functions that an index computes, and its name of each.
INDEXED: dict[Score, str] = {cos_sim: "cosine", dot_score: "dot"}


def semantic_search(
    query_embeddings: Any,
    corpus_embeddings: Any,
    query_chunk_size: int = 100,
    corpus_chunk_size: int = 500000,
    top_k: int = 10,
    score_function: Score = cos_sim,
    device: Any = None,
) -> list[list[dict[str, int | float]]]:
    """For each query the `top_k` rows of the corpus with the highest scores, by exhaustive comparison.

    Cosines and dot products of float32 and float16 rows are computed by a `grilly.Index` of each corpus chunk, with the
    same bits for any chunks. Others come from `score_function`, and at most the scores of one query chunk with one
    corpus chunk are in memory. Rows with equal scores are in corpus order; in sentence-transformers torch determines
    their order. An `Index` that is kept answers many calls faster.

    Args:
        query_embeddings: `(N, D)` or `(D,)`; an array, a torch tensor, also a sparse one, `SparseRows`, or a list.
        corpus_embeddings: `(M, D)`, likewise.
        query_chunk_size: Queries compared at a time.
        corpus_chunk_size: Rows of the corpus compared at a time.
        top_k: Maximum rows returned per query; 0 gives empty lists.
        score_function: Of two matrices; default: cosine. It is called with chunks of the input.
        device: `"vulkan"`, or `"vulkan:N"`: where an index compares rows, or the CPU in its place if it fails; default
            the CPU.

    Returns:
        A list for each query, of dicts with `corpus_id` and `score`, the highest score first.

    Raises:
        InvalidArgumentError: Incompatible shapes, a size below 1, a negative `top_k`.

    Source: `sentence_transformers.util.semantic_search`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.util import semantic_search
        >>> semantic_search(np.array([[1.0, 0.0]]), np.array([[0.0, 2.0], [3.0, 0.0]]), top_k=1)
        [[{'corpus_id': 1, 'score': 1.0}]]
    """
    queries, corpus = rows_of(query_embeddings), rows_of(corpus_embeddings)
    if queries.ndim == 1:
        sparse = isinstance(queries, SparseRows)
        queries = queries.matrix() if sparse else queries.unsqueeze(0) if holds_tensors(queries) else queries[None]
    top_k = as_int(top_k, "top_k") and positive(top_k, "top_k")
    place = device_name("cpu" if device is None else device)
    query_chunk_size = positive(query_chunk_size, "query_chunk_size")
    found: list[list[tuple[float, int]]] = [[] for _ in range(len(queries))]  # best first
    for start, chunk in chunks(corpus, positive(corpus_chunk_size, "corpus_chunk_size")):
        for first, values, places in best_of(queries, chunk, top_k, score_function, query_chunk_size, place):
            pairs = zip(values.tolist(), (places + start).tolist(), strict=True)
            for query, (row, ids) in enumerate(pairs, start=first):
                best = heapq.merge(found[query], zip(row, ids, strict=True), key=lambda pair: pair[0], reverse=True)
                found[query] = list(islice(best, top_k))
    return [[{"corpus_id": place, "score": score} for score, place in best] for best in found]


def indexed(queries: Any, corpus: Any, score_function: Score) -> tuple[Floats, Floats] | None:
    """Both as finite float32 rows of a score that an index computes, or None."""
    if score_function not in INDEXED or is_sparse(queries) or is_sparse(corpus):
        return None
    given = floats(as_array(queries)), floats(as_array(corpus))
    need_columns(*given)
    fits = given[0].shape[1] and all(rows.dtype == np.float32 and np.isfinite(rows).all() for rows in given)
    return given if fits else None


def best_of(
    queries: Any, corpus: Any, count: int, score_function: Score, size: int, device: str
) -> Iterator[tuple[int, Floats, npt.NDArray[np.int64]]]:
    """The first of some queries, their `count` highest scores, and the rows of the corpus that have them."""
    given = indexed(queries, corpus, score_function)
    if given is None:
        for first, part in chunks(queries, size):
            yield first, *largest(matrix(score_function(part, corpus)), count)
        return
    # No copy of rows stays on the device: each is read once.
    index = Index(given[1].shape[1], INDEXED[score_function], device=device, device_memory=0)
    index.add(given[1])
    yield 0, *index.search(given[0], count)


def largest(scores: npt.NDArray[Any], count: int) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The `count` largest numbers of each row, in descending order, and their columns; ties in column order.

    Example:
        >>> import numpy as np
        >>> from grilly.retrieval import largest
        >>> [part.tolist() for part in largest(np.array([[1.0, 3.0, 2.0, 3.0, 2.0]]), 3)]
        [[[3.0, 3.0, 2.0]], [[1, 3, 2]]]
    """
    places = np.empty((len(scores), min(count, scores.shape[1])), dtype=np.int64)
    for row, chosen in zip(scores, places, strict=True):
        candidates = np.arange(len(row))
        if len(chosen) < len(row):
            # Sort only the numbers not below the smallest selected one.
            candidates = np.flatnonzero(~(row < np.partition(row, -len(chosen))[-len(chosen)]))
        order = np.argsort(-row[candidates], kind="stable")
        chosen[:] = candidates[order[: len(chosen)]]
    return np.take_along_axis(scores, places, axis=1), places


def information_retrieval(*arguments: Any, **options: Any) -> list[list[dict[str, int | float]]]:
    """The older name of `semantic_search`.

    Example:
        >>> import numpy as np
        >>> from grilly.util import information_retrieval
        >>> information_retrieval(np.ones((1, 2)), np.ones((1, 2)))[0][0]["corpus_id"]
        0
    """
    return semantic_search(*arguments, **options)


def rows_of(embeddings: Any) -> Any:
    """Embeddings as one array or tensor, or as `SparseRows`; a list of either is stacked."""
    if is_sparse(embeddings) and isinstance(embeddings, list | tuple):
        rows = SparseRows.from_any(embeddings)
        return rows.to_torch() if holds_tensors(embeddings) else rows
    if isinstance(embeddings, SparseRows):
        return embeddings
    if holds_tensors(embeddings) and not isinstance(embeddings, list | tuple):
        return embeddings
    values = as_array(embeddings)
    array = np.asarray(values)
    if array.dtype.kind not in "fiu" or array.ndim not in (1, 2):
        raise InvalidArgumentError(f"embeddings are {array.dtype} of shape {array.shape}, expected numbers (N, D)")
    return array if isinstance(values, np.ndarray) else floats(values)


def chunks(rows: Any, size: int) -> Iterator[tuple[int, Any]]:
    """`size` rows at a time, with the number of the first."""
    for start in range(0, len(rows), size):
        if holds_tensors(rows) and rows.is_sparse:  # torch cuts no slices of these
            places = sys.modules["torch"].arange(start, min(start + size, len(rows)))
            yield start, rows.index_select(0, places)
        else:
            yield start, rows[start : start + size]


def products(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`a @ b.T` for rows of equal width."""
    need_columns(a, b)
    return row_products(a, b)


def matrix(scores: Any) -> npt.NDArray[Any]:
    """The result of a score function, as float32 or float64."""
    array = np.asarray(as_array(scores))
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)
