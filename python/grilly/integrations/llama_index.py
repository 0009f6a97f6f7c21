"""LlamaIndex: an embedding model, and a reranker as node postprocessor."""

from __future__ import annotations

import asyncio
import os
from typing import Any, ClassVar

from grilly.cross_encoder import CrossEncoder
from grilly.errors import InvalidArgumentError
from grilly.integrations.loading import library, loaded, settings
from grilly.multi_vector_encoder import MultiVectorEncoder
from grilly.sentence_transformer import SentenceTransformer, VulkanSentenceTransformer

with library("llama-index-core"):
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.callbacks import CBEventType, EventPayload
    from llama_index.core.instrumentation import get_dispatcher
    from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import BaseComponent, MetadataMode, NodeWithScore, QueryBundle

__all__ = ["GrillyEmbedding", "GrillyReranker"]

dispatcher = get_dispatcher(__name__)


class Written(BaseComponent):
    """A component that is written down, and pickled, by the name of its model and the arguments that make it again."""

    kind: ClassVar[type[Any]] = SentenceTransformer
    options: dict[str, Any] = Field(default_factory=dict)
    _given: Any = PrivateAttr()
    _held: Any = PrivateAttr()

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """The settings, which `from_dict` takes."""
        return {**super().to_dict(**kwargs), **self._model()}

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {**state, "__dict__": {**state["__dict__"], **self._model()}}

    def _model(self) -> dict[str, Any]:
        name, options = settings(self._given, self.options, self.kind)
        return {"model_name": name, "options": options}


class GrillyEmbedding(Written, BaseEmbedding):
    """A model as `embed_model`: nodes by `encode_document`, queries by `encode_query`.

    Args:
        model: The name or the folder of a model, or a `SentenceTransformer`.
        encode_kwargs: Arguments of the two methods, such as `normalize_embeddings`.
        embed_batch_size: Texts of a call; default 256, as the model makes its own batches.
        options: Arguments of the constructor of `SentenceTransformer`, such as `{"device": "cpu"}`.
        **others: Arguments of `BaseEmbedding`.

    Raises:
        InvalidTypeError: A model of another class.
        InvalidArgumentError: `options` beside a model that is loaded.

    Source: `BaseEmbedding` of llama-index-core 0.14.

    Example:
        >>> from grilly.integrations.llama_index import GrillyEmbedding
        >>> embedding = GrillyEmbedding("all-MiniLM-L6-v2", options={"device": "cpu"})
        >>> len(embedding.get_query_embedding("Where is the cat?"))
        384
    """

    encode_kwargs: dict[str, Any] = Field(default_factory=dict)

    def __init__(
        self,
        model: str | os.PathLike[str] | SentenceTransformer | VulkanSentenceTransformer | None = None,
        *,
        encode_kwargs: dict[str, Any] | None = None,
        embed_batch_size: int = 256,
        options: dict[str, Any] | None = None,
        **others: Any,
    ) -> None:
        name = others.pop("model_name", "all-MiniLM-L6-v2")  # as settings that were written down have it
        given = name if model is None else model
        held: Any = loaded(given, options or {}, SentenceTransformer, VulkanSentenceTransformer)
        super().__init__(
            model_name=str(held.model_name), embed_batch_size=embed_batch_size, encode_kwargs=encode_kwargs or {},
            options=options or {}, **others,
        )  # fmt: skip
        self._given, self._held = given, held

    @classmethod
    def class_name(cls) -> str:
        """The name in settings that are written down.

        Example:
            >>> from grilly.integrations.llama_index import GrillyEmbedding
            >>> GrillyEmbedding.class_name()
            'GrillyEmbedding'
        """
        return "GrillyEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        row: list[float] = self._held.encode_query(query, **self.encode_kwargs).tolist()
        return row

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        rows: list[list[float]] = self._held.encode_document(texts, **self.encode_kwargs).tolist()
        return rows

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)


class GrillyReranker(Written, BaseNodePostprocessor):
    """The nodes that a model scores highest with the query, as one of `node_postprocessors`.

    Args:
        model: The name or the folder of a `CrossEncoder`, or one; or a `MultiVectorEncoder`.
        top_n: Nodes that are kept; None keeps all.
        options: Arguments of the constructor of `CrossEncoder`, such as `{"device": "cpu"}`.
        encode_kwargs: Arguments of `rank`, such as `batch_size`.

    Raises:
        InvalidTypeError: A model of another class.
        InvalidArgumentError: `options` beside a model that is loaded; no query.

    Source: `BaseNodePostprocessor` of llama-index-core 0.14.

    Example:
        >>> from llama_index.core.schema import NodeWithScore, TextNode
        >>> from grilly.integrations.llama_index import GrillyReranker
        >>> nodes = [NodeWithScore(node=TextNode(text=text)) for text in ("A kitten.", "Rates rose.")]
        >>> len(GrillyReranker(ranker_model, top_n=1).postprocess_nodes(nodes, query_str="a cat"))
        1
    """

    kind: ClassVar[type[Any]] = CrossEncoder
    model_name: str
    top_n: int | None = 3
    encode_kwargs: dict[str, Any] = Field(default_factory=dict)

    def __init__(
        self,
        model: str | os.PathLike[str] | CrossEncoder | MultiVectorEncoder | None = None,
        *,
        top_n: int | None = 3,
        options: dict[str, Any] | None = None,
        encode_kwargs: dict[str, Any] | None = None,
        **others: Any,
    ) -> None:
        name = others.pop("model_name", "cross-encoder/ms-marco-MiniLM-L6-v2")
        given = name if model is None else model
        held: Any = loaded(given, options or {}, CrossEncoder, MultiVectorEncoder)
        super().__init__(
            model_name=str(held.model_name), top_n=top_n, options=options or {}, encode_kwargs=encode_kwargs or {},
            **others,
        )  # fmt: skip
        self._given, self._held = given, held

    @classmethod
    def class_name(cls) -> str:
        """The name in settings that are written down.

        Example:
            >>> from grilly.integrations.llama_index import GrillyReranker
            >>> GrillyReranker.class_name()
            'GrillyReranker'
        """
        return "GrillyReranker"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise InvalidArgumentError("no query is given, and nodes are scored with it")
        if not nodes:
            return []
        known = {"model_name": self.model_name, "top_n": len(nodes) if self.top_n is None else self.top_n}
        dispatcher.event(ReRankStartEvent(query=query_bundle, nodes=nodes, **known))
        payload = {
            EventPayload.NODES: nodes,
            EventPayload.MODEL_NAME: self.model_name,
            EventPayload.QUERY_STR: query_bundle.query_str,
            EventPayload.TOP_K: self.top_n,
        }
        with self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:
            texts = [node.node.get_content(metadata_mode=MetadataMode.EMBED) for node in nodes]
            hits = self._held.rank(query_bundle.query_str, texts, top_k=self.top_n, **self.encode_kwargs)
            found = [NodeWithScore(node=nodes[hit["corpus_id"]].node, score=hit["score"]) for hit in hits]
            event.on_end(payload={EventPayload.NODES: found})
        dispatcher.event(ReRankEndEvent(nodes=found))
        return found
