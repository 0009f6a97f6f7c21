"""Checkpoints of LFM2 and ConvBERT that cannot be used: errors name the file, the key or tensor, and what is known."""

import json

import pytest
from models import families
from models.spoil import change_json, rewrite

from grilly import VulkanSentenceTransformer
from grilly.errors import ModelFormatError, UnsupportedError, WeightsError

CODE = {"AutoModel": "x/y--modeling_lfm2_bidirectional.Lfm2BidirectionalModel"}


def refused(folder, error: type[Exception], *parts: str) -> None:
    with pytest.raises(error) as caught:
        VulkanSentenceTransformer(folder, device="cpu")
    assert type(caught.value) is error
    for part in (str(folder), *parts):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("name", "changes", "error", "said"),
    [
        ("lfm2", {"layer_types": ["conv", "mamba"] * 2}, ModelFormatError, 'layer_types is ["conv", "mamba"'),
        ("lfm2", {"layer_types": ["conv"]}, ModelFormatError, 'expected 4 of ["conv", "full_attention"]'),
        ("lfm2", {"conv_L_cache": "3"}, ModelFormatError, 'conv_L_cache is "3"'),
        ("lfm2", {"conv_bias": 1}, ModelFormatError, "conv_bias is 1"),
        ("lfm2", {"is_causal": None}, ModelFormatError, "is_causal is null"),
        ("lfm2", {"num_key_value_heads": 4}, ModelFormatError, "6 is not a multiple of num_key_value_heads 4"),
        ("lfm2", {"auto_map": CODE}, UnsupportedError, "a repository's own code is not run"),
        ("convbert", {"conv_kernel_size": 4}, ModelFormatError, "conv_kernel_size is 4, expected an odd number"),
        ("convbert", {"num_groups": 5}, ModelFormatError, "num_groups is 5, which does not divide 36 columns"),
        ("convbert", {"num_attention_heads": 10}, ModelFormatError, "expected a multiple of 10, twice the 5 heads"),
        ("convbert", {"is_decoder": True}, UnsupportedError, "is_decoder true: only false is known"),
    ],
)
def test_configurations(tmp_path, name, changes, error, said):
    folder = families.build(name, tmp_path)
    change_json(folder / "config.json", **changes)
    refused(folder, error, "config.json", said)


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        # As many weights as the tensors have not.
        ("lfm2", {"conv_L_cache": 4}, "layers.0.conv.conv.weight has shape [36, 1, 3], expected [36, 1, 4]"),
        ("lfm2", {"conv_bias": True}, "missing layers.0.conv.conv.bias"),
        ("lfm2", {"layer_types": ["full_attention"] * 4}, "missing layers.0.self_attn."),
        ("convbert", {"conv_kernel_size": 3}, "depthwise.weight has shape [36, 1, 5], expected [36, 1, 3]"),
        ("convbert", {"num_groups": 1}, "intermediate.dense.weight has shape [2, 18, 26], expected [52, 36]"),
        ("convbert", {"num_groups": 4}, "intermediate.dense.weight has shape [2, 18, 26], expected [4, 9, 13]"),
        ("convbert", {"embedding_size": 36}, "embeddings_project"),
    ],
)
def test_tensors_of_another_configuration(tmp_path, name, changes, said):
    folder = families.build(name, tmp_path)
    change_json(folder / "config.json", **changes)
    refused(folder, WeightsError, "model.safetensors", said)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("lfm2", "model.layers.0.conv.conv.weight"),
        ("lfm2", "model.layers.0.operator_norm.weight"),
        ("convbert", "convbert.encoder.layer.1.attention.self.key_conv_attn_layer.bias"),
        ("convbert", "convbert.encoder.layer.0.attention.self.conv_kernel_layer.weight"),
    ],
)
def test_a_missing_tensor(tmp_path, name, tensor):
    folder = families.build(name, tmp_path)
    rewrite(folder, lambda tensors: tensors.pop(tensor))
    refused(folder, WeightsError, "model.safetensors", f"missing {tensor.partition('.')[2]} ")


def test_tensors_of_other_families(tmp_path):
    folder = families.build("convbert", tmp_path)
    change_json(folder / "config.json", model_type="bert")
    refused(folder, WeightsError, 'model_type in config.json is "bert"', "convbert")
    folder = families.build("lfm2-matrix", tmp_path)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    llama = {key: config[key] for key in ("hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size")}
    llama |= {"intermediate_size": 96, "max_position_embeddings": 160, "model_type": "llama"}
    change_json(folder / "config.json", **(dict.fromkeys(config, ...) | llama))
    refused(folder, WeightsError, 'model_type in config.json is "llama"', "lfm2")
