"""pytorch_model.bin: read as it is, nothing in it executed."""

import json
import shutil
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from models import families, safetensors_file, torch_file
from models.golden import same_bits
from models.spoil import change_json
from models.torch_file import Call, Storage

from grilly import SentenceTransformer, VulkanSentenceTransformer
from grilly.errors import ModelFormatError

TEXTS = ["a dog and the time of a year", "way", ""]


@pytest.fixture
def folder(tmp_path) -> Path:
    return families.build("roberta", tmp_path)


def encode(folder: Path, **options) -> np.ndarray:
    with VulkanSentenceTransformer(folder, device="cpu", **options) as model:
        return model.encode(TEXTS)


def refusal(folder: Path) -> str:
    with pytest.raises(ModelFormatError) as caught:
        encode(folder)
    assert str(folder) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["roberta", "t5", "gpt2"])
@pytest.mark.parametrize("shards", [1, 3])
def test_the_numbers_are_those_of_safetensors(tmp_path, name, shards):
    folder = families.build(name, tmp_path)
    expected = encode(folder)
    torch_file.convert(folder, shards=shards)
    assert same_bits(encode(folder), expected)


@pytest.mark.parametrize("dtype, kind", [("float16", "F16"), ("bfloat16", "BF16")])
def test_the_type_is_that_of_the_file(folder, dtype, kind):
    expected = encode(folder, dtype=dtype)
    torch_file.convert(folder, kind)
    change_json(folder / "config.json", dtype=..., torch_dtype=...)
    with SentenceTransformer(folder, device="cpu") as model:
        assert model.dtype == dtype
    assert same_bits(encode(folder, dtype=dtype), expected)


def test_modules_of_their_own(checkpoint, tmp_path):
    folder = Path(shutil.copytree(checkpoint("dense_two"), tmp_path / "model"))
    expected = encode(folder)
    torch_file.convert(folder)
    assert len(list(folder.rglob("pytorch_model.bin"))) > 1
    assert same_bits(encode(folder), expected)


def test_safetensors_come_first(folder):
    (folder / "pytorch_model.bin").write_bytes(b"not read")
    encode(folder)


def test_saving_keeps_the_format(folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "other")
    expected = encode(folder)
    torch_file.convert(folder)
    rewritten = safetensors_file.read(other / "model.safetensors")
    safetensors_file.write(other / "model.safetensors", {name: -array for name, array in rewritten.items()})
    with SentenceTransformer(folder, device="cpu") as model:
        model.save_pretrained(tmp_path / "saved")
        model.save_pretrained(other)
        model.save_pretrained(folder)
    for place in (tmp_path / "saved", other, folder):
        assert same_bits(encode(place), expected)
        assert [path.name for path in place.glob("*model*.*") if path.suffix != ".json"] == ["pytorch_model.bin"]


def bomb(place: Path) -> dict[str, object]:
    """Pickles that would leave a file in `place` if anything in them were called."""
    command = f"touch {place}/done"
    code = f"open({str(place / 'done')!r}, 'w')"
    system = Call("os", "system", command)
    return {
        "os.system": system,
        "posix.system": OrderedDict(a=Call("posix", "system", command)),
        "builtins.eval": OrderedDict(a=[(1, {"b": Call("builtins", "eval", code)})]),
        "__builtin__.exec": OrderedDict([(Call("__builtin__", "exec", code), 1)]),
        "subprocess.Popen": OrderedDict(
            a=Call("torch._utils", "_rebuild_parameter", Call("subprocess", "Popen", ["sh", "-c", command]), True, {})
        ),
        "torch.hub.load": OrderedDict(a=Call("torch.hub", "load", str(place), "done")),
        "builtins.getattr": Call("collections", "OrderedDict", Call("builtins", "getattr", system, "x")),
    }


