"""Paraphrase mining and clustering of embeddings: sentence-transformers' functions, in NumPy."""

import heapq
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.inputs import as_int, positive
from grilly.retrieval import Score, chunks, largest, matrix, products, rows_of
from grilly.similarity import cos_sim, floats, unit
from grilly.tensors import as_array

__all__ = ["community_detection", "paraphrase_mining", "paraphrase_mining_embeddings"]


def paraphrase_mining(
    model: Any,
    sentences: list[str],
    show_progress_bar: bool = False,
    batch_size: int = 32,
    query_chunk_size: int = 5000,
    corpus_chunk_size: int = 100000,
    max_pairs: int = 500000,
    top_k: int = 100,
    score_function: Score = cos_sim,
    truncate_dim: int | None = None,
    prompt_name: str | None = None,
    prompt: str | None = None,
) -> list[list[float | int]]:
    """The most similar pairs of texts: `encode`, then `paraphrase_mining_embeddings`.

    Args:
        model: A model of this package.
        sentences: The texts.
        show_progress_bar: As in the model's `encode`, like `batch_size`, `truncate_dim`, `prompt_name` and `prompt`.
        batch_size: As in `encode`.
        query_chunk_size: As in `paraphrase_mining_embeddings`, like the following.
        corpus_chunk_size: Texts that each is compared with at a time.
        max_pairs: Maximum pairs returned.
        top_k: Maximum partners considered per text.
        score_function: Of two matrices; default: cosine.
        truncate_dim: Dimensions kept of each embedding.
        prompt_name: Name of a prompt of the model.
        prompt: A prompt itself.

    Returns:
        Lists `[score, i, j]` with `i < j`, the highest score first.

    Source: `sentence_transformers.util.paraphrase_mining`, version 6.2.

    Example:
        >>> from grilly.util import paraphrase_mining
        >>> [(score, i, j)] = paraphrase_mining(model, ["A cat.", "It rains."])
        >>> i, j
        (0, 1)
    """
    embeddings = model.encode(
        sentences, show_progress_bar=show_progress_bar, batch_size=batch_size, normalize_embeddings=False,
        truncate_dim=truncate_dim, prompt_name=prompt_name, prompt=prompt,
    )  # fmt: skip
    return paraphrase_mining_embeddings(
        embeddings, query_chunk_size, corpus_chunk_size, max_pairs, top_k, score_function
    )


def paraphrase_mining_embeddings(
    embeddings: Any,
    query_chunk_size: int = 5000,
    corpus_chunk_size: int = 100000,
    max_pairs: int = 500000,
    top_k: int = 100,
    score_function: Score = cos_sim,
) -> list[list[float | int]]:
    """Pairs of rows with the highest scores, by exhaustive comparison.

    Args:
        embeddings: `(N, D)`; an array, a torch tensor, or a list of either.
        query_chunk_size: Rows compared at a time.
        corpus_chunk_size: Rows that they are compared with at a time.
        max_pairs: Maximum pairs returned.
        top_k: Maximum partners considered per row.
        score_function: A symmetric function of two matrices; default: cosine.

    Returns:
        Lists `[score, i, j]` with `i < j`, the highest score first.

    Source: `sentence_transformers.util.paraphrase_mining_embeddings`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.util import paraphrase_mining_embeddings
        >>> paraphrase_mining_embeddings(np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]]), top_k=1)
        [[1.0, 0, 2], [0.0, 0, 1]]
    """
    rows = rows_of(embeddings)
    top_k, max_pairs = as_int(top_k, "top_k") and positive(top_k, "top_k"), positive(max_pairs, "max_pairs")
    heap: list[tuple[float, int, int]] = []  # the lowest score on top
    held: set[tuple[int, int]] = set()
    least = float("-inf")
    size = positive(corpus_chunk_size, "corpus_chunk_size")
    for first, part in chunks(rows, positive(query_chunk_size, "query_chunk_size")):
        values, places = nearest(part, rows, size, top_k + 1, score_function)
        for i, (scores, others) in enumerate(zip(values.tolist(), places.tolist(), strict=True), start=first):
            partners = [(j, score) for j, score in zip(others, scores, strict=True) if i != j]
            for j, score in partners[:top_k]:
                pair = (i, j) if i < j else (j, i)
                if score <= least or pair in held:
                    continue
                held.add(pair)
                if len(heap) < max_pairs:
                    heapq.heappush(heap, (score, *pair))
                else:
                    least, *lost = heapq.heappushpop(heap, (score, *pair))
                    held.discard((lost[0], lost[1]))
    return [[score, i, j] for score, i, j in sorted(heap, key=lambda pair: (-pair[0], *pair[1:]))]


