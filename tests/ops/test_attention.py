"""Attention whole and in parts: shapes, masks, causality, rotary positions."""

import numpy as np
import pytest
from cases.attending import seen
from cases.comparison import RNG, close, soft, values
from cases.reference import evaluate

from grilly import functional
from grilly.errors import InvalidArgumentError


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
    for given, of in ((places, angles), (None, np.arange(5)[:, None] / 2.0 * 10000.0 ** (-np.arange(4) / 4))):
        gradient = functional.apply_rope_backward(put(x), given, rope_scaling=2.0)
        close(gradient, evaluate("rope", [x, np.cos(of), -np.sin(of)], {}))


@pytest.mark.parametrize("heads, groups", [(2, 2), (4, 2), (3, 1)])
@pytest.mark.parametrize(
    "masks",
    [{"window": 2}, {"causal": True, "align_end": True}, {"window": 1, "global_tokens": 2, "causal": True}, {}],
    ids=lambda masks: "-".join(masks) or "full",
)
@pytest.mark.parametrize("queries, keys", [(5, 7), (7, 5)])
def test_places_biases_and_grouped_heads(put, heads, groups, masks, queries, keys):
    """Fused and by parts alike, with and without a table of biases, a row a head or one for all."""
    q, k, v = values(2, heads, queries, 8), values(2, groups, keys, 8), values(2, groups, keys, 8)
    wide_k, wide_v = (np.repeat(x, heads // groups, axis=1).astype(np.float64) for x in (k, v))
    keep, distance = seen(masks, queries, keys)
    for bias in (None, values(heads, 7), values(1, 5), values(3)):
        scores = q.astype(np.float64) @ wide_k.swapaxes(-1, -2) / np.sqrt(8)
        if bias is not None:
            reach = bias.shape[-1] // 2
            scores = scores + bias.reshape(-1, 2 * reach + 1)[:, np.clip(distance, -reach, reach) + reach]
        weights = soft(scores, keep)
        close(functional.flash_attention2(put(q), k, v, bias=bias, **masks), weights @ wide_v)
        output, found = functional.attention(put(q), k, v, bias=None if bias is None else put(bias), **masks)
        close(found, weights)
        close(output, weights @ wide_v)
        mask = RNG.random((2, 1, 1, keys)) < 0.6
        masked = soft(scores, keep & mask)
        for given in (mask, put(mask), put(np.int32(2) * mask)):
            close(functional.attention(put(q), k, v, given, bias=bias, **masks)[1], masked)
        close(
            functional.attention(put(q), k, v, 1 - 2.0 * mask, bias=bias, **masks)[1],
            soft(scores + 1 - 2.0 * mask, keep),
        )


@pytest.mark.parametrize("masks", [{}, {"window": 2, "causal": True}], ids=["full", "window"])
def test_soft_cap(put, masks):
    """Before biases; fused and by parts alike."""
    q, k, v, bias = values(2, 4, 5, 8), values(2, 2, 7, 8), values(2, 2, 7, 8), values(4, 5)
    wide_k, wide_v = (np.repeat(x, 2, axis=1).astype(np.float64) for x in (k, v))
    keep, distance = seen(masks, 5, 7)
    scores = 0.75 * np.tanh(q.astype(np.float64) @ wide_k.swapaxes(-1, -2) / np.sqrt(8) / 0.75)
    weights = soft(scores + bias[:, np.clip(distance, -2, 2) + 2], keep)
    close(functional.flash_attention2(put(q), k, v, bias=bias, soft_cap=0.75, **masks), weights @ wide_v)
    output, found = functional.attention(put(q), k, v, bias=bias, soft_cap=0.75, **masks)
    close(found, weights)
    close(output, weights @ wide_v)


def test_many_axes_before_heads_that_share_keys(put):
    q, k = values(2, 1, 3, 4, 5, 8), values(2, 1, 3, 2, 6, 8)
    wide, bias = np.repeat(k, 2, axis=3).astype(np.float64), values(4, 3)
    scores = q @ wide.swapaxes(-1, -2) / np.sqrt(8) + bias[:, np.clip(np.arange(6) - np.arange(5)[:, None], -1, 1) + 1]
    output, weights = functional.attention(put(q), k, k, bias=bias)
    close(weights, soft(scores, np.ones(1)))
    close(output, soft(scores, np.ones(1)) @ wide)
    close(functional.attention(put(q), k, k, bias=bias, need_weights=False)[0], soft(scores, np.ones(1)) @ wide)


def test_rotation_follows_the_places(put):
    """The last of the queries, aligned to the end, is the last row of all of them."""
    q, k, v = values(1, 6, 8), values(1, 6, 8), values(1, 6, 8)
    whole = functional.flash_attention2(put(q), k, v, use_rope=True, causal=True)
    last = functional.flash_attention2(put(q[:, 4:]), k, v, use_rope=True, causal=True, align_end=True)
    close(last, np.asarray(whole)[:, 4:])


def test_a_hidden_key_is_not_touched(put):
    q, k, v = values(2, 200, 8), values(2, 200, 8), values(2, 200, 8)
    clean = np.asarray(functional.flash_attention2(put(q), k, v, window=3))
    k[:, 100], v[:, 100] = np.nan, np.inf
    found = np.asarray(functional.flash_attention2(put(q), k, v, window=3))
    near = np.abs(np.arange(200) - 100) <= 3
    assert np.isnan(found[:, near]).all()
    assert found[:, ~near].tobytes() == clean[:, ~near].tobytes()


@pytest.mark.parametrize(
    "change, words",
    [
        ({"window": -1}, "window is -1"),
        ({"global_tokens": -2}, "global_tokens is -2"),
        ({"bias": np.zeros((3, 5))}, r"bias has shape \[3, 5\], expected \[4, '2 R \+ 1'\]"),
        ({"bias": np.zeros(4)}, r"bias has shape \[4\]"),
        ({"soft_cap": -1}, "soft_cap is -1.0, expected at least 0"),
    ],
)
@pytest.mark.parametrize("function", [functional.attention, functional.flash_attention2])
def test_places_and_biases_that_are_refused(function, change, words):
    with pytest.raises(InvalidArgumentError, match=words):
        function(values(4, 3, 2), values(2, 3, 2), values(2, 3, 2), **change)


def test_heads_that_do_not_share_are_refused():
    with pytest.raises(InvalidArgumentError, match="a divisor of the heads"):
        functional.attention(values(4, 3, 2), values(3, 3, 2), values(3, 3, 2))
    with pytest.raises(InvalidArgumentError, match="value has shape"):
        functional.attention(values(4, 3, 2), values(2, 3, 2), values(4, 3, 2))


def t5_bucket(distance, bidirectional, buckets, most):
    """Raffel et al.'s bucket of key place less query place, one number at a time."""
    bucket, back = 0, -distance
    if bidirectional:
        buckets //= 2
        bucket += buckets if distance > 0 else 0
        back = abs(back)
    else:
        back = max(back, 0)
    exact = buckets // 2
    if back < exact:
        return bucket + back
    step = int(np.float32(np.log(np.float32(back) / exact)) / np.log(most / exact) * (buckets - exact))
    return bucket + min(exact + step, buckets - 1)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("buckets, most", [(32, 128), (8, 20)])
@pytest.mark.parametrize("length", [1, 2, 100, 400])
def test_relative_bias_is_t5s(bidirectional, buckets, most, length):
    weight = values(buckets, 3)
    table = functional.relative_bias(weight, length, max_distance=most, bidirectional=bidirectional)
    reach = table.shape[1] // 2
    assert table.shape == (3, 2 * min(length - 1, most) + 1) and table.dtype == np.float32
    for distance in range(1 - length, length):
        expected = weight[t5_bucket(distance, bidirectional, buckets, most)]
        assert (table[:, np.clip(distance, -reach, reach) + reach] == expected).all(), distance


def slopes(heads):
    """Press et al.'s slopes: a geometric sequence, and what lies between for numbers that are no powers of two."""
    if np.log2(heads) % 1 == 0:
        start = 2 ** (-(2 ** -(np.log2(heads) - 3)))
        return [start ** (place + 1) for place in range(heads)]
    below = 2 ** int(np.floor(np.log2(heads)))
    return slopes(below) + slopes(2 * below)[0::2][: heads - below]


@pytest.mark.parametrize("heads", [1, 2, 3, 8, 12, 16, 20])
def test_alibi_bias_falls_with_distance(heads):
    table = functional.alibi_bias(heads, 5)
    np.testing.assert_allclose(table, -np.outer(slopes(heads), np.abs(np.arange(-4, 5))), rtol=2.0**-23)


@pytest.mark.parametrize("call", [
    lambda: functional.alibi_bias(0, 4), lambda: functional.alibi_bias(2, 0),
    lambda: functional.relative_bias(values(5, 2), 4), lambda: functional.relative_bias(values(32), 4),
    lambda: functional.relative_bias(values(32, 2), 4, max_distance=8),
    lambda: functional.relative_bias(values(2, 2), 4),
])  # fmt: skip
def test_tables_that_are_refused(call):
    with pytest.raises(InvalidArgumentError):
        call()
