"""Models with a Router against sentence-transformers' goldens: each route in three types and on both backends."""

import json
import math
import pickle

import numpy as np
import pytest

from grilly import SentenceTransformer, VulkanSentenceTransformer, stats
from grilly.errors import InvalidArgumentError, InvalidTypeError, ModelFormatError, UnsupportedError, WeightsError

from . import families, routers
from .golden import TYPES, error, same_bits
from .golden import bound as bound_of
from .spoil import change_json, rewrite

TABLE = routers.table()


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(families.FIXTURES / "routers.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def sentences(golden) -> list[str]:
    return [str(text) for text in golden["texts"]]


@pytest.fixture(scope="module", params=TABLE)
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(name, tmp_path_factory):
    return routers.build(name, tmp_path_factory.mktemp("routers"))


@pytest.fixture
def own(name, tmp_path):
    """A copy to be changed."""
    return routers.build(name, tmp_path)


@pytest.mark.parametrize("dtype", TYPES)
def test_each_route(folder, name, device, dtype, golden, sentences, slow, monkeypatch):
    monkeypatch.setenv("GRILLY_STRICT", "1")
    some = slice(None, None, 4 if slow else 1)
    texts = sentences[some]
    before = stats()["fallbacks"]
    with VulkanSentenceTransformer(folder, device=device, dtype=dtype) as model:
        assert model.backend == device and set(model.get_model_kwargs()) == {"task", "modality"}
        for task in TABLE[name]["tasks"]:
            rows = model.encode(texts, normalize_embeddings=False, task=task)
            assert rows.dtype == (np.float16 if dtype == "float16" else np.float32)
            bound = bound_of(golden, f"{name}/{task}", dtype)
            assert error(rows, golden[f"{name}/{task}/rows"][some]) <= bound, task
            few = model.encode(texts[::-3], batch_size=2, normalize_embeddings=False, task=task)
            assert same_bits(few, rows[::-3])
            assert same_bits(model.encode(texts[5], normalize_embeddings=False, task=task), rows[5])
    assert stats()["fallbacks"] == before


def test_queries_and_documents(folder, name, sentences):
    with SentenceTransformer(folder, device="cpu") as model:
        for task in ("query", "document"):
            expected = model.encode(sentences[:5], task=task)
            assert same_bits(getattr(model, f"encode_{task}")(sentences[:5]), expected)
            assert same_bits(model.encode(sentences[:5], task=task, modality="text"), expected)
        assert not np.array_equal(model.encode_query(sentences[:5]), model.encode_document(sentences[:5]))
        known = ["query", "document"] if name != "two-encoders" else ["short", "long", "document", "passage", "query"]
        for task in ("passages", ""):
            with pytest.raises(InvalidArgumentError) as caught:
                model.encode("a", task=task)
            assert str(caught.value) == f"task is {json.dumps(task)}, expected one of {json.dumps(known)}"
        with pytest.raises(InvalidTypeError, match="task is of type int"):
            model.encode("a", task=1)
        with pytest.raises(UnsupportedError, match="modality is 'image'"):
            model.encode("a", modality="image")
        with pytest.raises(InvalidArgumentError, match="encode_query has a task of its own"):
            model.encode_query("a", task="document")


@pytest.mark.parametrize("name", ["table-and-encoder"], indirect=True)
def test_texts_in_dicts_from_their_task(folder, sentences):
    with SentenceTransformer(folder, device="cpu") as model:
        queries = model.encode(sentences[:3], task="query")
        assert same_bits(model.encode([{"query": text} for text in sentences[:3]]), queries)
        assert model.is_singular_input({"query": "a"}) and same_bits(model.encode({"query": sentences[0]}), queries[0])
        with pytest.raises(InvalidArgumentError, match="tasks .'document', 'query'., expected one task"):
            model.encode([{"query": "a"}, {"document": "b"}])
        with pytest.raises(InvalidArgumentError, match='task is "other"'):
            model.encode([{"other": "a"}])
        assert same_bits(model.encode([{"text": sentences[0]}]), model.encode(sentences[:1]))
        for texts in ([{"query": "a", "document": "b"}], [{"query": "a"}, "b"], {}, [{"query": 3}]):
            with pytest.raises((InvalidTypeError, InvalidArgumentError)):
                model.encode(texts)
        with pytest.raises(InvalidTypeError):
            model.encode_query([{"query": "a"}])


@pytest.mark.parametrize("name", ["heads"], indirect=True)
def test_a_model_without_a_default_route(folder, sentences):
    with SentenceTransformer(folder, device="cpu") as model:
        with pytest.raises(InvalidArgumentError, match='no task is given, .* expected one of ."query", "document".'):
            model.encode(sentences[:2])
        # The Router is not the first module, which gets the texts.
        with pytest.raises(InvalidTypeError, match="dict"):
            model.encode([{"query": "a"}])
        assert len(model.encode([])) == 0


def test_what_the_model_is(folder, name):
    with SentenceTransformer(folder, device="cpu") as model:
        text = repr(model)
        if name == "table-and-encoder":
            routes = "query: StaticEmbedding; document (default): Transformer, Pooling, Dense"
            assert f"(0): Router({routes})" in text and "(1): Normalize()" in text and len(model) == 2
            assert model.max_seq_length == math.inf and model.get_embedding_dimension() == 20
            model.max_seq_length = 7
            assert model.max_seq_length == 7
        elif name == "heads":
            assert "(2): Router(query: Dense, Normalize; document: Dense, Dense)" in text and len(model) == 4
            assert model.get_embedding_dimension() == 24
        else:
            assert model.max_seq_length == 150 and len(model) == 1
            assert model.tokenizer.encode("a cat") != model.preprocess(["a cat"])["input_ids"][0].tolist()


def test_a_copy_keeps_each_route(folder, name, sentences):
    tasks = TABLE[name]["tasks"]
    with SentenceTransformer(folder, device="cpu") as model:
        expected = [model.encode(sentences[:6], task=task) for task in tasks]
        with pickle.loads(pickle.dumps(model)) as copy:
            assert all(same_bits(copy.encode(sentences[:6], task=task), rows) for task, rows in zip(tasks, expected))
        model.half().float()
        assert all(same_bits(model.encode(sentences[:6], task=task), rows) for task, rows in zip(tasks, expected))
    for task in tasks:
        with pytest.raises(Exception, match="closed"):
            model.encode("a", task=task)


def test_a_saved_model_is_the_model(folder, name, sentences, tmp_path):
    tasks = TABLE[name]["tasks"]
    with SentenceTransformer(folder, device="cpu") as model:
        expected = [model.encode(sentences, task=task) for task in tasks]
        model.save_pretrained(tmp_path / "as-it-is")
        model.max_seq_length = 9
        shorter = [model.encode(sentences, task=task) for task in tasks]
        model.save_pretrained(tmp_path / "shorter")
        with SentenceTransformer(tmp_path / "as-it-is", device="cpu") as saved:
            assert repr(saved) == repr(model) and saved.dtype == model.dtype
            assert all(same_bits(saved.encode(sentences, task=task), rows) for task, rows in zip(tasks, expected))
        with SentenceTransformer(tmp_path / "shorter", device="cpu") as saved:
            for task, rows in zip(tasks, shorter):
                # A StaticEmbedding has no file for a limit.
                if (name, task) != ("table-and-encoder", "query"):
                    assert same_bits(saved.encode(sentences, task=task), rows)
    written = {str(path.relative_to(tmp_path / "as-it-is")) for path in (tmp_path / "as-it-is").rglob("*")}
    assert "config.json" not in written or "config.json" in TABLE[name]["files"]


def test_asym_of_older_versions(own, name, sentences):
    with SentenceTransformer(own, device="cpu") as model:
        expected = [model.encode(sentences[:4], task=task) for task in TABLE[name]["tasks"]]
    with SentenceTransformer(routers.as_asym(own), device="cpu") as model:
        found = [model.encode(sentences[:4], task=task) for task in TABLE[name]["tasks"]]
    assert all(map(same_bits, found, expected))


@pytest.mark.parametrize("name", ["two-encoders"], indirect=True)
def test_a_task_may_have_a_limit_of_tokens(own, sentences):
    text = "one two three " * 100
    with SentenceTransformer(own, device="cpu") as model:
        ids = model.preprocess([text], task="query")["input_ids"][0].tolist()
        model.max_seq_length = 6
        expected = model.encode([text, sentences[0]], task="query")
    assert len(ids) == 40
    change_json(own / "short_0_Transformer" / "sentence_bert_config.json", query_length=6, document_length=4000)
    with SentenceTransformer(own, device="cpu") as model:
        assert model.preprocess([text], task="query")["input_ids"][0].tolist() == ids[:6]
        assert same_bits(model.encode([text, sentences[0]], task="query"), expected)
        # The position table's limit is above all.
        assert model.preprocess([text], task="document")["input_ids"].shape[1] == 40
        assert model.preprocess([text])["input_ids"].shape[1] == 150


# ---------------------------------------------------------------------------------------------- what cannot be used


def message(folder, kind, *parts: str) -> None:
    with pytest.raises(kind) as caught:
        SentenceTransformer(folder, device="cpu")
    assert type(caught.value) is kind
    for part in (str(folder), *parts):
        assert part in str(caught.value), caught.value


@pytest.mark.parametrize("name", ["table-and-encoder"], indirect=True)
def test_faults_of_a_route(own):
    settings = json.loads((own / "router_config.json").read_text(encoding="utf-8"))

    def changed(**parts) -> None:
        (own / "router_config.json").write_text(json.dumps(settings | parts), encoding="utf-8")

    changed(parameters={"default_route": "passage"})
    message(own, ModelFormatError, "router_config.json", 'default_route is "passage"')
    changed(structure={"query": ["query_0_StaticEmbedding"], "document": []})
    message(own, ModelFormatError, "router_config.json", '"document" is')
    changed(types=settings["types"] | {"query_0_StaticEmbedding": "sentence_transformers.models.CLIPModel"})
    message(own, UnsupportedError, "CLIPModel")
    changed(types=settings["types"] | {"document_2_Dense": "sentence_transformers.models.LSTM"})
    message(own, UnsupportedError, "LSTM")
    changed()
    rewrite(own / "document_2_Dense", lambda tensors: tensors.pop("linear.bias"))
    message(own, WeightsError, "missing document_2_Dense/linear.bias [20]")
    (own / "query_0_StaticEmbedding" / "tokenizer.json").unlink()
    message(own, ModelFormatError, "query_0_StaticEmbedding", "tokenizer.json")
    (own / "router_config.json").unlink()
    message(own, ModelFormatError, "router_config.json", "no such file")
