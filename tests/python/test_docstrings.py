"""The examples in the docstrings run, and every public name has one."""

import doctest
import inspect

import numpy as np
import pytest
from models import heads, hybrid
from package_modules import modules

import grilly
from grilly.sparse import SparseRows

MODULES = list(modules())
EXAMPLES = [module for module in MODULES if ">>>" in inspect.getsource(module)]


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
def colbert(tmp_path_factory):
    return heads.build("vectors", "bert", tmp_path_factory.mktemp("vectors"))


@pytest.fixture(scope="module")
def hybrid_folder(tmp_path_factory):
    return hybrid.build(tmp_path_factory.mktemp("hybrid") / "model")


@pytest.fixture(scope="module")
def made(hybrid_folder, tiny_model):
    """Models of a `HybridEncoder`, and one to distill."""
    small = grilly.SentenceTransformer(tiny_model, device="cpu")
    with grilly.HybridEncoder(hybrid_folder, device="cpu") as model, small:
        yield {"hybrid": hybrid_folder, "hybrid_model": model, "tiny": small}


@pytest.fixture(scope="module")
def names(real, ranker, splade, colbert, made, tmp_path_factory):
    """What the examples use."""
    models = grilly.CrossEncoder(ranker, device="cpu"), grilly.SparseEncoder(splade, device="cpu")
    with models[0] as ranker_model, models[1] as splade_model, grilly.MultiVectorEncoder(colbert, device="cpu") as late:
        folders = {"ranker": ranker, "splade": splade, "colbert": colbert, "runs": tmp_path_factory.mktemp("runs")}
        rows = SparseRows.of(np.float32([[0, 2, 0, 1], [0, 0, 0, 0]]))
        values = {"model": real, "ranker_model": ranker_model, "splade_model": splade_model, "rows": rows, "np": np}
        yield values | folders | made | {"colbert_model": late}


class Finder(doctest.DocTestFinder):
    """Finds classes where they are written, wherever they say that they are from."""

    def _from_module(self, module, thing):
        if inspect.isclass(thing) and thing.__module__ == "grilly.sentence_transformers":
            methods = (inspect.unwrap(method) for method in vars(thing).values() if inspect.isfunction(method))
            return any(method.__globals__ is vars(module) for method in methods)
        return super()._from_module(module, thing)


@pytest.mark.parametrize("module", EXAMPLES, ids=lambda module: module.__name__)
def test_examples(module, names, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = Finder(exclude_empty=True).find(module, extraglobs=names)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    reports = []
    for example in found:
        runner.run(example, out=reports.append)
    assert runner.failures == 0, "".join(reports)
    assert runner.tries > 0


def public():
    for module in MODULES:
        name = module.__name__
        for public_name in getattr(module, "__all__", ()):
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
