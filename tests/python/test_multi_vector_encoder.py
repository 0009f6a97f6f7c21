"""`MultiVectorEncoder`: kinds of results, expansion, what is scored, and models that it cannot use."""

import json
import logging
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from models import heads
from models.spoil import change_json, rewrite

from grilly import MultiVectorEncoder, SentenceTransformer, errors
from grilly.token_pooling import HierarchicalTokenPooling

TEXTS = ["a dog and the cat!", "", "one two three.", "a dog"]
SETTINGS, TRANSFORMER = "config_sentence_transformers.json", "sentence_bert_config.json"


@pytest.fixture(scope="session")
def saved(tmp_path_factory) -> Path:
    """A BERT as sentence-transformers saves it: queries are expanded to 12 tokens that no other sees."""
    return heads.build("vectors", "bert", tmp_path_factory.mktemp("vectors"))


@pytest.fixture(scope="session")
def of_pylate(tmp_path_factory) -> Path:
    return heads.build("vectors", "bert-pylate", tmp_path_factory.mktemp("vectors"))


@pytest.fixture
def model(saved):
    with MultiVectorEncoder(saved, device="cpu") as model:
        yield model


@pytest.fixture
def folder(saved, tmp_path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def load(folder: Path, **arguments) -> MultiVectorEncoder:
    return MultiVectorEncoder(folder, device="cpu", **arguments)


def equal(left: list[np.ndarray], right: list[np.ndarray]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(left, right, strict=True))


# ------------------------------------------------------------------------------------------------------------- encode


def test_kinds_of_results(model):
    rows = model.encode_document(TEXTS)
    assert [each.shape[1] for each in rows] == [24] * 4 and all(each.dtype == np.float32 for each in rows)
    assert all(np.allclose(np.linalg.norm(each, axis=1), 1, atol=1e-6) for each in rows)
    assert equal(model.encode(sentences=TEXTS, task="document", batch_size=1, convert_to_numpy=True), rows)
    one = model.encode_document(TEXTS[0])
    assert isinstance(one, np.ndarray) and np.array_equal(one, rows[0])
    assert model.encode([]) == [] == model.encode_query([])
    pool = model.start_multi_process_pool(["cpu", "cpu"])
    assert equal(model.encode_document(TEXTS, pool=pool, chunk_size=1), rows)
    assert equal(model.encode_document(TEXTS, normalize_embeddings=True), rows) or all(
        np.allclose(*pair, atol=1e-6)
        for pair in zip(model.encode_document(TEXTS, normalize_embeddings=True), rows, strict=True)
    )
    for wrong in ({"batch_size": 0}, {"output_value": "sentence_embedding"}, {"precision": "int8"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            model.encode(TEXTS, **wrong)
    with pytest.raises(TypeError, match=r"texts\[1\] is of type int"):
        model.encode(["a", 3])
    with pytest.raises(ValueError, match="task is 'query', and encode_document has a task of its own"):
        model.encode_document(TEXTS, task="query")


def test_queries_are_expanded_and_documents_lose_punctuation(model):
    assert [len(rows) for rows in model.encode_query(TEXTS)] == [12] * 4
    (features,) = model.encode_query(["and the!"], output_value=None)
    mask = model.tokenizer.mask_token_id
    assert features["attention_mask"].all() and (features["input_ids"] == mask).sum() == 12 - 5
    (features,) = model.encode_document(["a dog!"], output_value=None)
    words = model.tokenizer.convert_ids_to_tokens(features["input_ids"].tolist())
    assert [word for word, scored in zip(words, features["attention_mask"], strict=True) if not scored] == ["!"]
    assert np.array_equal(features["token_embeddings"][features["attention_mask"]], model.encode_document("a dog!"))
    # Without a task a text is no query, and its punctuation counts as that of a document.
    assert equal(model.encode(TEXTS), model.encode_document(TEXTS))
    assert len(model.encode_query("one " * 40)) == 12 and len(model.encode_document("one " * 40)) == 20


def test_what_is_put_after_a_query_changes_nothing_of_it(model, folder):
    """It sees the query, which does not see it: the query's own vectors are those without."""
    own = model.encode("a dog", task=None)
    assert np.allclose(model.encode_query("a dog")[: len(own)], own, atol=1e-6)
    change_json(folder / TRANSFORMER, query_expansion={"strategy": "fixed", "attend": True, "length": 12})
    with load(folder) as seen:
        assert not np.allclose(seen.encode_query("a dog")[: len(own)], own, atol=1e-3)
        assert np.array_equal(seen.encode("a dog"), own)
    change_json(folder / TRANSFORMER, query_expansion={"strategy": "min", "attend": False, "length": 12})
    with load(folder) as at_least:
        assert np.array_equal(at_least.encode_query("a dog"), model.encode_query("a dog"))
        assert len(at_least.encode_query("one " * 40)) == 40
    change_json(folder / TRANSFORMER, query_expansion=None)
    with load(folder) as plain:
        assert np.array_equal(plain.encode_query("a dog"), own)
        assert plain.preprocess(["and the"], task="query")["input_ids"].shape == (1, 4)
    with pytest.raises(errors.UnsupportedError, match="preprocess of queries that are expanded"):
        model.preprocess(["a dog"], task="query")


def test_which_tokens_are_scored(folder, caplog):
    words = {"skiplist_words": ["the", "nothing at all"], "skiplist_tasks": ["query", "document"]}
    (folder / "2_MultiVectorMask/config.json").write_text(json.dumps(words))
    with load(folder) as model:
        assert 'skiplist_words ["nothing at all"] are not tokens of this tokenizer' in caplog.text
        assert len(model.encode_query("and the")) == 11 and len(model.encode_document("and the")) == 3
        the = model.tokenizer.convert_tokens_to_ids("the")
    (folder / "2_MultiVectorMask/config.json").write_text(json.dumps({"keep_only_token_ids": [the]}))
    with load(folder) as model:
        assert len(model.encode_query("and the")) == 12 and len(model.encode_document("the and the")) == 2
        assert model.encode_document("and").shape == (0, 24)
        assert model[2].keep_only_token_ids == (the,) and model[2].skiplist_tasks == ("document",)


def test_prompts(saved):
    with load(saved, prompts={"query": "query: ", "passage": "passage: "}) as model:
        expected = model.encode(["query: " + text for text in TEXTS], task="query")
        assert equal(model.encode_query(TEXTS), expected)
        assert equal(model.encode(TEXTS, "query", task="query"), expected)
        assert equal(model.encode_document(TEXTS), model.encode(TEXTS, prompt="", task="document"))
        model.set_pooling_include_prompt(False)
        assert equal(model.encode_query(TEXTS), expected)


def test_markers_of_pylate_are_one_token(of_pylate):
    with load(of_pylate) as model:
        assert model.prompts == {"query": "[Q] ", "document": "[D] "}
        (features,) = model.encode_query(["a dog"], output_value=None)
        assert features["input_ids"].tolist()[1:3] == [600, model.tokenizer.convert_tokens_to_ids("a")]
        assert len(features["input_ids"]) == 12
        assert [type(module).__name__ for module in model] == ["Transformer", "Dense", "MultiVectorMask", "Normalize"]
        assert model[0].query_expansion == {"attend": False, "length": 12, "strategy": "fixed", "token": None}
        assert model[0].document_length == 20


# ----------------------------------------------------------------------------------------------------------- scoring


def test_similarity_and_rank(model):
    queries, documents = model.encode_query(TEXTS), model.encode_document(TEXTS)
    scores = model.similarity(queries, documents)
    exact = [[(q.astype(np.float64) @ d.T.astype(np.float64)).max(1).sum() for d in documents] for q in queries]
    assert scores.shape == (4, 4) and np.allclose(scores, exact, rtol=1e-6)
    assert np.array_equal(model.similarity_pairwise(queries, documents), np.diag(scores))
    assert np.allclose(model.similarity(queries, documents, length_normalize=True), scores / 12, rtol=1e-6)
    found = model.rank(TEXTS[0], TEXTS, return_documents=True)
    assert [row["corpus_id"] for row in found] == np.argsort(-scores[0], kind="stable").tolist()
    assert [row["score"] for row in found] == sorted(scores[0].tolist(), reverse=True)
    assert all(row["text"] == TEXTS[row["corpus_id"]] for row in found)
    assert (
        model.rank(TEXTS[0], TEXTS, top_k=2) == [{key: row[key] for key in ("corpus_id", "score")} for row in found][:2]
    )
    assert model.rank("a dog", []) == []
    model.similarity_fn_name = "meanmaxsim"
    assert np.allclose(model.similarity(queries, documents), scores / 12, rtol=1e-6)
    with pytest.raises(ValueError, match="similarity_fn_name is 'cosine'"):
        model.similarity_fn_name = "cosine"
    with pytest.raises(errors.UnsupportedError, match="'xtr': a score depends on the other documents"):
        model.similarity_fn_name = "xtr"


def test_the_model_names_its_similarity(folder):
    change_json(folder / SETTINGS, similarity_fn_name="meanmaxsim")
    with load(folder) as model:
        assert model.similarity_fn_name == "meanmaxsim"
    with load(folder, similarity_fn_name="maxsim") as model:
        assert model.similarity_fn_name == "maxsim"
    with pytest.raises(errors.UnsupportedError, match="take 'maxsim' or 'meanmaxsim'"):
        load(folder, similarity_fn_name="xtr")


# ------------------------------------------------------------------------------------------------- life and refusals


def test_another_type_pickling_and_closing(model):
    rows = model.encode_query(TEXTS)
    copy = pickle.loads(pickle.dumps(model))
    assert equal(copy.encode_query(TEXTS), rows)
    narrow = copy.half().encode_query(TEXTS)
    assert narrow[0].dtype == np.float16 and np.abs(narrow[0] - rows[0]).max() < 0.02
    copy.close()
    for texts in (TEXTS, []):
        with pytest.raises(errors.UnusableError):
            copy.encode(texts)
    assert "(2): MultiVectorMask(without 4 tokens in document)" in repr(model)


def test_the_same_bits_everywhere(saved, device):
    """Of several devices; expansion is part of it."""
    with MultiVectorEncoder(saved, device=device, numerics="everywhere") as there, load(saved) as plain:
        assert there.numerics == "everywhere-1"
        with load(saved, numerics="everywhere") as here:
            assert equal(there.encode_query(TEXTS), here.encode_query(TEXTS))
            assert np.abs(here.encode_query(TEXTS[0]) - plain.encode_query(TEXTS[0])).max() < 1e-5


def test_numbers_that_are_not_finite(folder):
    path = "1_Dense"
    spoilt = np.full((24, 36), np.nan, np.float32)
    rewrite(folder / path, lambda tensors: tensors.update({"linear.weight": spoilt}))
    with pytest.raises(errors.NotFiniteError, match="linear.weight is NaN at"), load(folder) as model:
        model.encode_query("a dog")


@pytest.mark.parametrize("name", ["fit", "push_to_hub", "load_adapter"])
def test_names_that_are_left_out(model, name):
    with pytest.raises(errors.UnsupportedNameError, match=f"MultiVectorEncoder.{name} is left out: "):
        getattr(model, name)


def test_a_projection_without_its_tensor(folder):
    rewrite(folder / "1_Dense", lambda tensors: tensors.pop("linear.weight"))
    with pytest.raises(errors.WeightsError, match=r"missing 1_Dense/linear.weight \[24, 36\]"):
        load(folder)


def test_a_projection_of_another_size(folder):
    change_json(folder / "1_Dense/config.json", out_features=23)
    with pytest.raises(errors.WeightsError, match=r"1_Dense/linear.weight has shape \[24, 36\]"):
        load(folder)
    change_json(folder / "1_Dense/config.json", in_features=35)
    with pytest.raises(errors.ModelFormatError, match="1_Dense: in_features is 35, but the module before it gives 36"):
        load(folder)


EXPANSION = {"strategy": "fixed", "attend": False, "length": 12}


@pytest.mark.parametrize(
    "file, changes, words",
    [
        (TRANSFORMER, {"query_expansion": EXPANSION | {"length": 70}}, "length is 70, but the model has 64 positions"),
        (TRANSFORMER, {"query_expansion": EXPANSION | {"token": "[Z]"}}, r'token "\[Z\]" is not in the tokenizer\'s'),
        (TRANSFORMER, {"query_expansion": EXPANSION | {"width": 1}}, "width is not a setting of it; known are attend"),
        (TRANSFORMER, {"query_expansion": EXPANSION, "query_length": 9}, "query_length is 9, less than length 12"),
        ("2_MultiVectorMask/config.json", {"skip": 1}, "the module has no setting skip"),
        ("2_MultiVectorMask/config.json", {"keep_only_token_ids": [-1]}, "expected ids of tokens"),
    ],
)
def test_files_with_faults(folder, file, changes, words):
    change_json(folder / file, **changes)
    with pytest.raises(errors.ModelFormatError, match=words) as caught:
        load(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    "file, changes, words",
    [
        (
            "3_Normalize/config.json",
            {"module_input_name": ..., "module_output_name": ...},
            "module Normalize of a MultiVectorEncoder: known are",
        ),
        (
            "tokenizer_config.json",
            {"padding_side": "left"},
            "query_expansion with padding on the left: its tokens follow",
        ),
        (SETTINGS, {"model_type": "SentenceTransformer"}, "SentenceTransformer loads it"),
        (TRANSFORMER, {"transformer_task": "fill-mask"}, 'only "feature-extraction" is known'),
    ],
)
def test_what_is_not_known(folder, file, changes, words):
    change_json(folder / file, **changes)
    with pytest.raises(errors.UnsupportedError, match=words):
        load(folder)


POOLING = "sentence_transformers.multi_vector_encoder.modules.token_pooling.HierarchicalTokenPooling"


def pooled(folder: Path, **settings) -> Path:
    """The folder with a pooling as its last module."""
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps([*modules, {"path": "4_Pooling", "type": POOLING}]))
    (folder / "4_Pooling").mkdir()
    (folder / "4_Pooling/config.json").write_text(json.dumps(settings))
    return folder


@pytest.mark.parametrize("tasks", [["document"], "query", ["query", "document"]])
def test_a_model_that_pools(saved, folder, tmp_path, tasks):
    """Each call gives what the pooling makes of the vectors without it, before it normalises and pools further."""
    settings = {"pool_factor": 1.5, "num_protected_tokens": 2, "normalize_embeddings": True, "tasks": tasks}
    pooling = HierarchicalTokenPooling(settings["pool_factor"], num_protected_tokens=2, tasks=tasks)
    with load(saved) as plain, load(pooled(folder, **settings)) as model:
        assert type(model[4]).__name__ == "HierarchicalTokenPooling" and model[4].pool_factor == 1.5
        for task in ("query", "document", None):
            rows = pooling.pool(plain.encode(TEXTS, task=task), task=task)
            assert equal(model.encode(TEXTS, task=task), rows)
            features = model.encode(TEXTS, task=task, output_value=None)
            assert equal([each["token_embeddings"][each["attention_mask"]] for each in features], rows)
            further = HierarchicalTokenPooling(2, tasks=["query", "document"])
            assert equal(model.encode(TEXTS, task=task, token_pooling=further), further.pool(rows))
        model.save_pretrained(tmp_path / "saved")
        with load(tmp_path / "saved") as again:
            assert equal(again.encode_document(TEXTS), model.encode_document(TEXTS))


def test_a_pooling_of_an_older_file_does_not_normalise(saved, folder):
    with load(saved) as plain, load(pooled(folder, pool_factor=2)) as model:
        pooling = HierarchicalTokenPooling(2, normalize_embeddings=False)
        assert equal(model.encode_document(TEXTS), pooling.pool(plain.encode_document(TEXTS)))
        assert equal(model.encode_query(TEXTS), plain.encode_query(TEXTS))


def test_modules_that_are_left_out(folder):
    modules = json.loads((folder / "modules.json").read_text())
    function = POOLING.replace("Hierarchical", "Lambda")
    (folder / "modules.json").write_text(json.dumps([*modules, {"path": "4_Pooling", "type": function}]))
    with pytest.raises(errors.UnsupportedError, match="module LambdaTokenPooling: it has no files: take the module"):
        load(folder)
    (folder / "modules.json").write_text(json.dumps([modules[0], modules[1], modules[3]]))
    with pytest.raises(
        errors.UnsupportedError, match="query_expansion without a MultiVectorMask: its tokens would not"
    ):
        load(folder)
    (folder / "modules.json").write_text(json.dumps(modules))
    listed = json.loads((pooled(folder) / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps([*listed, modules[3]]))
    with pytest.raises(errors.UnsupportedError, match="module Normalize after a HierarchicalTokenPooling: that is the"):
        load(folder)


def test_folders_without_a_projection(folder):
    (folder / "modules.json").unlink()
    with pytest.raises(
        errors.UnsupportedError, match="without modules.json it has no projection of the tokens' vectors"
    ):
        load(folder)
    change_json(folder / "config.json", architectures=["HF_ColBERT"])
    with pytest.raises(errors.WeightsError, match=r"linear.weight is missing, expected \[dim, 36\], the projection"):
        load(folder)


def test_each_class_loads_its_own_folders(saved, of_pylate, tiny_model):
    for folder, name in ((saved, "MultiVectorEncoder"), (of_pylate, "ColBERT")):
        with pytest.raises(errors.UnsupportedError, match=f'model_type "{name}": MultiVectorEncoder loads it'):
            SentenceTransformer(str(folder), device="cpu")
    with pytest.raises(errors.UnsupportedError, match='model_type "SentenceTransformer": SentenceTransformer loads it'):
        load(tiny_model)


def test_what_is_logged(saved, caplog):
    caplog.set_level(logging.INFO, logger="grilly")
    load(saved).close()
    assert "is this package's own engine" in caplog.text and not [r for r in caplog.records if r.levelname == "WARNING"]
