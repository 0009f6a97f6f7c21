"""Attention in blocks of 64 keys: masks, what is hidden, scores of every size, prefixes and neighbours."""

import numpy as np
import pytest

from .comparison import call, difference

F = np.float32
HEADS = {"heads": 4, "kv_heads": 2, "head_dim": 32, "scale": 0.2041241452319315}
MASKS = {
    "none": {},
    "causal": {"causal": True},
    "window": {"window": 3},
    "far-window": {"window": 70},
    "causal-window": {"causal": True, "window": 64},
    "global": {"window": 5, "global_tokens": 2},
    "end": {"causal": True, "align_end": True},
    "cap": {"soft_cap": 1.5},
    "capped-causal": {"soft_cap": 30.0, "causal": True},
}


def offsets(*lengths: int) -> np.ndarray:
    return np.r_[0, np.cumsum(lengths)].astype(np.int32)


def operands(name: str, lengths, keys=None, size: float = 1.0, heads=HEADS) -> list[np.ndarray]:
    random = np.random.default_rng(list(name.encode()))
    ends, key_ends = offsets(*lengths), offsets(*(keys or lengths))
    q = random.standard_normal((ends[-1], heads["heads"] * heads["head_dim"]), F) * F(size)
    k, v = (random.standard_normal((key_ends[-1], heads["kv_heads"] * heads["head_dim"]), F) for _ in range(2))
    return [q, k, v, ends, key_ends]


@pytest.mark.parametrize("mask", MASKS)
def test_lengths_around_blocks(same, mask):
    same("attention", operands(mask, [1, 63, 64, 65, 0, 130]), **HEADS, **MASKS[mask])


@pytest.mark.parametrize("mask", ["none", "causal", "window", "end"])
def test_other_numbers_of_keys(same, mask):
    """Fewer, none and more than queries: some queries see nothing."""
    same("attention", operands(mask, [5, 70, 65, 9], [5, 66, 0, 200]), **HEADS, **MASKS[mask])


@pytest.mark.parametrize("size", [0.0, 1e-20, 1e-3, 30.0, 1e3, 1e5, 1e20, 5e37])
def test_scores_of_every_size(same, size):
    given = operands(f"size {size}", [130, 5], size=size)
    same("attention", given, **HEADS)
    same("attention", given, **HEADS, causal=True, soft_cap=20.0)


@pytest.mark.parametrize("sign", [1, -1])
def test_scores_beyond_2_to_the_20_weigh_by_their_distance_from_the_largest(same, sign):
    """Keys of one score but for some units: a query attends alike near 0 and far from it, beside others or not."""
    q, k, v, *ends = operands("far", [70, 5, 65])
    q, k = np.abs(q), np.abs(k) * F(1e-3)
    k[:, 3::32] = F(1)
    # Of each query and head the fourth element decides how far all scores lie; those of some queries lie near 0.
    q[:, 3::32] = F(sign * 2.0**22)
    q[1::3, 3::32] = F(0.5)
    q[2::5, 3::32] = F(sign * 2.0**20 * 4.9)
    for mask in ({}, {"causal": True}, {"window": 9}):
        same("attention", [q, k, v, *ends], **HEADS, **mask)
    heads = {"heads": 1, "kv_heads": 1, "head_dim": 2, "scale": 1.0}
    q = np.array([[2.0**21, 1], [1, 1]], F)
    k = np.array([[sign, 0], [sign, 1], [sign, -3]], F)
    y = same("attention", [q, k, np.eye(3, 2, dtype=F), offsets(2), offsets(3)], **heads)
    expected = np.exp([0.0, 1, -3]) / np.exp([0.0, 1, -3]).sum()
    assert np.abs(y - expected[:2]).max() < 1e-6


