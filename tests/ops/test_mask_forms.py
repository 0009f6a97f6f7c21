"""Masks of every form mean the same in every path of attention: weights, results and gradients, against float64.

`make test` takes every pair of a mask's type, its axes, the rules of positions, what is done to scores, and the path;
under GRILLY_TEST_LONG all combinations run.
"""

from itertools import product

import numpy as np
import pytest
from cases.attending import seen
from cases.comparison import close, soft
from cases.pairs import pairwise
from conftest import LONG

import grilly
from grilly import functional, nn
from grilly.errors import InvalidArgumentError
from grilly.program import Graph

BATCH, HEADS, GROUPS, WIDTH = 2, 4, 2, 4
#: Axes of a mask, over (batch, head, query, key) or the last of them.
AXES = {
    "k": lambda q, k: (k,),
    "qk": lambda q, k: (q, k),
    "h11": lambda q, k: (HEADS, 1, 1),
    "h1k": lambda q, k: (HEADS, 1, k),
    "b11k": lambda q, k: (BATCH, 1, 1, k),
    "b1qk": lambda q, k: (BATCH, 1, q, k),
    "b1q1": lambda q, k: (BATCH, 1, q, 1),
    "bhqk": lambda q, k: (BATCH, HEADS, q, k),
}
LEAST = np.finfo(np.float32).min
#: What a mask holds where a key is hidden and where it is not; the type of the array.
TYPES = {
    "bool": (np.bool_, False, True),
    "int64": (np.int64, 0, 1),
    "int8": (np.int8, 0, -128),
    "uint8": (np.uint8, 0, 255),
    "uint64": (np.uint64, 0, 2**63),
    "infinity": (np.float32, -np.inf, 0.0),
    "infinity 16": (np.float16, -np.inf, 0.0),
    "infinity 64": (np.float64, -np.inf, 0.25),
    "least": (np.float32, LEAST, 0.0),
    "least 16": (np.float16, np.finfo(np.float16).min, 0.0),
    "least 64": (np.float64, np.finfo(np.float64).min, 0.0),
    "large": (np.float32, -1e9, 0.0),
    "small": (np.float32, -1.5, 0.5),
}
RULES = {
    "none": {},
    "causal": {"causal": True},
    "window": {"window": 1},
    "global": {"window": 1, "global_tokens": 2, "causal": True},
    "end": {"causal": True, "align_end": True},
    "window at the end": {"window": 1, "align_end": True},
}
SCORES = ("plain", "cap", "alibi", "relative")
SIDES = {"fewer queries": (5, 7), "fewer keys": (7, 5)}
PATHS = ("weights", "output", "flash")


def whole_numbers(name, *shape):
    """Small multiples of 1/2: their products, and sums with masks, are exact."""
    rng = np.random.default_rng(sum(map(ord, name)) + sum(shape))
    return rng.integers(-4, 5, shape).astype(np.float32) / 2


def mask_of(axes, kind, queries, keys):
    """A mask, which keys it keeps, and what it adds, over all scores. Some queries see nothing."""
    shape = AXES[axes](queries, keys)
    keep = np.random.default_rng(len(kind) + sum(shape)).random(shape) < 0.6
    if axes in ("qk", "b1qk", "bhqk"):
        keep[..., 1, :] = False
    elif axes in ("h11", "h1k", "b11k"):
        keep[0] = False
    keep[..., -1:] |= axes == "k"
    dtype, hidden, visible = TYPES[kind]
    mask = np.where(keep, np.asarray(visible, dtype), np.asarray(hidden, dtype))
    added = np.zeros(shape, np.float32)
    if dtype in (np.float16, np.float32, np.float64):
        finite = np.clip(mask.astype(np.float64), LEAST, None).astype(np.float32)
        added, keep = np.where(np.isinf(mask), np.float32(0), finite), np.isfinite(mask)
    over = (BATCH, HEADS, queries, keys)
    return mask, np.broadcast_to(keep, over), np.broadcast_to(added, over)


