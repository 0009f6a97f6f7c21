"""LlamaIndex: an index by the model, nodes ranked, numbers beside sentence-transformers'."""

import asyncio
import copy
import pickle

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload, LlamaDebugHandler
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.schema import NodeWithScore, TextNode

import grilly
from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.integrations.llama_index import GrillyEmbedding, GrillyReranker
from integrations.beside import DOCUMENTS, QUERY, near


@pytest.fixture
def nodes():
    return [TextNode(text=text, id_=str(place)) for place, text in enumerate(DOCUMENTS)]


def test_rows_are_the_references(minilm, theirs, rows):
    embedding = GrillyEmbedding(minilm, embed_batch_size=4)
    assert near(embedding.get_text_embedding_batch(DOCUMENTS), rows)
    assert near(embedding.get_query_embedding(QUERY), theirs.encode_query(QUERY))
    assert asyncio.run(embedding.aget_text_embedding_batch(DOCUMENTS)) == embedding.get_text_embedding_batch(DOCUMENTS)
    assert asyncio.run(embedding.aget_query_embedding(QUERY)) == embedding.get_query_embedding(QUERY)
    assert embedding.get_text_embedding(DOCUMENTS[0]) == embedding.get_text_embedding_batch(DOCUMENTS)[0]


def test_queries_and_documents_have_their_prompts(real_model_path, theirs):
    options = {"device": "cpu", "prompts": {"query": "query: ", "document": "passage: "}}
    embedding = GrillyEmbedding(real_model_path, options=options)
    assert near(embedding.get_query_embedding(QUERY), theirs.encode(f"query: {QUERY}"))
    assert near(embedding.get_text_embedding("A cat."), theirs.encode("passage: A cat."))


def test_an_index_finds_the_node(minilm, ranker, nodes, order):
    index = VectorStoreIndex(nodes, embed_model=GrillyEmbedding(minilm))
    found = index.as_retriever(similarity_top_k=len(nodes)).retrieve(QUERY)
    assert found[0].node.id_ == "2"
    places, scores = order
    ranked = GrillyReranker(ranker, top_n=2).postprocess_nodes(found, query_str=QUERY)
    assert [int(node.node.id_) for node in ranked] == places[:2]
    assert near([node.score for node in ranked], scores[:2])


def test_settings_are_written_down_and_read(real_model_path):
    embedding = GrillyEmbedding(real_model_path, options={"device": "cpu"}, encode_kwargs={"batch_size": 2})
    written = embedding.to_dict()
    assert written["class_name"] == "GrillyEmbedding" and written["model_name"] == str(real_model_path)
    again = GrillyEmbedding.from_dict(written)
    assert again.encode_kwargs == {"batch_size": 2} and again.options == {"device": "cpu"}
    assert again.get_query_embedding(QUERY) == embedding.get_query_embedding(QUERY)


def test_a_loaded_model_is_written_down_by_its_settings(real_model_path):
    with grilly.SentenceTransformer(real_model_path, device="cpu", prompts={"query": "query: "}) as model:
        embedding = GrillyEmbedding(model)
        again = GrillyEmbedding.from_dict(embedding.to_dict())
        assert again.get_query_embedding(QUERY) == embedding.get_query_embedding(QUERY)
        assert pickle.loads(pickle.dumps(embedding)).get_query_embedding(QUERY) == embedding.get_query_embedding(QUERY)


def test_a_reranker_is_written_down_and_pickled(ranker, ranker_folder, nodes):
    found = [NodeWithScore(node=node) for node in nodes]
    for made in (GrillyReranker(ranker, top_n=2), GrillyReranker(str(ranker_folder), options={"device": "cpu"})):
        expected = [(node.node.id_, node.score) for node in made.postprocess_nodes(found, query_str=QUERY)]
        for again in (GrillyReranker.from_dict(made.to_dict()), pickle.loads(pickle.dumps(made))):
            assert again.model_name == str(ranker_folder)
            ranked = again.postprocess_nodes(found, query_str=QUERY)
            assert [(node.node.id_, node.score) for node in ranked] == expected


def test_what_watches_is_told(ranker, nodes):
    """By the older callbacks and by the newer events, as the library's own rerankers tell it."""
    heard, given = [], [NodeWithScore(node=node) for node in nodes]

    class Handler(BaseEventHandler):
        def handle(self, event, **_):
            if isinstance(event, ReRankStartEvent | ReRankEndEvent):
                heard.append(event)

    debug, handler = LlamaDebugHandler(print_trace_on_end=False), Handler()
    get_dispatcher().add_event_handler(handler)
    try:
        reranker = GrillyReranker(ranker, top_n=None, callback_manager=CallbackManager([debug]))
        found = reranker.postprocess_nodes(given, query_str=QUERY)
    finally:
        get_dispatcher().event_handlers.remove(handler)
    assert [type(event) for event in heard] == [ReRankStartEvent, ReRankEndEvent]
    assert (heard[0].top_n, heard[0].model_name, heard[1].nodes) == (len(nodes), reranker.model_name, found)
    ((start, end),) = debug.get_event_pairs(CBEventType.RERANKING)
    assert start.payload[EventPayload.QUERY_STR] == QUERY and end.payload[EventPayload.NODES] == found
    assert reranker.postprocess_nodes([], query_str=QUERY) == []


def test_copies_give_the_same(minilm, ranker, nodes):
    given = [NodeWithScore(node=node) for node in nodes]
    embedding, reranker = GrillyEmbedding(minilm), GrillyReranker(ranker, encode_kwargs={"batch_size": 2})
    for copied in (copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))):
        assert copied(embedding).get_query_embedding(QUERY) == embedding.get_query_embedding(QUERY)
        again = copied(reranker)
        assert again.encode_kwargs == {"batch_size": 2}
        assert again.postprocess_nodes(given, query_str=QUERY) == reranker.postprocess_nodes(given, query_str=QUERY)
    found = asyncio.run(reranker.apostprocess_nodes(given, query_str=QUERY))
    assert found == reranker.postprocess_nodes(given, query_str=QUERY)


def test_bad_arguments(minilm, splade, ranker, nodes):
    with pytest.raises(InvalidTypeError, match="SparseEncoder, expected"):
        GrillyEmbedding(splade)
    with pytest.raises(InvalidArgumentError, match="device: arguments of a constructor"):
        GrillyEmbedding(minilm, options={"device": "cpu"})
    with pytest.raises(InvalidArgumentError, match="no query"):
        GrillyReranker(ranker).postprocess_nodes([NodeWithScore(node=nodes[0])])