def nearest(
    part: Any, rows: Any, size: int, count: int, score_function: Score
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """For each row of `part`, the `count` highest scores and their row indices; `size` rows are compared at a time."""
    best: tuple[npt.NDArray[Any], npt.NDArray[np.int64]] | None = None
    for start, chunk in chunks(rows, size):
        scores = matrix(score_function(part, chunk))
        values, places = largest(scores, count)
        places = places + start
        if best is not None:
            values, places = np.concatenate([best[0], values], axis=1), np.concatenate([best[1], places], axis=1)
            values, kept = largest(values, count)
            places = np.take_along_axis(places, kept, axis=1)
        best = values, places
    assert best is not None  # `part` is of `rows`, so there is a chunk
    return best


def community_detection(
    embeddings: Any,
    threshold: float = 0.75,
    min_community_size: int = 10,
    batch_size: int = 1024,
    show_progress_bar: bool = False,
) -> list[list[int]]:
    """Groups of rows whose cosine with a central row is at least `threshold`; no row is in two groups.

    Args:
        embeddings: `(N, D)`; an array, a torch tensor, or a list of either.
        threshold: Lowest cosine with the central row.
        min_community_size: Minimum rows of a group.
        batch_size: Rows that are compared with all others at a time.
        show_progress_bar: Whether to show a tqdm bar.

    Returns:
        A list of row indices for each group, the central row first; the largest group first.

    Source: `sentence_transformers.util.community_detection`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.util import community_detection
        >>> community_detection(np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]]), min_community_size=2)
        [[0, 2]]
    """
    if len(embeddings) == 0:
        return []
    rows = np.atleast_2d(as_array(rows_of(embeddings)))
    least = positive(min_community_size, "min_community_size")
    if len(rows) < least:
        return []
    rows = unit(floats(rows))
    bound = rows.dtype.type(np.float32(threshold))
    groups: list[tuple[int, npt.NDArray[np.int64]]] = []
    size, width = positive(batch_size, "batch_size"), min(max(2 * least, 50), len(rows))
    steps: Any = range(0, len(rows), size)
    if show_progress_bar:
        from tqdm.auto import tqdm

        steps = tqdm(steps, desc="Groups")
    for start in steps:
        scores = products(rows[start : start + size], rows)
        # Row by row, so that a signal is handled in between.
        enough = np.array([np.partition(line, len(rows) - least)[len(rows) - least] for line in scores]) >= bound
        for place in np.flatnonzero(enough):
            line = scores[place : place + 1]
            values, others = largest(line, width)
            while values[0, -1] >= bound and width < len(rows):
                width = min(2 * width, len(rows))
                values, others = largest(line, width)
            groups.append((start + int(place), others[0][values[0] >= bound]))
    groups.sort(key=lambda group: len(group[1]), reverse=True)
    found: list[list[int]] = []
    taken = np.zeros(len(rows), dtype=bool)
    for center, members in groups:
        free = members[~taken[members]]
        if not taken[center] and len(free) >= least:
            group = [center, *free[free != center].tolist()]
            found.append(group)
            taken[group] = True
    return sorted(found, key=len, reverse=True)
