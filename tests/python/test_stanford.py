"""Folders of Stanford's ColBERT: the same vectors as those of the folder that they were made of, saving, faults."""

import json
import shutil
import string
from pathlib import Path

import numpy as np
import pytest
from models import heads, safetensors_file, stanford, torch_file
from models.spoil import change_json, rewrite

from grilly import MultiVectorEncoder, SentenceTransformer, errors

TEXTS = ["a dog and the cat!", "", "one two three.", "a dog " * 20]
FILE = "artifact.metadata"


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    return stanford.build(tmp_path_factory.mktemp("stanford"))


@pytest.fixture
def folder(built, tmp_path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "model"))


def load(folder: Path, **arguments) -> MultiVectorEncoder:
    return MultiVectorEncoder(folder, device="cpu", **arguments)


def equal(left: list[np.ndarray], right: list[np.ndarray]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(left, right, strict=True))


def both_sides(model) -> list[np.ndarray]:
    return [*model.encode_query(TEXTS), *model.encode_document(TEXTS)]


def test_its_settings_are_those_of_the_reference(built):
    """As a folder of sentence-transformers that says the same."""
    with load(built) as model:
        assert [type(module).__name__ for module in model] == ["Transformer", "Dense", "MultiVectorMask", "Normalize"]
        assert model.prompts == {"query": "[unused0] ", "document": "[unused1] "}
        assert model[1].out_features == 24 and model[2].skiplist_words == tuple(string.punctuation)
        assert model[0].document_length == 20 and model[0].query_expansion["length"] == 12
        ids = [row["input_ids"] for row in model.encode_query(TEXTS[:2], output_value=None)]
        words = [model.tokenizer.convert_ids_to_tokens(row.tolist()) for row in ids]
        assert [row[:2] for row in words] == [["[CLS]", "[unused0]"]] * 2 and words[1][2:] == ["[SEP]"] + ["[MASK]"] * 9
        documents = model.encode_document(TEXTS, output_value=None)
        left_out = documents[0]["input_ids"][~documents[0]["attention_mask"]].tolist()
        assert len(documents[3]["input_ids"]) == 20 and model.tokenizer.convert_ids_to_tokens(left_out) == ["!"]


def test_its_vectors_are_those_of_the_folder_it_was_made_of(built, tmp_path):
    source = heads.build("vectors", "bert", tmp_path)
    change_json(source / "2_MultiVectorMask/config.json", skiplist_words=list(string.punctuation))
    shutil.copy(built / "tokenizer.json", source / "tokenizer.json")
    settings = {"document_length": 20, "query_length": None}
    settings["query_expansion"] = {"strategy": "fixed", "attend": False, "length": 12}
    change_json(source / "sentence_bert_config.json", **settings)
    change_json(
        source / "config_sentence_transformers.json",
        query_prefix="[unused0] ",
        document_prefix="[unused1] ",
        query_expansion=settings["query_expansion"],
        prompts={"query": "", "document": ""},
    )
    with load(built) as model, load(source) as expected:
        assert equal(both_sides(model), both_sides(expected))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_it_is_saved_as_a_folder_of_the_reference(built, tmp_path, dtype):
    with load(built, dtype=dtype) as model:
        model.save_pretrained(tmp_path / "saved")
        with load(tmp_path / "saved") as saved:
            assert equal(both_sides(saved), both_sides(model)) and repr(saved) == repr(model)
            assert saved.prompts == model.prompts and saved.dtype == dtype
            saved.save_pretrained(tmp_path / "saved")
        with load(tmp_path / "saved") as again:
            assert equal(both_sides(again), both_sides(model))
    assert not (tmp_path / "saved" / FILE).exists()
    tensors = safetensors_file.read(tmp_path / "saved/1_Dense/model.safetensors")
    stored = safetensors_file.read(built / "model.safetensors")["linear.weight"]
    assert list(tensors) == ["linear.weight"] and np.array_equal(tensors["linear.weight"], stored)


