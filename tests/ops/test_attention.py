"""Attention whole and in parts: shapes, masks, causality, rotary positions."""

import numpy as np
import pytest
from cases.comparison import RNG, close, soft, values
from cases.reference import evaluate

from grilly import functional


@pytest.mark.parametrize("batch", [(), (2,), (2, 3), (2, 1, 3), (1, 2, 1, 2)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(put, batch, causal):
    q, k, v = values(*batch, 5, 8), values(*batch, 7, 8), values(*batch, 7, 6)
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / np.sqrt(8)
    weights = soft(scores, np.tri(5, 7) if causal else np.ones((5, 7)))
    output, found = functional.attention(put(q), k, v, causal=causal)
    close(found, weights)
    close(output, weights @ v)
    v = values(*batch, 7, 8)
    fused, none = functional.attention(put(q), k, v, causal=causal, need_weights=False)
    assert none is None
    close(fused, weights @ v)
    close(functional.flash_attention2(put(q), k, v, causal=causal), weights @ v)


@pytest.mark.parametrize("axes", [(5, 7), (7,), (1, 7), (2, 1, 1, 7), (2, 3, 5, 7), (3, 1, 7)])
def test_attention_masks(put, axes):
    q, k, v = values(2, 3, 5, 8), values(2, 3, 7, 8), values(2, 3, 7, 8)
    scores = 0.3 * (q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2))
    keep = RNG.random(axes) < 0.6
    for mask in (keep, keep.astype(np.int64), put(keep)):
        output, weights = functional.attention(put(q), k, v, mask, scale=0.3)
        close(weights, soft(scores, keep))
        close(output, soft(scores, keep) @ v)
    bias = values(*axes)
    output, weights = functional.attention(put(q), k, v, bias, scale=0.3)
    close(weights, soft(scores + bias, np.ones(1)))
    close(functional.flash_attention2(put(q), k, v, mask=keep, scale=0.3), soft(scores, keep) @ v)


def test_a_query_without_keys_has_no_weights_and_no_output(put):
    q = values(2, 3, 4)
    mask = np.ones((3, 3), bool)
    mask[1] = False
    output, weights = functional.attention(put(q), q, q, mask)
    assert not np.asarray(weights)[:, 1].any() and not np.asarray(output)[:, 1].any()
    assert np.asarray(output)[:, 0].any()


def test_flash_attention_with_rope(put):
    q, k, v = values(2, 5, 8), values(2, 5, 8), values(2, 5, 8)
    turned = [np.asarray(functional.apply_rope(x[:, :, None, :])).reshape(2, 5, 8).astype(np.float64) for x in (q, k)]
    weights = soft(turned[0] @ turned[1].swapaxes(-1, -2) / np.sqrt(8), np.ones(1))
    close(functional.flash_attention2(put(q), k, v, use_rope=True), weights @ v)


def test_attention_by_its_parts(put):
    q, k, v = values(2, 5, 4, 8), values(2, 5, 2, 8), values(2, 5, 2, 8)
    scores = functional.attention_scores(put(q), k, 4, 8)
    close(scores, evaluate("attention_scores", [q, k], {"scale": 8**-0.5}))
    flat = functional.attention_scores(put(q.reshape(2, 5, 32)), k.reshape(2, 5, 16), 4, 8)
    assert np.asarray(flat).tobytes() == np.asarray(scores).tobytes()
    keep = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    masked = functional.attention_mask(scores, custom_mask=keep)
    assert (np.asarray(masked) < -1e8).sum() == 2 * 4 * 10 + 4 * 3  # above the diagonal, and three kept pairs of text 0
    weights = functional.softmax(masked)
    output = functional.attention_output(weights, v, 4, 8)
    close(output, evaluate("attention_output", [np.asarray(weights), v], {}))
    joined = functional.attention_concat_heads(output)
    assert (np.asarray(joined) == np.asarray(output).reshape(2, 5, 32)).all()


def test_rope_honours_positions(put):
    x, places = values(2, 5, 3, 8), np.array([[4, 3, 2, 1, 0], [10, 20, 30, 40, 50]])
    found = functional.apply_rope(put(x), places, rope_scaling=2.0)
    angles = places[..., None] / 2.0 * 10000.0 ** (-np.arange(4) / 4)
    close(found, evaluate("rope", [x, np.cos(angles), np.sin(angles)], {}))
