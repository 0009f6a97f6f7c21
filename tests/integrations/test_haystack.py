"""Haystack: components alone, in a pipeline, written down and read; numbers beside sentence-transformers'."""

import asyncio
import copy
import pickle

import pytest
import sentence_transformers
from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

from grilly.errors import InvalidTypeError, UnsupportedError
from grilly.integrations.haystack import (
    GrillyDocumentEmbedder,
    GrillyRanker,
    GrillySparseDocumentEmbedder,
    GrillySparseTextEmbedder,
    GrillyTextEmbedder,
)
from integrations.beside import DOCUMENTS, OF_WORDS, QUERY, near


@pytest.fixture
def documents():
    return [Document(content=text, meta={"place": place}) for place, text in enumerate(DOCUMENTS)]


def test_rows_are_the_references(minilm, theirs, rows, documents):
    assert near(GrillyTextEmbedder(minilm).run(QUERY)["embedding"], theirs.encode_query(QUERY))
    found = GrillyDocumentEmbedder(minilm).run(documents)["documents"]
    assert near([document.embedding for document in found], rows)
    assert all(document.embedding is None for document in documents)
    embedder = GrillyDocumentEmbedder(minilm, meta_fields_to_embed=["place", "none"], embedding_separator=" | ")
    expected = theirs.encode([f"{place} | {text}" if place else text for place, text in enumerate(DOCUMENTS)])
    assert near([document.embedding for document in embedder.run(documents)["documents"]], expected)


def test_sparse_rows_are_the_references(splade, splade_folder, documents):
    model = sentence_transformers.SparseEncoder(str(splade_folder), device="cpu")
    embedding = GrillySparseTextEmbedder(splade).run(QUERY)["sparse_embedding"]
    expected = model.encode_query(QUERY).coalesce()
    assert embedding.indices == expected.indices()[0].tolist() and near(embedding.values, expected.values(), OF_WORDS)
    found = GrillySparseDocumentEmbedder(splade).run(documents)["documents"]
    for document, row in zip(found, model.encode_document(DOCUMENTS), strict=True):
        assert document.sparse_embedding.indices == row.coalesce().indices()[0].tolist()
        assert near(document.sparse_embedding.values, row.coalesce().values(), OF_WORDS)


def test_documents_are_ranked_as_by_the_reference(ranker, documents, order):
    places, scores = order
    found = GrillyRanker(ranker, top_k=4).run(QUERY, documents)["documents"]
    assert [document.meta["place"] for document in found] == places[:4]
    assert near([document.score for document in found], scores[:4])
    assert len(GrillyRanker(ranker).run(QUERY, documents, top_k=1)["documents"]) == 1


def pipeline(store, folder, ranker_folder):
    made = Pipeline()
    made.add_component("embedder", GrillyTextEmbedder(str(folder), options={"device": "cpu"}))
    made.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=6))
    made.add_component("ranker", GrillyRanker(str(ranker_folder), options={"device": "cpu"}, top_k=2))
    made.connect("embedder.embedding", "retriever.query_embedding")
    made.connect("retriever.documents", "ranker.documents")
    return made


def test_a_pipeline_that_is_written_down_gives_the_same(minilm, real_model_path, ranker_folder, documents, order):
    store = InMemoryDocumentStore(index="beside grilly")
    store.write_documents(GrillyDocumentEmbedder(minilm).run(documents)["documents"])
    made = pipeline(store, real_model_path, ranker_folder)
    inputs = {"embedder": {"text": QUERY}, "ranker": {"query": QUERY}}
    found = made.run(inputs)["ranker"]["documents"]
    assert [document.meta["place"] for document in found] == order[0][:2]
    read = Pipeline.loads(made.dumps(), allowed_modules=["grilly.integrations.haystack"])
    again = read.run(inputs)["ranker"]["documents"]
    assert [(document.id, document.score) for document in again] == [(one.id, one.score) for one in found]


def test_a_pipeline_may_run_beside_others(real_model_path, minilm, ranker_folder, documents, order):
    store = InMemoryDocumentStore(index="beside others")
    store.write_documents(GrillyDocumentEmbedder(minilm).run(documents)["documents"])
    made = pipeline(store, real_model_path, ranker_folder)
    inputs = {"embedder": {"text": QUERY}, "ranker": {"query": QUERY}}

    async def several():
        return await asyncio.gather(*(made.run_async(inputs) for _ in range(3)))

    for found in asyncio.run(several()):
        assert [document.meta["place"] for document in found["ranker"]["documents"]] == order[0][:2]


def test_copies_give_the_same(minilm, ranker, documents):
    embedder, ranking = GrillyTextEmbedder(minilm), GrillyRanker(ranker, top_k=2)
    for copied in (copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))):
        assert copied(embedder).run(QUERY) == embedder.run(QUERY)
        assert copied(ranking).run(QUERY, documents) == ranking.run(QUERY, documents)


@pytest.mark.parametrize("kind", [GrillyTextEmbedder, GrillyDocumentEmbedder, GrillyRanker, GrillySparseTextEmbedder])
def test_settings_are_written_down_and_read(kind):
    written = kind("a/model", options={"device": "cpu"}, encode_kwargs={"batch_size": 2}).to_dict()
    assert written["type"] == f"grilly.integrations.haystack.{kind.__name__}"
    again = kind.from_dict(written)
    assert again.to_dict() == written and again.model == "a/model" and again.encode_kwargs == {"batch_size": 2}


def test_a_loaded_model_is_written_down_by_its_settings(real_model_path):
    import grilly

    prompts = {"query": "query: "}
    with grilly.SentenceTransformer(real_model_path, device="cpu", prompts=prompts, truncate_dim=64) as model:
        model.max_seq_length = 32
        embedder = GrillyTextEmbedder(model)
        again = GrillyTextEmbedder.from_dict(embedder.to_dict())
        assert again.run(QUERY * 20) == embedder.run(QUERY * 20)
        grilly.quant.convert(model, "1bit")
        with pytest.raises(UnsupportedError, match="changed by what is not a value of JSON"):
            embedder.to_dict()
    with grilly.VulkanSentenceTransformer(real_model_path, device="cpu") as other:
        with pytest.raises(InvalidTypeError, match="a Vulkan.* cannot be written down: its name would make a Sent"):
            GrillyTextEmbedder(other).to_dict()


def test_bad_arguments(minilm, colbert):
    with pytest.raises(InvalidTypeError, match="a MultiVectorEncoder cannot be written down: its name would make a Cr"):
        GrillyRanker(colbert).to_dict()
    with pytest.raises(InvalidTypeError, match="expected the name or the folder of a model, or a SparseEncoder"):
        GrillySparseTextEmbedder(minilm).warm_up()
