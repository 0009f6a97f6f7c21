"""Searching rows of few bits with the libraries faiss and usearch, and rescoring what they find."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError
from grilly.inputs import logger, need_one_of
from grilly.libraries import imported
from grilly.quantization import quantize_embeddings, ranges_of

__all__ = ["need_library", "semantic_search_faiss", "semantic_search_usearch"]

Rows = npt.NDArray[Any]


def semantic_search_faiss(
    query_embeddings: Rows,
    corpus_embeddings: Rows | None = None,
    corpus_index: Any = None,
    corpus_precision: str = "float32",
    top_k: int = 10,
    ranges: Any = None,
    calibration_embeddings: Any = None,
    rescore: bool = True,
    rescore_multiplier: int = 2,
    exact: bool = True,
    output_index: bool = False,
) -> Any:
    """The `top_k` rows of a corpus that faiss finds for each query, by the dot product or the number of equal bits.

    Of a corpus of few bits, `rescore_multiplier` times as many are found, and ordered by the dot product of the query's
    floats with the rows as floats. `grilly.Index` searches without another library.

    Args:
        query_embeddings: `(N, D)`, floats, or of the precision of the corpus.
        corpus_embeddings: `(M, D)` of `corpus_precision`.
        corpus_index: An index of faiss in place of them, as this function returned it.
        corpus_precision: `"float32"`, `"uint8"` or `"ubinary"`.
        top_k: Maximum rows returned per query.
        ranges: Each column's low and high, as in `quantize_embeddings`.
        calibration_embeddings: Floats that the ranges are taken from.
        rescore: Whether results are ordered anew.
        rescore_multiplier: How many times `top_k` are.
        exact: Whether all rows are compared, or the index HNSW is used.
        output_index: Whether the index is returned, too.

    Returns:
        Lists of dicts with `corpus_id` and `score`, the seconds that it took and, if asked for, the index.

    Raises:
        MissingLibraryError: faiss is not installed.
        InvalidArgumentError: Another precision, both of a corpus and an index, or neither.

    Source: `sentence_transformers.util.quantization.semantic_search_faiss`, version 6.2.

    Example:
        >>> from grilly.quantized_search import semantic_search_faiss
        >>> rows = model.encode(["A cat.", "It rains."])
        >>> hits, seconds = semantic_search_faiss(rows, rows, top_k=1, rescore=False)  # doctest: +SKIP
    """
    need_one_of(corpus_precision, ("float32", "uint8", "ubinary"), "corpus_precision")
    one_corpus(corpus_embeddings, corpus_index)
    faiss = need_library("faiss")
    bits = corpus_precision == "ubinary"
    if corpus_index is None:
        assert corpus_embeddings is not None
        width = corpus_embeddings.shape[1]
        if bits:
            corpus_index = faiss.IndexBinaryFlat(8 * width) if exact else faiss.IndexBinaryHNSW(8 * width, 16)
        else:
            hnsw = () if exact else (16, faiss.METRIC_INNER_PRODUCT)
            corpus_index = (faiss.IndexFlatIP if exact else faiss.IndexHNSWFlat)(width, *hnsw)
        corpus_index.add(corpus_embeddings)
    floats, queries, ranges = prepared(
        query_embeddings, corpus_precision, corpus_precision != "float32", rescore, ranges, calibration_embeddings
    )
    start = time.time()
    scores, places = corpus_index.search(queries, top_k if floats is None else top_k * rescore_multiplier)
    if floats is not None:
        found = np.array([
            [corpus_index.reconstruct(max(int(place), 0)) for place in row] for row in places
        ]) if corpus_index.ntotal else np.zeros((*places.shape, queries.shape[1]), queries.dtype)  # fmt: skip
        scores, places = rescored(floats, found, places, places >= 0, corpus_precision, ranges, top_k)
    return results(scores, places, places >= 0, time.time() - start, corpus_index if output_index else None)


def semantic_search_usearch(
    query_embeddings: Rows,
    corpus_embeddings: Rows | None = None,
    corpus_index: Any = None,
    corpus_precision: str = "float32",
    top_k: int = 10,
    ranges: Any = None,
    calibration_embeddings: Any = None,
    rescore: bool = True,
    rescore_multiplier: int = 2,
    exact: bool = True,
    output_index: bool = False,
) -> Any:
    """The `top_k` rows of a corpus that usearch finds for each query; scores are distances unless rescored.

    Args:
        query_embeddings: `(N, D)`, floats, or of the precision of the corpus.
        corpus_embeddings: `(M, D)` of `corpus_precision`.
        corpus_index: An index of usearch in place of them, as this function returned it.
        corpus_precision: `"float32"`, `"int8"`, `"ubinary"` or `"binary"`.
        top_k: Maximum rows returned per query.
        ranges: Each column's low and high, as in `quantize_embeddings`.
        calibration_embeddings: Floats that the ranges are taken from.
        rescore: Whether results of few bits are ordered anew, as in `semantic_search_faiss`.
        rescore_multiplier: How many times `top_k` are.
        exact: Whether all rows are compared.
        output_index: Whether the index is returned, too.

    Returns:
        Lists of dicts with `corpus_id` and `score`, the seconds that it took and, if asked for, the index.

    Raises:
        MissingLibraryError: usearch is not installed.
        InvalidArgumentError: Another precision, both of a corpus and an index, or neither.

    Source: `sentence_transformers.util.quantization.semantic_search_usearch`, version 6.2.

    Example:
        >>> from grilly.quantized_search import semantic_search_usearch
        >>> rows = model.encode(["A cat.", "It rains."])
        >>> hits, seconds = semantic_search_usearch(rows, rows, top_k=1, rescore=False)  # doctest: +SKIP
    """
    need_one_of(corpus_precision, ("float32", "int8", "ubinary", "binary"), "corpus_precision")
    one_corpus(corpus_embeddings, corpus_index)
    usearch = need_library("usearch.index", "usearch")
    if corpus_index is None:
        assert corpus_embeddings is not None
        metric, dtype = {"float32": ("cos", "f32"), "int8": ("ip", "i8")}.get(corpus_precision, ("hamming", "b1"))
        width = corpus_embeddings.shape[1] * (8 if dtype == "b1" else 1)
        corpus_index = usearch.Index(ndim=width, metric=metric, dtype=dtype)
        corpus_index.add(np.arange(len(corpus_embeddings)), as_bits(corpus_embeddings, corpus_precision))
    few = "f32" not in str(corpus_index.dtype).lower()
    floats, queries, ranges = prepared(query_embeddings, corpus_precision, few, rescore, ranges, calibration_embeddings)
    start = time.time()
    count = top_k if floats is None else top_k * rescore_multiplier
    matches = corpus_index.search(as_bits(queries, corpus_precision), count=count, exact=exact)
    scores, places = np.atleast_2d(matches.distances), np.atleast_2d(matches.keys)
    counts = np.asarray(getattr(matches, "counts", places.shape[1])).reshape(-1, 1)
    valid = np.arange(places.shape[1]) < counts
    if floats is not None and valid.any():
        found = np.array([corpus_index.get(row) for row in np.where(valid, places, places[valid][0])])
        order = np.where(valid, places.astype(np.int64), -1)
        scores, places = rescored(floats, found, order, valid, corpus_precision, ranges, top_k)
        valid = places >= 0
    return results(scores, places, valid, time.time() - start, corpus_index if output_index else None)


def need_library(module: str, package: str = "faiss-cpu") -> Any:
    """A module of another package, or an error that says how to install it."""
    told = f"{module} cannot be imported: pip install {package}, or search with grilly.Index, which needs no package"
    return imported(module, told)


def one_corpus(embeddings: Any, index: Any) -> None:
    """Rejects both and neither."""
    if (embeddings is None) == (index is None):
        raise InvalidArgumentError("one of corpus_embeddings and corpus_index is expected")


def prepared(
    queries: Rows, precision: str, few: bool, rescore: bool, ranges: Any, calibration: Any
) -> tuple[Rows | None, Rows, Any]:
    """The floats to rescore with, if that is possible and asked for; the queries as they are searched; the ranges."""
    known = queries.dtype in (np.uint8, np.int8)
    if rescore and (known or not few):
        what = "the queries have few bits already" if known else "the corpus has floats"
        logger.warning("rescore=True does nothing, because %s", what)
    if known:
        return None, queries, ranges
    if few and rescore and ranges is None and precision.endswith("int8"):
        ranges = ranges_of(queries if calibration is None else calibration, precision, calibration is not None)
    return queries if few and rescore else None, quantize_embeddings(queries, precision, ranges, calibration), ranges


def as_bits(rows: Rows, precision: str) -> Rows:
    """Rows of precision `"binary"` as the bytes of their bits."""
    return rows.view(np.uint8) ^ np.uint8(0x80) if precision == "binary" else rows


def rescored(
    queries: Rows, found: Rows, places: Rows, valid: Rows, precision: str, ranges: Any, top_k: int
) -> tuple[Rows, Rows]:
    """The `top_k` of `found` `(N, K, D)` by their dot products with the queries, and their places."""
    if precision.endswith("binary"):
        values = np.unpackbits(found.astype(np.uint8), axis=-1)[..., : queries.shape[-1]].astype(np.float64)
    elif precision.endswith("int8"):
        low, high = np.asarray(ranges, dtype=np.float32)
        step = np.where(high == low, 1, (high - low) / 255)
        values = (found.astype(np.float64) + (128 if precision == "int8" else 0)) * step + low
    else:
        values = found.astype(np.float64)
    scores = np.where(valid, np.einsum("ij,ikj->ik", queries, values), -np.inf)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :top_k]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(places, order, 1)


def results(scores: Rows, places: Rows, valid: Rows, seconds: float, index: Any) -> Any:
    """What both functions return."""
    hits = [
        [{"corpus_id": int(place), "score": float(score)} for place, score, known in zip(*row, strict=True) if known]
        for row in zip(places, scores, valid, strict=True)
    ]
    return (hits, seconds) if index is None else (hits, seconds, index)
