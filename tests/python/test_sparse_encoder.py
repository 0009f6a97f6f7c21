"""`SparseEncoder`: kinds of results, words and weights, and models that it cannot use."""

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from models import heads
from models.spoil import change_json, rewrite

from grilly import SentenceTransformer, SparseEncoder, errors
from grilly.sparse import SparseRows, as_dense, most_active

TEXTS = ["a dog and the cat", "", "one two three", "a dog"]


@pytest.fixture(scope="session")
def plain(tmp_path_factory) -> Path:
    """A BERT with a masked-language head, as transformers saves it."""
    return heads.build("words", "bert", tmp_path_factory.mktemp("words"))


@pytest.fixture(scope="session")
def listed(tmp_path_factory) -> Path:
    """A DistilBERT in the folder of a SparseEncoder with 20 active dimensions."""
    return heads.build("words", "distilbert", tmp_path_factory.mktemp("words"))


@pytest.fixture
def model(plain):
    with SparseEncoder(plain, device="cpu") as model:
        yield model


@pytest.fixture
def folder(listed, tmp_path) -> Path:
    return Path(shutil.copytree(listed, tmp_path / "model"))


def load(folder: Path, **arguments) -> SparseEncoder:
    return SparseEncoder(folder, device="cpu", **arguments)


# ------------------------------------------------------------------------------------------------------------- encode


