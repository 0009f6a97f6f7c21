"""Scores of the three kinds of results of a `HybridEncoder`, and their weighted means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.late_interaction import mean_maxsim, mean_maxsim_pairwise
from grilly.sentence_transformer.sequence import ModuleSequence

__all__ = ["SCORES", "Comparing", "compared", "compared_pairwise", "lexical_score", "mode_weights"]

Scores = npt.NDArray[np.float64]
Weights = Mapping[str, float]
#: The scores of a comparison, in the order of FlagEmbedding's.
SCORES = ("colbert", "sparse", "dense", "sparse+dense", "colbert+sparse+dense")
PARTS = ("dense_vecs", "lexical_weights", "colbert_vecs")


def mode_weights(given: Sequence[float] | None) -> tuple[float, float, float]:
    """The weights of dense, sparse and multi-vector scores, ones for None.

    Raises:
        InvalidArgumentError: Not three finite numbers, or dividing by their sums is not possible.

    Example:
        >>> from grilly.hybrid_scores import mode_weights
        >>> mode_weights([0.4, 0.2, 0.4])
        (0.4, 0.2, 0.4)
    """
    if given is None:
        return 1.0, 1.0, 1.0
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray) or len(given) != 3:
        raise InvalidArgumentError(
            f"weights_for_different_modes is {given!r}, expected three numbers: dense, sparse, multi-vector"
        )
    dense, sparse, vectors = (float(weight) for weight in given)
    if not np.isfinite([dense, sparse, vectors]).all() or dense + sparse == 0 or dense + sparse + vectors == 0:
        raise InvalidArgumentError(
            f"weights_for_different_modes is {given!r}: the sums of the first two and of all three must not be 0"
        )
    return dense, sparse, vectors


def lexical_score(a: Weights, b: Weights) -> float:
    """`sum_w a_w b_w` over the tokens of both texts, in float64.

    Example:
        >>> from grilly.hybrid_scores import lexical_score
        >>> lexical_score({"5": 0.5, "7": 0.25}, {"7": 0.5, "9": 1.0})
        0.125
    """
    return float(sum(float(weight) * float(b[token]) for token, weight in a.items() if token in b))


def compared(a: Any, b: Any, given: Sequence[float] | None) -> dict[str, Scores]:
    """Scores of all texts of one result with all of another: each `(N, M)`, float64.

    Args:
        a: What `HybridEncoder.encode` gives of N queries, with all three parts.
        b: That of M documents.
        given: The weights of the means; default ones.
    """
    weights, (first, second) = mode_weights(given), (parts(result, name) for result, name in ((a, "a"), (b, "b")))
    dense = np.asarray(first[0], np.float64) @ np.asarray(second[0], np.float64).T
    sparse = np.array([[lexical_score(one, other) for other in second[1]] for one in first[1]], np.float64)
    vectors = mean_maxsim(first[2], second[2]).astype(np.float64) if len(dense) and dense.shape[1] else dense
    return means(dense, sparse.reshape(dense.shape), vectors, weights)


def compared_pairwise(a: Any, b: Any, given: Sequence[float] | None) -> dict[str, Scores]:
    """Scores of the texts at the same places of two results: each `(N,)`, float64."""
    weights, (first, second) = mode_weights(given), (parts(result, name) for result, name in ((a, "a"), (b, "b")))
    if len(first[1]) != len(second[1]):
        raise InvalidArgumentError(f"a has {len(first[1])} texts and b {len(second[1])}, expected as many")
    dense = np.einsum("nd,nd->n", *(np.asarray(each[0], np.float64) for each in (first, second)))
    sparse = np.array([lexical_score(one, other) for one, other in zip(first[1], second[1], strict=True)], np.float64)
    vectors = mean_maxsim_pairwise(first[2], second[2]).astype(np.float64) if len(dense) else dense
    return means(dense, sparse, vectors, weights)


def means(dense: Scores, sparse: Scores, vectors: Scores, weights: tuple[float, float, float]) -> dict[str, Scores]:
    """The three scores and their weighted means, by name."""
    of_dense, of_sparse, of_vectors = weights
    both = of_dense * dense + of_sparse * sparse
    total = both + of_vectors * vectors
    found = (vectors, sparse, dense, both / (of_dense + of_sparse), total / (of_dense + of_sparse + of_vectors))
    return dict(zip(SCORES, found, strict=True))


def parts(result: Any, name: str) -> tuple[Any, list[Weights], list[Any]]:
    """The three parts of a result of several texts, or of one as such."""
    if not isinstance(result, Mapping):
        raise InvalidTypeError(f"{name} is of type {type(result).__name__}, expected what HybridEncoder.encode gives")
    lacking = [part for part in PARTS if result.get(part) is None]
    if lacking:
        raise InvalidArgumentError(f"{name} has no {', '.join(lacking)}: encode with all of the three parts")
    dense, weights, vectors = (result[part] for part in PARTS)
    single = isinstance(weights, Mapping)
    return (np.asarray(dense)[None], [weights], [vectors]) if single else (dense, weights, vectors)


class Comparing(ModuleSequence):
    """A loaded model whose results have three parts, which can be compared."""

    def similarity(
        self, a: Any, b: Any, weights_for_different_modes: Sequence[float] | None = None
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Scores of all texts of one result with all of another, of each kind and of kinds together.

        `dense` is the product of the vectors, `sparse` the sum over tokens of the products of their weights, `colbert`
        the mean over the query's vectors of the largest product with a vector of the document; the others are
        `(w_0 dense + w_1 sparse) / (w_0 + w_1)` and `(w_0 dense + w_1 sparse + w_2 colbert) / (w_0 + w_1 + w_2)`.

        Args:
            a: The result of `encode` for N queries, with all three parts.
            b: That for M documents.
            weights_for_different_modes: `(w_0, w_1, w_2)`, of dense, sparse and multi-vector scores; default ones.

        Returns:
            `colbert`, `sparse`, `dense`, `sparse+dense` and `colbert+sparse+dense`: each `(N, M)`, float64.

        Raises:
            InvalidArgumentError: A part is missing; not three weights.

        Source: FlagEmbedding 1.4, `BGEM3FlagModel.compute_score`.

        Example:
            >>> queries, documents = hybrid_model.encode(["a cat"]), hybrid_model.encode(["A cat.", "Rates rose."])
            >>> hybrid_model.similarity(queries, documents, [0.4, 0.2, 0.4])["colbert+sparse+dense"].shape
            (1, 2)
        """
        return compared(a, b, weights_for_different_modes)

    def compute_lexical_matching_score(self, lexical_weights_1: Any, lexical_weights_2: Any) -> Any:
        """`sum_w a_w b_w` over the tokens of both texts: a float for two dicts, `(N, M)` for two lists of dicts.

        Example:
            >>> hybrid_model.compute_lexical_matching_score({"5": 0.5, "7": 0.25}, {"7": 0.5})
            0.125
        """
        if isinstance(lexical_weights_1, Mapping) and isinstance(lexical_weights_2, Mapping):
            return lexical_score(lexical_weights_1, lexical_weights_2)
        if isinstance(lexical_weights_1, list) and isinstance(lexical_weights_2, list):
            return np.array([[lexical_score(one, other) for other in lexical_weights_2] for one in lexical_weights_1])
        raise InvalidArgumentError("lexical weights are neither two dicts nor two lists of dicts, as encode gives them")

    def colbert_score(self, q_reps: Any, p_reps: Any) -> float:
        """The mean over a query's vectors `(T, C)` of the largest product with one of a document's `(U, C)`.

        Example:
            >>> import numpy as np
            >>> hybrid_model.colbert_score(np.float32([[1, 0], [0, 1]]), np.float32([[0, 1], [0.5, 0]]))
            0.75
        """
        return float(mean_maxsim_pairwise([q_reps], [p_reps])[0])
