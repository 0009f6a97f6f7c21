"""The texts of tests/snippets under both packages, and sentence-transformers' public names."""

import inspect

import pytest
import sentence_transformers
import snippet_runner
from sentence_transformers import util as their_util
from sentence_transformers.base.model import BaseModel
from sentence_transformers.base.peft_mixin import PeftAdapterMixin
from sentence_transformers.sentence_transformer.fit_mixin import FitMixin

from grilly import SentenceTransformer, VulkanSentenceTransformer, util
from grilly.errors import UnsupportedNameError

THEIRS = (sentence_transformers.SentenceTransformer, BaseModel, FitMixin, PeftAdapterMixin)


@pytest.fixture(scope="module")
def expected(real_model_path, tmp_path_factory):
    """What a snippet gives under sentence-transformers; each runs once."""
    known: dict[str, dict] = {}

    def run(name: str) -> dict:
        if name not in known:
            folder = tmp_path_factory.mktemp(name) / "saved"
            known[name] = snippet_runner.run(name, "sentence_transformers", real_model_path, "cpu", folder)
        return known[name]

    return run


@pytest.mark.parametrize("name, package", snippet_runner.CASES)
def test_a_snippet(name, package, real_model_path, device, tmp_path, expected):
    found = snippet_runner.run(name, package, real_model_path, device, tmp_path / "saved")
    assert snippet_runner.difference(found, expected(name)) <= snippet_runner.TOLERANCE


def their_names() -> list[str]:
    """Every public name that sentence-transformers' own classes define, and torch's do not."""
    return sorted({name for kind in THEIRS for name in vars(kind) if not name.startswith("_")})


def test_the_number_of_names():
    assert len(their_names()) == 62


@pytest.mark.parametrize("kind", [SentenceTransformer, VulkanSentenceTransformer])
def test_every_name_is_here_or_says_what_to_do(real_model_path, kind):
    with kind(str(real_model_path), device="cpu") as model:
        refused = []
        for name in their_names():
            if hasattr(model, name):
                continue
            with pytest.raises(UnsupportedNameError, match=f"{name} is left out: .{{12}}"):
                getattr(model, name)
            refused.append(name)
        assert len(refused) < 30


METHODS = [
    "encode", "encode_query", "encode_document", "encode_multi_process", "similarity", "similarity_pairwise",
    "truncate_embeddings", "truncate_sentence_embeddings", "set_pooling_include_prompt", "start_multi_process_pool",
    "stop_multi_process_pool", "save", "save_pretrained", "preprocess", "supports", "is_singular_input", "cuda",
]  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_arguments_have_their_names_order_and_defaults(name):
    ours, theirs = (
        [
            (p.name, p.default)
            for p in inspect.signature(getattr(kind, name)).parameters.values()
            if p.kind != p.VAR_KEYWORD
        ]
        for kind in (SentenceTransformer, sentence_transformers.SentenceTransformer)
    )
    assert ours[: len(theirs)] == theirs


def test_the_constructors_arguments():
    ours, theirs = (
        {p.name: p.default for p in inspect.signature(kind).parameters.values()}
        for kind in (SentenceTransformer, sentence_transformers.SentenceTransformer)
    )
    assert theirs.items() <= ours.items() and list(theirs)[0] == list(ours)[0]


UTIL = [
    "semantic_search", "paraphrase_mining", "paraphrase_mining_embeddings", "community_detection", "cos_sim",
    "dot_score", "quantize_embeddings", "normalize_embeddings", "truncate_embeddings",
    "pairwise_cos_sim", "euclidean_sim",
]  # fmt: skip


@pytest.mark.parametrize("name", UTIL)
def test_arguments_of_util(name):
    def shown(function):
        parameters = inspect.signature(function).parameters.values()
        return [(p.name, p.default.__name__ if callable(p.default) else p.default) for p in parameters]

    ours, theirs = shown(getattr(util, name)), shown(getattr(their_util, name))
    # Own arguments come behind the reference's: where the comparisons are computed.
    assert ours[: len(theirs)] == theirs and ours[len(theirs) :] in ([], [("device", None)])


@pytest.mark.parametrize("name", [name for name in their_util.__all__ if not name.startswith("_")])
def test_every_name_of_util_is_here_or_says_what_to_do(name):
    if not hasattr(util, name):
        with pytest.raises(UnsupportedNameError, match=f"{name} is left out"):
            getattr(util, name)
