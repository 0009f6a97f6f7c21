"""`SentenceTransformer`: sentence-transformers' arguments in its order and with its defaults."""

import inspect
import logging
import pickle

import numpy as np
import pytest

from grilly import SentenceTransformer, VulkanSentenceTransformer
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError

TEXTS = ["the cat", "", "a dog and a child and the world", "the", "way of life " * 100]


@pytest.fixture
def plain(tiny_model):
    with SentenceTransformer(tiny_model, device="cpu") as model:
        yield model


# sentence-transformers 6.2: every argument after self, with its default.
CONSTRUCTOR = {
    "model_name_or_path": None, "modules": None, "device": None, "prompts": None, "default_prompt_name": None,
    "cache_folder": None, "trust_remote_code": False, "revision": None, "local_files_only": False, "token": None,
    "use_auth_token": None, "model_kwargs": None, "processor_kwargs": None, "config_kwargs": None,
    "model_card_data": None, "backend": "torch", "similarity_fn_name": None, "truncate_dim": None,
}  # fmt: skip
ENCODE = {
    "inputs": inspect.Parameter.empty, "prompt_name": None, "prompt": None, "batch_size": 32,
    "show_progress_bar": None, "output_value": "sentence_embedding", "precision": "float32", "convert_to_numpy": True,
    "convert_to_tensor": False, "device": None, "normalize_embeddings": False, "truncate_dim": None, "pool": None,
    "chunk_size": None,
}  # fmt: skip


def parameters(function, several=False) -> dict:
    found = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in found if p.name != "self" and (several or p.kind != p.VAR_KEYWORD)}


def test_the_constructors_arguments_are_sentence_transformers():
    found = parameters(SentenceTransformer)
    assert list(found.items())[: len(CONSTRUCTOR)] == list(CONSTRUCTOR.items())
    kinds = [parameter.kind for parameter in inspect.signature(SentenceTransformer).parameters.values()]
    assert set(kinds[1:]) == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("method", ["encode", "encode_query", "encode_document"])
def test_the_arguments_of_encode_are_sentence_transformers(method):
    assert list(parameters(getattr(SentenceTransformer, method)).items()) == list(ENCODE.items())


@pytest.mark.parametrize("method", ["encode", "encode_query", "encode_document"])
@pytest.mark.parametrize("kind", [SentenceTransformer, VulkanSentenceTransformer])
def test_every_signature_shows_its_arguments(kind, method):
    shown = str(inspect.signature(getattr(kind, method)))
    assert "object at" not in shown and "batch_size" in shown and "arguments" not in shown


def test_both_classes_give_the_same_rows(plain, cpu_model):
    assert np.array_equal(plain.encode(TEXTS), cpu_model.encode(TEXTS, normalize_embeddings=False))
    assert np.array_equal(plain.encode(TEXTS, normalize_embeddings=True), cpu_model.encode(TEXTS))
    norms = np.linalg.norm(plain.encode(TEXTS), axis=1)
    assert not np.allclose(norms, 1)


def test_the_second_argument_is_the_prompts_name(prompted_model):
    with SentenceTransformer(str(prompted_model), device="cpu") as model:
        named = model.encode(TEXTS, "query")
        assert np.array_equal(named, model.encode(TEXTS, None, "search query: "))
        assert np.array_equal(named, model.encode_query(TEXTS))
        assert np.array_equal(model.encode_document(TEXTS), model.encode(TEXTS, "document"))
        assert not np.array_equal(named, model.encode(TEXTS))


@pytest.mark.parametrize("kind", [SentenceTransformer, VulkanSentenceTransformer])
@pytest.mark.parametrize("name", ["texts", "sentences", "inputs"])
def test_the_texts_by_any_name(tiny_model, kind, name):
    with kind(tiny_model, device="cpu") as model:
        for method in ("encode", "encode_query", "encode_document"):
            assert np.array_equal(getattr(model, method)(**{name: TEXTS}), getattr(model, method)(TEXTS))
        other = "inputs" if name != "inputs" else "texts"
        with pytest.raises(TypeError, match="twice|multiple values"):
            model.encode(TEXTS, **{name if name != next(iter(parameters(kind.encode))) else other: TEXTS})
        with pytest.raises(TypeError, match="required positional argument"):
            model.encode()


def test_no_name_and_modules():
    with pytest.raises(InvalidTypeError, match="expected the name"):
        SentenceTransformer()
    with pytest.raises(InvalidTypeError, match=r"SentenceTransformer\(modules=...\).save"):
        SentenceTransformer(modules=[object()])


