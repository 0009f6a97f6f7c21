"""The functions of `sentence_transformers.util` that search, compare and shrink embeddings, without torch.

For torch tensors they return tensors, on the CPU, otherwise NumPy arrays. The other names of that module, looked up as
`grilly.util.NAME`, raise an `UnsupportedNameError` that states the alternative; so does `from grilly.util import NAME`.
"""

from enum import Enum
from typing import Any

import numpy as np

from grilly.closed import closed, remedies
from grilly.downloads import LoggingHandler, http_get
from grilly.errors import UnsupportedNameError
from grilly.hard_negatives import mine_hard_negatives
from grilly.late_interaction import LATE_SIMILARITIES, maxsim, maxsim_pairwise, mean_maxsim, mean_maxsim_pairwise
from grilly.mining import community_detection, paraphrase_mining, paraphrase_mining_embeddings
from grilly.place import Place
from grilly.quantization import quantize_embeddings
from grilly.retrieval import information_retrieval, semantic_search
from grilly.similarity import (
    SIMILARITIES,
    cos_sim,
    dot_score,
    euclidean_sim,
    floats,
    manhattan_sim,
    pairwise_angle_sim,
    pairwise_cos_sim,
    pairwise_dot_score,
    pairwise_euclidean_sim,
    pairwise_manhattan_sim,
    unit,
)
from grilly.sparse import SparseRows, is_sparse
from grilly.tensors import holds_tensors, takes_tensors

__all__ = [
    "LoggingHandler",
    "SimilarityFunction",
    "community_detection",
    "cos_sim",
    "dot_score",
    "euclidean_sim",
    "get_device_name",
    "http_get",
    "information_retrieval",
    "manhattan_sim",
    "maxsim",
    "maxsim_pairwise",
    "mean_maxsim",
    "mean_maxsim_pairwise",
    "mine_hard_negatives",
    "normalize_embeddings",
    "pairwise_angle_sim",
    "pairwise_cos_sim",
    "pairwise_dot_score",
    "pairwise_euclidean_sim",
    "pairwise_manhattan_sim",
    "paraphrase_mining",
    "paraphrase_mining_embeddings",
    "pytorch_cos_sim",
    "quantize_embeddings",
    "semantic_search",
    "to_scipy_coo",
    "truncate_embeddings",
]

#: Names of `sentence_transformers.util` that are left out, each with the alternative.
REMEDIES = remedies("util")
FUNCTIONS: dict[str, tuple[Any, Any]] = {**SIMILARITIES, **LATE_SIMILARITIES}


@closed()
class SimilarityFunction(Enum):
    """Names of the similarities, for `similarity_fn_name`; the last two are those of a `MultiVectorEncoder`.

    Example:
        >>> from grilly.util import SimilarityFunction
        >>> SimilarityFunction.possible_values()
        ['cosine', 'dot', 'euclidean', 'manhattan', 'maxsim', 'meanmaxsim']
    """

    COSINE = "cosine"
    DOT_PRODUCT = "dot"
    DOT = "dot"
    EUCLIDEAN = "euclidean"
    MANHATTAN = "manhattan"
    MAXSIM = "maxsim"
    MEAN_MAXSIM = "meanmaxsim"

    @staticmethod
    def to_similarity_fn(similarity_function: Any) -> Any:
        """The function that compares every row with every row.

        Example:
            >>> from grilly.util import SimilarityFunction, dot_score
            >>> SimilarityFunction.to_similarity_fn("dot") is dot_score
            True
        """
        return FUNCTIONS[SimilarityFunction(similarity_function).value][0]

    @staticmethod
    def to_similarity_pairwise_fn(similarity_function: Any) -> Any:
        """The function that compares row by row.

        Example:
            >>> from grilly.util import SimilarityFunction, pairwise_dot_score
            >>> SimilarityFunction.to_similarity_pairwise_fn("dot") is pairwise_dot_score
            True
        """
        return FUNCTIONS[SimilarityFunction(similarity_function).value][1]

    @staticmethod
    def possible_values() -> list[str]:
        """The names.

        Example:
            >>> from grilly.util import SimilarityFunction
            >>> len(SimilarityFunction.possible_values())
            6
        """
        return [function.value for function in SimilarityFunction]


def pytorch_cos_sim(a: Any, b: Any) -> Any:
    """The older name of `cos_sim`.

    Example:
        >>> from grilly.util import pytorch_cos_sim
        >>> pytorch_cos_sim([[3.0, 0.0]], [[0.0, 1.0]]).tolist()
        [[0.0]]
    """
    return cos_sim(a, b)


def get_device_name() -> Place:
    """`"cpu"`, the place of all results, for tensors; given to a model it stands for the device chosen without one.

    Source: `sentence_transformers.util.get_device_name`, version 6.2, which names torch's best device.

    Example:
        >>> from grilly.util import get_device_name
        >>> get_device_name(), get_device_name().requested
        ('cpu', 'auto')
    """
    return Place("auto")


def normalize_embeddings(embeddings: Any) -> Any:
    """Rows divided by `max(norm, 1e-12)`, as a new array of the same shape; sparse rows and sparse tensors stay so.

    Source: `sentence_transformers.util.normalize_embeddings`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.util import normalize_embeddings
        >>> normalize_embeddings(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
        [[0.6, 0.8], [0.0, 0.0]]
    """
    if is_sparse(embeddings):
        rows = SparseRows.from_any(embeddings).unit()
        return rows.to_torch() if holds_tensors(embeddings) else rows
    return takes_tensors(lambda dense: unit(floats(dense)))(embeddings)


def to_scipy_coo(x: Any) -> Any:
    """SciPy's `coo_array` of sparse rows or a sparse tensor `(N, V)`; `tocsr()` of `SparseRows` gives its other form.

    Raises:
        ImportError: SciPy is not installed.

    Source: `sentence_transformers.util.to_scipy_coo`, version 6.2.

    Example:
        >>> from grilly.util import to_scipy_coo
        >>> to_scipy_coo(rows).toarray().tolist()  # doctest: +SKIP
        [[0.0, 2.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]]
    """
    return SparseRows.from_any(x).tocsr().tocoo()


def truncate_embeddings(embeddings: Any, truncate_dim: int | None) -> Any:
    """The first `truncate_dim` columns of an array or a tensor; None for all.

    Source: `sentence_transformers.util.truncate_embeddings`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.util import truncate_embeddings
        >>> truncate_embeddings(np.ones((2, 8)), 3).shape
        (2, 3)
    """
    return (embeddings if hasattr(embeddings, "shape") else np.asarray(embeddings))[..., :truncate_dim]


def __getattr__(name: str) -> Any:
    if name in REMEDIES:
        raise UnsupportedNameError(f"sentence_transformers.util.{name} is left out of grilly.util: {REMEDIES[name]}")
    raise AttributeError(f"module 'grilly.util' has no attribute {name!r}")
