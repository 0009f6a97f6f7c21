"""NaN and infinity in every kind of tensor of every family, type and conversion: an error that names the tensor.

Here a sample: each kind of tensor in one type or conversion, and a few on a GPU; in `make test-long` all of each.
"""

import itertools
import json
import re
import zlib
from pathlib import Path

import numpy as np
import pytest
from conftest import LONG

from grilly import CrossEncoder, MultiVectorEncoder, SparseEncoder, VulkanSentenceTransformer
from grilly.errors import GrillyError, NotFiniteError
from grilly.sentence_transformer.saving import METHODS

from . import families, heads, safetensors_file, ternary
from .spoil import change_json, rewrite

TEXT = "A dog and a cat met the mayor of a small town near the river on Monday."
TABLES = {"families": families.table(), **heads.table()}
CLASSES = {"scores": CrossEncoder, "words": SparseEncoder, "vectors": MultiVectorEncoder}
TYPES = ["float32", "float16", "bfloat16", "int8"]
WRONG = [np.nan, -np.inf]
COMBINATIONS = list(itertools.product([*TYPES, *METHODS], WRONG))
# T5's words have two names; those of the second are read.
TWICE = {"encoder.embed_tokens.weight"}


def rows() -> list[tuple[str, str]]:
    """Kind and name of every checkpoint; here the first of each family, and what has tensors of its own."""
    found = []
    for kind, table in TABLES.items():
        first = {row["files"]["config.json"]["model_type"]: name for name, row in reversed(table.items())}
        few = {*first.values(), "jina-bert", "jina-lora", "mt5-decoder", "modernbert-layers"}
        if kind != "families":
            few = {"bert", "bert-pooled", "roberta", "modernbert", "distilbert", "albert"}
        found += [(kind, name) for name in table if LONG or name in few]
    return found


def use(kind: str, row: dict, folder: Path, device: str, dtype: str) -> None:
    """Loads the model and runs everything that has weights of its own."""
    with CLASSES.get(kind, VulkanSentenceTransformer)(folder, device=device, dtype=dtype) as model:
        if kind == "scores":
            model.predict([(TEXT, TEXT)])
            return
        for task in row.get("tasks", [None]):
            model.encode(TEXT, **({"task": task} if task else {}))
        if any(tensor.startswith("decoder.block.") for tensor in row["tensors"]):
            model.decode_states([TEXT], [TEXT])