@pytest.mark.parametrize("kind", [SentenceTransformer, VulkanSentenceTransformer])
def test_what_does_something_else_is_logged_once(tiny_model, kind, caplog):
    caplog.set_level(logging.INFO, "grilly")
    arguments = {
        "trust_remote_code": True, "modules": [object()], "model_card_data": object(), "backend": "torch",
        "model_kwargs": {"attn_implementation": "sdpa", "device_map": "cuda"},
        "tokenizer_kwargs": {"use_fast": True, "model_max_length": 20}, "config_kwargs": {"use_cache": False},
    }  # fmt: skip
    with kind(model_name_or_path=tiny_model, **arguments) as model:
        assert model.max_seq_length == 20 and model.requested_device == "vulkan"
        for _ in range(2):
            model.encode(TEXTS, device=["cpu", "cuda"], chunk_size=2, show_progress_bar=False)
    lines = [record.getMessage() for record in caplog.records if record.name == "grilly"]
    for words in (
        "trust_remote_code=True: no code", "modules are ignored", "model_card_data is ignored",
        "attn_implementation", "is taken as the device", "use_fast", "use_cache", "no process is started",
    ):  # fmt: skip
        assert len([line for line in lines if words in line]) == 1, words


def test_an_ordinary_load_warns_of_nothing(tiny_model, caplog):
    with SentenceTransformer(tiny_model, device="cpu"):
        pass
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("kind", [SentenceTransformer, VulkanSentenceTransformer])
def test_a_pool_gives_encodes_rows(tiny_model, kind):
    with kind(tiny_model, device="cpu") as model:
        expected = model.encode(TEXTS)
        pool = model.start_multi_process_pool(["cuda:0", "cuda:7", "cpu"])
        assert set(pool) == {"input", "output", "processes"} and len(pool["processes"]) == 3
        assert np.array_equal(model.encode(TEXTS, pool=pool, chunk_size=2), expected)
        assert np.array_equal(model.encode_multi_process(TEXTS, pool), expected)
        assert np.array_equal(
            model.encode_multi_process(TEXTS, pool, None, "the ", 3, 1), model.encode(TEXTS, prompt="the ")
        )
        assert np.array_equal(model.encode(TEXTS, device=["cuda:1", "mps"]), expected)
        kind.stop_multi_process_pool(pool)
        with pytest.raises(InvalidArgumentError, match="stopped"):
            model.encode(TEXTS, pool=pool)
        assert len(model.start_multi_process_pool()["processes"]) == 1
        with pytest.raises(InvalidArgumentError, match="tpu"):
            model.start_multi_process_pool(["tpu:0"])


def test_older_names(plain):
    with plain.truncate_sentence_embeddings(7):
        assert plain.encode("the").shape == (7,)
    assert plain.truncate_dim is None
    assert plain.get_backend() == plain.backend == "cpu"
    assert plain.modalities == ["text"] and plain.supports("text") and not plain.supports(("text", "image"))
    assert plain.is_singular_input("a") and not plain.is_singular_input(["a"]) and plain.get_model_kwargs() == []
    assert plain.SUPPORTED_SIMILARITY_FN_NAMES == ("cosine", "dot", "euclidean", "manhattan")


def test_it_is_no_function(plain):
    """There, a call is the forward pass of a torch module; only upstream's class has it for `encode`."""
    assert not callable(plain)


@pytest.mark.parametrize("kind", [SentenceTransformer, VulkanSentenceTransformer])
def test_a_pickled_model_has_its_settings(prompted_model, kind):
    with kind(prompted_model, device="cpu", model_kwargs={"dtype": "float16"}) as model:
        model.bfloat16()
        model.max_seq_length, model.truncate_dim, model.similarity_fn_name = 9, 5, "dot"
        model.prompts["code"] = "code: "
        model.default_prompt_name = "code"
        model.set_pooling_include_prompt(False)
        with pickle.loads(pickle.dumps(model)) as copy:
            assert type(copy) is kind and copy.dtype == "bfloat16" and copy.max_seq_length == 9
            assert copy.similarity_fn_name == "dot" and copy.default_prompt_name == "code"
            assert np.array_equal(copy.encode(TEXTS), model.encode(TEXTS))
            assert copy.encode("the").shape == (5,)


def test_a_padding_side_that_is_not_the_models(tiny_model):
    with SentenceTransformer(tiny_model, device="cpu", processor_kwargs={"padding_side": "right"}):
        pass
    with pytest.raises(UnsupportedError, match="padding_side.*left.*right"):
        SentenceTransformer(tiny_model, device="cpu", processor_kwargs={"padding_side": "left"})
