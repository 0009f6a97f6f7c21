"""LangChain's own tests of embeddings, and numbers and orders beside sentence-transformers'."""

import asyncio
import copy
import pickle

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import EmbeddingsIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.integrations.langchain import GrillyEmbeddings, GrillyReranker
from grilly.integrations.langchain_text_splitters import GrillyTokenTextSplitter
from integrations.beside import DOCUMENTS, QUERY, near


class OfMiniLM:
    @property
    def embeddings_class(self):
        return GrillyEmbeddings

    @property
    def embedding_model_params(self):
        return {"model": "all-MiniLM-L6-v2", "device": "cpu"}


class TestUnits(OfMiniLM, EmbeddingsUnitTests):
    """langchain-tests'."""


class TestIntegration(OfMiniLM, EmbeddingsIntegrationTests):
    """langchain-tests'."""


def test_rows_are_the_references(minilm, theirs, rows):
    embeddings = GrillyEmbeddings(minilm)
    assert near(embeddings.embed_documents(DOCUMENTS), rows)
    assert near(embeddings.embed_query(QUERY), theirs.encode_query(QUERY))
    assert embeddings.embed_documents([]) == []
    assert asyncio.run(embeddings.aembed_query(QUERY)) == embeddings.embed_query(QUERY)


def test_queries_and_documents_have_their_prompts(real_model_path, theirs):
    prompts = {"query": "query: ", "document": "passage: "}
    embeddings = GrillyEmbeddings(
        real_model_path, device="cpu", prompts=prompts, encode_kwargs={"normalize_embeddings": True}
    )
    assert near(embeddings.embed_query(QUERY), theirs.encode(f"query: {QUERY}"))
    assert near(embeddings.embed_documents(DOCUMENTS), theirs.encode([f"passage: {text}" for text in DOCUMENTS]))


def test_a_store_finds_the_document(minilm):
    store = InMemoryVectorStore.from_texts(DOCUMENTS, GrillyEmbeddings(minilm))
    assert store.similarity_search(QUERY, k=1)[0].page_content == DOCUMENTS[2]


def test_documents_are_ranked_as_by_the_reference(ranker_folder, ranker, order):
    places, scores = order
    documents = [Document(text, metadata={"place": place}) for place, text in enumerate(DOCUMENTS)]
    for reranker in (
        GrillyReranker(ranker, top_n=3),
        GrillyReranker(str(ranker_folder), top_n=3, options={"device": "cpu"}),
    ):
        found = reranker.compress_documents(documents, QUERY)
        assert [document.metadata["place"] for document in found] == places[:3]
        assert near([document.metadata["relevance_score"] for document in found], scores[:3])
    assert len(GrillyReranker(ranker, top_n=None).compress_documents(documents, QUERY)) == len(DOCUMENTS)
    assert all("relevance_score" not in document.metadata for document in documents)


def test_a_late_interaction_model_ranks_too(colbert):
    documents = [Document(text) for text in DOCUMENTS]
    found = GrillyReranker(colbert, top_n=2).compress_documents(documents, QUERY)
    expected = colbert.rank(QUERY, DOCUMENTS, top_k=2, return_documents=True)
    assert [document.page_content for document in found] == [hit["text"] for hit in expected]


def test_parts_of_a_text_are_of_so_many_tokens(minilm, theirs):
    text = " ".join(DOCUMENTS) * 3
    parts = GrillyTokenTextSplitter(minilm, tokens_per_chunk=20, chunk_overlap=4).split_text(text)
    assert len(parts) > 3 and all(part in text for part in parts)
    tokens = theirs.tokenizer(parts)["input_ids"]
    assert all(len(ids) == 20 for ids in tokens[:-1]) and len(tokens[-1]) <= 20
    whole = theirs.tokenizer(text, add_special_tokens=False, truncation=False)["input_ids"]
    kept = [ids[1:-1] if not place else ids[5:-1] for place, ids in enumerate(tokens)]
    assert [token for ids in kept for token in ids] == whole


@pytest.mark.parametrize("most", [8, 40])
def test_no_part_has_more_tokens(minilm, theirs, texts, most):
    """Of many scripts; parts may begin within words, which are other tokens alone. Together they have every token."""
    splitter = GrillyTokenTextSplitter(minilm, tokens_per_chunk=most, chunk_overlap=3)
    for text in texts:
        parts, spans = splitter.split_text(text), splitter._spans(text)
        assert all(len(ids) <= most for ids in theirs.tokenizer(parts)["input_ids"]) if parts else not spans
        whole = theirs.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        assert all(any(first <= start and end <= last for first, last in spans) for start, end in whole)


def test_documents_have_the_place_of_their_text(minilm):
    texts, metadata = [" ".join(DOCUMENTS) * 3, "the the the the the the the the"], [{"n": [1]}, {"n": [2]}]
    splitter = GrillyTokenTextSplitter(minilm, tokens_per_chunk=6, chunk_overlap=3, add_start_index=True)
    found = splitter.create_documents(texts, metadata)
    starts = [document.metadata["start_index"] for document in found if document.metadata["n"] == [2]]
    assert starts == [0, 4, 8, 12, 16] and len(found) > 50
    for document in found:
        start, text = document.metadata["start_index"], texts[document.metadata["n"][0] - 1]
        assert text[start : start + len(document.page_content)] == document.page_content
    found[0].metadata["n"].append(3)
    assert metadata[0] == {"n": [1]} and found[1].metadata["n"] == [1]
    parts = splitter.split_documents([Document(texts[0], metadata={"n": [1]})])
    assert [part.page_content for part in parts] == splitter.split_text(texts[0])


def test_copies_give_the_same(minilm, ranker):
    documents = [Document(text) for text in DOCUMENTS]
    embeddings, reranker = GrillyEmbeddings(minilm), GrillyReranker(ranker, top_n=2, encode_kwargs={"batch_size": 2})
    splitter = GrillyTokenTextSplitter(minilm)
    for copied in (copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))):
        assert copied(embeddings).embed_query(QUERY) == embeddings.embed_query(QUERY)
        found, expected = (made.compress_documents(documents, QUERY) for made in (copied(reranker), reranker))
        assert found == expected
        assert copied(splitter).split_text(DOCUMENTS[0]) == splitter.split_text(DOCUMENTS[0])
    assert asyncio.run(reranker.acompress_documents(documents, QUERY)) == expected


def test_bad_arguments(minilm, ranker):
    with pytest.raises(InvalidTypeError, match="CrossEncoder, expected the name or the folder of a model, or a Sent"):
        GrillyEmbeddings(ranker)
    with pytest.raises(InvalidArgumentError, match="device: arguments of a constructor, and the model is loaded"):
        GrillyEmbeddings(minilm, device="cpu")
    with pytest.raises(InvalidTypeError, match="SentenceTransformer, expected .* a CrossEncoder or MultiVectorEncoder"):
        GrillyReranker(minilm)
    with pytest.raises(InvalidArgumentError, match="chunk_overlap is 18, and a part has 18 tokens"):
        GrillyTokenTextSplitter(minilm, tokens_per_chunk=20, chunk_overlap=18)
