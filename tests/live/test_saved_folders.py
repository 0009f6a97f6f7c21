"""Folders that a CrossEncoder, a SparseEncoder and a MultiVectorEncoder save, read by sentence-transformers."""

import functools

import numpy as np
import pytest
import sentence_transformers
import torch
from models import heads

from grilly import CrossEncoder, MultiVectorEncoder, SparseEncoder

FLOAT32 = 1e-5
ALL = {"max_active_dims": 9999}
TABLE = heads.table()
# Those that transformers reads as they are.
SCORES = [name for name, fixture in TABLE["scores"].items() if "reference_config" not in fixture]


def largest(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    assert [rows.shape for rows in found] == [rows.shape for rows in expected]
    left, right = (np.concatenate([rows.ravel().astype(np.float64) for rows in each]) for each in (found, expected))
    return np.abs(left - right).max() / np.abs(right).max()


def same(left: list[np.ndarray], right: list[np.ndarray]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(left, right, strict=True))


def load(kind, folder):
    """A model of theirs in float32."""
    return getattr(sentence_transformers, kind)(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})


def scored(model, texts, batch_size: int = 32) -> list[np.ndarray]:
    pairs = list(zip(texts, texts[::-1], strict=True))
    some = model.predict(pairs[:3], activation_fn=torch.tanh, batch_size=batch_size)
    return [np.asarray(model.predict(pairs, batch_size=batch_size)), np.asarray(some)]


def weighed(model, texts) -> list[np.ndarray]:
    """Rows of all sides."""
    calls = (model.encode, model.encode_query, model.encode_document)
    return [np.asarray(call(texts, convert_to_sparse_tensor=False, **ALL)) for call in calls]


def vectors(model, texts) -> list[np.ndarray]:
    sides = (model.encode_query, model.encode_document, model.encode)
    return [rows for side in sides for rows in side(texts, convert_to_numpy=True)]


def check(kind, ours, folder, place, results, texts, **settings):
    """Saves a model with other settings; both libraries read the folder, and ours what theirs saves again."""
    with ours(folder, device="cpu", dtype="float32") as model:
        for key, value in settings.items():
            setattr(model, key, value)
        model.save_pretrained(place)
        expected = results(model, texts)
        with ours(place, device="cpu") as saved:
            assert same(results(saved, texts), expected)
    theirs = load(kind, place)
    assert largest(results(theirs, texts), expected) <= FLOAT32
    theirs.save_pretrained(str(place / "theirs"))
    with ours(place / "theirs", device="cpu") as back:
        assert same(results(back, texts), expected)
    return theirs


@pytest.mark.parametrize("name", SCORES)
def test_cross_encoders(name, tmp_path, texts):
    folder = heads.build("scores", name, tmp_path)
    results = functools.partial(scored, batch_size=heads.batch_size(name) or 32)
    theirs = check("CrossEncoder", CrossEncoder, folder, tmp_path / "saved", results, texts[1::20])
    assert same(results(theirs, texts[1::20]), results(load("CrossEncoder", folder), texts[1::20]))


def test_settings_of_a_cross_encoder(tmp_path, texts):
    folder = heads.build("scores", "bert", tmp_path)
    settings = {"activation_fn": torch.nn.Tanh(), "max_seq_length": 9, "prompts": {"rank": "a dog "}}
    settings |= {"default_prompt_name": "rank"}
    theirs = check("CrossEncoder", CrossEncoder, folder, tmp_path / "saved", scored, texts[1::20], **settings)
    assert isinstance(theirs.activation_fn, torch.nn.Tanh) and theirs.max_seq_length == 9
    assert theirs.prompts == {"rank": "a dog "} and theirs.default_prompt_name == "rank"


@pytest.mark.parametrize("name", TABLE["words"])
def test_sparse_encoders(name, tmp_path, texts):
    folder = heads.build("words", name, tmp_path)
    theirs = check("SparseEncoder", SparseEncoder, folder, tmp_path / "saved", weighed, texts[1::20])
    assert same(weighed(theirs, texts[1::20]), weighed(load("SparseEncoder", folder), texts[1::20]))


def test_settings_of_a_sparse_encoder(tmp_path, texts):
    folder = heads.build("words", "bert", tmp_path)
    settings = {"max_active_dims": 3, "max_seq_length": 9, "similarity_fn_name": "cosine"}
    settings |= {"prompts": {"query": "a dog ", "document": ""}}
    theirs = check("SparseEncoder", SparseEncoder, folder, tmp_path / "saved", weighed, texts[1::20], **settings)
    assert theirs.max_active_dims == 3 and theirs.similarity_fn_name == "cosine" and theirs.max_seq_length == 9


@pytest.mark.parametrize("name", TABLE["vectors"])
def test_multi_vector_encoders(name, tmp_path, texts):
    folder = heads.build("vectors", name, tmp_path)
    theirs = check("MultiVectorEncoder", MultiVectorEncoder, folder, tmp_path / "saved", vectors, texts[1::20])
    assert same(vectors(theirs, texts[1::20]), vectors(load("MultiVectorEncoder", folder), texts[1::20]))


@pytest.mark.parametrize("name", ["bert", "bert-pylate"])
def test_settings_of_a_multi_vector_encoder(name, tmp_path, texts):
    folder = heads.build("vectors", name, tmp_path)
    settings = {"similarity_fn_name": "meanmaxsim", "prompts": {"query": "the ", "document": "[D] a dog "}}
    theirs = check(
        "MultiVectorEncoder", MultiVectorEncoder, folder, tmp_path / "saved", vectors, texts[1::20], **settings
    )
    assert theirs.similarity_fn_name == "meanmaxsim" and theirs.prompts == settings["prompts"]
