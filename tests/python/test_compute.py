"""`grilly.Compute` beyond what upstream had wrong: buffers, layers, the pipeline of attention, what it refuses."""

import numpy as np
import pytest
from cases.comparison import close, values
from cases.reference import evaluate

import grilly
from grilly import errors, functional


def test_compute_buffers(backend):
    data = np.arange(5, dtype=np.float32)
    buffer, memory = backend.create_buffer(data)
    assert np.array_equal(backend.read_buffer(memory, data.nbytes), data)
    backend.upload_buffer(buffer, memory, np.array([9.0], np.float32))
    assert backend.read_buffer(memory).tolist() == [9, 1, 2, 3, 4]
    _, memory = backend.create_buffer(6)
    assert backend.read_buffer(memory, dtype=np.uint8).tolist() == [0] * 6
    assert backend.read_buffer(backend.create_buffer(b"abc")[1], dtype="S1").tolist() == [b"a", b"b", b"c"]
    for wrong in (
        lambda: backend.upload_buffer(buffer, buffer, np.ones(6)),
        lambda: memory.read(7),
        lambda: memory.read(6),
    ):
        with pytest.raises(errors.InvalidArgumentError):
            wrong()
    backend.cleanup()
    with pytest.raises(errors.UnusableError):
        memory.read()


def test_compute_losses_and_layers(backend):
    x, t = values(3, 5), np.array([0, 4, 2])
    powers = evaluate("softmax", [x], {})
    close(backend.fnn.cross_entropy_backward(x, t), powers - np.eye(5)[t])
    w, b = values(4, 5), values(4)
    linear = evaluate("linear", [x, w, b], {"bias": True})
    close(backend.fnn.linear(x, w, b), linear)
    close(backend.fnn.gemm(x, w.T), x.astype(np.float64) @ w.T)
    for name, kind in (
        ("gelu", "gelu_tanh"),
        ("relu", "relu"),
        ("silu", "silu"),
        ("gcu", "gcu"),
        ("roswish", "roswish"),
    ):
        close(getattr(backend.fnn, f"fused_linear_{name}")(x, w, b), evaluate("activation", [linear], {"kind": kind}))
    close(backend.fnn.residual(x, x), 2.0 * x)
    masked = backend.attention_mask(values(1, 2, 3, 3))
    assert (masked[..., np.triu_indices(3, 1)[0], np.triu_indices(3, 1)[1]] < -1e8).all()


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_gemm_backward_has_two_modes_and_accumulates(backend, batch):
    a, b, c = values(*batch, 5, 70), values(*batch, 70, 9), values(*batch, 5, 9)
    wide = [x.astype(np.float64) for x in (a, b, c)]
    by_a, by_b = wide[2] @ wide[1].swapaxes(-1, -2), wide[0].swapaxes(-1, -2) @ wide[2]
    close(functional.gemm_backward(c, b, 0), by_a)
    close(backend.fnn.gemm_backward(c, a, mode=1), by_b)
    close(functional.gemm_backward(grilly.to_vulkan(c), b, 0, a), wide[0] + by_a)
    close(functional.gemm_backward(c, a, 1, accumulate=b), wide[1] + by_b)
    for wrong, problem in (
        (lambda: functional.gemm_backward(c, b, 2), "mode is 2, expected 0 or 1"),
        (lambda: functional.gemm_backward(c, a, 0), "operand has shape"),
        (lambda: functional.gemm_backward(c, b, 0, b), "accumulate has shape"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=problem):
            wrong()


def test_the_whole_pipeline_of_attention(backend):
    """Scores, mask, softmax, output and joined heads, as upstream's own layers chain them."""
    x = values(2, 5, 32)
    scores = backend.attention_scores(x, x, 4, 8)
    weights = backend.activation_softmax(backend.attention_mask(scores, use_causal=True))
    output = backend.attention_concat_heads(backend.attention_output(weights, x, 4, 8))
    fused = backend.attention.flash_attention2(x, x, x, 4, 8, causal=True)
    close(output, fused.reshape(2, 5, 32).astype(np.float64))


def test_bridge_counts():
    bridge = grilly.backend._bridge
    bridge.reset_fallback_stats()
    found = bridge.get_fallback_stats()
    assert found["total"] == 0 and found["operations"] == {} and found["backend"] in ("cpu", "vulkan")
    assert bridge.is_available() == grilly.VULKAN_AVAILABLE


def test_bridge_learns_pairs_by_ojas_rule():
    m, x = values(5, 7), values(5, 7)
    wide_m, wide_x = m.astype(np.float64), x.astype(np.float64)
    y = (wide_m * wide_x).sum(axis=1, keepdims=True)
    learn = grilly.backend._bridge.oja_learning
    close(learn(m, x, 5, 7, eta=0.25), wide_m + 0.25 * y * (wide_x - y * wide_m))
    assert learn(m.ravel(), x.ravel(), 5, 7).shape == (35,)
    with pytest.raises(grilly.errors.InvalidArgumentError, match=r"inputs has shape \[4, 7\], expected 35 elements"):
        learn(m, x[:4], 5, 7)


def test_a_mask_in_the_place_of_use_causal_is_refused(backend):
    with pytest.raises(TypeError, match="use_causal is of type ndarray"):
        backend.attention_mask(values(1, 2, 3, 3), np.ones((1, 3)))


def test_weights_in_the_place_of_the_shape_are_refused():
    with pytest.raises(TypeError, match="normalized_shape is of type ndarray"):
        functional.layer_norm(values(2, 3), np.ones(3), np.zeros(3))


@pytest.mark.parametrize("architecture, reads", [(None, ()), ("gpt", ()), ("modernbert", ("window",))])
def test_an_option_that_a_shader_does_not_read_is_refused(architecture, reads):
    weights, v = np.full((1, 1, 4, 4), 0.25), np.ones((1, 4, 1, 2))
    for option in ("window", "global_tokens", "seed"):
        if option in reads:
            functional.attention_output(weights, v, architecture=architecture, **{option: 1})
            continue
        with pytest.raises(ValueError, match=f"has no {option}"):
            functional.attention_output(weights, v, architecture=architecture, **{option: 1})


def test_what_it_prints(backend):
    assert "backend=" in repr(backend) and repr(backend.fnn) == "<Compute.fnn>"
    buffer, _ = backend.create_buffer(8)
    assert repr(buffer) == "Buffer(8 bytes)"
    buffer.free()
    assert repr(buffer) == "Buffer(8 bytes, freed)"
    assert "shaders)" in repr(grilly.backend.shader_registry.get_registry())


def test_a_buffer_that_is_none(backend):
    for wrong in (lambda: backend.read_buffer("x"), lambda: backend.upload_buffer(None, None, b"")):
        with pytest.raises(errors.InvalidTypeError, match="create_buffer"):
            wrong()
