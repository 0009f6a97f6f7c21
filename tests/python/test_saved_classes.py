"""Saved models of the classes that score, weigh words or give vectors of tokens: the model, and its settings."""

import json
from pathlib import Path

import numpy as np
import pytest
from models import heads

from grilly import CrossEncoder, MultiVectorEncoder, SentenceTransformer, SparseEncoder, errors, scores

TEXTS = ["a dog and the cat!", "", "one two three.", "a dog " * 20]
PAIRS = [("a dog", "the cat and a dog"), ("one two three", ""), ("a dog " * 20, "a dog")]
SETTINGS, TRANSFORMER = "config_sentence_transformers.json", "sentence_bert_config.json"
CLASSES = {"scores": CrossEncoder, "words": SparseEncoder, "vectors": MultiVectorEncoder}
# Of each class a checkpoint alone, folders of the reference, and of PyLate, in several types.
SAVED = [
    *(("scores", name) for name in ("bert", "bert-labels", "bert-old", "bert-new", "bert-pooled", "modernbert-cls")),
    *(("words", name) for name in heads.table()["words"]),
    *(("vectors", name) for name in heads.table()["vectors"]),
]


def results(model) -> list[np.ndarray]:
    if isinstance(model, CrossEncoder):
        return [model.predict(PAIRS)]
    if isinstance(model, SparseEncoder):
        return [model.encode(TEXTS, convert_to_sparse_tensor=False), model.encode_query("a dog").toarray()]
    return [*model.encode_query(TEXTS), *model.encode_document(TEXTS), *model.encode(TEXTS)]


def equal(left: list[np.ndarray], right: list[np.ndarray]) -> bool:
    return all(one.dtype == two.dtype and np.array_equal(one, two) for one, two in zip(left, right, strict=True))


def read(folder: Path, name: str) -> dict:
    return json.loads((folder / name).read_text())


@pytest.mark.parametrize("task, name", SAVED)
def test_a_saved_model_gives_the_same_bits(task, name, tmp_path):
    kind = CLASSES[task]
    with kind(heads.build(task, name, tmp_path), device="cpu") as model:
        model.save_pretrained(tmp_path / "deep" / "saved")
        with kind(tmp_path / "deep" / "saved", device="cpu") as saved:
            assert equal(results(saved), results(model)) and repr(saved) == repr(model)
            for setting in ("prompts", "default_prompt_name", "max_seq_length", "dtype", *model._core.settings):
                if hasattr(model, setting):
                    assert getattr(saved, setting) == getattr(model, setting), setting
            # Saved again, and over its own folder, it is the same.
            saved.save(tmp_path / "again")
            saved.save(tmp_path / "deep" / "saved")
        for folder in (tmp_path / "again", tmp_path / "deep" / "saved"):
            with kind(folder, device="cpu") as again:
                assert equal(results(again), results(model))
                card = (folder / "README.md").read_text()
                assert f"from sentence_transformers import {kind.__name__}" in card and "{" not in card


def test_settings_of_a_cross_encoder(tmp_path):
    with CrossEncoder(heads.build("scores", "bert", tmp_path), device="cpu", prompts={"rank": "a dog "}) as model:
        model.activation_fn, model.max_seq_length, model.default_prompt_name = scores.tanh, 9, "rank"
        model.keep_in_fp32_modules = ["0.model.classifier"]
        model.save(tmp_path / "saved")
        with CrossEncoder(tmp_path / "saved", device="cpu") as saved:
            assert saved.activation_fn is scores.tanh and saved.max_seq_length == 9
            assert saved.keep_in_fp32_modules == ["0.model.classifier"]
            assert saved.prompts == {"rank": "a dog "} and equal(results(saved), results(model))
        rows = read(tmp_path, "saved/modules.json")
        assert [row["type"].rpartition(".")[2] for row in rows] == ["Transformer"]
        settings = read(tmp_path, f"saved/{TRANSFORMER}")
        assert settings["transformer_task"] == "sequence-classification" and settings["module_output_name"] == "scores"
        assert "similarity_fn_name" not in read(tmp_path, f"saved/{SETTINGS}")
        model.activation_fn = np.negative
        with pytest.raises(errors.UnsupportedError, match="config_sentence_transformers.json cannot name: set it to"):
            model.save(tmp_path / "other")
    assert list((tmp_path / "other").iterdir()) == []


