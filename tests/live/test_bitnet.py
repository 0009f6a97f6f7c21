"""Quantised layers beside transformers' own, on the same packed tensors."""

import numpy as np
import pytest
import torch
from models import safetensors_file, ternary
from models.golden import normalized
from transformers import AutoConfig, AutoModel, BitNetQuantConfig
from transformers.integrations import bitnet

from grilly import VulkanSentenceTransformer, quant

RNG = np.random.default_rng(3)


@pytest.mark.parametrize(("rows", "columns"), [(4, 1), (12, 20), (64, 130)])
def test_the_same_bytes(rows, columns):
    values = RNG.integers(-1, 2, (rows, columns)).astype(np.int8)
    theirs = bitnet.pack_weights(torch.from_numpy(values.astype(np.float32))).numpy()
    assert (quant.pack(values, "huggingface") == theirs).all()
    assert (quant.unpack(theirs, (rows, columns), "huggingface") == values).all()
    assert (bitnet.unpack_weights(torch.from_numpy(theirs), dtype=torch.float32).numpy() == values).all()


@pytest.mark.parametrize("bias", [False, True])
def test_the_same_layer(device, bias):
    w, x = RNG.standard_normal((32, 52), np.float32), RNG.standard_normal((3, 5, 52), np.float32)
    packed, scale = quant.quantize_weights_ternary(w)
    values = quant.unpack(packed, w.shape, "ternary")
    layer = bitnet.BitLinear(52, 32, bias, dtype=torch.float32)
    layer.weight.copy_(torch.from_numpy(quant.pack(values, "huggingface")))
    layer.weight_scale.copy_(torch.from_numpy(scale))
    added = RNG.standard_normal(32).astype(np.float32) if bias else None
    if bias:
        layer.bias.copy_(torch.from_numpy(added))
    # Not compiled: the formulas alone.
    for name in ("activation_quant", "post_quant_process"):
        method = getattr(bitnet.BitLinear, name)
        setattr(layer, name, getattr(method, "_torchdynamo_orig_callable", method).__get__(layer))
    with torch.no_grad():
        theirs = layer(torch.from_numpy(x)).numpy()
    own = quant.bitlinear_forward(x, packed, scale, added, levels="ternary")
    np.testing.assert_allclose(own, theirs, rtol=1e-5, atol=1e-5)


def test_the_same_ternary_values():
    w = RNG.standard_normal((16, 40)).astype(np.float32)
    packed, scale = quant.quantize_weights_ternary(w)
    theirs = 1 / torch.from_numpy(w).abs().mean().clamp(min=1e-5)
    assert abs(float(scale[0]) / float(theirs) - 1) < 1e-6
    expected = (torch.from_numpy(w) * float(scale[0])).round().clamp(-1, 1).numpy()
    assert (quant.unpack(packed, w.shape, "ternary") == expected).all()


def reference(folder):
    """transformers' model of a folder; its own loading of such folders takes a further package."""
    config = AutoConfig.from_pretrained(folder)
    method = config.__dict__.pop("quantization_config", None)
    model = AutoModel.from_config(config, dtype=torch.float32)
    tensors = safetensors_file.read_folder(folder)
    tensors = {name.removeprefix("model."): torch.from_numpy(np.array(array)) for name, array in tensors.items()}
    if method:
        kind = BitNetQuantConfig(**method)
        model = bitnet.replace_with_bitnet_linear(model, [], kind)
        if method["linear_class"] == "autobitlinear":
            packed = {name: tensor for name, tensor in tensors.items() if tensor.dtype == torch.uint8}
            tensors |= {name: bitnet.unpack_weights(tensor, torch.float32) for name, tensor in packed.items()}
    model.load_state_dict(tensors, assign=True)
    return model


@pytest.mark.parametrize("name", ["bitnet", "bitnet-matrix", "bitnet-online", "bitnet-floats"])
def test_the_same_model(name, device, tmp_path):
    """transformers' BitNet on the same folder, and the NumPy model: the same tokens' states, to directions."""
    folder = ternary.build(name, tmp_path)
    texts = ["A cat sits on the mat.", "one two three four five six " * 9]
    with VulkanSentenceTransformer(folder, device=device) as model, torch.compiler.set_stance("force_eager"):
        theirs = reference(folder)
        for text in texts:
            ids = list(model.tokenizer.encode(text, truncation=True))
            with torch.no_grad():
                expected = theirs(torch.tensor([ids])).last_hidden_state[0].double().numpy()
            own = np.asarray(model.encode(text, output_value="token_embeddings", normalize_embeddings=False))
            for found in (own, ternary.Ternary(folder)(ids)):
                cosines = (normalized(found) * normalized(expected)).sum(axis=1)
                assert cosines.min() >= 0.9999