def place(name: str, shape: tuple[int, ...], word: int, rows: int) -> tuple[int, ...]:
    """An element that the text reads."""
    if "token_type" in name or "task_type" in name or "relative_attention_bias" in name:
        return (int("relative" in name), *(size // 2 for size in shape[1:]))
    if ("position" in name or "wpe" in name) and len(shape) == 2 and shape[0] < 200:
        return (7, shape[1] // 2)
    # Some tables have more rows than there are words.
    return tuple(word if rows <= size < rows + 64 else size // 2 for size in shape)


def spoilt(kind: str, name: str, folder: Path, device: str, combinations: list, most: int | None = None) -> int:
    """Each kind of tensor with something wrong; the number of errors seen."""
    row = TABLES[kind][name]
    path, config = folder / "model.safetensors", folder / "config.json"
    tensors, before = safetensors_file.read(path), config.read_text(encoding="utf-8")
    with CLASSES.get(kind, VulkanSentenceTransformer)(folder, device="cpu") as model:
        word = int(model.tokenizer.encode(TEXT)[2])
    size = json.loads(before)["vocab_size"]
    kinds = {re.sub(r"\d+", "N", tensor): tensor for tensor in tensors if tensors[tensor].dtype.kind == "f"}
    seen = 0
    for number, tensor in enumerate(kinds.values()):
        start = number + zlib.crc32(name.encode())
        for dtype, wrong in combinations if LONG else [combinations[start % len(combinations)]]:
            at = place(tensor, tensors[tensor].shape, word, size)
            write(path, tensors | {tensor: changed(tensors[tensor], at, wrong)}, row)
            if dtype in METHODS:
                change_json(config, quantization_config=METHODS[dtype])
            error = refusal(kind, row, folder, device, dtype if dtype in TYPES else "float32")
            config.write_text(before, encoding="utf-8")
            if error is None:
                # It is not read: it may be missing, too.
                write(path, {key: value for key, value in tensors.items() if key != tensor}, row)
                assert tensor in TWICE or refusal(kind, row, folder, device, "float32") is None, tensor
                break
            said = f"{path}: {tensor} is {'NaN' if np.isnan(wrong) else 'infinite (-inf)'} at {list(at)}: "
            assert isinstance(error, NotFiniteError) and str(error).startswith(said), (dtype, error)
            seen += 1
        if most and seen >= most:
            break
    return seen


def changed(array: np.ndarray, at: int | tuple[int, ...], number: float) -> np.ndarray:
    array = array.copy()
    array[at] = number
    return array


def write(path: Path, tensors: dict, row: dict) -> None:
    """Replaces the file, which may be mapped."""
    safetensors_file.write(path.with_suffix(".new"), tensors, row["stored"])
    path.with_suffix(".new").replace(path)


def refusal(*given) -> GrillyError | None:
    try:
        use(*given)
    except GrillyError as error:
        return error
    return None


@pytest.mark.parametrize(("kind", "name"), rows())
def test_every_kind_of_tensor(kind, name, tmp_path):
    folder = families.write(TABLES[kind][name], tmp_path / name)
    assert spoilt(kind, name, folder, "cpu", COMBINATIONS) >= 5


@pytest.mark.parametrize(("kind", "name"), rows() if LONG else [("families", "gpt2"), ("families", "nomic_bert-moe")])
def test_every_kind_of_tensor_on_a_gpu(kind, name, vulkan, tmp_path):
    folder = families.write(TABLES[kind][name], tmp_path / name)
    assert spoilt(kind, name, folder, vulkan, COMBINATIONS, None if LONG else 4) >= 4


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("packed", ["bitnet", "bitnet-matrix"])
def test_packed_weights(packed, wrong, device, tmp_path):
    """What is packed has a scale, which may be wrong."""
    folder = ternary.build(packed, tmp_path)
    path = folder / "model.safetensors"
    tensors = safetensors_file.read(path)
    floats = [name for name in tensors if "layers.1" in name and tensors[name].dtype.kind == "f"]
    for tensor in floats[:: 1 if LONG else 4]:
        safetensors_file.write(path, tensors | {tensor: changed(tensors[tensor], -1, wrong)}, "BF16")
        with pytest.raises(NotFiniteError, match=re.escape(tensor)):
            VulkanSentenceTransformer(folder, device=device)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_what_float16_does_not_hold(dtype, device, tmp_path):
    folder = families.build("roberta", tmp_path)
    name = "roberta.encoder.layer.0.output.dense.weight"
    rewrite(folder, lambda tensors: tensors.update({name: changed(tensors[name], (3, 5), 70000)}))
    with pytest.raises(NotFiniteError) as caught:
        VulkanSentenceTransformer(folder, device=device, dtype=dtype)
    assert f"{name} is 70000 at [3, 5], which is beyond the range of float16; load the model with" in str(caught.value)
    for wider in ("float32", "bfloat16"):
        with VulkanSentenceTransformer(folder, device=device, dtype=wider) as model:
            assert np.isfinite(model.encode(TEXT)).all()


def test_rows_of_words_that_no_text_has(tmp_path):
    """On the CPU a row of a table is read, and seen to be finite, when a text needs it."""
    folder = families.build("roberta", tmp_path)
    path, name = folder / "model.safetensors", "roberta.embeddings.word_embeddings.weight"
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        expected, row = model.encode(TEXT), model.tokenizer.encode("zebra")[1]
        assert row not in model.tokenizer.encode(TEXT)
    tensors = safetensors_file.read(path)
    write(path, tensors | {name: changed(tensors[name], (row, 1), np.nan)}, TABLES["families"]["roberta"])
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        assert (model.encode(TEXT) == expected).all()
        with pytest.raises(NotFiniteError, match=rf"{name} is NaN at \[{row}, 1\]"):
            model.encode("zebra")
        assert (model.encode(TEXT) == expected).all()
