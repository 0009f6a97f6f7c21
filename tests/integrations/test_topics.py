"""BERTopic and KeyBERT: topics and keywords as with sentence-transformers' object; a bare model is never another."""

import pickle
import sys

import bertopic
import keybert
import pytest
from bertopic.backend import BaseEmbedder
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import CountVectorizer

import grilly
import grilly.integrations.bertopic
import grilly.integrations.keybert
from integrations.beside import DOCUMENTS, near

CLASSES = (
    "CrossEncoder", "HybridEncoder", "MultiVectorEncoder", "SentenceTransformer", "SparseEncoder",
    "VulkanSentenceTransformer",
)  # fmt: skip


def topics_of(model, texts, **parts):
    made = bertopic.BERTopic(
        embedding_model=model, vectorizer_model=CountVectorizer(stop_words="english"), calculate_probabilities=False,
        **parts,
    )  # fmt: skip
    found, _ = made.fit_transform(texts)
    return found, {number: [word for word, _ in words] for number, words in made.get_topics().items()}, made


@pytest.fixture(scope="module")
def many(texts):
    """Texts about a few things, each with a sentence that no other has."""
    return [f"{DOCUMENTS[place % len(DOCUMENTS)]} {text}" for place, text in enumerate(texts)]


def test_topics_are_those_of_the_reference(minilm, theirs, many):
    parts = {"umap_model": PCA(5, random_state=0), "hdbscan_model": KMeans(6, random_state=0, n_init=10)}
    embedder = grilly.integrations.bertopic.GrillyEmbedder(minilm)
    assert isinstance(embedder, BaseEmbedder)
    found, words, made = topics_of(embedder, many, **parts)
    expected, their_words, _ = topics_of(theirs, many, **parts)
    assert len(set(found)) == 6 and list(found) == list(expected) and words == their_words
    numbers, _ = made.find_topics("plants make sugar from light", top_n=1)
    assert numbers[0] == found[2]


def test_topics_by_the_usual_steps_are_those_of_the_reference(minilm, theirs, many):
    from umap import UMAP

    def steps():
        return {"umap_model": UMAP(n_neighbors=15, n_components=5, min_dist=0.0, metric="cosine", random_state=0)}

    found, words, _ = topics_of(grilly.integrations.bertopic.GrillyEmbedder(minilm), many, **steps())
    expected, their_words, _ = topics_of(theirs, many, **steps())
    assert len(set(found)) > 3 and list(found) == list(expected) and words == their_words


def test_keywords_are_those_of_the_reference(minilm, theirs, real_model_path):
    ours = [
        keybert.KeyBERT(model=grilly.integrations.keybert.GrillyEmbedder(minilm)),
        keybert.KeyBERT(model=grilly.integrations.keybert.GrillyEmbedder(str(real_model_path), device="cpu")),
    ]
    for arguments in ({}, {"keyphrase_ngram_range": (1, 2), "use_mmr": True, "diversity": 0.5}):
        expected = keybert.KeyBERT(model=theirs).extract_keywords(DOCUMENTS, **arguments)
        for made in ours:
            found = made.extract_keywords(DOCUMENTS, **arguments)
            assert [[word for word, _ in row] for row in found] == [[word for word, _ in row] for row in expected]
            scores = [[score for row in rows for _, score in row] for rows in (found, expected)]
            assert near(*scores, 1e-4)  # they are rounded to four digits


def test_rows_are_the_references(minilm, rows):
    for module in (grilly.integrations.bertopic, grilly.integrations.keybert):
        embedder = module.GrillyEmbedder(minilm)
        assert near(embedder.embed(DOCUMENTS), rows) and near(embedder.embed(DOCUMENTS, verbose=True), rows)


@pytest.mark.parametrize("select", [bertopic.backend._utils.select_backend, keybert.backend._utils.select_backend])
def test_a_bare_model_is_refused(select, minilm, ranker, splade, colbert):
    for model in (minilm, ranker, splade, colbert):
        with pytest.raises(ValueError, match="Please select a correct SentenceTransformers model"):
            select(model)


@pytest.mark.parametrize("select", [bertopic.backend._utils.select_backend, keybert.backend._utils.select_backend])
def test_a_bare_model_is_refused_without_the_reference(select, minilm, monkeypatch):
    for name in ("bertopic", "keybert"):
        monkeypatch.delitem(sys.modules, f"{name}.backend._sentencetransformers", raising=False)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ImportError):
        select(minilm)


@pytest.mark.parametrize("name", CLASSES)
def test_classes_say_so_and_are_found_there(name):
    kind = getattr(grilly, name)
    assert "sentence_transformers" in str(kind) and pickle.loads(pickle.dumps(kind)) is kind
