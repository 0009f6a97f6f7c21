"""The examples in the docstrings run, and every public name has one."""

import doctest
import importlib
import inspect
from pathlib import Path

import numpy as np
import pytest
from models import heads

import grilly
from grilly.sparse import SparseRows

PACKAGE = Path(grilly.__file__).parent
UPSTREAM = [f"compat/upstream{folder}" for folder in ("", "/backend", "/utils", "/utils/data")]
MODULES = [
    "arrays",
    "compile_command",
    "compiler",
    "closed",
    "cross_encoder",
    "device_array",
    "devices",
    "encoded",
    "hub",
    "outputs",
    "place",
    "quantization",
    "mining",
    "padding",
    "retrieval",
    "scores",
    "scoring",
    "similarity",
    "sparse",
    "sparse_blocks",
    "sparse_encoder",
    "sparse_products",
    "sparse_tensors",
    "sparse_weights",
    "tensors",
    "testing",
    "token_features",
    "token_limits",
    "token_texts",
    "tokenizer",
    "names",
    "util",
    "vocabulary",
    *(
        f"sentence_transformer.{name}"
        for name in (
            "aliases",
            "calls",
            "decoding",
            "loaded",
            "module_kinds",
            "modules",
            "moving",
            "plain",
            "properties",
            "saving",
            "sequence",
            "settings",
            "vulkan",
        )  # fmt: skip
    ),
    "sentence_transformer",
    *(
        f"{folder.replace('/', '.')}.{path.stem}"
        for folder in ("functional", "kernels", "nn", "optim", "quant", "train", *UPSTREAM)
        for path in sorted((PACKAGE / folder).glob("*.py"))
        if path.stem not in ("__init__", "attending", "dispatch", "operands", "vulkan_sentence_transformer")
    ),
]


@pytest.fixture(scope="module")
def real(real_model_path):
    with grilly.VulkanSentenceTransformer(real_model_path, device="cpu") as model:
        yield model


@pytest.fixture(scope="module")
def ranker(tmp_path_factory):
    return heads.build("scores", "bert", tmp_path_factory.mktemp("scores"))


@pytest.fixture(scope="module")
def splade(tmp_path_factory):
    return heads.build("words", "bert", tmp_path_factory.mktemp("words"))


@pytest.fixture(scope="module")
def names(real, ranker, splade, tmp_path_factory):
    """What the examples use."""
    models = grilly.CrossEncoder(ranker, device="cpu"), grilly.SparseEncoder(splade, device="cpu")
    with models[0] as ranker_model, models[1] as splade_model:
        folders = {"ranker": ranker, "splade": splade, "runs": tmp_path_factory.mktemp("runs")}
        rows = SparseRows.of(np.float32([[0, 2, 0, 1], [0, 0, 0, 0]]))
        values = {"model": real, "ranker_model": ranker_model, "splade_model": splade_model, "rows": rows, "np": np}
        yield values | folders


@pytest.mark.parametrize("name", MODULES)
def test_examples(name, names, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    module = importlib.import_module(f"grilly.{name}")
    found = doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs=names)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    reports = []
    for example in found:
        runner.run(example, out=reports.append)
    assert runner.failures == 0, "".join(reports)
    assert runner.tries > 0


def public():
    for name in MODULES:
        module = importlib.import_module(f"grilly.{name}")
        for public_name in module.__all__:
            thing = getattr(module, public_name)
            if inspect.isfunction(thing) or inspect.isclass(thing):
                yield f"{name}.{public_name}", thing
            if inspect.isclass(thing):
                for method, value in vars(thing).items():
                    if not method.startswith("_") and inspect.isfunction(value):
                        yield f"{name}.{public_name}.{method}", value


@pytest.mark.parametrize("thing", [pytest.param(thing, id=name) for name, thing in public()])
def test_every_public_name_is_documented(thing):
    assert thing.__doc__ and len(thing.__doc__.split()) > 4
