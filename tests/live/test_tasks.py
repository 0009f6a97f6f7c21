"""Routers and adapters for tasks against sentence-transformers itself."""

import json

import numpy as np
import pytest
import torch
from fixtures import jina_lora
from models import families, routers
from sentence_transformers import SentenceTransformer

import grilly

FLOAT32 = 1e-5
assert jina_lora.JinaLoraModel  # the import makes it known to transformers
# The module of the model's own code, as its interface describes it: it alone gets the task, and checks it.
MODULE = """
from sentence_transformers.sentence_transformer.modules import Transformer as Plain
from torch import nn


class Transformer(nn.Module):
    def __init__(self, model_name_or_path, model_args=None, max_seq_length=None, **others):
        super().__init__()
        self.default_task, self.limit = (model_args or {}).pop("default_task", None), max_seq_length
        self.path, self.models = model_name_or_path, nn.ModuleDict()
        self.tasks = self.of(None).model.config.lora_adaptations

    def of(self, task):
        key = str(task).replace(".", "_")
        if key not in self.models:
            self.models[key] = Plain(self.path, model_kwargs={"dtype": "float32"}, config_kwargs={"task": task})
            self.models[key].max_seq_length = self.limit
        return self.models[key]

    def forward(self, features, task=None):
        if task and task not in self.tasks:
            raise ValueError(f"Unsupported task {task}")
        return self.of(task or self.default_task)(features)

    def tokenize(self, texts):
        return self.of(None).preprocess(texts)

    @classmethod
    def load(cls, path):
        return cls(path)
"""


def largest(rows, exact) -> float:
    return np.abs(np.asarray(rows, np.float64) - exact).max() / np.abs(exact).max()


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(families.FIXTURES / "routers.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def sentences(golden) -> list[str]:
    return [str(text) for text in golden["texts"]]


@pytest.mark.parametrize("name", routers.table())
@pytest.mark.parametrize("old", [False, True])
def test_routes(name, old, device, sentences, golden, tmp_path):
    folder = routers.build(name, tmp_path)
    if old:
        routers.as_asym(folder)
    theirs = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})
    exact = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": torch.float32}).double()
    with grilly.VulkanSentenceTransformer(folder, device=device) as ours:
        assert ours.backend == device and ours.max_seq_length == theirs.max_seq_length
        assert len(ours) == len(theirs) and sorted(ours.get_model_kwargs()) == sorted(theirs.get_model_kwargs())
        assert ours.get_embedding_dimension() == theirs.get_embedding_dimension()
        for task in routers.table()[name]["tasks"]:
            expected = exact.encode(sentences, task=task)
            assert largest(expected, golden[f"{name}/{task}/rows"]) <= 1e-7
            assert largest(ours.encode(sentences, task=task, normalize_embeddings=False), expected) <= FLOAT32
        for method in ("encode_query", "encode_document"):
            rows = getattr(ours, method)(sentences, normalize_embeddings=False)
            assert largest(rows, getattr(exact, method)(sentences)) <= FLOAT32
        for model in (theirs, ours):
            with pytest.raises(ValueError):
                model.encode(["a"], task="other")


@pytest.mark.parametrize("texts", [[{"query": "a cat"}, {"query": "dogs"}], {"document": "a cat"}, [{"document": "b"}]])
def test_texts_in_dicts(texts, tmp_path):
    folder = routers.build("table-and-encoder", tmp_path)
    theirs = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})
    with grilly.SentenceTransformer(str(folder), device="cpu") as ours:
        rows, expected = ours.encode(texts), theirs.encode(texts)
        assert rows.shape == expected.shape and largest(rows, expected.astype(np.float64)) <= FLOAT32
        for model in (ours, theirs):
            with pytest.raises(ValueError, match="task"):
                model.encode([{"query": "a"}, {"document": "b"}])


def test_limits_of_tasks(tmp_path):
    folder = routers.build("two-encoders", tmp_path)
    path = folder / "short_0_Transformer" / "sentence_bert_config.json"
    settings = json.loads(path.read_text(encoding="utf-8")) | {"query_length": 5, "document_length": 12}
    path.write_text(json.dumps(settings), encoding="utf-8")
    texts = ["one two three four five six seven eight nine ten eleven twelve", "a"]
    theirs = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": torch.float32}).double()
    with grilly.SentenceTransformer(str(folder), device="cpu") as ours:
        for task in ("query", "document", "passage", None):
            ids = theirs.preprocess(texts[:1], task=task)["input_ids"]
            assert ours.preprocess(texts[:1], task=task)["input_ids"].tolist() == ids.tolist()
            assert largest(ours.encode(texts, task=task), theirs.encode(texts, task=task)) <= FLOAT32


@pytest.mark.parametrize("default", [None, "separation"])
def test_the_module_of_the_models_own_code(default, device, sentences, tmp_path):
    """The same folder in both: theirs runs its code, which passes the task on."""
    folder = families.build("jina-lora", tmp_path / "ours")
    reference = families.build_for_reference("jina-lora", tmp_path / "theirs")
    (reference / "modules.json").write_text((folder / "modules.json").read_text(encoding="utf-8"), encoding="utf-8")
    (reference / "custom_st.py").write_text(MODULE, encoding="utf-8")
    kwargs = {} if default is None else {"default_task": default}
    theirs = SentenceTransformer(str(reference), device="cpu", trust_remote_code=True, model_kwargs=dict(kwargs))
    with grilly.SentenceTransformer(folder, device=device, model_kwargs=kwargs, dtype="float32") as ours:
        assert ours.get_model_kwargs() == theirs.get_model_kwargs() == ["task"]
        for task in (None, *families.table()["jina-lora"]["tasks"]):
            expected = theirs.encode(sentences, task=task).astype(np.float64)
            assert largest(ours.encode(sentences, task=task), expected) <= FLOAT32, task
        for model in (theirs, ours):
            with pytest.raises(ValueError, match="task"):
                model.encode_query(sentences[:2])
