"""What can be done with sparse embeddings: comparing, their words, what they share, how sparse they are."""

from typing import Any, ClassVar

import numpy as np

from grilly.errors import InvalidArgumentError
from grilly.inputs import positive
from grilly.sentence_transformer.settings import Similar
from grilly.sparse import SparseRows
from grilly.tensors import holds_tensors

__all__ = ["SparseWeights"]


class SparseWeights(Similar):
    """A loaded model of sparse embeddings."""

    usual_similarity: ClassVar[str] = "dot"

    def decode(self, embeddings: Any, top_k: int | None = None) -> Any:
        """The words of embeddings with their weights, the heaviest first.

        Args:
            embeddings: `(N, V)` or `(V,)`: `SparseRows`, an array or a torch tensor.
            top_k: Maximum words of a row; default: all whose weight is not zero.

        Returns:
            A list of pairs of word and weight for one row, a list of such lists for several. The word is None where the
            tokenizer has none for a column.

        Raises:
            InvalidArgumentError: `top_k` is not positive.

        Source: `sentence_transformers.SparseEncoder.decode`, version 6.2.

        Example:
            >>> words = splade_model.decode(splade_model.encode("A cat."), top_k=2)
            >>> len(words), words[0][1] >= words[1][1]
            (2, True)
        """
        most = None if top_k is None else positive(top_k, "top_k")
        rows = SparseRows.from_any(embeddings)
        if len(rows.shape) == 1:
            return self._words(rows, most)
        return [self._words(row, most) for row in rows]

    def _words(self, row: SparseRows, most: int | None) -> list[tuple[str | None, float]]:
        order = np.argsort(-row.values, kind="stable")[:most]
        words = self._core.tokens_of(row.columns[order].tolist())
        weights = row.values[order].tolist()
        return list(zip(words, weights, strict=True))

    @staticmethod
    def intersection(embeddings_1: Any, embeddings_2: Any) -> Any:
        """The products of the weights of the words that a row and each row of others share, where positive.

        Args:
            embeddings_1: One row `(V,)`: `SparseRows`, an array or a torch tensor.
            embeddings_2: `(V,)` or `(N, V)`.

        Returns:
            `SparseRows` of the shape of `embeddings_2`; a torch tensor if one of the two is.

        Raises:
            InvalidArgumentError: The first is not one row, or the numbers of words differ.

        Source: `sentence_transformers.SparseEncoder.intersection`, version 6.2.

        Example:
            >>> row = splade_model.encode("A cat.")
            >>> splade_model.intersection(row, row).shape
            (600,)
        """
        first, second = SparseRows.from_any(embeddings_1), SparseRows.from_any(embeddings_2)
        if len(first.shape) != 1 or first.shape[-1] != second.shape[-1]:
            raise InvalidArgumentError(
                f"embeddings_1 has shape {first.shape}, embeddings_2 {second.shape}; expected (V,), and (V,) or (N, V)"
            )
        shared = np.maximum(first.toarray() * second.toarray(), 0)
        rows = SparseRows.of(shared)
        return rows.to_torch() if holds_tensors(embeddings_1) or holds_tensors(embeddings_2) else rows

    @staticmethod
    def sparsity(embeddings: Any) -> dict[str, float]:
        """Mean number of weights of a row other than zero, `active_dims`, and the share of zeros, `sparsity_ratio`.

        Source: `sentence_transformers.SparseEncoder.sparsity`, version 6.2.

        Example:
            >>> import numpy as np
            >>> splade_model.sparsity(np.float32([[0, 1, 0, 2], [0, 0, 0, 0]]))
            {'active_dims': 1.0, 'sparsity_ratio': 0.75}
        """
        rows = SparseRows.from_any(embeddings)
        count, width = len(rows.starts) - 1, rows.shape[-1]
        if count == 0 or width == 0:
            return {"active_dims": 0.0, "sparsity_ratio": 1.0}
        active = len(rows.values) / count
        return {"active_dims": active, "sparsity_ratio": 1 - active / width}
