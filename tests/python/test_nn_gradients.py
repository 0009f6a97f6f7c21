"""Derivatives of attention layers: along random directions, against differences of the layer in float64."""

from types import SimpleNamespace

import numpy as np
import pytest
from cases.comparison import values
from cases.layers import attended, feed_forward, norm

from grilly import nn

EVERY = np.ones(1, dtype=bool)


#: The last key of the first text is padding.
PADDED = np.array([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]], dtype=bool)
#: Added to the scores of 4 queries with 5 keys.
ADDED = np.random.default_rng(3).standard_normal((4, 5)).astype(np.float32)


def multihead(layer, q, k, v, causal=False, mask=None):
    keep = np.tri(q.shape[1], k.shape[1], dtype=bool) if causal else EVERY
    return attended(layer, q, k, v, keep if mask is None else keep & mask[:, None, None])[0]


def encoder(layer, x, src_mask=None):
    inner = norm(layer.norm1, x)
    keep = EVERY if src_mask is None else src_mask[:, None, None]
    y = x + attended(layer.self_attn, inner, inner, inner, keep, rope=layer.rope)[0]
    return y + feed_forward(layer, norm(layer.norm2, y))


def decoder(layer, x, memory, tgt_mask=None, memory_mask=None):
    inner = norm(layer.norm1, x)
    keep = EVERY if tgt_mask is None else tgt_mask
    y = x + attended(layer.self_attn, inner, inner, inner, keep)[0]
    added = 0.0 if memory_mask is None else memory_mask
    y = y + attended(layer.cross_attn, norm(layer.norm2, y), memory, memory, EVERY, added=added)[0]
    return y + feed_forward(layer, norm(layer.norm3, y))


def in_float64(layer):
    """The same layer with other numbers: parameters by name, and layers within it."""
    inner = {name: in_float64(module) for name, module in layer._modules.items()}
    own = {name: np.asarray(parameter, np.float64) for name, parameter in layer._parameters.items()}
    sizes = {name: getattr(layer, name) for name in ("num_heads", "rope") if hasattr(layer, name)}
    return SimpleNamespace(**sizes | inner | own)


def place_of(copy, path):
    *layers, name = path.split(".")
    for layer in layers:
        copy = getattr(copy, layer)
    return vars(copy), name


CASES = {
    "multihead": (lambda: nn.MultiheadAttention(8, 2), multihead, [(2, 5, 8), (2, 7, 8), (2, 7, 8)], {}),
    "causal": (lambda: nn.MultiheadAttention(8, 2), multihead, [(2, 70, 8)] * 3, {"causal": True}),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2), encoder, [(2, 5, 8)], {}),
    "rope": (lambda: nn.TransformerEncoderLayer(8, 2, use_rope=True), encoder, [(2, 5, 8)], {}),
    "decoder": (lambda: nn.TransformerDecoderLayer(8, 2), decoder, [(2, 4, 8), (2, 5, 8)], {}),
    "padded": (
        lambda: nn.MultiheadAttention(8, 2),
        multihead,
        [(2, 5, 8)] * 3,
        {"mask": PADDED, "causal": True},
    ),
    "encoder, padded": (
        lambda: nn.TransformerEncoderLayer(8, 2, use_rope=True),
        encoder,
        [(2, 5, 8)],
        {"src_mask": PADDED},
    ),
    "decoder, masked": (
        lambda: nn.TransformerDecoderLayer(8, 2),
        decoder,
        [(2, 4, 8), (2, 5, 8)],
        {"tgt_mask": np.tri(4, dtype=bool), "memory_mask": ADDED},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_float64(made, name):
    make, forward, shapes, options = CASES[name]
    layer, inputs = made(make().eval()), [values(*shape) for shape in shapes]
    g = values(*shapes[0])
    found = layer.backward(g, *inputs, **options)
    found = list(found) if isinstance(found, tuple) else [found]
    gradients = {path: parameter.grad for path, parameter in layer.named_parameters()}
    found += gradients.values()
    # A bias of keys moves all scores of a query alike: its gradient is zero, the sum of numbers of its weight's size.
    weights = [gradients[f"{path.removesuffix('bias').removesuffix('weight')}weight"] for path in gradients]
    beside = [np.zeros(1)] * len(inputs) + weights
    copy, wide = in_float64(layer), [x.astype(np.float64) for x in inputs]
    places = [(wide, number) for number in range(len(wide))]
    places += [place_of(copy, path) for path, _ in layer.named_parameters()]
    rng = np.random.default_rng(7)
    for gradient, other, (holder, key) in zip(found, beside, places, strict=True):
        before = holder[key]
        direction = rng.standard_normal(before.shape)
        losses = []
        for step in (1e-6, -1e-6):
            holder[key] = before + step * direction
            losses.append((g * forward(copy, *wide, **options)).sum())
        holder[key] = before
        expected = (losses[0] - losses[1]) / 2e-6
        gradient = np.asarray(gradient, np.float64)
        # Gradients of float32 pass through some ten sums of at most 128 terms each.
        size = max(np.linalg.norm(gradient), np.linalg.norm(other)) * np.linalg.norm(direction)
        assert abs((gradient * direction).sum() - expected) <= 10 * 8 * np.sqrt(260) * 2.0**-24 * size, key


def test_flash_attention_has_the_gradients_of_attention_alone():
    x, g = values(1, 6, 8), values(1, 6, 8)
    alone, whole = nn.FlashAttention2(8, 2), nn.MultiheadAttention(8, 2)
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        getattr(whole, name).weight[...] = np.eye(8)
    expected = whole.backward(g, x, x, x, causal=True)
    for found, wanted in zip(alone.backward(g, x, x, x, causal=True), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


def test_a_query_without_keys_has_no_gradient():
    x, g = values(1, 3, 8), values(1, 3, 8)
    mask = np.array([[[1, 0, 0], [0, 0, 0], [1, 1, 1]]])
    by_q, by_k, by_v = nn.FlashAttention2(8, 2).backward(g, x, x, x, mask)
    assert not by_q[0, 1].any() and by_q[0, 2].any() and by_k.any() and by_v.any()


def test_gradients_drop_what_the_last_call_dropped():
    x, g = values(2, 5, 8), values(2, 5, 8)
    layer = nn.TransformerEncoderLayer(8, 2, dropout=1.0)
    assert np.array_equal(layer(x), x) and np.array_equal(layer.backward(g, x), g)
    layer = nn.TransformerEncoderLayer(8, 2, dropout=0.3)
    direction = values(2, 5, 8)
    losses = []
    for step in (1e-3, -1e-3):
        np.random.seed(5)
        losses.append((g * layer(x + np.float32(step) * direction).astype(np.float64)).sum())
    found = (layer.backward(g, x).astype(np.float64) * direction).sum()
    # Differences of float32 are off by its rounding / step, and by step^2 of the third derivative.
    assert abs(found - (losses[0] - losses[1]) / 2e-3) <= 2e-3 * np.linalg.norm(g) * np.linalg.norm(direction)