@pytest.mark.parametrize("name", bomb(Path("/")))
def test_nothing_is_executed(folder, tmp_path, name):
    torch_file.convert(folder)
    torch_file.archive(folder / "pytorch_model.bin", torch_file.pickled(bomb(tmp_path)[name]), [])
    said = refusal(folder)
    assert f"names {name}; this reader executes nothing" in said
    assert "save_pretrained(FOLDER, safe_serialization=True)" in said
    assert not (tmp_path / "done").exists()


def test_formats_that_are_not_read(folder):
    torch_file.convert(folder)
    path = folder / "pytorch_model.bin"
    with zipfile.ZipFile(path) as file:
        parts = [file.read(name) for name in file.namelist()]
    torch_file.archive(path, parts[0], parts[2:], zipfile.ZIP_DEFLATED)
    assert "zip entry pytorch_model/data.pkl is compressed, method 8" in refusal(folder)
    path.write_bytes(torch_file.pickled(0x1950A86A20F9469CFC6C))  # before torch 1.6
    assert "perhaps an older file; if you trust the file" in refusal(folder)
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    assert "git lfs pull" in refusal(folder)
    path.write_bytes(b"")
    assert "the file is empty" in refusal(folder)
    torch_file.archive(path, torch_file.pickled({"epoch": 3}), [])
    assert "epoch is not a tensor" in refusal(folder)
    call = Call("torch._utils", "_rebuild_tensor_v2", Storage("F32", "0", 12), 0, (3, 4), (1, 3), False, OrderedDict())
    torch_file.archive(path, torch_file.pickled({"a": call}), [bytes(48)])
    assert "a of shape [3, 4] has strides [1, 3], expected adjacent elements; if you trust the file" in refusal(folder)


def test_what_cannot_be_read_and_need_not(folder):
    """Marks, other strides and what is no tensor are faults of tensors that are needed alone."""
    expected = encode(folder)
    tensors = safetensors_file.read(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    path = folder / "pytorch_model.bin"
    name = next(name for name in tensors if name.endswith("attention.self.query.weight"))

    def write(changed: str, *marks: dict, strides: tuple[int, int] | None = None, **more) -> None:
        state, data = OrderedDict(more), []
        for key, array in {**tensors, changed: tensors[name]}.items():
            storage = Storage("I64" if array.dtype.kind == "i" else "F32", str(len(data)), array.size)
            state[key] = torch_file.tensor(storage, array.shape, *(marks if key == changed else ()))
            if key == changed and strides:
                state[key] = Call(
                    "torch._utils", "_rebuild_tensor_v2", storage, 0, array.shape, strides, False, OrderedDict()
                )
            data.append(safetensors_file.to_bytes(array, storage.kind))
        torch_file.archive(path, torch_file.pickled(state), data)

    transposed = tuple(tensors[name].shape)[::-1]
    for marks, strides, said in (
        ([{"neg": True}], None, 'has torch\'s mark "neg"'),
        ([{"conj": True}], None, 'has torch\'s mark "conj"'),
        ([], (1, transposed[1]), "has strides [1, 36], expected adjacent elements"),
    ):
        write(name, *marks, strides=strides)
        text = refusal(folder)
        remedy = "`torch.save({n: t.resolve_neg().resolve_conj()" if marks else "load it with transformers and save it"
        assert f"tensor {name.removeprefix('roberta.')}" in text and said in text and remedy in text
        write("linear.weight", *marks, strides=strides, epoch=3, learning_rate=0.5, done=True, best=None, name="run")
        assert same_bits(encode(folder), expected)
    write(name, {})
    assert same_bits(encode(folder), expected)


def test_a_shard_that_is_not_there(folder):
    torch_file.convert(folder, shards=3)
    index = folder / "pytorch_model.bin.index.json"
    values = json.loads(index.read_text())
    (folder / "pytorch_model-00002-of-00003.bin").unlink()
    assert "the shard pytorch_model-00002-of-00003.bin is missing" in refusal(folder)
    values["weight_map"] = dict.fromkeys(values["weight_map"], "pytorch_model-00001-of-00003.bin")
    index.write_text(json.dumps(values))
    assert "the index promises tensors that are not in it" in refusal(folder)