def test_kinds_of_results(model):
    dense = model.encode(TEXTS, convert_to_sparse_tensor=False)
    assert dense.shape == (4, 600) and dense.dtype == np.float32 and (dense >= 0).all() and (dense == 0).any()
    rows = model.encode(TEXTS)
    assert isinstance(rows, SparseRows) and rows.shape == (4, 600) and len(rows) == 4
    assert np.array_equal(rows.toarray(), dense) and (rows.values > 0).all()
    assert np.array_equal(model.encode(sentences=TEXTS, batch_size=1).toarray(), dense)
    one = model.encode(TEXTS[0])
    assert one.shape == (600,) and np.array_equal(one.toarray(), dense[0])
    assert np.array_equal(model.encode(TEXTS[0], convert_to_sparse_tensor=False), dense[0])
    assert model.encode([]).shape == (0,) and model.encode([], convert_to_sparse_tensor=False).shape == (0,)
    pool = model.start_multi_process_pool(["cpu", "cpu"])
    assert np.array_equal(model.encode(TEXTS, pool=pool, chunk_size=1).toarray(), dense)
    for wrong in ({"batch_size": 0}, {"max_active_dims": 0}, {"normalize_embeddings": True}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            model.encode(TEXTS, **wrong)
    with pytest.raises(TypeError, match=r"texts\[1\] is of type int"):
        model.encode(["a", 3])


def test_rows_of_many_texts_come_in_parts(model, monkeypatch):
    from grilly import sparse_encoder

    seen = []
    monkeypatch.setattr(sparse_encoder, "PART", 3)
    monkeypatch.setattr(sparse_encoder, "progress", lambda total, shown: Shown(seen))
    texts = TEXTS * 2
    rows = model.encode(texts)
    assert rows.shape == (8, 600) and seen == sorted(seen) and seen[-1] == 8
    assert np.array_equal(rows.toarray(), model.encode(texts, convert_to_sparse_tensor=False))


class Shown:
    def __init__(self, seen: list):
        self.seen = seen

    def __enter__(self):
        return self.seen.append

    def __exit__(self, *_):
        return False


def test_the_heaviest_words_are_kept(listed):
    with load(listed) as model:
        assert model.max_active_dims == 20
        whole = model.encode(TEXTS, convert_to_sparse_tensor=False, max_active_dims=600)
        assert (np.count_nonzero(whole, axis=1) > 20).all()
        assert np.array_equal(model.encode(TEXTS).toarray(), most_active(whole, 20))
        assert (np.count_nonzero(model.encode(TEXTS, max_active_dims=3).toarray(), axis=1) == 3).all()
    with load(listed, max_active_dims=5) as model:
        assert model.max_active_dims == 5 and model.encode(TEXTS[0]).values.size == 5
    with pytest.raises(ValueError, match="max_active_dims is 0"):
        load(listed, max_active_dims=0)


def test_prompts(plain):
    with load(plain, prompts={"query": "query: ", "passage": "passage: "}) as model:
        expected = model.encode(["query: " + text for text in TEXTS]).toarray()
        assert np.array_equal(model.encode(TEXTS, "query").toarray(), expected)
        assert np.array_equal(model.encode_query(TEXTS).toarray(), expected)
        assert np.array_equal(model.encode_document(TEXTS).toarray(), model.encode(TEXTS, prompt="").toarray())
        model.set_pooling_include_prompt(False)
        assert np.array_equal(model.encode_query(TEXTS).toarray(), expected)


def test_a_task_chooses_among_routes(listed, folder, tmp_path):
    pooling = json.loads((folder / "1_SpladePooling/config.json").read_text())
    kind = "sentence_transformers.sparse_encoder.models"
    routed = tmp_path / "routed"
    shutil.copytree(folder, routed / "encoder")
    shutil.copy(folder / "config_sentence_transformers.json", routed)
    (routed / "modules.json").write_text(json.dumps([{"path": "", "type": f"{kind}.Router"}]))
    types = {"encoder": f"{kind}.MLMTransformer"} | dict.fromkeys(("max", "sum"), f"{kind}.SpladePooling")
    structure = {"query": ["encoder", "max"], "document": ["encoder", "sum"]}
    settings = {"types": types, "structure": structure, "parameters": {"default_route": "document"}}
    (routed / "router_config.json").write_text(json.dumps(settings))
    for mode in ("max", "sum"):
        (routed / mode).mkdir()
        (routed / mode / "config.json").write_text(json.dumps(pooling | {"pooling_strategy": mode}))
    change_json(folder / "1_SpladePooling/config.json", pooling_strategy="sum")
    with load(routed) as model, load(listed) as largest, load(folder) as summed:
        queries, documents = largest.encode(TEXTS).toarray(), summed.encode(TEXTS).toarray()
        assert not np.array_equal(queries, documents)
        for rows in (model.encode_query(TEXTS), model.encode(TEXTS, task="query"), model.encode([{"query": TEXTS[0]}])):
            assert np.array_equal(rows.toarray(), queries[: len(rows)])
        for rows in (model.encode_document(TEXTS), model.encode(TEXTS)):
            assert np.array_equal(rows.toarray(), documents)
        with pytest.raises(ValueError, match="task is 'code'|task is \"code\""):
            model.encode(TEXTS, task="code")


# ------------------------------------------------------------------------------------------------- words and weights


def test_similarity(model):
    rows = model.encode(TEXTS)
    dense = rows.toarray().astype(np.float64)
    assert model.similarity_fn_name == "dot"
    for left, right in ((rows, rows), (rows.toarray(), rows), (list(rows), rows)):
        found = model.similarity(left, right)
        assert found.shape == (4, 4) and np.allclose(found, dense @ dense.T, rtol=1e-5)
    assert np.allclose(model.similarity(rows[0], rows), (dense @ dense.T)[:1], rtol=1e-5)
    assert np.allclose(model.similarity_pairwise(rows, rows), (dense**2).sum(axis=1), rtol=1e-5)
    model.similarity_fn_name = "cosine"
    assert np.allclose(np.diag(model.similarity(rows, rows)), 1)


def test_words(model):
    rows = model.encode(TEXTS[:2])
    words = model.decode(rows)
    assert [len(each) for each in words] == np.count_nonzero(rows.toarray(), axis=1).tolist()
    vocabulary = json.loads((model._folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    for row, pairs in zip(rows, words, strict=True):
        assert [weight for _, weight in pairs] == sorted(row.values.tolist(), reverse=True)
        assert {vocabulary[word]: weight for word, weight in pairs} == dict(
            zip(row.columns.tolist(), row.values.tolist(), strict=True)
        )
    assert model.decode(rows[0], top_k=3) == words[0][:3] == model.decode(rows.toarray()[0], top_k=3)
    assert model.decode(np.zeros((2, 600), np.float32)) == [[], []]
    with pytest.raises(ValueError, match="top_k is 0"):
        model.decode(rows, top_k=0)


def test_what_is_shared_and_how_sparse(model):
    rows = model.encode(TEXTS)
    dense = rows.toarray()
    assert np.array_equal(model.intersection(rows[0], rows).toarray(), dense[0] * dense)
    assert np.array_equal(model.intersection(dense[0], dense[1]).toarray(), dense[0] * dense[1])
    for wrong in ((rows, rows), (rows[0], dense[:, :9])):
        with pytest.raises(ValueError, match="expected"):
            model.intersection(*wrong)
    active = np.count_nonzero(dense) / 4
    assert model.sparsity(rows) == {"active_dims": active, "sparsity_ratio": 1 - active / 600}
    assert model.sparsity(dense[0])["active_dims"] == np.count_nonzero(dense[0])
    assert model.sparsity(rows[:0]) == {"active_dims": 0.0, "sparsity_ratio": 1.0}


def test_rows():
    dense = np.float32([[0, 1, 0], [0, 0, 0], [2, 0, -3]])
    rows = SparseRows.of(dense)
    assert [row.shape for row in rows] == [(3,)] * 3
    for place in (0, 2, -1, np.int64(1)):
        assert np.array_equal(rows[place].toarray(), dense[place])
    for some in (slice(1, None), slice(0, 0), slice(None, None, -1), slice(None, None, 2), slice(5, 9), slice(2, 1)):
        assert np.array_equal(rows[some].toarray(), dense[some]), some
        assert rows[some].shape == dense[some].shape
    assert np.array_equal(SparseRows.stack([rows, rows[1:]]).toarray(), np.concatenate([dense, dense[1:]]))
    assert np.array_equal(as_dense([rows[0], rows[2]]), dense[[0, 2]])
    assert repr(rows) == "SparseRows(shape=(3, 3), 3 of float32)"
    for place, kind in ((3, IndexError), (-4, IndexError), ("a", TypeError)):
        with pytest.raises(kind):
            rows[place]
    assert [float(rows[0][place]) for place in (0, 1, -1)] == [0, 1, 0] and rows[2, 2] == -3
    with pytest.raises(ValueError, match="a part of a row of shape"):
        rows[0][:2]
    with pytest.raises(ValueError, match="has no rows"):
        SparseRows.of(np.zeros((1, 2, 3), np.float32))


# ------------------------------------------------------------------------------------------------- life and refusals


def test_another_type_pickling_and_closing(model):
    rows = model.encode(TEXTS).toarray()
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.encode(TEXTS).toarray(), rows)
    narrow = copy.half().encode(TEXTS)
    assert narrow.values.dtype == np.float16 and np.abs(narrow.toarray() - rows).max() < 0.1
    copy.close()
    for texts in (TEXTS, []):
        with pytest.raises(errors.UnusableError):
            copy.encode(texts)
    assert "(1): SpladePooling(max)" in repr(model) and "with its head" in repr(model)


@pytest.mark.parametrize("name", ["fit", "push_to_hub", "load_adapter"])
def test_names_that_are_left_out(model, name):
    with pytest.raises(errors.UnsupportedNameError, match=f"SparseEncoder.{name} is left out: "):
        getattr(model, name)


@pytest.mark.parametrize(
    "file, changes, words",
    [
        ("1_SpladePooling/config.json", {"pooling_strategy": "mean"}, 'pooling_strategy "mean": known are max, sum'),
        ("1_SpladePooling/config.json", {"activation_function": "gelu"}, "known are relu, log1p_relu"),
        ("config_sentence_transformers.json", {"model_type": "SentenceTransformer"}, "SentenceTransformer loads it"),
        ("config_sentence_transformers.json", {"model_type": ...}, "SentenceTransformer loads it"),
        ("sentence_bert_config.json", {"transformer_task": "sequence-classification"}, "transformer_task"),
    ],
)
def test_what_is_not_known(folder, file, changes, words):
    change_json(folder / file, **changes)
    with pytest.raises(errors.UnsupportedError, match=words):
        load(folder)


@pytest.mark.parametrize("kind", ["SparseAutoEncoder", "SparseStaticEmbedding"])
def test_modules_that_are_left_out(folder, kind):
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = f"sentence_transformers.sparse_encoder.models.{kind}"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(errors.UnsupportedError, match=f"modules.json: module {kind}: of sparse encoders those with"):
        load(folder)


def test_a_list_without_pooling(folder):
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps(modules[:1]))
    with pytest.raises(errors.UnsupportedError, match=r"modules \[\] of a SparseEncoder: SpladePooling alone is known"):
        load(folder)


def test_a_checkpoint_without_a_head_names_its_tensors(folder):
    rewrite(folder, lambda tensors: [tensors.pop(name) for name in list(tensors) if name.startswith("vocab_transform")])
    with pytest.raises(errors.WeightsError, match=r"missing vocab_transform.weight \[36, 36\]"):
        load(folder)


def test_words_that_are_not_tied_need_their_own_tensor(folder):
    change_json(folder / "config.json", tie_word_embeddings=False)
    with pytest.raises(errors.WeightsError, match=r"missing vocab_projector.weight \[600, 36\]"):
        load(folder)


def test_families_without_a_head(plain, tmp_path):
    folder = Path(shutil.copytree(plain, tmp_path / "bare"))
    change_json(folder / "config.json", architectures=["BertModel"])
    with pytest.raises(errors.UnsupportedError, match="without modules.json a ...ForMaskedLM is expected there"):
        load(folder)
    sizes = {"n_embd": 36, "n_head": 3, "n_layer": 2, "n_positions": 64, "vocab_size": 600}
    (folder / "config.json").write_text(json.dumps(sizes | {"model_type": "gpt2", "architectures": ["XForMaskedLM"]}))
    with pytest.raises(errors.UnsupportedError, match="heads for logits of words are known of albert"):
        load(folder)


def test_each_class_loads_its_own_folders(listed, plain):
    with pytest.raises(errors.UnsupportedError, match='model_type "SparseEncoder": SparseEncoder loads it'):
        SentenceTransformer(str(listed), device="cpu")
    with SentenceTransformer(str(plain), device="cpu") as model:
        assert model.encode(["a dog"]).shape == (1, 36)