@pytest.mark.parametrize("size", [2.0**-126, 2.0**-110, 1e-20, 1e20, 2.0**124])
def test_values_of_every_size(same, size):
    """By rows: values of one key beside those of another, up to overflow, and keys whose values are zeros."""
    q, k, v, *ends = operands(f"values {size}", [130, 7])
    random = np.random.default_rng(1)
    same("attention", [q, k, v * F(size), *ends], **HEADS)
    mixed = v * random.choice(F([size, 1, 0, -0.0, 2.0**-140, 1e-6]), (len(v), 1))
    same("attention", [q, k, mixed, *ends], **HEADS)
    same("attention", [q * F(8), k, mixed, *ends], **HEADS, causal=True)
    columns = v * random.choice(F([size, 1, 2.0**-140]), v.shape)
    same("attention", [q, k, columns, *ends], **HEADS)


def test_what_is_hidden_does_not_count(same, engine):
    """A NaN or an infinity in a hidden key or its value changes nothing; a visible one spoils what sees it."""
    q, k, v, *ends = operands("hidden", [100])
    plain = call(engine, "attention", [q, k, v, *ends], HEADS | {"causal": True})
    for place, values in ((99, (np.nan, np.inf)), (70, (np.inf, np.nan)), (64, (np.nan, 1.0)), (63, (1.0, -np.inf))):
        dirty = [q, k.copy(), v.copy(), *ends]
        dirty[1][place, 3], dirty[2][place, 5] = values
        y = same("attention", dirty, **HEADS, causal=True)
        assert difference(y[:place], plain[:place]) is None
        assert np.isnan(y[place:, : 2 * 32]).all()
        same("attention", dirty, **HEADS, window=9)
        same("attention", dirty, **HEADS)


def test_queries_that_see_nothing_are_zeros(same):
    q, k, v, *_ = operands("nothing", [6], [3])
    q[1, 0] = np.nan
    y = same("attention", [q, k, v, offsets(6), offsets(3)], **HEADS, causal=True, align_end=True)
    assert not y[:3].view(np.uint32).any() and y[3:].all()


def test_not_finite_queries_keys_and_scores(same):
    q, k, v, *ends = operands("wild", [70, 3])
    q[3, 7], q[9, 8], q[11] = np.nan, np.inf, F(3e38)
    k[5], k[66, 2] = F(3e38), -np.inf
    for mask in MASKS.values():
        same("attention", [q, k, v, *ends], **HEADS, **mask)
    same("attention", [np.abs(q), -np.abs(k), v, *ends], **HEADS)


@pytest.mark.parametrize("mask", [{}, {"causal": True}, {"window": 9, "align_end": True}])
def test_biases_by_distance(same, mask):
    random = np.random.default_rng(2)
    given = operands("bias", [5, 70, 130], [5, 66, 200])
    bias = random.standard_normal((4, 41), F) * F(3)
    bias[:, [3, 20]] = F([[-np.inf, 0], [2.0**-130, -np.inf], [1e30, 1], [-1e38, np.inf]])
    same("attention", [*given, bias], **HEADS, bias=True, **mask)
    same("attention", [*given, bias[:, 4:37]], **HEADS, bias=True, soft_cap=2.0, **mask)


@pytest.mark.parametrize("heads", [(1, 1, 1), (2, 1, 3), (3, 3, 32), (8, 2, 64), (2, 2, 128), (1, 1, 256)])
def test_heads_of_every_width(same, heads):
    given = dict(zip(("heads", "kv_heads", "head_dim"), heads)) | {"scale": heads[2] ** -0.5}
    same("attention", operands(f"heads {heads}", [66, 9], heads=given), **given)


def test_a_prefix_and_neighbours_change_nothing(engine):
    """Causal attention to the first tokens is that of the longer text; a text has the same bits in any batch."""
    q, k, v, *_ = operands("prefix", [200])
    whole = call(engine, "attention", [q, k, v, offsets(200), offsets(200)], HEADS | {"causal": True})
    for length in (1, 63, 64, 65, 129):
        given = [x[:length] for x in (q, k, v)] + [offsets(length)] * 2
        assert difference(call(engine, "attention", given, HEADS | {"causal": True}), whole[:length]) is None
    ends = offsets(37, 100, 63)
    batch = call(engine, "attention", [q, k, v, ends, ends], HEADS)
    for start, end in zip(ends[:-1], ends[1:]):
        own = [x[start:end] for x in (q, k, v)] + [offsets(end - start)] * 2
        assert difference(call(engine, "attention", own, HEADS), batch[start:end]) is None
