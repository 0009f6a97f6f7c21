"""Adapters for tasks against goldens of an independent model: each task in three types and on both backends."""

import json

import numpy as np
import pytest

from grilly import SentenceTransformer, VulkanSentenceTransformer, stats
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError, WeightsError

from . import families
from .golden import TYPES, error, same_bits
from .golden import bound as bound_of
from .spoil import change_json, rewrite

NAMES = [name for name, row in families.table().items() if "tasks" in row]


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(families.FIXTURES / "families.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def sentences(golden) -> list[str]:
    return [str(text) for text in golden["texts"]]


@pytest.fixture(scope="module", params=NAMES)
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def tasks(name) -> list[str]:
    return families.table()[name]["tasks"]


@pytest.fixture(scope="module")
def folder(name, tmp_path_factory):
    return families.build(name, tmp_path_factory.mktemp("tasks"))


@pytest.mark.parametrize("dtype", TYPES)
def test_each_task_has_its_weights(folder, name, tasks, device, dtype, golden, sentences, slow, monkeypatch):
    monkeypatch.setenv("GRILLY_STRICT", "1")
    some = slice(None, None, 6 if slow else 1)
    texts = sentences[some]
    before = stats()["fallbacks"]
    with VulkanSentenceTransformer(folder, device=device, dtype=dtype) as model:
        assert model.backend == device and model.get_model_kwargs() == ["task"]
        for task in tasks:
            rows = model.encode(texts, normalize_embeddings=False, task=task)
            assert rows.dtype == (np.float16 if dtype == "float16" else np.float32)
            bound = bound_of(golden, f"{name}/{task}", dtype)
            assert error(rows, golden[f"{name}/{task}/rows"][some]) <= bound, task
            alone = model.encode(texts[3], normalize_embeddings=False, task=task)
            assert same_bits(alone, rows[3])
        # The weights as they are stay what they were.
        bound = bound_of(golden, name, dtype)
        assert error(model.encode(texts, normalize_embeddings=False), golden[f"{name}/rows"][some]) <= bound
    assert stats()["fallbacks"] == before


@pytest.mark.parametrize("name", ["jina-lora"], indirect=True)
@pytest.mark.parametrize("default", [None, 1])
def test_weights_take_memory_when_their_task_is_first_used(vulkan, folder, tasks, default):
    def uploaded(work, *given, **options) -> int:
        before = stats()["bytes_weights"]
        work(*given, **options)
        return stats()["bytes_weights"] - before

    options = {} if default is None else {"model_kwargs": {"default_task": tasks[default]}}
    models = []
    whole = uploaded(lambda: models.append(SentenceTransformer(folder, device="vulkan", **options)))
    with models[0] as model:
        held = stats()["bytes_held"]
        assert whole > 0 and uploaded(model.encode, ["a"]) == 0
        for task in tasks:
            used = default is not None and task == tasks[default]
            assert uploaded(model.encode, ["a"], task=task) == (0 if used else whole)
            assert uploaded(model.encode, ["a"], task=task) == 0
        assert stats()["bytes_held"] > held
        model.close()
        assert stats()["bytes_held"] < held


@pytest.mark.parametrize("name", ["jina-lora"], indirect=True)
def test_a_default_task(folder, tasks, sentences, tmp_path):
    task, other = tasks[:2]
    with SentenceTransformer(folder, device="cpu") as plain:
        expected, of_other = plain.encode(sentences[:4], task=task), plain.encode(sentences[:4], task=other)
    with SentenceTransformer(folder, device="cpu", model_kwargs={"default_task": task}) as model:
        assert same_bits(model.encode(sentences[:4]), expected)
        assert same_bits(model.encode(sentences[:4], task=""), expected)
        assert same_bits(model.encode(sentences[:4], task=other), of_other)
        assert same_bits(model.half().float().encode(sentences[:4]), expected)
    with pytest.raises(InvalidArgumentError, match=f"task is 'no', expected one of .*{task}".replace("'", '"')):
        SentenceTransformer(folder, device="cpu", model_kwargs={"default_task": "no"})
    with pytest.raises(InvalidTypeError, match="default_task"):
        SentenceTransformer(folder, device="cpu", model_kwargs={"default_task": 3})
    # The settings of the module may name one too.
    own = families.build("jina-lora", tmp_path)
    settings = {"max_seq_length": 150, "do_lower_case": False, "model_args": {"default_task": task}}
    (own / "sentence_bert_config.json").write_text(json.dumps(settings), encoding="utf-8")
    with SentenceTransformer(own, device="cpu") as model:
        assert same_bits(model.encode(sentences[:4]), expected)


@pytest.mark.parametrize("name", ["jina-lora"], indirect=True)
def test_a_task_that_has_no_adapter(folder, tasks):
    with SentenceTransformer(folder, device="cpu") as model:
        for call in (lambda: model.encode("a", task="retrieval"), lambda: model.encode_query("a")):
            with pytest.raises(InvalidArgumentError, match="expected one of .*retrieval.query.*or none"):
                call()
        with pytest.raises(InvalidTypeError, match="task is of type int"):
            model.encode("a", task=1)
        with pytest.raises(InvalidArgumentError, match="'modality'"):
            model.encode("a", task=tasks[0], modality="text")


def test_a_plain_model_ignores_tasks(checkpoint):
    with SentenceTransformer(checkpoint("base"), device="cpu") as model:
        assert same_bits(model.encode("the cat", task="any"), model.encode("the cat"))
        assert model.get_model_kwargs() == []
    with pytest.raises(UnsupportedError, match="default_task: the model has no adapters"):
        SentenceTransformer(checkpoint("base"), device="cpu", model_kwargs={"default_task": "any"})


@pytest.mark.parametrize("name", ["jina-lora"], indirect=True)
def test_a_module_that_does_not_take_the_task(folder, sentences, tmp_path, tasks):
    """As in sentence-transformers, modules.json says which modules take it; a folder without one has none."""
    with SentenceTransformer(folder, device="cpu") as model:
        expected = model.encode(sentences[:3])
    own = families.build("jina-lora", tmp_path)
    modules = json.loads((own / "modules.json").read_text(encoding="utf-8"))
    del modules[0]["kwargs"]
    (own / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    with SentenceTransformer(own, device="cpu") as model:
        assert same_bits(model.encode(sentences[:3], task=tasks[0]), expected)
        assert model.get_model_kwargs() == []
    (own / "modules.json").unlink()
    with SentenceTransformer(own, device="cpu") as model:
        assert same_bits(model.encode(sentences[:3], task=tasks[0]), expected)


# ---------------------------------------------------------------------------------------------- what cannot be used


def message(folder, kind, *parts: str) -> None:
    with pytest.raises(kind) as caught:
        SentenceTransformer(folder, device="cpu")
    text = str(caught.value)
    for part in (str(folder), *parts):
        assert part in text, text


def test_adapters_of_other_sizes_or_none(tmp_path):
    folder = families.build("jina-lora", tmp_path)
    place = "roberta.encoder.layers.1.mlp.fc1.parametrizations.weight.0.lora_A"
    rewrite(folder, lambda tensors: tensors.update({place: tensors[place][:, :2]}))
    message(folder, WeightsError, "encoder.layers.1.mlp.fc1.lora_A has shape [4, 2, 36], expected [4, 3, 36]")
    rewrite(folder, lambda tensors: tensors.pop(place))
    message(folder, WeightsError, "missing encoder.layers.1.mlp.fc1.lora_A [4, 3, 36]")
    families.build("jina-lora", tmp_path)
    change_json(folder / "config.json", lora_adaptations=["a", "b"])
    message(folder, WeightsError, "word_embeddings.lora_A has shape [4, 600, 3], expected [2, 600, 3]")
    # Without the key the adapters are tensors that nothing reads.
    families.build("jina-lora", tmp_path)
    change_json(folder / "config.json", lora_adaptations=None)
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    message(folder, UnsupportedError, "module custom_st.Transformer")
    modules[0]["type"] = "sentence_transformers.models.Transformer"
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    message(folder, WeightsError, "unexpected embeddings.word_embeddings.lora_A [4, 600, 3]")


def test_the_class_of_that_code_around_another_model(tmp_path):
    folder = families.build("xlm-roberta", tmp_path)
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    for kind in ("custom_st.Transformer", "jinaai/jina-embeddings-v3--custom_st.Transformer", "custom_st.Other"):
        modules[0]["type"] = kind
        (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
        message(folder, UnsupportedError, "modules.json", "custom_st." + kind.rpartition(".")[2])