def expected(q, k, v, masked, rules, change):
    """Weights and result in float64; float32 is the type in which a mask is added."""
    keep, added = masked
    k, v = (np.repeat(x.astype(np.float64), HEADS // GROUPS, axis=1) for x in (k, v))
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) / np.sqrt(WIDTH)
    visible, distance = seen(rules, *scores.shape[2:])
    if "soft_cap" in change:
        scores = change["soft_cap"] * np.tanh(scores / change["soft_cap"])
    if "bias" in change:
        reach = change["bias"].shape[1] // 2
        scores = scores + change["bias"].astype(np.float64)[:, np.clip(distance, -reach, reach) + reach]
    scores = (scores.astype(np.float32) + added).astype(np.float64)
    weights = soft(scores, keep & visible)
    return weights, weights @ v, (keep & visible).any(axis=-1)


def changes(kind, queries, keys):
    if kind == "cap":
        return {"soft_cap": 1.5}
    if kind == "alibi":
        return {"bias": functional.alibi_bias(HEADS, max(queries, keys))}
    return {"bias": whole_numbers("relative", HEADS, 5)} if kind == "relative" else {}


def exact(row):
    """Whether float32 has the sums with the mask, next to which those of float64 can be judged."""
    return not (row.get("scores") == "cap" and row.get("mask") in ("least 16", "large"))


FACTORS = {
    "mask": tuple(TYPES), "axes": tuple(AXES), "rules": tuple(RULES), "scores": SCORES, "sides": tuple(SIDES),
    "path": PATHS,
}  # fmt: skip
ALL = [dict(zip(FACTORS, row, strict=True)) for row in product(*FACTORS.values())]
ROWS = [row for row in ALL if exact(row)] if LONG else pairwise(FACTORS, exact)


@pytest.mark.parametrize("mask_type", TYPES)
def test_paths_of_functional(put, mask_type):
    """The device of the mask is that of the queries in every second row."""
    for number, row in enumerate(row for row in ROWS if row["mask"] == mask_type):
        queries, keys = SIDES[row["sides"]]
        q = whole_numbers("q", BATCH, HEADS, queries, WIDTH)
        k, v = (whole_numbers(name, BATCH, GROUPS, keys, WIDTH) for name in "kv")
        mask, *masked = mask_of(row["axes"], row["mask"], queries, keys)
        rules, change = RULES[row["rules"]], changes(row["scores"], queries, keys)
        weights, output, sees = expected(q, k, v, masked, rules, change)
        given = put(mask) if number % 2 and mask.dtype.itemsize < 8 else mask
        if row["path"] == "flash":
            found = functional.flash_attention2(put(q), k, v, mask=given, **rules, **change)
        else:
            wanted = row["path"] == "weights"
            found, of = functional.attention(put(q), k, v, given, need_weights=wanted, **rules, **change)
            assert (of is not None) == wanted
            if wanted:
                close(of, weights)
                assert not np.asarray(of)[~sees].any(), row
        close(found, output)
        assert not np.asarray(found)[~sees].any(), row


@pytest.mark.parametrize("mask_type", [kind for kind in TYPES if TYPES[kind][0] not in (np.int8, np.uint64)])
def test_half_precision(put, mask_type):
    """float16 results, of masks that are added in float32: -1e9 is no float16 number."""
    q, g = (8 * whole_numbers(name, BATCH, HEADS, 5, WIDTH).astype(np.float16) for name in "qg")
    k, v = (whole_numbers(name, BATCH, GROUPS, 7, WIDTH).astype(np.float16) for name in "kv")
    for axes in ("qk", "b11k"):
        mask, *masked = mask_of(axes, mask_type, 5, 7)
        weights, output, sees = expected(q, k, v, masked, {}, {})
        found = functional.attention(put(q), put(k), put(v), mask)
        layer = nn.FlashAttention2(HEADS * WIDTH, HEADS)
        operands = [put(by_heads(x)) for x in (q, k, v)]
        for one, other in zip((*found, layer(*operands, mask)), (output, weights, by_heads(output)), strict=True):
            assert np.asarray(one).dtype == np.float16
            close(one, other)
        assert not np.asarray(found[0])[~sees].any() and not np.asarray(found[1])[~sees].any()
        for gradient, of in zip(
            layer.backward(put(by_heads(g)), *operands, mask), gradients(q, k, v, g, weights), strict=True
        ):
            np.testing.assert_allclose(np.asarray(gradient), by_heads(of), rtol=0, atol=2.0**-8 * np.abs(of).max())


def by_heads(x):
    """`(B, S, H * D)` of `(B, H, S, D)`."""
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(len(x), x.shape[2], -1)


def gradients(q, k, v, g, weights):
    """Those of queries, keys and values, where `g` is that of the result."""
    k, v = (np.repeat(x.astype(np.float64), HEADS // GROUPS, axis=1) for x in (k, v))
    slopes = g.astype(np.float64) @ v.swapaxes(-1, -2)
    by_scores = weights * (slopes - (slopes * weights).sum(axis=-1, keepdims=True)) / np.sqrt(WIDTH)
    by_k, by_v = by_scores.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ g

    def of_groups(x):
        return x.reshape(BATCH, GROUPS, HEADS // GROUPS, *x.shape[2:]).sum(axis=2)

    return by_scores @ k, of_groups(by_k), of_groups(by_v)


LAYERS = {
    "mask": tuple(TYPES), "axes": tuple(AXES), "rules": ("none", "causal"),
    "sides": tuple(SIDES),
}  # fmt: skip
OF_LAYERS = [dict(zip(LAYERS, row, strict=True)) for row in product(*LAYERS.values())] if LONG else pairwise(LAYERS)


@pytest.mark.parametrize("mask_type", TYPES)
def test_paths_of_layers(put, mask_type):
    """A layer without projections, its gradients, and upstream's method."""
    layer = nn.FlashAttention2(HEADS * WIDTH, HEADS)
    for row in (row for row in OF_LAYERS if row["mask"] == mask_type):
        queries, keys = SIDES[row["sides"]]
        q, g = (whole_numbers(name, BATCH, HEADS, queries, WIDTH) for name in "qg")
        k, v = (whole_numbers(name, BATCH, GROUPS, keys, WIDTH) for name in "kv")
        mask, *masked = mask_of(row["axes"], row["mask"], queries, keys)
        # Three axes are (batch, query, key).
        mask, rules = (mask[None] if row["axes"].startswith("h") else mask), RULES[row["rules"]]
        weights, output, sees = expected(q, k, v, masked, rules, {})
        operands = (put(by_heads(q)), by_heads(k), by_heads(v))
        unseen = ~np.repeat(sees.transpose(0, 2, 1), WIDTH, axis=-1)
        upstream = grilly.Compute().attention.flash_attention2(*operands, HEADS, WIDTH, mask=mask, **rules)
        for found in (layer(*operands, mask, **rules), np.asarray(upstream).reshape(BATCH, queries, -1)):
            close(found, by_heads(output))
            assert not np.asarray(found)[unseen].any(), row
        found = layer.backward(put(by_heads(g)), *operands, mask, **rules)
        for gradient, of in zip(found, gradients(q, k, v, g, weights), strict=True):
            close(gradient, by_heads(of))
        assert not np.asarray(found[0])[unseen].any(), row


@pytest.mark.parametrize("mask_type", TYPES)
def test_layers_with_projections(put, mask_type):
    """Projections of one: the layer gives the result of its heads."""
    layer = nn.MultiheadAttention(HEADS * WIDTH, HEADS)
    for linear in (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj):
        linear.weight[...], linear.bias[...] = np.eye(HEADS * WIDTH), 0
    x = whole_numbers("x", BATCH, 5, HEADS * WIDTH)
    q = x.reshape(BATCH, 5, HEADS, WIDTH).transpose(0, 2, 1, 3)
    for axes in ("qk", "h1k", "b11k", "b1qk", "bhqk"):
        mask, keep, added = mask_of(axes, mask_type, 5, 5)
        mask = mask[None] if axes.startswith("h") else mask
        scores = (q.astype(np.float64) @ q.swapaxes(-1, -2) / np.sqrt(WIDTH)).astype(np.float32) + added
        weights = soft(scores.astype(np.float64), keep)
        output, found = layer(put(x), x, x, mask)
        close(found, weights)
        close(output, by_heads(weights @ q))
        without, none = layer(put(x), x, x, mask, need_weights=False)
        assert none is None and np.asarray(without).tobytes() == np.asarray(output).tobytes()
        for gradient in layer.backward(put(x), x, x, x, mask):
            assert np.isfinite(np.asarray(gradient)).all(), axes


def test_a_mask_of_heads_has_four_axes_in_layers(put):
    """Three are (batch, query, key), whatever the number of texts."""
    x = whole_numbers("x", BATCH, 5, HEADS * WIDTH)
    for axes in ((HEADS, 1, 1), (HEADS, 1, 5)):
        with pytest.raises(InvalidArgumentError, match=r"expected one that broadcasts to \[2, 4, 5, 5\]"):
            nn.FlashAttention2(HEADS * WIDTH, HEADS)(put(x), x, x, np.ones(axes, bool))


def test_a_text_of_padding(put):
    """A layer of a transformer gives finite numbers and gradients, the same for every form of a mask of keys."""
    layer = nn.TransformerEncoderLayer(8, 2).eval()
    x, keep = whole_numbers("text", 2, 3, 8), np.array([[True, True, False], [False, False, False]])
    forms = [keep, keep.astype(np.int64), np.where(keep, 0, -np.inf), np.where(keep, 0, -np.inf)[:, None, None]]
    results = [np.asarray(layer(put(x), form)) for form in forms]
    grads = [np.asarray(layer.backward(put(x), put(x), form)) for form in forms]
    for found in (*results, *grads):
        assert np.isfinite(found).all()
    for result, grad in zip(results[1:], grads[1:], strict=True):
        close(result, results[0].astype(np.float64))
        close(grad, grads[0].astype(np.float64))


@pytest.mark.parametrize("kind", ["bool", "int64", "uint8", "float"])
def test_upstreams_masks_of_keys(put, kind):
    """`(B, Sk)` keeps keys where it is not 0, whatever its type, in the methods that upstream has."""
    q, k = whole_numbers("q", 2, 4, 2, 4), whole_numbers("k", 2, 5, 2, 4)
    keep = np.array([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0]]).astype({"bool": bool, "float": np.float32}.get(kind, kind))
    scores = np.einsum("bqhd,bkhd->bhqk", q.astype(np.float64), k) / 2
    weights = soft(scores, keep[:, None, None] != 0)
    attention = grilly.Compute().attention
    found = attention.flash_attention2(put(q), k, k, mask=put(keep))
    close(found, np.einsum("bhqk,bkhd->bqhd", weights, k.astype(np.float64)))
    masked = attention.attention_mask(put(scores.astype(np.float32)), False, custom_mask=put(keep))
    close(masked, np.where(keep[:, None, None] != 0, scores, scores.astype(np.float32) + np.float32(-1e9)))


def test_added_masks_of_keys_are_refused_by_upstreams_methods(put):
    """Its meaning would be the opposite."""
    q, added = whole_numbers("q", 2, 3, 2, 4), np.where([[1, 1, 0], [0, 0, 1]], 0, -np.inf).astype(np.float32)
    attention = grilly.Compute().attention
    with pytest.raises(InvalidArgumentError, match=r"mask has negative numbers.*\[2, 1, 1, 3\]"):
        attention.flash_attention2(put(q), q, q, mask=put(added))
    with pytest.raises(InvalidArgumentError, match="custom_mask has negative numbers"):
        attention.attention_mask(put(np.zeros((2, 2, 3, 3), np.float32)), custom_mask=put(added))


@pytest.mark.parametrize("device", ["cpu", "vulkan"])
def test_programs(device, request):
    """The softmax of a graph, and its gradient."""
    if device == "vulkan":
        request.getfixturevalue("vulkan")
    scores, g = whole_numbers("scores", 2, 3, 5), whole_numbers("g", 2, 3, 5)
    hidden = np.zeros((3, 5), np.float32)
    hidden[1], hidden[2, 3:] = -np.inf, -np.inf
    graph = Graph()
    x, mask, gradient = graph.input("x", (2, 3, 5)), graph.input("mask", (3, 5)), graph.input("g", (2, 3, 5))
    y = graph.call("softmax", graph.call("binary", x, mask, kind="add"), causal=True, masked=True)
    program = graph.program([y, *graph.gradients(y, gradient, [x])], device)
    found, grad = (part.numpy() for part in program.run(scores, hidden, g))
    weights = soft(scores.astype(np.float64), (hidden == 0) & np.tri(3, 5, dtype=bool))
    close(found, weights)
    close(grad, weights * (g - (g * weights).sum(axis=-1, keepdims=True)))
    assert not found[:, 1].any() and not grad[:, 1].any()


def test_only_a_mask_makes_zeros(put):
    """Softmax itself gives NaN for a row of negative infinity, as torch does; NaN stays NaN under a mask."""
    assert np.isnan(np.asarray(functional.softmax(put(np.full((1, 3), -np.inf, np.float32))))).all()
    q, hidden = np.full((1, 1, 2), np.nan, np.float32), np.array([[-np.inf, 0]], np.float32)
    k = np.ones((1, 2, 2), np.float32)
    output, weights = functional.attention(put(q), k, k, hidden)
    assert np.isnan(np.asarray(output)).all() and np.isnan(np.asarray(weights)).any()
