"""`grilly.nn`: layers and their derivatives against float64, and devices."""

import numpy as np
import pytest
from cases.comparison import close, values
from cases.layers import attended, dense, feed_forward, norm
from cases.reference import evaluate

import grilly
from grilly import errors, functional, nn


def test_linear_and_norms(made):
    x = values(2, 3, 9)
    layer = made(nn.Linear(9, 5))
    layer.bias[...] = values(5)
    close(layer(x), dense(layer, x.astype(np.float64)))
    assert nn.Linear(9, 5, bias=False).bias is None and nn.Linear(9, 5, False)(x).shape == (2, 3, 5)
    layer = made(nn.LayerNorm(9))
    close(layer(x), norm(layer, x))
    assert made(nn.LayerNorm((3, 9)))(x).shape == x.shape
    close(made(nn.RMSNorm(9))(x), evaluate("rms_norm", [x, np.ones(9)], {}))


@pytest.mark.parametrize("seq", [3, 4])
def test_multihead_attention_also_where_heads_equal_places(made, seq):
    layer, q, k = made(nn.MultiheadAttention(8, 4)), values(2, seq, 8), values(2, 5, 8)
    output, weights = layer(q, k, k)
    expected = attended(layer, q, k, k, np.ones(1))
    close(output, expected[0])
    close(weights, expected[1])
    assert isinstance(output, np.ndarray)


def test_a_mask_of_none_by_position_is_no_mask(made):
    layer, x = made(nn.MultiheadAttention(8, 2)), values(2, 5, 8)
    close(layer(x, x, x, None)[0], attended(layer, x, x, x, np.ones(1))[0])
    layer = made(nn.TransformerEncoderLayer(8, 2))
    assert (layer(x, None) == layer(x)).all()


def test_masks_of_every_rank(made):
    layer, x = made(nn.MultiheadAttention(8, 2)), values(3, 5, 8)
    keys = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]])
    causal = np.tri(5, dtype=bool)
    for mask, keep in (
        (keys, keys[:, None, None]),
        (keys.astype(bool), keys[:, None, None]),
        (causal, causal),
        (causal[None], causal),
        (np.broadcast_to(causal, (3, 5, 5)), causal),
        ((keys[:, None, None] * causal).astype(bool), keys[:, None, None] * causal),
    ):
        close(layer(x, x, x, mask)[0], attended(layer, x, x, x, keep)[0])
    bias = np.where(causal, 0, -np.inf).astype(np.float32)
    close(layer(x, x, x, bias)[0], attended(layer, x, x, x, causal)[0])
    close(layer(x, x, x, causal=True)[0], attended(layer, x, x, x, causal)[0])
    fused, none = layer(x, x, x, causal=True, need_weights=False)
    close(fused, attended(layer, x, x, x, causal)[0])
    assert none is None


def test_a_mask_that_could_be_two_things_is_refused():
    x = values(5, 5, 8)
    with pytest.raises(errors.InvalidArgumentError, match="may mean"):
        nn.MultiheadAttention(8, 2)(x, x, x, np.tri(5, dtype=bool))


def test_flash_attention_masks_keys_and_keeps_float32(made):
    layer, q = made(nn.FlashAttention2(8, 2)), values(2, 5, 8)
    keep = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    heads = q.reshape(2, 5, 2, 4)
    scores = evaluate("attention_scores", [heads, heads], {"scale": 0.5})
    weights = evaluate("softmax", [scores, np.broadcast_to(keep[:, None, None], scores.shape)], {})
    close(layer(q, q, q, keep), evaluate("attention_output", [weights, heads], {}).reshape(2, 5, 8))
    assert nn.FlashAttention2(8, 2, use_rope=True)(q, q, q).shape == (2, 5, 8)


