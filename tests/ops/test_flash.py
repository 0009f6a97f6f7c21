"""Packed attention over masks, heads, types and lengths around every tile's edge, against float64.

`make test` takes every pair of some values, `make test-long` (GRILLY_TEST_LONG=1) of all, `make test-full`
(GRILLY_TEST_FULL=1) products of them, on whatever device there is.
"""

import os
import sys
from itertools import combinations, product

import numpy as np
import pytest
from cases.bounds import bound
from cases.pairs import pairwise
from cases.reference import evaluate
from cases.table import Values
from conftest import LONG

import grilly
from grilly import _core, errors, functional, kernels

FULL = os.environ.get("GRILLY_TEST_FULL") == "1"
ALL = FULL or LONG
MASKS = {
    "full": {},
    "causal": {"causal": True},
    "window": {"window": 20},
    "global": {"window": 20, "global_tokens": 3},
    "relative": {"bias": True},
    "alibi": {"bias": True, "causal": True},
    "end": {"causal": True, "align_end": True},
}
#: Query heads and key heads: one each, two to one, all to one.
HEADS = {"1": (2, 2), "2": (4, 2), "all": (4, 1)}
DIMS = (16, 32, 64, 80, 96, 128, 256) if ALL else (16, 64, 80, 256)
LENGTHS = (1, 16, 31, 33, 64, 65, 129, 255, 513, 1025)
if ALL:
    LENGTHS = (1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 255, 257, 511, 513, 1023, 1025, 4095, 4097)
#: Queries and keys of the text: as many, or seven of one.
SIDES = {"equal": lambda n: (n, n), "queries": lambda n: (min(n, 7), n), "keys": lambda n: (n, min(n, 7))}
WHAT = {"mask": tuple(MASKS), "dim": DIMS, "group": tuple(HEADS), "length": LENGTHS, "side": tuple(SIDES)}
FACTORS = {**WHAT, "dtype": ("float32", "float16")}


def small(row):
    """What a software device computes in well under a second."""
    length, wide = row.get("length", 1), row.get("dim", 16) > 64
    if length > 513 and (wide or row.get("group", "1") != "1"):
        return False
    return not (row.get("side") == "equal" and length > (257 if wide else 513))


def name_of(row):
    return "-".join(map(str, row.values()))


def operands_of(row):
    """The text between two short ones, so that tiles are shared; numbers that float16 has, whatever the type."""
    values = Values(name_of(row), "float16")
    heads, groups = (1, 1) if row["length"] > 513 and row["group"] == "1" else HEADS[row["group"]]
    queries, keys = SIDES[row["side"]](row["length"])
    q_lengths, k_lengths = (3, queries, 5), (2, keys, 5)
    width = row["dim"]
    attributes = {"heads": heads, "kv_heads": groups, "head_dim": width, "scale": width**-0.5, **MASKS[row["mask"]]}
    if "queries" in row:
        attributes["blocks"] = [row["queries"], row["keys"]]
    operands = [values.plain(sum(q_lengths), heads * width)]
    operands += [values.plain(sum(k_lengths), groups * width) for _ in range(2)]
    operands += [np.r_[0, np.cumsum(lengths)].astype(np.int32) for lengths in (q_lengths, k_lengths)]
    if row["mask"] == "alibi":
        operands.append(functional.alibi_bias(heads, max(queries, keys)))
    if row["mask"] == "relative":
        operands.append(functional.relative_bias(values.plain(32, heads), max(queries, keys)))
    return operands, attributes


def alone(operands):
    """The text without its neighbours."""
    q, k, v, q_offsets, k_offsets, *bias = operands
    (first, last), (begin, end) = q_offsets[1:3], k_offsets[1:3]
    offsets = [np.array([0, count], np.int32) for count in (last - first, end - begin)]
    return [q[first:last], k[begin:end], v[begin:end], *offsets, *bias], slice(first, last)


def attention(engine, operands, attributes, dtype):
    given = [x.astype(dtype) if place < 3 else x for place, x in enumerate(operands)]
    return engine.call("attention", [engine.upload(np.asarray(x, order="C")) for x in given], attributes).numpy()


def check(row, dtypes):
    operands, attributes = operands_of(row)
    expected = evaluate("attention", operands, attributes)
    queries, keys = (int(offsets[2] - offsets[1]) for offsets in operands[3:5])
    own, rows = alone(operands)
    for dtype in dtypes:
        allowed = bound("attention", operands, attributes, expected, dtype == "float16")
        for device in ("cpu", "vulkan"):
            engine = _core.engine(device)
            found = attention(engine, operands, attributes, dtype)
            assert found.dtype == dtype
            off = np.abs(found.astype(np.float64) - expected) - allowed
            assert (off <= 0).all(), (
                f"{device} {dtype}: {(~(off <= 0)).sum()} of {off.size} are off, most by {off.max()}"
            )
            if row["mask"] == "end":
                assert not found[rows][: max(queries - keys, 0)].any(), f"{device} {dtype}: a query without keys"
            again = attention(engine, operands, attributes, dtype)
            assert again.tobytes() == found.tobytes(), f"{device} {dtype}: a second call gave other bits"
            single = attention(engine, own, attributes, dtype)
            assert single.tobytes() == found[rows].tobytes(), f"{device} {dtype}: neighbours changed bits"


PAIRS = pairwise(FACTORS, small)


