"""grilly.integrations without the libraries: what is imported and said; tests/integrations runs beside them."""

import importlib
import pickle
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import grilly
from grilly import errors, integrations
from grilly.integrations.loading import settings

ROOT = Path(__file__).parents[2]
#: Module -> what it imports, the package of that.
LIBRARIES = {
    "bertopic": ("bertopic", "bertopic"),
    "chroma": ("chromadb", "chromadb"),
    "haystack": ("haystack", "haystack-ai"),
    "keybert": ("keybert", "keybert"),
    "langchain": ("langchain_core", "langchain-core"),
    "langchain_text_splitters": ("langchain_text_splitters", "langchain-text-splitters"),
    "llama_index": ("llama_index", "llama-index-core"),
    "mteb": ("mteb", "mteb"),
    "qdrant": ("qdrant_client", "qdrant-client"),
    "sklearn": ("sklearn", "scikit-learn"),
}
SHARED = {"embedder", "loading"}


def test_the_list_is_whole():
    found = {info.name for info in pkgutil.iter_modules(integrations.__path__)}
    assert found == LIBRARIES.keys() | SHARED
    table = dict(re.findall(r"^\| `(\w+)` \|.*\| ([\w-]+) \|$", integrations.__doc__, re.MULTILINE))
    assert table == {module: package for module, (_, package) in LIBRARIES.items()}
    pinned = (ROOT / "scripts" / "requirements" / "integrations.txt").read_text(encoding="utf-8")
    assert all(re.search(rf"^{package}==", pinned, re.MULTILINE) for package in table.values())


def test_the_package_imports_no_library(run):
    names = sorted(name for name, _ in LIBRARIES.values())
    code = f"import sys, grilly.integrations.embedder; print([name for name in {names} if name in sys.modules])"
    assert run(code).output == "[]\n"


@pytest.mark.parametrize("module", LIBRARIES)
def test_a_missing_library_is_named(module, monkeypatch):
    name, package = LIBRARIES[module]
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"grilly.integrations.{module}", raising=False)
    said = rf"^this integration needs {package}: pip install {package} \(.*{name}.*\)$"
    with pytest.raises(errors.MissingLibraryError, match=said) as caught:
        importlib.import_module(f"grilly.integrations.{module}")
    assert isinstance(caught.value, ImportError) and isinstance(caught.value, errors.GrillyError)


KINDS = ("CrossEncoder", "HybridEncoder", "MultiVectorEncoder", "SentenceTransformer", "SparseEncoder")


@pytest.mark.parametrize("name", [*KINDS, "VulkanSentenceTransformer"])
def test_other_libraries_find_the_reference_in_the_name_of_a_class(name):
    kind = getattr(grilly, name)
    assert str(kind) == f"<class 'grilly.sentence_transformers.{name}'>"
    assert pickle.loads(pickle.dumps(kind)) is kind


def test_settings_of_a_model_make_it_again(tiny_model):
    arguments = {
        "prompts": {"query": "Q: "}, "truncate_dim": 7, "dtype": "float16", "similarity_fn_name": "dot",
        "config_kwargs": {"layer_norm_eps": 1e-6}, "processor_kwargs": {"truncation_side": "left"},
        "default_prompt_name": "query",
    }  # fmt: skip
    with grilly.SentenceTransformer(tiny_model, device="cpu", **arguments) as model:
        model.max_seq_length = 5
        name, options = settings(model, {}, grilly.SentenceTransformer)
        assert name == str(tiny_model) and options["device"] == "cpu"
        text = "a cat sat on the mat and saw the rain"
        with grilly.SentenceTransformer(name, **options) as again:
            assert (again.encode(text) == model.encode(text)).all() and again.dtype == "float16"
            assert settings(again, {}, grilly.SentenceTransformer) == (name, options)
        model.set_pooling_include_prompt(False)
        with pytest.raises(errors.UnsupportedError, match="changed by what is not a value of JSON"):
            settings(model, {}, grilly.SentenceTransformer)
