"""Documents that are similar to a query and are not known to answer it: sentence-transformers' function, in NumPy."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError
from grilly.hard_negative_rows import FORMATS, MAKERS, Mined, Pairs
from grilly.inputs import logger, need_one_of, positive
from grilly.quantized_search import need_library
from grilly.retrieval import largest, matrix
from grilly.tensors import as_array

__all__ = ["mine_hard_negatives"]

Floats = npt.NDArray[Any]
Places = npt.NDArray[np.int64]


def mine_hard_negatives(
    dataset: Any,
    model: Any,
    anchor_column_name: str | None = None,
    positive_column_name: str | None = None,
    corpus: list[str] | None = None,
    cross_encoder: Any = None,
    range_min: int = 0,
    range_max: int | None = None,
    max_score: float | None = None,
    min_score: float | None = None,
    absolute_margin: float | None = None,
    relative_margin: float | None = None,
    num_negatives: int = 3,
    sampling_strategy: str = "top",
    query_prompt_name: str | None = None,
    query_prompt: str | None = None,
    corpus_prompt_name: str | None = None,
    corpus_prompt: str | None = None,
    include_positives: bool = False,
    output_format: str = "triplet",
    output_scores: bool = False,
    batch_size: int = 32,
    faiss_batch_size: int = 16384,
    use_faiss: bool = False,
    use_multi_process: list[str] | bool = False,
    verbose: bool = True,
    cache_folder: str | None = None,
    as_triplets: bool | None = None,
    margin: float | None = None,
) -> Any:
    """Adds to pairs of query and answer the documents that are most similar to the query and no answers to it.

    Args:
        dataset: A `datasets.Dataset`, or a dict of columns: lists of texts. Rows with one query are its answers.
        model: A model of this package that encodes queries and documents.
        anchor_column_name: The column of queries; default: the first.
        positive_column_name: The column of answers; default: the second.
        corpus: Further documents; the answers are documents, too.
        cross_encoder: A `CrossEncoder`, whose scores the margins and bounds are for.
        range_min: How many of the most similar documents are skipped.
        range_max: Up to which place documents are considered; default: enough for `num_negatives`.
        max_score: Highest score of a negative.
        min_score: Lowest score of a negative.
        absolute_margin: By how much the score is at least below the query's lowest answer's.
        relative_margin: The same, as a share of the size of the answer's score.
        num_negatives: Negatives for each query.
        sampling_strategy: `"top"`, or `"random"`: drawn by `random`, whose seed is yours.
        query_prompt_name: As in `encode_query`, like `query_prompt`.
        query_prompt: See `query_prompt_name`.
        corpus_prompt_name: As in `encode_document`, like `corpus_prompt`.
        corpus_prompt: See `corpus_prompt_name`.
        include_positives: Whether answers may be among the negatives; the format is then `"n-tuple"`.
        output_format: `"triplet"`, `"n-tuple"`, `"labeled-pair"` or `"labeled-list"`.
        output_scores: Whether the scores are columns, in place of labels.
        batch_size: As in `encode`.
        faiss_batch_size: Queries that are compared at a time.
        use_faiss: Whether the library faiss searches, by its exact index.
        use_multi_process: Accepted; all devices of the model are used anyway.
        verbose: Whether counts are logged at level INFO.
        cache_folder: Where rows are kept, and taken from if the texts and the row of the first of them are the same.
        as_triplets: The older way to choose `"triplet"` or `"n-tuple"`.
        margin: The older name of `absolute_margin`.

    Returns:
        A `datasets.Dataset` of one, else a dict of columns.

    Raises:
        InvalidArgumentError: No rows, less than two columns, or numbers that leave no candidates.

    Source: `sentence_transformers.util.mine_hard_negatives`, version 6.2.

    Example:
        >>> from grilly.util import mine_hard_negatives
        >>> pairs = {"query": ["A cat.", "Rain."], "answer": ["A kitten.", "It rains."]}
        >>> mine_hard_negatives(pairs, model, num_negatives=1)["negative"]
        ['It rains.', 'A kitten.']
    """
    if as_triplets is not None:
        output_format = "triplet" if as_triplets else "n-tuple"
    if include_positives or output_format == "n-tuple-scores":
        output_scores = output_scores or output_format == "n-tuple-scores"
        output_format = "n-tuple"
    need_one_of(output_format, FORMATS, "output_format")
    need_one_of(sampling_strategy, ("top", "random"), "sampling_strategy")
    absolute_margin = absolute_margin if margin is None else margin
    bounds = (absolute_margin, relative_margin, max_score, min_score)
    pairs = Pairs.of(dataset, anchor_column_name, positive_column_name, corpus)
    wanted = positive(num_negatives, "num_negatives")
    if range_max is None:
        bounded = any(each is not None for each in bounds[:3]) or (cross_encoder is not None and min_score is not None)
        range_max = range_min + wanted * (10 if bounded else 1) + pairs.most
    if range_min < 0 or wanted > range_max - range_min:
        raise InvalidArgumentError(
            f"range_min {range_min} and range_max {range_max} leave no {wanted} candidates: lower num_negatives or "
            "range_min, or raise range_max"
        )
    prompts = {"query": (query_prompt_name, query_prompt), "document": (corpus_prompt_name, corpus_prompt)}
    queries, documents = (
        rows_of(model, texts, kind, prompts[kind], batch_size, cache_folder)
        for kind, texts in (("query", pairs.queries), ("document", pairs.documents))
    )
    search = by_faiss if use_faiss else by_model
    scores, places = search(
        model, queries, documents, range_max + pairs.most, positive(faiss_batch_size, "faiss_batch_size")
    )
    repeated = np.repeat(np.arange(len(pairs.queries)), [len(each) for each in pairs.answers])
    flat = np.concatenate(pairs.answers)
    known = np.asarray(as_array(model.similarity_pairwise(queries[repeated], documents[flat])))
    if cross_encoder is not None and any(each is not None for each in bounds):
        scores, known = pairs.scored(cross_encoder, scores, places, batch_size)
    scores = np.where(places < 0, -np.inf, scores)
    if not include_positives:
        scores[np.array([np.isin(row, answers) for row, answers in zip(places, pairs.answers, strict=True)])] = -np.inf
    lowest = np.array([part.min() for part in np.split(known, np.cumsum([len(each) for each in pairs.answers])[:-1])])
    scores[dropped(scores, lowest[:, None], *bounds)] = -np.inf
    best, order = largest(scores, range_max)
    best, order = best[:, range_min:], order[:, range_min:]
    order = np.take_along_axis(places, order, axis=1)
    chosen = drawn(best, wanted) if sampling_strategy == "random" else np.arange(wanted)[None].repeat(len(best), 0)
    mined = Mined(pairs, known, np.take_along_axis(best, chosen, 1), np.take_along_axis(order, chosen, 1))
    columns = MAKERS[output_format](mined, output_scores)
    if verbose:
        rows = len(next(iter(columns.values())))
        logger.info("%d queries, %d documents: %d rows", len(pairs.queries), len(pairs.documents), rows)
    return columns if isinstance(dataset, dict) else sys.modules["datasets"].Dataset.from_dict(columns)


def rows_of(
    model: Any, texts: list[str], kind: str, prompt: tuple[str | None, str | None], batch_size: int, folder: str | None
) -> Floats:
    """Rows of length 1 of texts, kept in `folder` if there is one."""
    encode = partial(
        getattr(model, f"encode_{kind}"),
        batch_size=batch_size, normalize_embeddings=True, prompt_name=prompt[0], prompt=prompt[1],
    )  # fmt: skip
    file = None
    if folder is not None:
        import hashlib

        # The row of one text tells weights, pooling, prompts and types apart; it has the same bits alone.
        told = repr((kind, texts)).encode() + encode(texts[:1]).tobytes()
        file = Path(folder) / f"{kind}_embeddings_{hashlib.sha256(told, usedforsecurity=False).hexdigest()}.npy"
        if file.is_file():
            kept: Floats = np.load(file)
            return kept
    rows: Floats = encode(texts)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, rows)
    return rows


def by_model(model: Any, queries: Floats, documents: Floats, most: int, size: int) -> tuple[Floats, Places]:
    """The most similar documents of each query by the model's similarity; -1 where there are no more."""
    found = [
        largest(matrix(as_array(model.similarity(queries[start : start + size], documents))), most)
        for start in range(0, len(queries), size)
    ]
    scores, places = (np.concatenate(parts) for parts in zip(*found, strict=True))
    lacking = ((0, 0), (0, most - scores.shape[1]))
    return np.pad(scores, lacking, constant_values=-np.inf), np.pad(places, lacking, constant_values=-1)


