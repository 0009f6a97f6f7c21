"""Quantised layers beside transformers' own, on the same packed tensors."""

import numpy as np
import pytest
import torch
from transformers.integrations import bitnet

from grilly import quant

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
