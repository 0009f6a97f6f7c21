"""Kernels by name: what they tell of themselves, what they refuse, and their calls."""

import subprocess
import sys

import numpy as np
import pytest
from cases.comparison import close, values
from cases.reference import evaluate

import grilly
from grilly import _core, errors, functional, kernels

#: Operands and the operation's own attributes, for 6 rows of 64 columns.
CALLS = {
    "bias_gelu": ([(6, 64), (64,)], "bias_gelu", {}),
    "geglu": ([(6, 64), (32, 64), (32, 64)], "gated_linear", {"kind": "gelu_tanh"}),
    "layer_norm_linear": ([(6, 64), (64,), (64,), (32, 64), (32,)], "layer_norm_linear", {"bias": True}),
    "residual_layer_norm": ([(6, 64), (6, 64), (64,), (64,)], "residual_layer_norm", {}),
    "residual_rms_norm": ([(6, 64), (6, 64), (64,)], "residual_rms_norm", {}),
    "softmax_dropout": ([(6, 64)], "softmax_dropout", {"p": 0.1, "seed": 0}),
    "swiglu": ([(6, 64), (32, 64), (32, 64)], "gated_linear", {"kind": "silu"}),
}


@pytest.mark.parametrize("use_half", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_a_kernel_computes_its_operation(put, name, use_half):
    shapes, op, attributes = CALLS[name]
    inner = {"intermediate_dim": 32} if name in ("geglu", "layer_norm_linear", "swiglu") else {}
    kernel = kernels.get(name, hidden_dim=64, use_half=use_half, **inner)
    operands = [values(*shape) / (8 if place else 1) for place, shape in enumerate(shapes)]
    narrow = [x.astype(np.float16 if dtype == "float16" else np.float32)
              for x, (dtype, _) in zip(operands, kernel.operands())]  # fmt: skip
    expected = evaluate(op, narrow, attributes)
    found, apart = (np.asarray(run(put(operands[0]), *operands[1:])) for run in (kernel, kernel.apart))
    assert found.dtype == apart.dtype == (np.float16 if use_half else np.float32)
    close(found, expected)
    # Its steps round to float16 one after the other.
    np.testing.assert_allclose(apart, expected, atol=2.0**-7 * np.abs(expected).max() if use_half else 1e-4)


def test_rotary_positions_behind_a_norm(put):
    x, weight = values(2, 5, 4, 16), values(64)
    kernel = kernels.get("rms_norm_rope", hidden_dim=64, head_dim=16, max_seq_len=5)
    normal = evaluate("rms_norm", [x.reshape(2, 5, 64), weight], {}).astype(np.float32)
    expected = np.asarray(functional.apply_rope(normal.reshape(x.shape))).astype(np.float64)
    close(kernel(put(x), weight), expected)
    close(kernels.rms_norm_rope(put(x), weight), expected)
    with pytest.raises(ValueError, match="rms_norm_rope: 6 places, expected at most max_seq_len, 5"):
        kernel(values(1, 6, 4, 16), weight)


def test_flash_attention_is_the_encoders_attention(put):
    q, offsets = values(9, 64), np.array([0, 4, 9])
    kernel = kernels.get("flash_attention", hidden_dim=64, head_dim=16)
    heads = {"heads": 4, "kv_heads": 4, "head_dim": 16, "scale": 0.25}
    close(kernel(put(q), q, q, offsets, offsets), evaluate("attention", [q, q, q, offsets, offsets], heads))
    assert kernel.definition == ["attention"]


@pytest.mark.parametrize("name", kernels.names())
@pytest.mark.parametrize("use_half", [False, True])
def test_what_a_kernel_tells_of_itself(name, use_half):
    kernel = kernels.get(name, use_half=use_half)
    assert kernel.source.startswith("#version 460") and "#include" not in kernel.source
    interface = kernel.interface
    assert interface.bindings[0] == (0, "counts", "readonly") and interface.bindings[-1][1:] == ("y", "writeonly")
    assert interface.local_size == (256, 1, 1)
    assert len(interface.push_constants) >= 4 and all(len(row) == 4 for row in interface.constants)
    assert kernel.shared_memory <= 32 << 10
    one, ten = kernel.work(1), kernel.work(10)
    assert 9 * one.flops < ten.flops and one.bytes < ten.bytes
    sizes = {"float32": 4, "float16": 2, "int32": 4}
    given = sum(sizes[dtype] * int(np.prod(axes)) for dtype, axes in kernel.operands(10))
    assert ten.bytes > given


def test_half_the_bytes():
    wide, half = (kernels.get("bias_gelu", hidden_dim=64, use_half=flag).work(10) for flag in (False, True))
    assert (wide.bytes, half.bytes) == (4 * 1280 + 256, 2 * 1280 + 256) and wide.flops == half.flops


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: kernels.get("swish"), "there is no kernel called 'swish'|no kernel called \"swish\""),
        (lambda: kernels.get("swiglu", head_dim=3), "swiglu has no option head_dim; its options are hidden_dim"),
        (lambda: kernels.get("swiglu", hidden_dim=0), "hidden_dim is 0"),
        (lambda: kernels.get("swiglu", hidden_dim="wide"), "invalid type"),
        (lambda: kernels.get("rms_norm_rope", hidden_dim=100), "not a multiple of head_dim 64"),
        (lambda: kernels.get("softmax_dropout", p=1.5), "p is 1.5"),
        (lambda: kernels.get("bias_gelu")(values(3, 5), values(5)), "expected last axes \\[1024\\]"),
        (lambda: kernels.get("bias_gelu", hidden_dim=5)(values(3, 5)), "bias_gelu: 1 operand, expected 2: x, bias"),
        (lambda: kernels.get("bias_gelu")(), "no operands"),
        (lambda: kernels.get("flash_attention", hidden_dim=64).apart(*[values(2, 64)] * 3, [0, 2], [0, 2]), "itself"),
        (lambda: kernels.swiglu(values(3, 4), values(5, 4), values(6, 4)), "up has shape"),
        (lambda: kernels.geglu(values(3, 4), values(5, 4), values(5, 4), "exact"), "approximate"),
        (
            lambda: kernels.layer_norm_linear(values(3, 4), values(4), values(4), values(5, 3)),
            "x has shape|expected last",
        ),
        (
            lambda: kernels.layer_norm_linear(values(3, 4), values(5), values(4), values(5, 4)),
            "weight has shape \\[5\\]",
        ),
        (
            lambda: kernels.layer_norm_linear(*[values(4, 4)] * 4, activation="gelu"),
            "activation is 'gelu', expected one of 'gelu_erf'",
        ),
        (lambda: kernels.residual_layer_norm(values(3, 4), values(4), values(4), values(4)), "residual has shape"),
        (lambda: kernels.residual_rms_norm(values(3, 4), values(3, 4), values(5)), "weight has shape"),
        (lambda: kernels.bias_gelu(values(3, 4), values(3, 4)), "bias has shape"),
        (lambda: kernels.softmax_dropout(values(3, 4), 0.5, -1), "seed is -1"),
        (lambda: kernels.rms_norm_rope(values(3, 4), values(4)), "rms_norm_rope"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert isinstance(caught.value, errors.GrillyError)


def test_a_mask_of_floats_is_refused():
    with pytest.raises(TypeError, match="mask is of floats"):
        kernels.softmax_dropout(values(3, 4), 0.5, 1, mask=values(3, 4))


def test_a_fused_kernel_on_a_device_moves_nothing(vulkan):
    x, gate, up = (grilly.to_vulkan(values(*shape)) for shape in ((4, 64), (32, 64), (32, 64)))
    _core.engine("vulkan").synchronize()
    before = grilly.stats()
    kernels.swiglu(x, gate, up)
    _core.engine("vulkan").synchronize()
    after = grilly.stats()
    assert (after["bytes_up"], after["bytes_down"]) == (before["bytes_up"], before["bytes_down"])
    assert after["dispatches"] - before["dispatches"] == 1


def test_the_command_lists_every_kernel():
    done = subprocess.run([sys.executable, "-m", "grilly", "kernels"], capture_output=True, text=True)
    assert done.returncode == 0
    listed = [line.partition(":")[0] for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert listed == kernels.names()
    assert "options: hidden_dim, head_dim, max_seq_len, use_half, use_bfloat16, eps" in done.stdout