def test_every_pair_is_there():
    for (a, xs), (b, ys) in combinations(FACTORS.items(), 2):
        for x, y in product(xs, ys):
            assert any(row[a] == x and row[b] == y for row in PAIRS) == small({a: x, b: y}), (a, x, b, y)


@pytest.mark.parametrize("row", PAIRS, ids=name_of)
def test_pairs(vulkan, row):
    check(row, [row["dtype"]])


#: Every mask, width, group and side at lengths within a tile, past one and past many; every mask, length and side.
WHOLE = [dict(zip(WHAT, row, strict=True)) for row in product(MASKS, DIMS, HEADS, (17, 65, 257, 1025), SIDES)]
WHOLE += [dict(zip(WHAT, row, strict=True)) for row in product(MASKS, (64,), ("1", "all"), LENGTHS, SIDES)]


@pytest.mark.parametrize("row", WHOLE if FULL else [], ids=name_of)
def test_products(vulkan, row):
    check(row, FACTORS["dtype"])


#: Blocks of queries and of keys beside what they work with; texts of some blocks and of part of one.
BLOCKS = {
    "queries": (16, 32, 64, 128) if ALL else (16, 128),
    "keys": (16, 32, 64, 128, 256) if ALL else (32, 256),
    "mask": ("full", "causal", "window", "alibi") if ALL else ("full", "window"),
    "dim": (32, 80),
    "dtype": ("float32", "float16"),
    "length": (65, 257),
}


@pytest.mark.parametrize("row", pairwise(BLOCKS), ids=name_of)
def test_blocks(vulkan, row):
    """Those that a device can have give the numbers of the definition; others are refused as `validate_config` says."""
    row = row | {"group": "2", "side": "equal"}
    operands, attributes = operands_of(row)
    device = next(found for found in grilly.info()["devices"] if found["name"] == _core.engine("vulkan").device)
    refused = refusal(row, device["limits"])
    try:
        attention(_core.engine("vulkan"), operands, attributes, row["dtype"])
    except errors.InvalidArgumentError as error:
        assert refused is not None and type(error) is refused[0] and refused[1] in str(error), error
    else:
        assert refused is None
        check(row, [row["dtype"]])


def refusal(row, limits):
    """Class and message of what speaks against these blocks."""
    half = row["dtype"] == "float16"
    config = kernels.FlashAttentionConfig(row["queries"], row["keys"], row["dim"], half)
    try:
        kernels.validate_config(config, limits["shared_memory"])
    except errors.InvalidArgumentError as error:
        return type(error), str(error)
    lanes = row["queries"] * (1 if half else 4)
    return (errors.InvalidArgumentError, f"block_q takes {lanes}") if lanes > limits["invocations"] else None


@pytest.mark.parametrize("mask", ["full", "causal", "window"] if ALL else ["causal"])
def test_queries_of_a_workgroup_change_no_bit(vulkan, mask):
    """Sums go over keys block by block, whoever computes them."""
    operands, attributes = operands_of({"mask": mask, "dim": 32, "group": "2", "length": 129, "side": "equal"})
    engine = _core.engine("vulkan")
    found = {
        queries: attention(engine, operands, attributes | {"blocks": [queries, 32]}, "float32").tobytes()
        for queries in (16, 32, 64, 128)
    }
    assert len(set(found.values())) == 1


MANY = 65_536


def long_call(device, **masks):
    """Bytes of the device that a call on 65,536 tokens holds besides its operands, and the result."""
    engine = _core.engine(device)
    x = np.random.default_rng(7).standard_normal((MANY, 16)).astype(np.float16).astype(np.float32)
    offsets = engine.upload(np.array([0, MANY], np.int32))
    given = engine.upload(x)
    engine.synchronize()
    before = _core.stats()["bytes_held"]
    attributes = {"heads": 1, "kv_heads": 1, "head_dim": 16, "scale": 0.25, **masks}
    result = engine.call("attention", [given, given, given, offsets, offsets], attributes)
    engine.synchronize()
    held = _core.stats()["bytes_held"] - before
    return x, held, result.numpy()


def check_long(device, most, **masks):
    """A few queries against float64, and memory that grows as the tokens do: scores alone would take 17 GB."""
    resource = pytest.importorskip("resource")
    unit = 1 if sys.platform == "darwin" else 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    x, held, found = long_call(device, **masks)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit
    assert grown <= 1 << 30, f"the process grew by {grown} bytes"
    assert held <= 4 * x.nbytes, f"{held} bytes for a result of {x.nbytes}"
    wide = x.astype(np.float64)
    for query in (0, 1, 1000, 40_000, MANY - 1):
        keys = slice(max(query - most, 0), query + 1)
        scores = 0.25 * (wide[keys] @ wide[query])
        weights = np.exp(scores - scores.max())
        expected = weights @ wide[keys] / weights.sum()
        terms = 8 * np.sqrt(2 * weights.size + 4) * 2.0**-24
        # Scores below 0.25 * 16 * max^2, off by sqrt(16) roundings and those of exp; see cases/bounds.py.
        error = (8 * np.sqrt(36) + 6) * 2.0**-24 * np.abs(scores).max()
        allowed = (np.expm1(2 * error) + terms) * np.abs(wide[keys]).max()
        assert np.abs(found[query] - expected).max() <= allowed, (device, query)


def test_65536_tokens_in_a_window_take_linear_memory(device):
    check_long(device, 32, causal=True, window=32)


@pytest.mark.skipif(not FULL, reason="GRILLY_TEST_FULL is not 1")
def test_65536_tokens_take_linear_memory(device):
    check_long(device, MANY, causal=True)