def test_a_cross_encoder_of_another_class_folder(tmp_path):
    """Such a folder is read as a checkpoint alone: its list of modules, prompts and limit are not the model's."""
    folder = heads.build("scores", "bert", tmp_path)
    rows = [("", "Transformer"), ("1_Normalize", "Normalize")]
    types = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in rows]
    (folder / "modules.json").write_text(json.dumps(types))
    (folder / SETTINGS).write_text(json.dumps({"prompts": {"query": "q: "}, "truncate_dim": 4}))
    (folder / TRANSFORMER).write_text(json.dumps({"max_seq_length": 5, "do_lower_case": True}))
    with CrossEncoder(folder, device="cpu") as model:
        model.save_pretrained(tmp_path / "saved")
        with CrossEncoder(tmp_path / "saved", device="cpu") as saved:
            assert equal(results(saved), results(model)) and saved.max_seq_length == model.max_seq_length != 5
    assert len(read(tmp_path, "saved/modules.json")) == 1
    keys = {"model_type", "prompts", "default_prompt_name", "activation_fn"}
    assert read(tmp_path, f"saved/{SETTINGS}").keys() == keys


def test_settings_of_a_sparse_encoder(tmp_path):
    with SparseEncoder(heads.build("words", "bert", tmp_path), device="cpu") as model:
        model.max_active_dims, model.similarity_fn_name = 3, "cosine"
        model.prompts["query"] = "a dog "
        model.half().save(tmp_path / "saved")
        with SparseEncoder(tmp_path / "saved", device="cpu") as saved:
            assert saved.max_active_dims == 3 and saved.similarity_fn_name == "cosine" and saved.dtype == "float16"
            assert saved.prompts == model.prompts and equal(results(saved), results(model))


def test_settings_of_a_multi_vector_encoder(tmp_path):
    with MultiVectorEncoder(heads.build("vectors", "bert", tmp_path), device="cpu") as model:
        model.similarity_fn_name, model.prompts["document"] = "meanmaxsim", "the "
        model.save(tmp_path / "saved")
        with MultiVectorEncoder(tmp_path / "saved", device="cpu") as saved:
            assert saved.similarity_fn_name == "meanmaxsim" and equal(results(saved), results(model))
    for other in (SentenceTransformer, SparseEncoder):
        with pytest.raises(errors.UnsupportedError, match="MultiVectorEncoder loads it"):
            other(tmp_path / "saved", device="cpu")


def test_a_folder_of_pylate_becomes_one_of_the_reference(tmp_path):
    folder = heads.build("vectors", "bert-pylate", tmp_path)
    with MultiVectorEncoder(folder, device="cpu") as model:
        model.save(tmp_path / "saved")
    rows = read(tmp_path, "saved/modules.json")
    assert [row["path"] for row in rows] == ["", "1_Dense", "2_MultiVectorMask", "3_Normalize"]
    assert "!" in read(tmp_path, "saved/2_MultiVectorMask/config.json")["skiplist_words"]
    assert read(tmp_path, "saved/3_Normalize/config.json")["module_input_name"] == "token_embeddings"
    assert read(tmp_path, f"saved/{SETTINGS}")["model_type"] == "MultiVectorEncoder"


@pytest.mark.parametrize("prompt", ["", "the ", "[Q] a dog "])
def test_prompts_of_a_folder_of_pylate(prompt, tmp_path):
    """What begins a query there comes back with those prompts alone that begin with it."""
    folder = heads.build("vectors", "bert-pylate", tmp_path)
    with MultiVectorEncoder(folder, device="cpu", prompts={"query": prompt}) as model:
        before = read(folder, SETTINGS)["query_prefix"]
        model.save(tmp_path / "saved")
        with MultiVectorEncoder(tmp_path / "saved", device="cpu") as saved:
            assert saved.prompts == model.prompts and equal(results(saved), results(model))
    assert ("query_prefix" in read(tmp_path, f"saved/{SETTINGS}")) == prompt.startswith(before)
