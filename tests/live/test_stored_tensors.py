"""Checkpoints with other types, names and tensors than an encoder's in float32, against sentence-transformers."""

import logging

import numpy as np
import pytest
import torch
from models import families
from models.golden import same_bits
from models.spoil import change_json
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from transformers import AutoConfig, AutoModel

import grilly
from grilly.errors import ModelFormatError, UnsupportedError, WeightsError

TEXTS = ["a dog and the time of a year", "way", "the rain in the time"]
UNIT = 1e-5
WIDE, FOUR, FIVE = torch.float64, torch.float8_e4m3fn, torch.float8_e5m2


def theirs(folder, **options) -> np.ndarray:
    model = SentenceTransformer(str(folder), device="cpu", model_kwargs=options)
    # One by one: of some families a text's numbers depend on the padding (`families.batch_size`).
    return np.asarray(model.encode(TEXTS, convert_to_tensor=True, batch_size=1).double())


def ours(folder, **options) -> np.ndarray:
    with grilly.SentenceTransformer(str(folder), **{"device": "cpu", **options}) as model:
        return model.encode(TEXTS)


def agree(rows: np.ndarray, expected: np.ndarray) -> None:
    assert np.abs(rows - expected).max() <= UNIT * np.abs(expected).max()


def edit(folder, change) -> dict[str, torch.Tensor]:
    tensors = load_file(folder / "model.safetensors")
    tensors = change(tensors) or tensors
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return tensors


def cast(dtype, which=lambda tensor: True):
    def change(tensors):
        floats = {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}
        return tensors | {name: tensor.to(dtype) for name, tensor in floats.items() if which(tensor)}

    return change


@pytest.mark.parametrize("name", ["roberta", "gpt2", "gte", "qwen3", "t5", "deberta-v2"])
@pytest.mark.parametrize("dtype", [WIDE, FOUR, FIVE])
def test_types_that_are_only_stored(tmp_path, device, name, dtype):
    folder = families.build(name, tmp_path)
    change_json(folder / "config.json", dtype=..., torch_dtype=...)
    edit(folder, cast(dtype, lambda tensor: tensor.ndim == 2))
    agree(ours(folder, device=device), theirs(folder))
    tensors = edit(folder, cast(dtype))
    agree(ours(folder, device=device), theirs(folder, dtype="float32"))
    if dtype is WIDE:
        agree(ours(folder), theirs(folder))  # a model of float64
        change_json(folder / "config.json", dtype="float64")
        agree(ours(folder), theirs(folder))
        change_json(folder / "config.json", dtype=...)
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    agree(ours(folder, device=device), theirs(folder, dtype="float32"))


def test_the_type_of_a_file(tmp_path):
    """Of safetensors the first tensor by name counts, of torch the first of the dictionary."""
    folder = families.build("roberta", tmp_path)
    change_json(folder / "config.json", dtype=..., torch_dtype=...)
    tensors = edit(folder, cast(torch.float16, lambda tensor: tensor.ndim == 2))

    def types() -> list[str]:
        theirs = str(SentenceTransformer(str(folder), device="cpu").dtype).removeprefix("torch.")
        with grilly.SentenceTransformer(str(folder), device="cpu") as model:
            return [theirs, model.dtype]

    assert types() == ["float32", "float32"]
    (folder / "model.safetensors").unlink()
    for dtype in (torch.float16, torch.float32):
        order = sorted(tensors, key=lambda name: tensors[name].dtype is not dtype)
        torch.save({name: tensors[name] for name in order}, folder / "pytorch_model.bin")
        assert types() == [str(dtype).removeprefix("torch.")] * 2


def test_every_byte_of_float8():
    from models import float8

    for dtype, kind in ((FOUR, "F8_E4M3"), (FIVE, "F8_E5M2")):
        byte = torch.arange(256, dtype=torch.uint8)
        assert np.array_equal(byte.view(dtype).float().numpy(), float8.numbers(kind), equal_nan=True)
        numbers = np.random.RandomState(1).standard_normal(10_000).astype(np.float32) * 3
        nearest = float8.numbers(kind)[float8.nearest(numbers, kind)]
        assert np.array_equal(torch.from_numpy(numbers).to(dtype).float().numpy(), nearest)


