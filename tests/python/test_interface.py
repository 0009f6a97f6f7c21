"""Names, arguments and defaults that code written for upstream or for sentence-transformers relies on."""

import copy
import gc
import importlib
import inspect
import logging
import pickle
import subprocess
import sys

import numpy as np
import pytest

import grilly
from grilly import SentenceTransformer, VulkanSentenceTransformer
from grilly.errors import UnusableError


def test_a_tokenizer_is_pickled_with_its_model(tiny_model):
    with SentenceTransformer(tiny_model, device="cpu") as model:
        model.tokenizer.truncation_side = "left"
        again = [pickle.loads(pickle.dumps(model.tokenizer)), copy.deepcopy(model.tokenizer)]
        expected = model.tokenizer("a b c d e", truncation=True, max_length=4)["input_ids"]
        model.tokenizer.truncation_side = "right"
        assert model.tokenizer("a b c d e", truncation=True, max_length=4)["input_ids"] != expected
    gc.collect()
    for tokenizer in (*again, pickle.loads(pickle.dumps(again[0]))):
        assert tokenizer.truncation_side == "left"
        assert tokenizer("a b c d e", truncation=True, max_length=4)["input_ids"] == expected
    alone = SentenceTransformer(tiny_model, device="cpu").tokenizer
    gc.collect()
    assert alone("a")["input_ids"]
    with pytest.raises(UnusableError, match="model is gone"):
        pickle.dumps(alone)


def test_upstreams_path_is_the_same_class():
    module = importlib.import_module("grilly.utils.vulkan_sentence_transformer")
    assert module.VulkanSentenceTransformer is VulkanSentenceTransformer
    assert module.get_vulkan_sentence_transformer is grilly.get_vulkan_sentence_transformer


def defaults(function) -> dict:
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not inspect.Parameter.empty and name != "texts"
    }


def test_constructor_arguments():
    expected = {
        "model_name": "all-MiniLM-L6-v2", "device": "vulkan", "max_seq_length": None, "dtype": "float32",
        "devices": None, "prompts": None, "default_prompt_name": None, "truncate_dim": None, "cache_folder": None,
        "revision": None, "local_files_only": False, "token": None, "model_kwargs": None, "processor_kwargs": None,
        "tokenizer_kwargs": None, "config_kwargs": None, "similarity_fn_name": None, "model_name_or_path": None,
        "modules": None, "trust_remote_code": False, "use_auth_token": None, "model_card_data": None,
        "backend": "torch", "num_threads": None, "memory_limit": None, "float32_products": None,
        "numerics": None, "mixed": False,
    }  # fmt: skip
    assert defaults(VulkanSentenceTransformer) == expected
    kinds = [p.kind for p in inspect.signature(VulkanSentenceTransformer).parameters.values()]
    assert kinds[:3] == [inspect.Parameter.POSITIONAL_OR_KEYWORD] * 3
    assert set(kinds[3:]) == {inspect.Parameter.KEYWORD_ONLY}


def test_encode_arguments():
    found = defaults(VulkanSentenceTransformer.encode)
    assert list(found.items())[:3] == [
        ("batch_size", 32),
        ("show_progress_bar", False),
        ("normalize_embeddings", True),
    ]
    assert found["output_value"] == "sentence_embedding" and found["precision"] == "float32"
    assert found["convert_to_numpy"] is True and found["convert_to_tensor"] is False
    for name in ("prompt_name", "prompt", "device", "truncate_dim", "pool", "chunk_size"):
        assert found[name] is None


def test_an_unknown_keyword_of_the_constructor():
    with pytest.raises(TypeError, match="trust_remote"):
        VulkanSentenceTransformer("x", trust_remote=True)


@pytest.mark.parametrize(
    "arguments, kind, words",
    [
        ({"dtype": "float31"}, ValueError, "dtype is 'float31', expected one of float32, float16, bfloat16"),
        ({"dtype": np.float64}, ValueError, "float64"),
        ({"dtype": "float16", "model_kwargs": {"dtype": "float32"}}, ValueError, "which?"),
        ({"model_kwargs": {"dtype": "float16", "torch_dtype": "bfloat16"}}, ValueError, "which?"),
        ({"model_kwargs": {"dtype": "int4"}}, ValueError, "int4"),
        ({"model_kwargs": {"quantization_config": {}}}, NotImplementedError, "quantization_config"),
        ({"model_kwargs": {"device_map": {"": 0}}}, NotImplementedError, "device_map"),
        ({"model_kwargs": {"variant": "fp16"}}, NotImplementedError, "rename the file"),
        ({"model_kwargs": {"attn_implementations": "sdpa"}}, NotImplementedError, "nothing reads it"),
        ({"model_kwargs": "float16"}, TypeError, "model_kwargs is of type str"),
        ({"processor_kwargs": {"tokenizer_type": "bert"}}, NotImplementedError, "tokenizer_type"),
        ({"processor_kwargs": {"truncation_sides": "left"}}, NotImplementedError, "nearest name.*truncation_side"),
        ({"processor_kwargs": {"model_max_length": 0}}, ValueError, "model_max_length"),
        ({"processor_kwargs": {"model_max_length": 9}, "max_seq_length": 8}, ValueError, "which?"),
        ({"processor_kwargs": {}, "tokenizer_kwargs": {}}, ValueError, "one argument"),
        ({"config_kwargs": {"model_type": "bert"}}, NotImplementedError, "config.json"),
        ({"config_kwargs": {"num_hidden_layers": 0}}, ValueError, "num_hidden_layers is 0"),
        ({"backend": "onnx"}, NotImplementedError, "backend is 'onnx'"),
        ({"token": "a", "use_auth_token": "b"}, ValueError, "older name"),
        ({"devices": ["vulkan:0", "vulkan:1"], "device": "cpu"}, ValueError, "both device and devices"),
        ({"mixed": 1}, TypeError, "mixed"),
        ({"devices": []}, ValueError, "empty"),
        ({"devices": "cpu"}, TypeError, "list"),
        ({"device": 3.0}, TypeError, "float"),
        ({"device": "xpu"}, ValueError, "xpu.*'cuda'"),
        ({"device": "cuda:x"}, ValueError, "cuda:x"),
        ({"device": "cpu:1"}, ValueError, "cpu:1"),
        ({"device": "vulkan:x"}, ValueError, "vulkan:x"),
        ({"max_seq_length": 0}, ValueError, "max_seq_length is 0"),
        ({"max_seq_length": "many"}, TypeError, "str"),
        ({"num_threads": 0}, ValueError, "num_threads"),
        ({"memory_limit": -1}, ValueError, "memory_limit"),
        ({"truncate_dim": 0}, ValueError, "truncate_dim"),
        ({"similarity_fn_name": "jaccard"}, ValueError, "jaccard"),
        ({"prompts": {"query": 3}}, TypeError, "query"),
        ({"prompts": "query: "}, TypeError, "dict"),
        ({"default_prompt_name": "nope"}, ValueError, "nope"),
    ],
)
def test_impossible_arguments(tiny_model, arguments, kind, words):
    with pytest.raises(kind, match=words):
        VulkanSentenceTransformer(tiny_model, **{"device": "cpu", **arguments})


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("float32")])
def test_float32_by_any_name(tiny_model, dtype):
    with VulkanSentenceTransformer(tiny_model, device="cpu", dtype=dtype, model_kwargs={"torch_dtype": dtype}):
        pass


