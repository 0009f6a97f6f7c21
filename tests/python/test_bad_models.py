"""Model folders that cannot be used: each raises one clear exception of its own, and nothing crashes."""

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from models.spoil import change_json, rewrite

from grilly import VulkanSentenceTransformer
from grilly.errors import GrillyError, ModelFormatError, UnsupportedError, WeightsError


@pytest.fixture
def folder(tiny_model, tmp_path) -> Path:
    """A copy of the tiny model, to be spoiled."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


def load(folder: Path) -> None:
    VulkanSentenceTransformer(folder, device="cpu").close()


def split(path: Path) -> tuple[dict, bytes]:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def join(path: Path, header: dict | str, body: bytes) -> None:
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def test_the_copy_itself_is_fine(folder):
    load(folder)


# ------------------------------------------------------------------------------------------------------------- folders


def test_an_empty_folder(tmp_path):
    with pytest.raises(ModelFormatError):
        load(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file(folder, name):
    (folder / name).unlink()
    with pytest.raises(ModelFormatError, match=name):
        load(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "modules.json", "sentence_bert_config.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]]", b"\xff\xfe", b"null", b"3", b'"text"', b"[" * 100_000])
def test_a_file_that_is_not_the_json_it_should_be(folder, name, content):
    (folder / name).write_bytes(content)
    with pytest.raises(ModelFormatError, match=name):
        load(folder)


# ------------------------------------------------------------------------------------------------------------- modules


@pytest.mark.parametrize("path", ["../outside", "/tmp", "1_Pooling/../../outside", "..", "a\\..\\..\\b"])
def test_a_module_outside_the_folder(folder, path):
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["path"] = path
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelFormatError, match="modules.json"):
        load(folder)


@pytest.mark.parametrize("kind", ["sentence_transformers.models.LSTM", "my.package.Magic", "os.system", "Pooling.Nope"])
def test_an_unknown_module(folder, kind):
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = kind
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises((UnsupportedError, ModelFormatError), match=kind.rpartition(".")[2]):
        load(folder)


@pytest.mark.parametrize(
    "modules", [[], [{}], [3], {"0": {}}, [{"type": "sentence_transformers.models.Pooling", "path": ""}]]
)
def test_an_odd_list_of_modules(folder, modules):
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises((ModelFormatError, UnsupportedError)):
        load(folder)


@pytest.mark.parametrize("mode", ["median", ["mean", "median"], 3])
def test_an_unknown_pooling(folder, mode):
    change_json(folder / "1_Pooling" / "config.json", pooling_mode=mode)
    with pytest.raises((UnsupportedError, ModelFormatError), match="1_Pooling|median"):
        load(folder)


def test_an_unknown_activation_of_a_dense_module(checkpoint, tmp_path):
    folder = Path(shutil.copytree(checkpoint("dense_tanh"), tmp_path / "dense"))
    change_json(folder / "2_Dense" / "config.json", activation_function="torch.nn.modules.activation.Wavy")
    with pytest.raises(UnsupportedError, match="Wavy"):
        load(folder)


# ------------------------------------------------------------------------------------------------------ configuration


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": 0},
        {"hidden_size": -32},
        {"hidden_size": "32"},
        {"hidden_size": 32.5},
        {"hidden_size": 33},
        {"hidden_size": 2**63},
        {"hidden_size": ...},
        {"hidden_size": None},
        {"num_attention_heads": 0},
        {"num_attention_heads": 5},
        {"num_hidden_layers": 10**12},
        {"num_hidden_layers": ...},
        {"intermediate_size": 0},
        {"vocab_size": 0},
        {"vocab_size": -1},
        {"max_position_embeddings": 0},
        {"type_vocab_size": -1},
        {"layer_norm_eps": -1.0},
        {"layer_norm_eps": "small"},
        {"layer_norm_eps": 1e400},
        {"model_type": 3},
    ],
)
def test_absurd_configuration(folder, changes):
    change_json(folder / "config.json", **changes)
    with pytest.raises(ModelFormatError, match="|".join([*changes, "config.json", "embeddings"])):
        load(folder)


@pytest.mark.parametrize("changes, word", [({"model_type": "mamba"}, "mamba"), ({"hidden_act": "wavy"}, "wavy")])
def test_unknown_architecture_and_activation(folder, changes, word):
    change_json(folder / "config.json", **changes)
    with pytest.raises(UnsupportedError, match=word) as caught:
        load(folder)
    assert isinstance(caught.value, NotImplementedError) and isinstance(caught.value, ValueError)


def test_no_model_type(folder):
    change_json(folder / "config.json", model_type=..., architectures=...)
    with pytest.raises(ModelFormatError, match="model_type is missing"):
        load(folder)


@pytest.mark.parametrize("limit", [0, -5, "many", 1.5])
def test_an_absurd_limit(folder, limit):
    change_json(folder / "sentence_bert_config.json", max_seq_length=limit)
    with pytest.raises(ModelFormatError, match="max_seq_length"):
        load(folder)


# ------------------------------------------------------------------------------------------------------------- weights


@pytest.mark.parametrize("kept", [0, 4, 8, 100, -1])
def test_truncated_weights(folder, kept):
    path = folder / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[: kept if kept >= 0 else len(data) - 4])
    with pytest.raises(ModelFormatError, match="model.safetensors"):
        load(folder)


@pytest.mark.parametrize("length", [0, 2**63, 2**64 - 1, 10**9])
def test_a_lying_header_length(folder, length):
    path = folder / "model.safetensors"
    path.write_bytes(struct.pack("<Q", length) + path.read_bytes()[8:])
    with pytest.raises(ModelFormatError, match="model.safetensors"):
        load(folder)


def lies():
    def entry(**changes):
        return lambda header: header["embeddings.LayerNorm.weight"].update(changes)

    def overlap(header):
        header["embeddings.LayerNorm.weight"]["data_offsets"] = header["embeddings.LayerNorm.bias"]["data_offsets"]

    yield "past the end", entry(data_offsets=[0, 10**9])
    yield "backwards", entry(data_offsets=[128, 0])
    yield "negative", entry(data_offsets=[-128, 0])
    yield "overlapping", overlap
    yield "wrong shape", entry(shape=[31])
    yield "huge shape", entry(shape=[2**62, 2**62])
    yield "negative shape", entry(shape=[-32])
    yield "unknown type", entry(dtype="F3")
    yield "no type", lambda header: header["embeddings.LayerNorm.weight"].pop("dtype")
    yield "no object", lambda header: header.update({"embeddings.LayerNorm.weight": 3})


@pytest.mark.parametrize("lie", [pytest.param(change, id=name) for name, change in lies()])
def test_a_lying_header(folder, lie):
    path = folder / "model.safetensors"
    header, body = split(path)
    lie(header)
    join(path, header, body)
    with pytest.raises(ModelFormatError, match="model.safetensors"):
        load(folder)


def test_a_name_twice(folder):
    path = folder / "model.safetensors"
    header, body = split(path)
    name = "embeddings.LayerNorm.weight"
    text = json.dumps(header)
    twice = text[:-1] + f", {json.dumps(name)}: {json.dumps(header[name])}" + "}"
    join(path, twice, body)
    with pytest.raises(ModelFormatError, match=name):
        load(folder)


def test_every_missing_and_unexpected_tensor_is_named(folder):
    def change(tensors):
        del tensors["encoder.layer.0.attention.self.query.weight"]
        del tensors["encoder.layer.1.output.LayerNorm.bias"]
        tensors["encoder.layer.7.surprise.weight"] = np.zeros((2, 2), np.float32)
        tensors["embeddings.LayerNorm.scale"] = np.zeros(3, np.float32)
        tensors["decoder.weight"] = np.zeros(3, np.float32)  # of another module
        tensors["embeddings.LayerNorm.weight"] = np.zeros(31, np.float32)

    rewrite(folder, change)
    with pytest.raises(WeightsError) as caught:
        load(folder)
    message = str(caught.value)
    for name in ("layer.0.attention.self.query.weight", "layer.1.output.LayerNorm.bias", "layer.7.surprise.weight",
                 "embeddings.LayerNorm.scale", "embeddings.LayerNorm.weight"):  # fmt: skip
        assert name in message
    assert "decoder.weight" not in message
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, GrillyError)


def test_whole_numbers_for_weights(folder):
    def change(tensors):
        tensors["embeddings.LayerNorm.weight"] = np.ones(32, np.int64)

    rewrite(folder, change)
    with pytest.raises(ModelFormatError, match="embeddings.LayerNorm.weight"):
        load(folder)


def test_a_shard_that_is_not_there(checkpoint, tmp_path):
    folder = Path(shutil.copytree(checkpoint("sharded"), tmp_path / "sharded"))
    (folder / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(ModelFormatError, match="model-00002-of-00003"):
        load(folder)


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "nothing.safetensors"])
def test_an_index_that_points_elsewhere(checkpoint, tmp_path, name):
    folder = Path(shutil.copytree(checkpoint("sharded"), tmp_path / "sharded"))
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["embeddings.LayerNorm.weight"] = name
    path.write_text(json.dumps(index))
    with pytest.raises(ModelFormatError):
        load(folder)


def test_a_result_that_is_not_finite(folder, device):
    """Of weights that are finite: others are refused while they are read (tests/models/test_not_finite.py)."""

    def change(tensors):
        tensors["encoder.layer.1.output.LayerNorm.weight"] = np.full(32, 3e38, np.float32)

    rewrite(folder, change)
    with VulkanSentenceTransformer(folder, device=device) as model:
        assert model.backend == device
        with pytest.raises(FloatingPointError, match="text 0|text 1"):
            model.encode(["the cat", "a dog"])
        assert model.backend == device


def test_a_vocabulary_larger_than_the_table(folder):
    """A tokenizer whose ids the embedding table does not have: told, never read out of bounds."""

    def change(tensors):
        name = "embeddings.word_embeddings.weight"
        tensors[name] = tensors[name][:50]

    rewrite(folder, change)
    change_json(folder / "config.json", vocab_size=50)
    with pytest.raises((IndexError, ValueError)):
        with VulkanSentenceTransformer(folder, device="cpu") as model:
            model.encode("the cat and the dog of the world")