def by_faiss(model: Any, queries: Floats, documents: Floats, most: int, size: int) -> tuple[Floats, Places]:
    """The same by faiss, whose similarity is the dot product."""
    index = need_library("faiss").IndexFlatIP(documents.shape[1])
    index.add(documents)
    found = [index.search(queries[start : start + size], most) for start in range(0, len(queries), size)]
    scores, places = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return scores, places


def dropped(
    scores: Floats,
    lowest: Floats,
    absolute: float | None,
    relative: float | None,
    highest: float | None,
    least: float | None,
) -> npt.NDArray[np.bool_]:
    """Which scores the margins to the lowest answer and the bounds exclude."""
    none = np.zeros(scores.shape, dtype=bool)
    # float32 throughout, as torch has it.
    return (
        (none if absolute is None else scores + scores.dtype.type(absolute) > lowest)
        | (none if relative is None else scores > lowest - np.abs(lowest) * scores.dtype.type(relative))
        | (none if highest is None else scores > scores.dtype.type(highest))
        | (none if least is None else scores < scores.dtype.type(least))
    )


def drawn(scores: Floats, count: int) -> Places:
    """`count` places of each row, drawn from those whose score is finite as far as there are so many, in order."""
    import random

    options = np.maximum(np.isfinite(scores).sum(axis=1), count)
    return np.array([sorted(random.sample(range(each), count)) for each in options.tolist()], dtype=np.int64)