def test_attributes(model, tiny_model, device):
    assert model.model_name == str(tiny_model)
    assert model.device == "cpu" and model.requested_device == model.backend == device
    assert model.device_name and model.device_reason
    assert model.model_type == model.config["model_type"] == "bert"
    assert model.config["hidden_size"] == 32
    assert model.pooling_type == "mean" and model.normalize is False
    assert model.st_model is None and model.transformer_model is None
    assert model.get_sentence_embedding_dimension() == model.get_embedding_dimension() == 32
    assert model.get_max_seq_length() == model.max_seq_length == 48
    assert len(model) == 2 and "Pooling" in repr(model) and "Transformer" in repr(model)
    assert model.prompts == {"query": "", "document": ""} and model.default_prompt_name is None
    assert model.similarity_fn_name == "cosine"


def test_version_is_above_upstreams():
    assert tuple(map(int, grilly.__version__.split(".")[:2])) >= (2, 0)


def test_vulkan_available_is_a_bool_and_found_once():
    assert grilly.VULKAN_AVAILABLE in (True, False)
    assert "VULKAN_AVAILABLE" in vars(grilly)


def test_public_names_are_there():
    for name in grilly.__all__:
        assert getattr(grilly, name) is not None
    assert set(grilly.__all__) <= set(dir(grilly))


@pytest.mark.parametrize("name", ["HuggingFaceBridge", "LoRALinear", "SNNCompute", "Tensor", "fft", "conv2d"])
def test_upstreams_names_that_are_left_out(name):
    with pytest.raises(AttributeError, match=rf"{name} is part of upstream grilly's .* and not of this package"):
        getattr(grilly, name)


def test_other_names():
    with pytest.raises(AttributeError, match="no attribute 'nothing_like_it'"):
        grilly.nothing_like_it  # noqa: B018
    with pytest.raises(ImportError):
        from grilly import nothing_like_it  # noqa: F401


def test_import_is_light(run):
    """Importing the package loads neither the compiled part nor NumPy, and takes a small part of 50 ms."""
    done = run(
        """
        import sys, time
        import numpy
        start = time.perf_counter()
        import grilly
        seconds = time.perf_counter() - start
        assert "grilly._core" not in sys.modules and "tqdm" not in sys.modules
        print(seconds)
        """
    )
    assert done.status == 0, done.errors
    assert float(done.output) < 0.05


def test_nothing_heavy_is_imported(run, tiny_model):
    done = run(
        """
        import sys
        from grilly import VulkanSentenceTransformer
        VulkanSentenceTransformer(sys.argv[1], device="cpu").encode(["a", "b"])
        print(sorted({"torch", "transformers", "sentence_transformers", "tqdm", "huggingface_hub"} & set(sys.modules)))
        """,
        tiny_model,
    )
    assert done.output.strip() == "[]", done.errors


def test_the_logger_has_no_handler_of_its_own(run):
    done = run("import grilly, logging; grilly.stats(); print(logging.getLogger('grilly').handlers)")
    assert done.output.strip() == "[]", done.errors


def test_debug_logs_choices(run, tiny_model):
    code = "import sys, grilly; grilly.VulkanSentenceTransformer(sys.argv[1])"
    done = run(code, tiny_model, GRILLY_DEBUG="1")
    assert done.status == 0 and "grilly DEBUG:" in done.errors


def test_log_records_reach_logging(tiny_model, caplog):
    with VulkanSentenceTransformer(tiny_model, device="cpu", max_seq_length=10_000) as model:
        assert model.max_seq_length == 64
    [record] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert record.name == "grilly" and "10000" in record.getMessage()


def test_module_without_arguments_prints_usage():
    done = subprocess.run([sys.executable, "-m", "grilly"], capture_output=True, text=True)
    assert done.returncode == 2 and "usage: grilly COMMAND" in done.stderr
