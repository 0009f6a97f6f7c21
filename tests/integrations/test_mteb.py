"""MTEB: tasks made of the demo's text have sentence-transformers' scores."""

import mteb
import numpy as np
import pytest
import sentence_transformers
from mteb.models import CrossEncoderProtocol, EncoderProtocol
from mteb.types import PromptType

import grilly
from grilly.errors import InvalidTypeError
from grilly.integrations.mteb import GrillyCrossEncoder, GrillyEncoder
from integrations.tasks import Reranking, Retrieval, Similarity

BOUND = 1e-4


def scores(model, task):
    """All numbers of a task's only subset."""
    result = mteb.evaluate(model, task(), cache=None, co2_tracker=False, show_progress_bar=False)
    (row,) = result.task_results[0].scores["test"]
    return {name: value for name, value in row.items() if isinstance(value, float)}


def difference(ours, theirs):
    assert ours.keys() == theirs.keys() and len(theirs) > 5
    return max(abs(ours[name] - theirs[name]) for name in theirs)


@pytest.mark.parametrize("task", [Retrieval, Similarity, Reranking])
def test_scores_are_the_references(minilm, theirs, task):
    encoder = GrillyEncoder(minilm)
    assert isinstance(encoder, EncoderProtocol)
    expected = scores(theirs, task)
    assert 0.05 < expected["main_score"] < 0.99
    assert difference(scores(encoder, task), expected) < BOUND


def test_scores_of_a_cross_encoder_are_the_references(ranker, ranker_folder):
    encoder = GrillyCrossEncoder(ranker)
    assert isinstance(encoder, CrossEncoderProtocol)
    theirs = sentence_transformers.CrossEncoder(str(ranker_folder), device="cpu")
    expected = scores(theirs, Reranking)
    assert 0.05 < expected["main_score"] < 0.99
    assert difference(scores(encoder, Reranking), expected) < BOUND


def test_prompts_of_tasks_and_types_are_those_of_the_reference(real_model_path):
    prompts = {"Retrieval-query": "find: ", "STS": "alike: ", "document": "passage: "}
    theirs = sentence_transformers.SentenceTransformer(str(real_model_path), device="cpu", prompts=dict(prompts))
    with grilly.SentenceTransformer(real_model_path, device="cpu", prompts=dict(prompts)) as model:
        wrapped, encoder = mteb.SentenceTransformerEncoderWrapper(theirs), GrillyEncoder(model)
        batches = [{"text": ["a cat", "a dog"]}, {"text": ["rates"]}]
        for task in (Retrieval, Similarity, Reranking):
            for kind in (PromptType.query, PromptType.document, None):
                asked = {"task_metadata": task.metadata, "prompt_type": kind, "hf_split": "test", "hf_subset": "d"}
                inputs = Batches(batches)
                rows = encoder.encode(inputs, **asked)
                expected = wrapped.encode(inputs, **asked, show_progress_bar=False)
                assert np.abs(rows - np.asarray(expected)).max() < 3e-6


class Batches(list):
    """Batches as a DataLoader has them, whose dataset tells the columns."""

    class dataset:
        features = {"text": None}


def test_what_is_written_beside_results(minilm, real_model_path):
    meta = GrillyEncoder("all-MiniLM-L6-v2", device="cpu").mteb_model_meta
    assert (meta.name, meta.embed_dim, meta.max_tokens) == ("sentence-transformers/all-MiniLM-L6-v2", 384, 256)
    assert meta.similarity_fn_name.value == "cosine" and meta.loader is GrillyEncoder and not meta.is_cross_encoder
    assert GrillyEncoder(str(real_model_path), device="cpu").mteb_model_meta.name == f"local/{real_model_path.name}"
    assert meta.load_model(device="cpu").mteb_model_meta.name == meta.name


def test_similarities_are_the_models(theirs, rows, real_model_path):
    for name in ("cosine", "dot", "euclidean", "manhattan"):
        theirs.similarity_fn_name = name
        encoder = GrillyEncoder(str(real_model_path), device="cpu", similarity_fn_name=name)
        assert np.allclose(encoder.similarity(rows, rows), theirs.similarity(rows, rows), atol=1e-5)
        assert np.allclose(encoder.similarity_pairwise(rows, rows), theirs.similarity_pairwise(rows, rows), atol=1e-5)
    theirs.similarity_fn_name = "cosine"


def test_bad_arguments(ranker, minilm):
    with pytest.raises(InvalidTypeError, match="CrossEncoder, expected"):
        GrillyEncoder(ranker)
    with pytest.raises(InvalidTypeError, match="SentenceTransformer, expected .* or a CrossEncoder"):
        GrillyCrossEncoder(minilm)
