"""Weights stored in types in which no model computes: their numbers are those of float32."""

import itertools

import numpy as np
import pytest

from grilly import SentenceTransformer
from grilly.errors import UnsupportedError, WeightsError

from . import families, safetensors_file, torch_file
from .golden import same_bits
from .spoil import change_json

TEXTS = ["a dog and the time of a year", "way", ""]
NAMES = {"F64": "float64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}


def encode(folder, **options) -> np.ndarray:
    options.setdefault("device", "cpu")
    with SentenceTransformer(str(folder), **options) as model:
        return model.encode(TEXTS, normalize_embeddings=False)


def store(folder, kind) -> dict[str, str]:
    """The numbers of a checkpoint rounded to `kind(array)`, in float32, and the types by name."""
    path = folder / "model.safetensors"
    tensors = safetensors_file.read(path)
    kinds = {name: kind(array) for name, array in tensors.items()}
    for name, array in tensors.items():
        if array.dtype.kind == "f":
            data = safetensors_file.to_bytes(array, kinds[name])
            tensors[name] = safetensors_file.from_bytes(data, kinds[name]).reshape(array.shape).astype(np.float32)
    safetensors_file.write(path, tensors)
    change_json(folder / "config.json", dtype=..., torch_dtype=...)
    return kinds


# The matrices of gpt2 are transposed while they are read, those of new are blocks of rows of one.
@pytest.mark.parametrize(("name", "kind"), [("gpt2", "F64"), ("gpt2", "F8_E4M3"), ("new", "F64"), ("new", "F8_E5M2")])
def test_the_numbers_are_those_of_float32(tmp_path, device, name, kind):
    folder = families.build(name, tmp_path)
    store(folder, lambda array: kind)
    options = [{}, {"dtype": "float16"}, {"dtype": "int8"}][: 3 if device == "cpu" else 2]
    expected = [encode(folder, device=device, **each) for each in options]
    assert np.isfinite(expected[0]).all()
    path = folder / "model.safetensors"
    tensors = safetensors_file.read(path)
    safetensors_file.write(path, tensors, kind)
    with SentenceTransformer(str(folder), device=device) as model:
        assert model.dtype == "float32"
        assert same_bits(model.encode(TEXTS, normalize_embeddings=False), expected[0])
    for each, rows in zip(options[1:], expected[1:], strict=True):
        assert same_bits(encode(folder, device=device, **each), rows), each
    for key in ("dtype", "torch_dtype"):
        change_json(folder / "config.json", **{key: NAMES[kind]})
        assert same_bits(encode(folder, device=device), expected[0])
        change_json(folder / "config.json", **{key: ...})


def test_float64_is_rounded_once(tmp_path):
    folder = families.build("roberta", tmp_path)
    path = folder / "model.safetensors"
    tensors = safetensors_file.read(path)
    random = np.random.RandomState(3)
    wide = {
        name: array * (1 + 1e-7 * random.standard_normal(array.shape)) if array.dtype.kind == "f" else array
        for name, array in tensors.items()
    }
    safetensors_file.write(path, wide)
    expected = encode(folder)
    safetensors_file.write(path, wide, "F64")
    assert same_bits(encode(folder), expected)


@pytest.mark.parametrize("kind", NAMES)
def test_files_of_torch(tmp_path, kind):
    folder = families.build("roberta", tmp_path)
    store(folder, lambda array: kind)
    expected = encode(folder)
    torch_file.convert(folder, kind)
    assert same_bits(encode(folder), expected)


def test_the_type_of_other_tensors_counts_first(tmp_path):
    """As in transformers: of the first tensor by name in a type that models have."""
    folder = families.build("roberta", tmp_path)
    path = folder / "model.safetensors"
    kinds = store(folder, lambda array: "F8_E4M3" if array.ndim == 2 else "F16")
    expected = encode(folder, dtype="float16")
    safetensors_file.write(path, safetensors_file.read(path), kinds)
    with SentenceTransformer(str(folder), device="cpu") as model:
        assert model.dtype == "float16"
        assert same_bits(model.encode(TEXTS, normalize_embeddings=False), expected)


def test_the_type_of_a_file_of_torch_is_that_of_its_first_tensor(tmp_path):
    """In the order of the dictionary, as transformers goes through it, and not by name."""
    folder = families.build("roberta", tmp_path)
    kinds = store(folder, lambda array: "F16" if array.ndim == 2 else "F32")
    tensors = safetensors_file.read(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    for first, dtype in (("F16", "float16"), ("F32", "float32")):
        order = sorted(tensors, key=lambda name: kinds[name] != first)
        torch_file.write(folder / "pytorch_model.bin", {name: tensors[name] for name in order}, kinds)
        with SentenceTransformer(str(folder), device="cpu") as model:
            assert model.dtype == dtype


def test_all_types_in_one_file(tmp_path, device):
    folder = families.build("roberta", tmp_path)
    path = folder / "model.safetensors"
    types = itertools.cycle(["F32", "F16", "BF16", "F64", "F8_E4M3", "F8_E5M2"])
    kinds = store(folder, lambda array: next(types))
    expected = encode(folder, device=device)
    safetensors_file.write(path, safetensors_file.read(path), kinds)
    assert same_bits(encode(folder, device=device, dtype="float32"), expected)


def test_types_that_are_not_read(tmp_path):
    folder = families.build("roberta", tmp_path)
    path = folder / "model.safetensors"
    safetensors_file.write(path, safetensors_file.read(path), "F8_E4M3")
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"F8_E4M3", "shape": [36]', b'"F8_E8M0", "shape": [36]'))
    change_json(folder / "config.json", dtype="float32")
    with pytest.raises(WeightsError, match="LayerNorm.bias is stored as F8_E8M0, expected F32, F16, BF16, F64, F8_E4M"):
        encode(folder)
    change_json(folder / "config.json", dtype="float8_e4m3fnuz")
    with pytest.raises(UnsupportedError, match='dtype "float8_e4m3fnuz": known are float32, float16, bfloat16'):
        encode(folder)