def test_types_that_are_not_read(tmp_path):
    folder = families.build("roberta", tmp_path)
    change_json(folder / "config.json", dtype=..., torch_dtype=...)
    tensors = edit(folder, lambda tensors: None)
    (folder / "model.safetensors").unlink()
    path = folder / "pytorch_model.bin"
    torch.save({name: tensor.to(torch.float8_e4m3fnuz) for name, tensor in tensors.items()}, path)
    with pytest.raises(UnsupportedError, match="F8_E4M3FNUZ"):
        ours(folder)
    with pytest.raises(WeightsError, match="is stored as F8_E4M3FNUZ, expected F32, F16, BF16, F64, F8_E4M3 or F8_E5"):
        ours(folder, model_kwargs={"dtype": "float32"})


def test_marks_of_torch(tmp_path):
    """Numbers with the negative bit are the opposites of the stored ones, which are what transformers saves."""
    folder = families.build("roberta", tmp_path)
    tensors = edit(folder, lambda tensors: None)
    expected = theirs(folder)
    (folder / "model.safetensors").unlink()
    path = folder / "pytorch_model.bin"
    name = next(name for name in tensors if name.endswith("intermediate.dense.weight"))
    torch.save(tensors | {name: torch._neg_view(-tensors[name])}, path)
    with pytest.raises(ModelFormatError, match=f'{name.removeprefix("roberta.")} has torch\'s mark "neg"; if you'):
        ours(folder)
    torch.save({n: t.resolve_neg().resolve_conj() for n, t in torch.load(path).items()}, path)
    agree(ours(folder), expected)
    torch.save(tensors | {name: tensors[name].T.contiguous().T}, path)
    with pytest.raises(ModelFormatError, match="expected adjacent elements; if you trust the file, load it with trans"):
        ours(folder)
    AutoModel.from_pretrained(folder).save_pretrained(folder, safe_serialization=True)
    agree(ours(folder), expected)
    (folder / "model.safetensors").unlink()
    complex_numbers = torch.ones(3, dtype=torch.complex64)
    others = {"linear.weight": torch._neg_view(torch.ones(3)), "freqs": complex_numbers.conj(), "epoch": 3}
    torch.save(tensors | others, path)
    agree(ours(folder), expected)
    parameter = torch.nn.Parameter(tensors[name])
    parameter.note = {"a": 1}
    torch.save(tensors | {name: parameter}, path)
    agree(ours(folder), expected)


OTHERS = {"linear.weight": (4, 36), "mlp.dense.weight": (36, 36), "mlp.dense.bias": (36,), "temperature": ()}
OTHERS |= {"position_ids": (1, 40), "lm_head.extra": (3,), "cls.predictions.other": (3,), "vocab_transform.other": (3,)}


@pytest.mark.parametrize("name", families.table())
def test_tensors_of_other_modules(tmp_path, name, caplog):
    """What the reference calls unexpected is what is told, but for what both compute and what it reads as a pooler."""
    folder = families.build_for_reference(name, tmp_path)
    row = families.table()[name]
    if "own_module" in row or "reference_config" in row:
        pytest.skip("the reference needs the repository's code")
    edit(folder, lambda tensors: tensors | {other: torch.ones(shape) for other, shape in OTHERS.items()})
    caplog.set_level(logging.INFO, logger="grilly")
    rows = ours(folder, model_kwargs={"dtype": "float32"})
    told = [record.getMessage() for record in caplog.records if "the model does not read" in record.getMessage()]
    told = set(told[0].rpartition("the model does not read ")[2].split(", "))
    assert set(OTHERS) <= told
    if name not in ("gemma2", "gemma2-matrix"):  # whose padding is not a number
        agree(rows, theirs(folder, dtype="float32"))


@pytest.mark.parametrize("name", families.table())
def test_prefixes(tmp_path, name):
    """The prefix of the family's classes with a head, before all names or before none."""
    folder = families.build_for_reference(name, tmp_path)
    row = families.table()[name]
    if "own_module" in row or "reference_config" in row:
        pytest.skip("the reference needs the repository's code")
    prefix = type(AutoModel.from_config(AutoConfig.from_pretrained(folder))).base_model_prefix + "."
    if prefix == ".":
        pytest.skip("no prefix")
    expected = ours(folder)
    edit(folder, lambda tensors: {key.removeprefix(prefix): tensor for key, tensor in tensors.items()})
    assert same_bits(ours(folder), expected)
    edit(folder, lambda tensors: {prefix + key: tensor for key, tensor in tensors.items()})
    assert same_bits(ours(folder), expected)
