"""Other element types and devices: the weights are read again into the same object."""

import json
import shutil
import threading

import numpy as np
import pytest

import grilly
from grilly import SentenceTransformer, VulkanSentenceTransformer
from grilly.errors import InvalidArgumentError, UnsupportedError, UnusableError

TEXTS = ["the cat", "", "a dog and a child and the world"]


@pytest.fixture
def plain(tiny_model, device):
    with SentenceTransformer(tiny_model, device=device) as model:
        yield model


def configured(tiny_model, folder, **values):
    """The model with another config.json, in `folder`."""
    shutil.copytree(tiny_model, folder)
    path = folder / "config.json"
    config = {name: value for name, value in json.loads(path.read_text()).items() if "dtype" not in name}
    path.write_text(json.dumps(config | values))
    return folder


@pytest.mark.parametrize("method", ["half", "bfloat16", "float"])
def test_types(plain, tiny_model, device, method):
    dtype = {"half": "float16", "float": "float32"}.get(method, method)
    with SentenceTransformer(tiny_model, device=device, model_kwargs={"dtype": dtype}) as loaded:
        assert getattr(plain, method)() is plain and plain.dtype == dtype
        rows = plain.encode(TEXTS)
        assert rows.dtype == loaded.encode(TEXTS).dtype == (np.float16 if dtype == "float16" else np.float32)
        assert np.array_equal(rows, loaded.encode(TEXTS))
        assert plain.backend == device


def test_there_and_back(plain):
    expected = plain.encode(TEXTS)
    tokenizer = plain.tokenizer
    assert np.array_equal(plain.half().bfloat16().float().encode(TEXTS), expected)
    assert (
        plain.tokenizer is tokenizer
        and tokenizer.encode("the cat") == plain.tokenize(["the cat"])["input_ids"][0].tolist()
    )


@pytest.mark.vulkan
def test_narrow_weights_take_half_the_memory(run, tiny_model, vulkan):
    """In a process of its own: what else is held on the device is counted too."""
    done = run(
        """
        import sys, grilly
        held = lambda: grilly.stats()["bytes_held"]
        with grilly.SentenceTransformer(sys.argv[1]) as model:
            print(held(), model.half() and held(), model.float() is model, held())
        """,
        tiny_model,
    )
    assert done.status == 0, done.errors
    before, narrow, same, after = done.output.split()
    assert 0.3 < int(narrow) / int(before) < 0.9
    assert same == "True" and after == before


@pytest.mark.vulkan
def test_devices(tiny_model, vulkan):
    with SentenceTransformer(tiny_model) as model, VulkanSentenceTransformer(tiny_model, device="cpu") as other:
        on_gpu, on_cpu = model.encode(TEXTS), other.encode(TEXTS, normalize_embeddings=False)
        assert model.backend == "vulkan"
        assert model.cpu() is model and model.backend == "cpu" and np.array_equal(model.encode(TEXTS), on_cpu)
        for name in ("cuda", "mps", "cuda:0", "vulkan:0", "gpu"):
            assert model.to(name).backend == "vulkan" and np.array_equal(model.encode(TEXTS), on_gpu)
        assert model.to("cpu").cuda().backend == "vulkan" and model.cuda(0).requested_device == "vulkan:0"
        assert model.to("cpu", "float16").dtype == "float16" and model.backend == "cpu"
        with pytest.raises(IndexError):
            model.cuda(99)
        assert model.backend == "cpu" and model.encode(TEXTS).dtype == np.float16


@pytest.mark.vulkan
def test_the_device_of_a_call(tiny_model, vulkan):
    with SentenceTransformer(tiny_model, device="cpu") as model:
        own = model.encode(TEXTS)
        before = grilly.stats()["batches_vulkan"]
        other = model.encode(TEXTS, device="cuda")
        assert grilly.stats()["batches_vulkan"] > before and model.backend == "cpu"
        assert np.abs(other - own).max() < 1e-5 and np.array_equal(model.encode(TEXTS), own)
        model.max_seq_length = 4
        model.set_pooling_include_prompt(False)
        options = {"prompt": "a page "}
        moved = SentenceTransformer(tiny_model, device="cuda", max_seq_length=4)
        moved.set_pooling_include_prompt(False)
        assert np.array_equal(model.encode(TEXTS, device="cuda", **options), moved.encode(TEXTS, **options))
        held = grilly.stats()["bytes_held"]
    assert grilly.stats()["bytes_held"] < held


def test_without_a_gpu_the_cpu_takes_over(run, tiny_model, no_vulkan):
    done = run(
        """
        import sys
        from grilly import SentenceTransformer
        model = SentenceTransformer(sys.argv[1], device="cuda")
        print(model.backend, model.to("mps").backend, model.cuda().encode("the", device="cuda").shape)
        for call in (lambda: model.cuda(1), lambda: SentenceTransformer(sys.argv[1], device="cuda:0")):
            try:
                call()
            except IndexError as error:
                print(str(error).partition(":")[0].replace(" ", "_"))
        """,
        tiny_model,
        **no_vulkan,
    )
    assert done.status == 0 and done.output.split() == ["cpu", "cpu", "(32,)", *["there_is_no_device_vulkan"] * 2], (
        done.errors
    )
    assert "the CPU" in done.errors