@pytest.mark.parametrize("shards", [1, 3])
def test_a_checkpoint_of_torch_is_saved_with_its_projection(built, folder, tmp_path, shards):
    torch_file.convert(folder, shards=shards)
    assert not (folder / "model.safetensors").exists()
    with load(folder) as model, load(built) as expected:
        assert equal(both_sides(model), both_sides(expected))
        model.save_pretrained(tmp_path / "saved")
        with load(tmp_path / "saved") as saved:
            assert equal(both_sides(saved), both_sides(expected))


def test_settings_count(folder, caplog):
    with load(folder) as usual:
        expected = usual.encode_query("a dog")
    metadata = json.loads((folder / FILE).read_text())
    metadata |= {"query_maxlen": 9, "attend_to_mask_tokens": True, "mask_punctuation": False, "doc_maxlen": None}
    (folder / FILE).write_text(json.dumps(metadata | {"query_token_id": "[unused1]"}))
    with load(folder) as model:
        query = model.encode_query("a dog")
        assert len(query) == 9 and not np.allclose(query[:5], expected[:5], atol=1e-3)
        (document,) = model.encode_document(["a dog!"], output_value=None)
        assert len(model.encode_document("a dog " * 20)) > 20 and document["attention_mask"].all()
        assert model.prompts["query"] == "[unused1] "
    (folder / FILE).unlink()
    caplog.clear()
    with load(folder) as model:
        assert f"{FILE}: no such file: its usual settings are taken" in caplog.text
        assert len(model.encode_query("a dog")) == 32 and model.prompts["document"] == "[unused1] "
    with load(folder, prompts={"query": "a cat "}) as model:
        assert model.prompts["query"] == "a cat "


def change(settings):
    return lambda folder: change_json(folder / FILE, **settings)


def tensors(change):
    return lambda folder: rewrite(folder, change)


@pytest.mark.parametrize(
    "spoil, kind, words",
    [
        (change({"dim": 25}), errors.ModelFormatError, "dim is 25, but linear.weight of .* has 24 rows: set dim to"),
        (change({"dim": "wide"}), errors.ModelFormatError, 'dim is "wide", expected a whole number'),
        (change({"query_maxlen": 0}), errors.ModelFormatError, "query_maxlen is 0"),
        (change({"doc_maxlen": -3}), errors.ModelFormatError, "doc_maxlen is -3"),
        (change({"mask_punctuation": 1}), errors.ModelFormatError, "mask_punctuation is 1"),
        (change({"query_token_id": 5}), errors.ModelFormatError, "query_token_id is 5, expected a string"),
        (
            change({"doc_token_id": "[unused7]"}),
            errors.ModelFormatError,
            r'doc_token_id is "\[unused7\]", or is missing',
        ),
        (change({"similarity": "l2"}), errors.UnsupportedError, 'similarity "l2": scores are sums of dot products'),
        (change({"interaction": "flipr"}), errors.UnsupportedError, 'interaction "flipr": scores are sums over all'),
        (lambda folder: (folder / FILE).write_text("{"), errors.ModelFormatError, "not valid JSON"),
        (lambda folder: (folder / FILE).write_text("[]"), errors.ModelFormatError, "expected a JSON object"),
        (
            tensors(lambda found: found.pop("linear.weight")),
            errors.WeightsError,
            r"linear.weight is missing, expected \[dim, 36\], the projection of an HF_ColBERT: fetch the folder anew",
        ),
        (
            tensors(lambda found: found.update({"linear.weight": np.ones((24, 35), np.float32)})),
            errors.WeightsError,
            r"linear.weight has shape \[24, 35\], expected \[dim, 36\]",
        ),
        (
            tensors(lambda found: found.update({"linear.weight": np.full((24, 36), np.nan, np.float32)})),
            errors.NotFiniteError,
            "linear.weight is NaN at",
        ),
    ],
)
def test_faults(folder, spoil, kind, words):
    spoil(folder)
    with pytest.raises(kind, match=words) as caught, load(folder) as model:
        model.encode_query("a dog")
    assert str(folder) in str(caught.value)


def test_other_classes_do_not_read_its_projection(built):
    with SentenceTransformer(built, device="cpu") as model:
        assert model.encode("a dog").shape == (36,) and [type(each).__name__ for each in model][1] == "Pooling"