@pytest.mark.parametrize("use_rope", [False, True])
def test_encoder_layer(made, use_rope):
    layer, x = made(nn.TransformerEncoderLayer(8, 2, use_rope=use_rope)), values(2, 5, 8)
    inner = norm(layer.norm1, x)
    y = x + attended(layer.self_attn, inner, inner, inner, np.ones(1), rope=layer.rope)[0]
    close(layer(x), y + feed_forward(layer, norm(layer.norm2, y)))
    assert (layer.rope is not None) == use_rope


def test_decoder_layer(made):
    layer, x, memory = made(nn.TransformerDecoderLayer(8, 2)), values(2, 4, 8), values(2, 5, 8)
    causal, keys = np.tri(4, dtype=bool)[None], np.array([[1, 1, 1, 1, 0], [1, 0, 0, 0, 0]])
    inner = norm(layer.norm1, x)
    y = x + attended(layer.self_attn, inner, inner, inner, causal[0])[0]
    y = y + attended(layer.cross_attn, norm(layer.norm2, y), memory, memory, keys[:, None, None])[0]
    y = y + feed_forward(layer, norm(layer.norm3, y))
    close(layer(x, memory, causal, keys), y)


def test_dropout_acts_while_training_alone():
    x = np.ones((40, 40), np.float32)
    layer = nn.Dropout(0.5)
    assert (layer(x) == 0).any() and (layer.eval()(x) == 1).all()
    encoder = nn.TransformerEncoderLayer(8, 2, dropout=0.5)
    y = values(2, 5, 8)
    assert not np.array_equal(encoder(y), encoder(y))
    encoder.eval()
    assert np.array_equal(encoder(y), encoder(y))


@pytest.mark.parametrize(
    "layer, kind",
    [(nn.ReLU(), "relu"), (nn.GELU(), "gelu_tanh"), (nn.GELU("none"), "gelu_erf"), (nn.SiLU(), "silu"),
     (nn.GCU(), "gcu"), (nn.Softplus(), "softplus"), (nn.RoSwish(), "roswish"),
     (nn.RoSwish(learnable=False), "roswish")],
)  # fmt: skip
def test_activations(layer, kind):
    x, g = values(3, 5), values(3, 5)
    close(layer(x), evaluate("activation", [x], {"kind": kind}))
    close(layer.backward(g, x), evaluate("activation_backward", [g, x], {"kind": kind}))
    residual = nn.Residual(layer)
    close(residual(x), x + evaluate("activation", [x], {"kind": kind}))
    close(residual.backward(g, x), g + evaluate("activation_backward", [g, x], {"kind": kind}))


def test_gradients_of_roswishs_numbers():
    x, g, numbers = values(3, 5), values(3, 5), np.array([0.7, 1.3], np.float32)
    layer = nn.RoSwish(*numbers.tolist())
    layer.backward(g, x)

    def loss(a: float, b: float) -> float:
        return (g * evaluate("activation", [x], {"kind": "roswish", "a": a, "b": b})).sum()

    a, b = numbers.astype(np.float64)
    step = 2.0**-20
    close(layer.alpha.grad, np.array([loss(a + step, b) - loss(a - step, b)]) / (2 * step))
    close(layer.beta.grad, np.array([loss(a, b + step) - loss(a, b - step)]) / (2 * step))


def test_gated_and_normalised_activations():
    x, g = values(3, 6), values(3, 3)
    close(nn.SwiGLU()(x), evaluate("gated", [x], {"kind": "silu"}))
    close(nn.SwiGLU().backward(g, x), evaluate("gated_backward", [g, x], {"kind": "silu"}))
    y = evaluate("softmax", [x], {})
    close(nn.Softmax()(x), y)
    close(nn.Softmax().backward(x, x), evaluate("softmax_backward", [x.astype(np.float64), y], {}))
    assert [name for name, _ in nn.RoSwish().named_parameters()] == ["alpha", "beta"]
    assert not list(nn.RoSwish(learnable=False).parameters())


