"""scikit-learn: a transformer of texts to embeddings, for pipelines."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.integrations.loading import library, loaded
from grilly.sentence_transformer import SentenceTransformer, VulkanSentenceTransformer

with library("scikit-learn"):
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.utils.validation import check_is_fitted

__all__ = ["GrillyEmbedder"]


class GrillyEmbedder(TransformerMixin, BaseEstimator):
    """Texts to rows, as a step of a pipeline: nothing is learnt, `fit` loads the model.

    Args:
        model: The name or the folder of a model, or a `SentenceTransformer`. `clone`, and so `cross_val_score`, loads a
            model again for each copy.
        device: As for `SentenceTransformer`, for a name, like `dtype`.
        prompt_name: As for `encode`, like the arguments after it.

    Attributes:
        model_: The model, after `fit`.

    Raises:
        InvalidTypeError: A model of another class.
        InvalidArgumentError: `device` or `dtype` beside a model that is loaded.

    Source: `TransformerMixin` of scikit-learn 1.9.

    Example:
        >>> from grilly.integrations.sklearn import GrillyEmbedder
        >>> GrillyEmbedder("all-MiniLM-L6-v2", device="cpu").fit_transform(["A cat.", "A dog."]).shape
        (2, 384)
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | SentenceTransformer | VulkanSentenceTransformer = "all-MiniLM-L6-v2",
        *,
        device: Any = None,
        dtype: Any = None,
        prompt_name: str | None = None,
        batch_size: int = 32,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
    ) -> None:
        self.model = model
        self.device = device
        self.dtype = dtype
        self.prompt_name = prompt_name
        self.batch_size = batch_size
        self.normalize_embeddings = normalize_embeddings
        self.truncate_dim = truncate_dim

    def fit(self, X: Iterable[str], y: Any = None) -> GrillyEmbedder:
        """Loads the model.

        Example:
            >>> from grilly.integrations.sklearn import GrillyEmbedder
            >>> GrillyEmbedder(model).fit([]).model_ is model
            True
        """
        options = {name: value for name in ("device", "dtype") if (value := getattr(self, name)) is not None}
        self.model_: Any = loaded(self.model, options, SentenceTransformer, VulkanSentenceTransformer)
        return self

    def transform(self, X: Iterable[str]) -> npt.NDArray[np.floating[Any]]:
        """A row for each text; texts may be a list, an array or a column.

        Example:
            >>> from grilly.integrations.sklearn import GrillyEmbedder
            >>> GrillyEmbedder(model, truncate_dim=8).fit([]).transform(["A cat."]).shape
            (1, 8)
        """
        check_is_fitted(self)
        names = ("prompt_name", "batch_size", "normalize_embeddings", "truncate_dim")
        rows: npt.NDArray[np.floating[Any]] = self.model_.encode(
            list(X), **{name: getattr(self, name) for name in names}
        )
        return rows

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[Any]:
        """Names of the columns, for results as data frames: `grillyembedder0` and so on.

        Example:
            >>> from grilly.integrations.sklearn import GrillyEmbedder
            >>> GrillyEmbedder(model, truncate_dim=2).fit([]).get_feature_names_out().tolist()
            ['grillyembedder0', 'grillyembedder1']
        """
        check_is_fitted(self)
        columns = self.model_.get_embedding_dimension()
        kept = columns if self.truncate_dim is None else min(self.truncate_dim, columns)
        return np.array([f"{type(self).__name__.lower()}{number}" for number in range(kept)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's checks may pass to it: one-dimensional lists of str."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.one_d_array, tags.input_tags.string = False, True, True
        return tags
