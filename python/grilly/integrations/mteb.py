"""MTEB: models that its benchmarks evaluate, encoders and cross-encoders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.cross_encoder import CrossEncoder
from grilly.integrations.loading import library, loaded
from grilly.sentence_transformer import SentenceTransformer, VulkanSentenceTransformer
from grilly.tensors import to_tensor

with library("mteb"):
    from mteb.models import ModelMeta
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ScoringFunction

__all__ = ["GrillyCrossEncoder", "GrillyEncoder"]


class GrillyEncoder(AbsEncoder):
    """A `SentenceTransformer` for `mteb.evaluate`: the prompts of its folder for tasks, queries and documents are used.

    Args:
        model: The name or the folder of a model, or a `SentenceTransformer`.
        revision: As for `SentenceTransformer`, for a name, like `device`; MTEB's command passes both.
        **options: More of its arguments.

    Raises:
        InvalidTypeError: A model of another class.
        InvalidArgumentError: `options` beside a model that is loaded.

    Source: `EncoderProtocol` and `SentenceTransformerEncoderWrapper` of mteb 2.26.

    Example:
        >>> from grilly.integrations.mteb import GrillyEncoder
        >>> encoder = GrillyEncoder("all-MiniLM-L6-v2", device="cpu")
        >>> encoder.mteb_model_meta.name, encoder.mteb_model_meta.embed_dim
        ('sentence-transformers/all-MiniLM-L6-v2', 384)
    """

    kinds: ClassVar[tuple[type[Any], ...]] = (SentenceTransformer, VulkanSentenceTransformer)

    def __init__(
        self,
        model: str | os.PathLike[str] | SentenceTransformer | VulkanSentenceTransformer,
        revision: str | None = None,
        device: Any = None,
        **options: Any,
    ) -> None:
        self.model: Any = loaded(model, given(options, revision, device), *self.kinds)
        self.mteb_model_meta = described(
            self.model,
            type(self),
            revision,
            embed_dim=self.model.get_embedding_dimension(),
            similarity_fn_name=ScoringFunction(self.model.similarity_fn_name),
        )
        known, _ = self.validate_task_to_prompt_name(dict(self.model.prompts), raise_for_invalid_keys=False)
        self.model_prompts: dict[str, str] = known or {}

    def encode(
        self,
        inputs: Iterable[dict[str, Any]],
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        prompt_type: Any = None,
        **kwargs: Any,
    ) -> npt.NDArray[np.floating[Any]]:
        """A row for each text of the batches, by `encode_query`, `encode_document` or, without a type, `encode`.

        Args:
            inputs: Batches, with the texts under `text`.
            task_metadata: Of the task, whose name and type choose among the model's prompts.
            hf_split: No effect, like `hf_subset`.
            prompt_type: Whether the texts are queries or documents.
            **kwargs: Arguments of `encode`.
        """
        name = self.get_prompt_name(task_metadata, prompt_type)
        methods: dict[Any, Callable[..., Any]] = {
            "query": self.model.encode_query,
            "document": self.model.encode_document,
            None: self.model.encode,
        }
        method = methods[prompt_type and prompt_type.value]
        rows: npt.NDArray[np.floating[Any]] = method(texts_of(inputs), prompt=self.model_prompts.get(name), **kwargs)
        return rows

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Scores of all pairs by the model's similarity, as a tensor."""
        return to_tensor(np.asarray(self.model.similarity(embeddings1, embeddings2)))

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Scores of pairs by the model's similarity, as a tensor."""
        return to_tensor(np.asarray(self.model.similarity_pairwise(embeddings1, embeddings2)))


@closed()
class GrillyCrossEncoder:
    """A `CrossEncoder` for MTEB's tasks of reranking.

    Args:
        model: The name or the folder of a model, or a `CrossEncoder`.
        revision: As for `CrossEncoder`, for a name, like `device`; MTEB's command passes both.
        **options: More of its arguments.

    Raises:
        InvalidTypeError: A model of another class.
        InvalidArgumentError: `options` beside a model that is loaded.

    Source: `CrossEncoderProtocol` of mteb 2.26.

    Example:
        >>> from grilly.integrations.mteb import GrillyCrossEncoder
        >>> GrillyCrossEncoder(ranker_model).mteb_model_meta.is_cross_encoder
        True
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | CrossEncoder,
        revision: str | None = None,
        device: Any = None,
        **options: Any,
    ) -> None:
        self.model: Any = loaded(model, given(options, revision, device), CrossEncoder)
        self.mteb_model_meta = described(self.model, type(self), revision, model_type=["cross-encoder"])

    def predict(
        self,
        inputs1: Iterable[dict[str, Any]],
        inputs2: Iterable[dict[str, Any]],
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        prompt_type: Any = None,
        **kwargs: Any,
    ) -> npt.NDArray[np.float32]:
        """A score for each pair of the batches.

        Args:
            inputs1: Batches of queries, with the texts under `text`.
            inputs2: Batches of as many documents.
            task_metadata: No effect, like `hf_split`, `hf_subset` and `prompt_type`.
            **kwargs: Arguments of `CrossEncoder.predict`.

        Example:
            >>> from grilly.integrations.mteb import GrillyCrossEncoder
            >>> batches = [{"text": ["a cat"]}], [{"text": ["a kitten"]}]
            >>> nothing = {"task_metadata": None, "hf_split": "test", "hf_subset": "default"}
            >>> GrillyCrossEncoder(ranker_model).predict(*batches, **nothing).shape
            (1,)
        """
        pairs = list(zip(texts_of(inputs1), texts_of(inputs2), strict=True))
        scores: npt.NDArray[np.float32] = self.model.predict(pairs, **kwargs)
        return scores


def given(options: dict[str, Any], revision: str | None, device: Any) -> dict[str, Any]:
    """The arguments of a constructor that are not left out; MTEB has a word for no revision."""
    named = {"revision": None if revision == "no_revision_available" else revision, "device": device}
    return options | {name: value for name, value in named.items() if value is not None}


def described(model: Any, loader: type[Any], revision: str | None, **more: Any) -> ModelMeta:
    """What MTEB writes beside results: the name is that on the hub, or `local/` and the folder's."""
    name, path = str(model.model_name), os.path.basename(os.path.abspath(model.model_name))
    if os.path.isdir(name):
        name = f"local/{path}"
    elif "/" not in name:
        name = f"{model.default_huggingface_organization}/{name}"
    values = {"name": name, "revision": revision, "loader": loader, "max_tokens": model.max_seq_length, **more}
    return ModelMeta.create_empty(overwrites=values)


def texts_of(batches: Iterable[dict[str, Any]]) -> list[str]:
    """The texts of all batches."""
    return [text for batch in batches for text in batch["text"]]