def test_rope_honours_position_ids(made):
    x, places = values(2, 5, 3, 8), np.array([[4, 3, 2, 1, 0], [9, 8, 7, 6, 5]])
    found = made(nn.RoPE(8))(x, places)
    assert np.abs(found - nn.RoPE(8)(x)).max() > 0.1
    close(found, np.asarray(functional.apply_rope(x, places), np.float64))
    close(nn.RoPE(8).backward(found, x, places), x.astype(np.float64))


def test_layers_of_one_shape_begin_differently():
    first, second = nn.Linear(16, 16), nn.Linear(16, 16)
    assert not (first.weight == second.weight).all()
    np.random.seed(4)
    one = nn.Linear(16, 16).weight
    np.random.seed(4)
    assert (nn.Linear(16, 16).weight == one).all()
    wide = nn.Linear(1024, 512).weight
    # 524288 draws: the sample deviation is within 5 / sqrt(2 n) of sqrt(2 / 1024) but for one case in a million.
    assert abs(wide.std() / np.sqrt(2 / 1024) - 1) < 5 / np.sqrt(2 * wide.size)


def test_gradients_of_layers():
    x, g = values(4, 5), values(4, 3)
    layer = nn.Linear(5, 3)
    close(layer.backward(g, x), g.astype(np.float64) @ np.asarray(layer.weight, np.float64))
    close(layer.weight.grad, g.T.astype(np.float64) @ x)
    once = layer.weight.grad.copy()
    layer.backward(g, x)
    np.testing.assert_array_equal(layer.weight.grad, once + once)
    layer.zero_grad()
    assert layer.weight.grad is None and layer.bias.grad is None
    chain = nn.Sequential(nn.Linear(5, 3), nn.GELU(), nn.Linear(3, 2))
    chain(x)
    assert chain.backward(values(4, 2), x).shape == (4, 5) and chain[0].weight.grad.shape == (3, 5)
    dropped = nn.Dropout(0.5)
    ones = np.ones(100, np.float32)
    assert np.array_equal(dropped(ones), dropped.backward(ones))


def test_arrays_on_a_device_stay_there(vulkan):
    net = nn.Sequential(nn.Linear(9, 5), nn.GELU(), nn.LayerNorm(5)).vulkan()
    x = grilly.to_vulkan(values(3, 9))
    net(x).numpy()  # the parameters are there now
    before = grilly.stats()
    y = net(x)
    assert isinstance(y, grilly.VulkanTensor)
    after = grilly.stats()
    assert (after["bytes_up"], after["bytes_down"]) == (before["bytes_up"], before["bytes_down"])
    assert isinstance(net(values(3, 9)), np.ndarray)
    close(net.cpu()(x.numpy()), y.numpy().astype(np.float64))


def test_impossible_arguments():
    for make in (
        lambda: nn.MultiheadAttention(7, 2), lambda: nn.RoPE(5), lambda: nn.Dropout(2.0), lambda: nn.Linear(-1, 2),
        lambda: nn.TransformerEncoderLayer(8, 2, activation="elu"), lambda: nn.FlashAttention2(8, 3),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            make()
    with pytest.raises(NotImplementedError, match="prosody"):
        nn.TransformerEncoderLayer(8, 2, use_prosody=True)
    with pytest.raises(IndexError):
        nn.Embedding(5, 2)([5])


def test_losses():
    x, t = values(4, 5), np.array([1, -100, 3, 0])
    loss = nn.CrossEntropyLoss()
    expected = evaluate("cross_entropy", [x, np.where(t < 0, -1, t)], {}).sum() / 3
    close(np.asarray(loss(x, t)), np.asarray(expected))
    grad = loss.backward(None, x, t)
    assert not grad[1].any() and np.abs(grad.sum(axis=-1)).max() < 1e-6
    two = np.array([[1, -100], [3, 0]])
    assert nn.CrossEntropyLoss(ignore_index=3)(values(2, 2, 5), np.abs(two % 5)).shape == ()
    close(np.asarray(nn.MSELoss("sum")(x, x + 1)), np.asarray(20.0))
    assert nn.BCELoss("none").backward(None, [0.25], [1.0]).tolist() == [-4.0]
