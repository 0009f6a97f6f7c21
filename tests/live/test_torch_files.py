"""Files that torch itself writes, against safetensors of the same numbers."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from models import families
from safetensors.torch import load_file
from transformers import AutoModel

from grilly import VulkanSentenceTransformer
from grilly.errors import ModelFormatError

TEXTS = ["a dog and the time of a year", "way", ""]


def encode(folder: Path, device: str = "cpu") -> np.ndarray:
    with VulkanSentenceTransformer(folder, device=device) as model:
        return model.encode(TEXTS)


@pytest.fixture
def folder(tmp_path) -> Path:
    return families.build("roberta", tmp_path)


def state(folder: Path) -> dict[str, torch.Tensor]:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    return tensors


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_state_dict(folder, device, dtype):
    with VulkanSentenceTransformer(folder, device=device, dtype=str(dtype).removeprefix("torch.")) as model:
        expected = model.encode(TEXTS)
    torch.save({name: tensor.to(dtype) for name, tensor in state(folder).items()}, folder / "pytorch_model.bin")
    with VulkanSentenceTransformer(folder, device=device, dtype=str(dtype).removeprefix("torch.")) as model:
        assert np.array_equal(model.encode(TEXTS), expected)


def test_a_module_with_its_parameters(folder):
    """`state_dict` of a module has attributes; parameters, tied tensors and views share storages."""
    expected = encode(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    assert np.array_equal(encode(folder), expected)
    parameters = dict(model.named_parameters())
    flat = torch.cat([parameter.detach().flatten() for parameter in parameters.values()])
    views, start = {}, 0
    for name, parameter in parameters.items():
        views[name] = torch.nn.Parameter(flat[start : start + parameter.numel()].view(parameter.shape))
        start += parameter.numel()
    torch.save(views, folder / "pytorch_model.bin")
    assert (folder / "pytorch_model.bin").stat().st_size < 4 * flat.numel() + 100_000
    assert np.array_equal(encode(folder), expected)


def test_what_is_refused(folder):
    tensors = state(folder)
    path = folder / "pytorch_model.bin"
    torch.save(tensors, path, _use_new_zipfile_serialization=False)
    with pytest.raises(ModelFormatError, match="perhaps an older file"):
        encode(folder)
    torch.save({"model": torch.nn.Linear(2, 2)}, path)
    with pytest.raises(ModelFormatError, match="names torch.nn.modules.linear.Linear; this reader executes nothing"):
        encode(folder)
    torch.save({name: tensor.T if tensor.ndim == 2 else tensor for name, tensor in tensors.items()}, path)
    with pytest.raises(ModelFormatError, match="expected adjacent elements"):
        encode(folder)
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), path)
    with pytest.raises(ModelFormatError, match="pytorch_model.bin"):
        encode(folder)
    shutil.rmtree(folder)