def test_settings_survive(prompted_model):
    with SentenceTransformer(prompted_model, device="cpu") as model:
        model.max_seq_length, model.truncate_dim = 6, 5
        model.prompts["query"] = "other: "
        model.set_pooling_include_prompt(False)
        expected = model.encode(TEXTS, "query")
        model.half().float()
        assert model.max_seq_length == 6 and np.array_equal(model.encode(TEXTS, "query"), expected)


def test_other_threads_finish_with_what_they_began_with(plain):
    expected = {
        dtype: plain.to(dtype).encode(TEXTS).astype(np.float32).tobytes()
        for dtype in ("float16", "bfloat16", "float32")
    }
    failures, stop = [], threading.Event()

    def encode():
        while not stop.is_set():
            rows = plain.encode(TEXTS).astype(np.float32).tobytes()
            if rows not in expected.values():
                failures.append(rows)

    threads = [threading.Thread(target=encode) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        plain.half()
        plain.bfloat16()
        plain.float()
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize(
    "arguments, options, kind, words",
    [
        (("tpu",), {}, InvalidArgumentError, "device is 'tpu'"),
        ((np.float64,), {}, InvalidArgumentError, "float64"),
        (("auto",), {}, InvalidArgumentError, "auto"),
        ((), {"dtype": "auto"}, InvalidArgumentError, "auto"),
        ((), {"devices": "cpu"}, InvalidArgumentError, "devices"),
        ((1.5,), {}, TypeError, "float"),
    ],
)
def test_what_is_neither(cpu_model, arguments, options, kind, words):
    with pytest.raises(kind, match=words):
        cpu_model.to(*arguments, **options)
    assert cpu_model.dtype == "float32" and cpu_model.backend == "cpu"


def test_nothing_to_do(cpu_model):
    core = cpu_model._core
    assert cpu_model.to() is cpu_model.to("cpu").to(np.float32).to(None).to(
        device="cpu", dtype="float32", non_blocking=True
    )
    assert cpu_model.eval() is cpu_model.train(False) is cpu_model
    assert cpu_model._core is core
    with pytest.raises(UnsupportedError, match="train with sentence-transformers"):
        cpu_model.train()


def test_a_closed_model_stays_closed(tiny_model):
    model = SentenceTransformer(tiny_model, device="cpu")
    model.close()
    for method in (model.half, model.float, model.cpu, lambda: model.encode("the", device="cuda")):
        with pytest.raises(UnusableError, match="closed"):
            method()


# The model's own type.


@pytest.mark.parametrize(
    "values, dtype",
    [
        ({"dtype": "float16"}, "float16"),
        ({"torch_dtype": "bfloat16"}, "bfloat16"),
        ({"dtype": "float32", "torch_dtype": "float16"}, "float32"),
        ({}, "float32"),
    ],
)
def test_the_type_of_the_configuration(tiny_model, tmp_path, values, dtype):
    folder = configured(tiny_model, tmp_path / "model", **values)
    for arguments in ({}, {"model_kwargs": {"dtype": "auto"}}, {"dtype": "auto"}, {"config_kwargs": {"dtype": "auto"}}):
        with SentenceTransformer(folder, device="cpu", **arguments) as model:
            assert model.dtype == dtype
            assert model.encode("the").dtype == (np.float16 if dtype == "float16" else np.float32)
    for arguments in ({"model_kwargs": {"torch_dtype": "bfloat16"}}, {"config_kwargs": {"dtype": "bfloat16"}}):
        with SentenceTransformer(folder, device="cpu", **arguments) as model:
            assert model.dtype == "bfloat16"
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        assert model.dtype == "float32"


def test_two_types_that_disagree(tiny_model):
    with pytest.raises(ValueError, match="which?"):
        SentenceTransformer(tiny_model, device="cpu", model_kwargs={"dtype": "float16", "torch_dtype": "float32"})


@pytest.mark.parametrize("name, dtype", [("float16", "float16"), ("bfloat16", "bfloat16")])
def test_the_type_of_the_checkpoint(checkpoint, tmp_path, name, dtype):
    folder = configured(checkpoint(name), tmp_path / "model")
    with SentenceTransformer(folder, device="cpu") as model:
        assert model.dtype == dtype


def test_a_type_that_is_not_computed_in(tiny_model, tmp_path):
    folder = configured(tiny_model, tmp_path / "model", dtype="float64")
    with SentenceTransformer(folder, device="cpu") as model:  # float64 is read as float32
        assert model.dtype == "float32"
    folder = configured(tiny_model, tmp_path / "complex", dtype="complex64")
    with pytest.raises(UnsupportedError, match=r"config.json: dtype \"complex64\": known are .*dtype=\"float32\""):
        SentenceTransformer(folder, device="cpu")
    with SentenceTransformer(folder, device="cpu", dtype="float32") as model:
        assert model.dtype == "float32"
