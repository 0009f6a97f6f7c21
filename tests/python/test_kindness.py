"""Errors name what was meant, and what is accepted besides: nearest names, short names of types, arrays of Arrow."""

import logging
import os

import numpy as np
import pytest
from models import heads

import grilly
from grilly import CrossEncoder, SentenceTransformer, SparseEncoder
from grilly.errors import InvalidArgumentError, InvalidTypeError, ModelNotFoundError
from grilly.inputs import check_dtype, device_name
from grilly.nearest import nearest


@pytest.fixture(scope="module")
def plain(checkpoint):
    with SentenceTransformer(checkpoint("base"), device="cpu") as model:
        yield model


@pytest.fixture(scope="module")
def ranker(tmp_path_factory):
    with CrossEncoder(heads.build("scores", "bert", tmp_path_factory.mktemp("scores")), device="cpu") as model:
        yield model


def test_the_nearest_name_is_of_the_first_list_that_has_one():
    assert nearest("promt", ["batch_size"], ["prompt"]) == "; the nearest name is 'prompt'"
    assert nearest("promt", ["prompts"], ["prompt"]) == "; the nearest name is 'prompts'"
    assert nearest("other", ["prompt"]) == nearest("other", []) == ""


@pytest.mark.parametrize(
    ("given", "meant"),
    [("normalize", "normalize_embeddings"), ("batchsize", "batch_size"), ("show_progress", "show_progress_bar"),
     ("promptname", "prompt_name"), ("resumes", "resume")],
)  # fmt: skip
def test_a_keyword_of_encode(plain, given, meant):
    for method in (plain.encode, plain.encode_query, plain.encode_document):
        with pytest.raises(InvalidArgumentError, match=f"the keyword '{given}'; the nearest name is '{meant}'"):
            method("a", **{given: 1})


def test_keywords_of_other_methods(plain, ranker, tmp_path):
    with pytest.raises(InvalidArgumentError, match="predict.. .* 'batchsize'; the nearest name is 'batch_size'"):
        ranker.predict(("a", "b"), batchsize=1)
    with pytest.raises(InvalidArgumentError, match="to.. .* 'dtypes'; the nearest name is 'dtype'"):
        plain.to(dtypes="float16")
    with pytest.raises(TypeError, match="'devise'; the nearest name is 'device'"):
        SentenceTransformer("x", devise="cpu")
    with SparseEncoder(heads.build("words", "bert", tmp_path), device="cpu") as sparse:
        with pytest.raises(InvalidArgumentError, match="'max_active_dim'; the nearest name is 'max_active_dims'"):
            sparse.encode("a", max_active_dim=3)
        with pytest.raises(InvalidTypeError, match=r"texts\[0\] is of type tuple, .* for a CrossEncoder"):
            sparse.encode([("a", "b")])


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v3", "all-minilm-l6-v2", "sentence-transformers/all-MiniLM-L6"])
def test_a_model(name):
    with pytest.raises(ModelNotFoundError, match="the nearest name is 'all-MiniLM-L6-v2'"):
        SentenceTransformer(name, local_files_only=True)
    with pytest.raises(ModelNotFoundError) as error:
        SentenceTransformer("of-no-such-kind", local_files_only=True)
    assert "nearest" not in str(error.value)


def test_a_model_in_the_cache(tmp_path):
    (tmp_path / "models--org--my-model").mkdir()
    with pytest.raises(ModelNotFoundError, match="the nearest name is 'org/my-model'"):
        SentenceTransformer("org/my-modle", cache_folder=tmp_path, local_files_only=True)


def test_short_names_of_types(plain):
    assert [check_dtype(name) for name in ("fp32", "fp16", "bf16")] == ["float32", "float16", "bfloat16"]
    with SentenceTransformer(plain._folder, device="cpu", dtype="fp16") as model:
        assert model.dtype == "float16" and model.to("bf16").dtype == "bfloat16" and model.to("fp32").dtype == "float32"


def test_names_of_other_makers():
    for name in ("rocm", "xpu", "hip:0", "directml"):
        with pytest.raises(InvalidArgumentError, match=f"device is '{name}', .*; a GPU of any maker is 'vulkan'"):
            device_name(name)


def test_a_truncate_dim_above_the_width(plain, caplog):
    with caplog.at_level(logging.WARNING):
        rows = [plain.encode("a", truncate_dim=dim) for dim in (None, 32, 33, 33)]
        with plain.truncate_embeddings(1000):
            rows.append(plain.encode("a"))
    assert all(np.array_equal(row, rows[0]) for row in rows)
    said = [line.partition(": ")[2] for line in caplog.messages]
    assert said == [f"truncate_dim is {dim}, and embeddings have 32 columns: all are kept" for dim in (33, 1000)]


def test_pairs(plain, ranker, caplog):
    with caplog.at_level(logging.INFO):
        assert plain.encode([("a", "b")]).shape == (1, 32)
    assert "CrossEncoder.predict gives its score" in caplog.text
    with pytest.raises(InvalidTypeError, match=r"query is of type list, expected str; rank\(query, documents\)"):
        ranker.rank(["a", "b"], "q")
    with pytest.raises(InvalidTypeError, match="documents is of type str, expected a list of str"):
        ranker.rank("q", "a")


class Arrow:
    """As an array of pyarrow: its items are scalars, and `to_pylist` has their values."""

    def __init__(self, values):
        self.values = values

    def __iter__(self):
        return iter([object()] * len(self.values))

    def to_pylist(self):
        return self.values


def test_arrays_of_arrow(plain):
    texts = ["the cat", "a dog"]
    assert np.array_equal(plain.encode(Arrow(texts)), plain.encode(texts))
    with pytest.raises(InvalidTypeError, match=r"texts\[1\] is of type NoneType"):
        plain.encode(Arrow(["a", None]))


AUTO = """
import logging, sys
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
import numpy as np
from grilly import SentenceTransformer, functional
functional.gelu(np.ones(2, np.float32))
for device in sys.argv[2:]:
    SentenceTransformer(sys.argv[1], device=None if device == "none" else device)
"""
SHOWN = [path for path in ("/dev/dri/renderD128", "/dev/nvidiactl", "/dev/kfd", "/dev/dxg") if os.path.exists(path)]


def test_no_device_where_none_was_asked_for(run, tiny_model, no_vulkan):
    done = run(AUTO, tiny_model, "none", "auto", "none", **no_vulkan)
    said = [line for line in done.errors.splitlines() if "the CPU takes over" in line]
    assert done.status == 0 and len(said) == 1, done.errors
    assert said[0].startswith("WARNING" if SHOWN else "INFO") and "found no driver" in said[0]


def test_no_device_where_one_was_asked_for(run, tiny_model, no_vulkan):
    done = run(AUTO, tiny_model, "none", "cuda", "vulkan", **no_vulkan)
    said = [line.split()[0] for line in done.errors.splitlines() if "the CPU takes over" in line]
    assert done.status == 0 and said == (["WARNING"] if SHOWN else ["INFO", "WARNING"]), done.errors


@pytest.mark.vulkan
def test_a_device_of_the_right_kind_that_is_not_there(run, tiny_model, vulkan):
    if not all(row["type"] == "software" for row in grilly.info()["devices"]) or SHOWN:
        pytest.skip("there is a GPU")
    done = run(AUTO, tiny_model, "none", ALLOW_CPU_VULKAN=None)
    assert "INFO the CPU takes over: no usable Vulkan device; found " in done.errors, done.errors
