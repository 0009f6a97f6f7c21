"""Qdrant: collections of dense, sparse and multi-vector models in its local client, with the models' own orders."""

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from grilly.errors import InvalidTypeError, UnsupportedError
from grilly.integrations.qdrant import document_vectors, query_vector, vector_params
from integrations.beside import DOCUMENTS, QUERY, near


@pytest.fixture
def client():
    return QdrantClient(":memory:")


def fill(client, model, **settings):
    """A collection of the documents' vectors under the name `v`."""
    client.create_collection("texts", **settings)
    vectors = document_vectors(model, DOCUMENTS)
    points = [models.PointStruct(id=place, vector={"v": vector}) for place, vector in enumerate(vectors)]
    client.upsert("texts", points)
    found = client.query_points("texts", query=query_vector(model, QUERY), using="v", limit=len(DOCUMENTS)).points
    return [point.id for point in found], [point.score for point in found]


def test_dense_vectors(client, minilm, theirs, rows):
    places, scores = fill(client, minilm, vectors_config={"v": vector_params(minilm)})
    expected = theirs.similarity(theirs.encode_query(QUERY), rows)[0].numpy()
    assert places == np.argsort(-expected).tolist() and near(scores, np.sort(expected)[::-1], 1e-5)


def test_sparse_vectors(client, splade):
    places, scores = fill(client, splade, vectors_config={}, sparse_vectors_config={"v": vector_params(splade)})
    expected = splade.similarity(splade.encode_query([QUERY]), splade.encode_document(DOCUMENTS))[0]
    assert places == np.argsort(-expected).tolist()
    assert np.allclose(scores, np.sort(expected)[::-1], rtol=1e-5)


def test_vectors_of_tokens(client, colbert):
    places, scores = fill(client, colbert, vectors_config={"v": vector_params(colbert)})
    hits = colbert.rank(QUERY, DOCUMENTS)
    assert places == [hit["corpus_id"] for hit in hits]
    assert np.allclose(scores, [hit["score"] for hit in hits], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "distance"), [("dot", "Dot"), ("cosine", "Cosine"), ("euclidean", "Euclid"), ("manhattan", "Manhattan")]
)
def test_distances_are_the_models(minilm, name, distance):
    minilm.similarity_fn_name = name
    assert vector_params(minilm).distance.value == distance
    minilm.similarity_fn_name = "cosine"


def test_bad_arguments(ranker, splade):
    with pytest.raises(InvalidTypeError, match="CrossEncoder, which gives no vectors"):
        vector_params(ranker)
    splade.similarity_fn_name = "cosine"
    with pytest.raises(UnsupportedError, match="similarity_fn_name is 'cosine'; Qdrant compares sparse vectors by dot"):
        vector_params(splade)
    splade.similarity_fn_name = "dot"
