"""Chroma: collections that write the function down and open with it; numbers beside sentence-transformers'."""

import copy
import pickle

import chromadb
import numpy as np
import pytest
import sentence_transformers
from chromadb.api.types import validate_sparse_embedding_function
from chromadb.utils.embedding_functions import (
    config_to_embedding_function,
    known_embedding_functions,
    sparse_known_embedding_functions,
)

from grilly.errors import InvalidTypeError
from grilly.integrations.chroma import GrillyEmbeddingFunction, GrillySparseEmbeddingFunction
from integrations.beside import DOCUMENTS, OF_WORDS, QUERY, near

NUMBERS = [str(place) for place in range(len(DOCUMENTS))]


def test_both_are_registered():
    assert known_embedding_functions["grilly"] is GrillyEmbeddingFunction
    assert sparse_known_embedding_functions["grilly_sparse"] is GrillySparseEmbeddingFunction


def test_rows_are_the_references(minilm, theirs, rows):
    function = GrillyEmbeddingFunction(minilm)
    assert near(function(DOCUMENTS), rows) and near(function.embed_query([QUERY])[0], theirs.encode_query(QUERY))
    assert not function.is_legacy()


def test_queries_and_documents_have_their_prompts(real_model_path, theirs):
    prompts = {"query": "query: ", "document": "passage: "}
    function = GrillyEmbeddingFunction(str(real_model_path), device="cpu", prompts=prompts)
    assert near(function.embed_query(["A cat."]), theirs.encode(["query: A cat."]))
    assert near(function(["A cat."]), theirs.encode(["passage: A cat."]))


@pytest.mark.parametrize("by_name", [True, False])
def test_a_collection_opens_again_with_its_function(by_name, minilm, real_model_path, tmp_path):
    function = (
        GrillyEmbeddingFunction(str(real_model_path), device="cpu") if by_name else GrillyEmbeddingFunction(minilm)
    )
    client = chromadb.PersistentClient(tmp_path)
    collection = client.create_collection("texts", embedding_function=function)
    collection.add(ids=NUMBERS, documents=DOCUMENTS)
    found = collection.query(query_texts=[QUERY], n_results=3)
    assert found["ids"][0][0] == "2"
    again = client.get_collection("texts")
    assert again.query(query_texts=[QUERY], n_results=3) == found
    opened = again.configuration["embedding_function"]
    assert type(opened) is GrillyEmbeddingFunction and opened is again.configuration["embedding_function"]
    assert again.configuration_json["embedding_function"]["config"]["model"] == str(real_model_path)


def test_settings_make_the_same_function(real_model_path):
    function = GrillyEmbeddingFunction(str(real_model_path), device="cpu", encode_kwargs={"normalize_embeddings": True})
    again = config_to_embedding_function({"name": "grilly", "config": function.get_config()})
    assert again.get_config() == function.get_config()
    assert np.array_equal(again(DOCUMENTS), function(DOCUMENTS))


def test_copies_give_the_same(minilm, splade):
    for function in (GrillyEmbeddingFunction(minilm), GrillySparseEmbeddingFunction(splade)):
        for copied in (copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))):
            for row, expected in zip(copied(function)(DOCUMENTS), function(DOCUMENTS), strict=True):
                assert np.array_equal(getattr(row, "values", row), getattr(expected, "values", expected))


def test_sparse_vectors_are_the_references(splade, splade_folder):
    function = GrillySparseEmbeddingFunction(splade)
    validate_sparse_embedding_function(function)
    model = sentence_transformers.SparseEncoder(str(splade_folder), device="cpu")
    vectors = [*function(DOCUMENTS), *function.embed_query([QUERY])]
    expected = [*model.encode_document(DOCUMENTS), model.encode_query(QUERY)]
    for vector, row in zip(vectors, expected, strict=True):
        assert vector.indices == row.coalesce().indices()[0].tolist()
        assert near(vector.values, row.coalesce().values(), OF_WORDS)
    again = GrillySparseEmbeddingFunction.build_from_config(function.get_config())
    assert again.get_config() == function.get_config() and again(DOCUMENTS) == function(DOCUMENTS)


def test_bad_arguments(ranker):
    with pytest.raises(InvalidTypeError, match="CrossEncoder, expected"):
        GrillyEmbeddingFunction(ranker)(["A cat."])
