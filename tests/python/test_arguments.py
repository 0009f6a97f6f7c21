"""Constructors and requests: one declaration each, in which an unknown name is an error at every step to the core."""

import inspect
from dataclasses import fields

import pytest

from grilly import CrossEncoder, HybridEncoder, MultiVectorEncoder, SentenceTransformer, SparseEncoder, _core
from grilly.cross_encoder import CrossArguments
from grilly.errors import InvalidArgumentError, UnusableError
from grilly.hybrid_encoder import HybridRequest
from grilly.multi_vector_encoder import MultiVectorArguments, MultiVectorRequest
from grilly.sentence_transformer.arguments import OURS, ModelArguments, Options
from grilly.sentence_transformer.calls import Request
from grilly.sentence_transformer.encoding import Wanted
from grilly.sentence_transformer.plain import PlainArguments
from grilly.sparse_encoder import SparseArguments, SparseRequest

FOUND = "modules device prompts default_prompt_name cache_folder trust_remote_code revision local_files_only token"
READ = "model_kwargs processor_kwargs config_kwargs model_card_data backend"
CONSTRUCTORS = {
    SentenceTransformer: (
        PlainArguments, f"{FOUND} use_auth_token {READ} similarity_fn_name truncate_dim", OURS,
    ),
    SparseEncoder: (SparseArguments, f"{FOUND} {READ} similarity_fn_name max_active_dims", OURS),
    MultiVectorEncoder: (MultiVectorArguments, f"{FOUND} {READ} similarity_fn_name", OURS),
    HybridEncoder: (ModelArguments, f"{FOUND} {READ}", OURS),
    CrossEncoder: (
        CrossArguments,
        f"{FOUND} {READ} num_labels max_length activation_fn keep_in_fp32_modules true_token false_token",
        tuple(name for name in OURS if name != "max_seq_length"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", CONSTRUCTORS)
def test_a_constructor_takes_the_fields_of_its_arguments(kind):
    arguments, names, last = CONSTRUCTORS[kind]
    parameters = inspect.signature(kind).parameters
    assert list(parameters) == ["model_name_or_path", *names.split(), *last]
    first, *others = parameters.values()
    assert first.kind is first.POSITIONAL_OR_KEYWORD and {each.kind for each in others} == {first.KEYWORD_ONLY}
    given = {field.name: field.default for field in fields(arguments) if field.init}
    assert {name: parameter.default for name, parameter in parameters.items()} == given


@pytest.mark.parametrize("kind", CONSTRUCTORS)
def test_a_misspelt_argument_is_an_error_of_the_class(kind, tiny_model):
    with pytest.raises(TypeError, match=rf"{kind.__name__}.__init__\(\) got an unexpected keyword argument 'devise'"):
        kind(tiny_model, devise="cpu")


@pytest.mark.parametrize("request_of", [Request, Wanted, SparseRequest, MultiVectorRequest, HybridRequest])
def test_a_request_takes_no_other_names(request_of):
    assert request_of(batch_size=3).batch_size == 3
    with pytest.raises(TypeError, match="batch_sizes"):
        request_of(batch_sizes=3)


def test_the_core_knows_every_option_and_no_other(tiny_model):
    known = {field.name for field in fields(Options)}
    for name in known:
        with pytest.raises(InvalidArgumentError, match="options: .*"):
            _core.EmbeddingModel.load(tiny_model, {name: {"of": "another type"}})
    with pytest.raises(InvalidArgumentError, match="unknown field `devise`") as error:
        _core.EmbeddingModel.load(tiny_model, {"device": "cpu", "devise": "cpu"})
    assert known == set(str(error.value).replace("`", "").partition("one of ")[2].split(", "))


def test_the_core_refuses_unknown_options_of_calls(tiny_model):
    core = _core.EmbeddingModel.load(tiny_model, {"device": "cpu"})
    found = core.encode(["A cat."], {"tokens": True})
    assert found.texts.shape == (1, 32) and len(found.tokens) == len(found.ids) == 1
    assert core.encode_pairs(["A"], ["B"], {}).texts.shape == (1, 32)
    for call in (
        lambda: core.encode(["A"], {"sizes": 1}),
        lambda: core.encode_pairs(["A"], ["B"], {"sizes": 1}),
        lambda: core.decode_states(["A"], ["B"], {"sizes": 1}),
    ):
        with pytest.raises(InvalidArgumentError, match="unknown field `sizes`"):
            call()
    with pytest.raises(InvalidArgumentError, match="prompt holds a lone surrogate"):
        core.encode(["A"], {"prompt": "\ud800"})


def test_the_core_says_what_its_class_configures(tiny_model):
    core = _core.EmbeddingModel.load(tiny_model, {"device": "cpu"})
    assert set(core.settings) == {"prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim"}
    assert [name for name, _ in core.settings["prompts"]][:2] == ["query", "document"]


def test_a_closed_core_is_distinguished_from_an_open_one(tiny_model):
    core = _core.EmbeddingModel.load(tiny_model, {"device": "cpu"})
    core.require_open()
    core.close()
    with pytest.raises(UnusableError, match="closed"):
        core.require_open()
