"""Float32 products on matrix cores: their error, their bits, and the switch to plain ones."""

from pathlib import Path

import numpy as np
import pytest
from cases import attending
from cases.reference import evaluate

import grilly
from grilly import VulkanSentenceTransformer, _core, functional
from grilly.errors import InvalidArgumentError, InvalidTypeError

# Rows, columns and terms: around every tile, and sums as long as those of models.
SIZES = [
    (1, 33, 32), (7, 32, 33), (63, 65, 64), (64, 64, 96), (65, 129, 127), (129, 127, 384), (131, 1000, 769),
    (300, 64, 3072),
]  # fmt: skip
LONGEST = (33, 96, 32768)
TINY_BERT = Path(__file__).parents[1] / "fixtures" / "tiny-bert"
MOST_RMS, MOST = 3.0, 12.0
TRANSPOSED = [(a, b) for a in (False, True) for b in (False, True)]


@pytest.fixture
def engine(vulkan):
    return _core.engine("vulkan")


@pytest.fixture
def split_engine(engine):
    """A device that splits."""
    device = next(row for row in grilly.info()["devices"] if row["name"] == engine.device)
    if device["float32_products"] != "split":
        pytest.skip(f"{engine.device} has no matrix cores for float16")
    return engine


def values(kind: str, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    x = rng.standard_normal(shape)
    if kind == "one-sided":
        x = np.abs(x)
    if kind.endswith("outliers"):
        x = np.sign(x) * rng.uniform(1, 2, shape) if kind == "outliers" else x
        x = x * np.where(rng.random(shape) < 0.02, 1e4, np.where(rng.random(shape) < 0.3, 1e-4, 1.0))
    if kind == "one-hot":
        x = np.where(rng.permuted(np.arange(shape[1])[None].repeat(shape[0], 0), axis=1) == 0, x, 0.0)
    if kind == "whole numbers":
        x = rng.integers(-9, 9, shape).astype(np.float64)
    if kind == "28 bits":
        x = np.sign(x) * 2.0 ** rng.uniform(-28, 0, shape)
    if kind == "growing":
        x = x * 2.0 ** np.linspace(-40, 40, shape[1])
    if kind == "subnormal":
        x = x * 2.0**-130
    return x.astype(np.float32)


# Of x alone.
ONE_SIDE = ("one-hot", "growing", "subnormal")
KINDS = [
    "normal", "one-sided", "outliers", "wide outliers", "one-hot", "whole numbers", "28 bits", "growing", "subnormal",
]  # fmt: skip
# With elements more than 2^28 below the largest of their row.
WIDE = ("wide outliers", "growing")


def units(y: np.ndarray, x: np.ndarray, w: np.ndarray, wide: bool) -> tuple[float, float]:
    """Root mean square and largest error of x w^T, in units of 2^-24 sum |x| |w|, or of the product of the norms."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    scale = np.abs(x) @ np.abs(w).T
    if wide:
        scale = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(w, axis=1)
    # A subnormal result has fewer digits.
    off = np.maximum(np.abs(y - x @ w.T) - 2.0**-149, 0.0) / np.maximum(2.0**-24 * scale, 2.0**-149)
    return float(np.sqrt((off**2).mean())), float(off.max())


def run(engine, op: str, operands: list[np.ndarray], attributes: dict | None = None) -> np.ndarray:
    given = [engine.upload(np.ascontiguousarray(x)) for x in operands]
    return engine.call(op, given, attributes or {}).numpy()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [*SIZES, LONGEST], ids=str)
def test_errors_are_those_of_plain_products_or_within_the_documented_bound(split_engine, products, size, kind):
    m, n, k = size
    rng = np.random.default_rng(0)
    x, w = values(kind, rng, (m, k)), values("normal" if kind in ONE_SIDE else kind, rng, (n, k))
    found = {}
    for name in ("plain", "split"):
        products(name)
        y = run(split_engine, "linear", [x, w])
        assert np.isfinite(y).all()
        found[name] = units(y, x, w, wide=kind in WIDE)
    rms, most = found["split"]
    assert rms <= max(MOST_RMS, found["plain"][0]) and most <= max(MOST, 1.5 * found["plain"][1]), found


@pytest.mark.parametrize(("transpose_a", "transpose_b"), TRANSPOSED)
@pytest.mark.parametrize("size", SIZES[1:], ids=str)
def test_every_transpose_of_matmul_is_as_exact_and_linear_has_its_bits(split_engine, size, transpose_a, transpose_b):
    m, n, k = size
    rng = np.random.default_rng(1)
    x, w = values("normal", rng, (m, k)), values("outliers", rng, (n, k))
    attributes = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    y = run(split_engine, "matmul", [x.T if transpose_a else x, w if transpose_b else w.T], attributes)
    rms, most = units(y, x, w, wide=False)
    assert rms <= MOST_RMS and most <= MOST
    assert (y == run(split_engine, "linear", [x, w])).all()


def test_batches_of_matmul_share_or_own_their_matrices(split_engine):
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((3, 5, 70, 64), np.float32), rng.standard_normal((3, 5, 64, 90), np.float32)
    y = run(split_engine, "matmul", [a, b], {"scale": 0.125})
    assert np.abs(y - 0.125 * (a.astype(np.float64) @ b)).max() <= 2e-6
    for i, j in [(0, 0), (2, 4)]:
        assert (y[i, j] == run(split_engine, "matmul", [a[i, j], b[i, j]], {"scale": 0.125})).all()
    shared = run(split_engine, "matmul", [a, b[0, 0]])
    assert (shared[2, 4] == run(split_engine, "matmul", [a[2, 4], b[0, 0]])).all()


def test_rows_that_cannot_be_split_have_plain_sums_and_leave_the_others_alone(split_engine, products):
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((200, 384), np.float32), rng.standard_normal((160, 384), np.float32)
    clean = run(split_engine, "linear", [x, w])
    x[3, 5], x[70, 0], x[72, 7] = np.nan, np.inf, 3e38
    x[71], x[73], x[74] = 1e-44, x[73] * np.float32(1e30), 0.0
    w[9, 1], w[10, 0], w[12] = -np.inf, np.nan, 0.0
    w[11] *= np.float32(1e-35)
    rows, columns = [3, 70, 71, 72, 73], [9, 10, 11]
    y = run(split_engine, "linear", [x, w])
    products("plain")
    plain = run(split_engine, "linear", [x, w])
    special = np.zeros(y.shape, bool)
    special[rows], special[:, columns] = True, True
    assert np.array_equal(y[special], plain[special], equal_nan=True)
    untouched = ~special
    untouched[74], untouched[:, 12] = False, False
    assert (y[untouched] == clean[untouched]).all()
    assert not y[74, [0, 50]].any() and not y[[0, 50], 12].any()


def test_a_row_has_the_same_bits_alone_and_among_others(split_engine):
    rng = np.random.default_rng(4)
    x, w, up = (rng.standard_normal(shape, np.float32) for shape in ((20_000, 96), (257, 96), (257, 96)))
    gain, shift = rng.standard_normal(96, np.float32), rng.standard_normal(96, np.float32)
    for op, others, attributes in [
        ("linear", [w], {}),
        ("gated_linear", [w, up], {"kind": "silu"}),
        ("layer_norm_linear", [gain, shift, w], {}),
    ]:
        whole = run(split_engine, op, [x, *others], attributes)
        for rows in (slice(0, 1), slice(63, 70), slice(19_000, 20_000)):
            assert (whole[rows] == run(split_engine, op, [x[rows], *others], attributes)).all(), (op, rows)


def test_fused_products_are_as_exact_as_plain_ones(split_engine, products):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((150, 384), np.float32) * 3
    w, up = (rng.standard_normal((100, 384), np.float32) / 20 for _ in range(2))
    gain, shift, bias = (rng.standard_normal(count, np.float32) for count in (384, 384, 100))
    wide = {name: value.astype(np.float64) for name, value in locals().items() if isinstance(value, np.ndarray)}
    gates = wide["x"] @ wide["w"].T
    normed = wide["x"] - wide["x"].mean(1, keepdims=True)
    normed = normed / np.sqrt((normed**2).mean(1, keepdims=True) + 1e-5) * wide["gain"] + wide["shift"]
    for op, operands, attributes, expected in [
        ("gated_linear", [x, w, up], {"kind": "relu"}, np.maximum(gates, 0) * (wide["x"] @ wide["up"].T)),
        ("layer_norm_linear", [x, gain, shift, w, bias], {"bias": True}, normed @ wide["w"].T + wide["bias"]),
    ]:
        off = {}
        for name in ("plain", "split"):
            products(name)
            off[name] = np.abs(run(split_engine, op, operands, attributes) - expected).max()
        assert off["split"] <= 1.5 * off["plain"], (op, off)


WIDTHS = (16, 32, 48, 64, 80, 96, 112, 128)
ATTENDING = [
    case
    for case in attending.cases()
    if case.attributes["head_dim"] in WIDTHS and not case.attributes.get("distances") and "not-finite" not in case.id
]


def attention_operands(case) -> list[np.ndarray]:
    return [x.astype(np.float32) if x.dtype.kind == "f" else x for x in case.operands()]


@pytest.mark.parametrize("case", ATTENDING, ids=lambda case: case.id)
def test_attention_is_as_exact_as_plain_attention(split_engine, products, case):
    operands = attention_operands(case)
    expected = evaluate("attention", operands, case.attributes)
    magnitude = evaluate("attention", [*operands[:2], np.abs(operands[2]), *operands[3:]], case.attributes)
    found = {}
    for name in ("plain", "split"):
        products(name)
        y = run(split_engine, "attention", operands, case.attributes)
        off = np.abs(y - expected) / np.maximum(2.0**-24 * magnitude, 2.0**-149)
        found[name] = (float(np.sqrt((off**2).mean())), float(off.max())) if off.size else (0.0, 0.0)
    (rms, most), plain = found["split"], found["plain"]
    assert rms <= max(MOST_RMS, plain[0]) and most <= max(MOST, 1.5 * plain[1]), found


@pytest.mark.parametrize("exponent", [-60, 60])
def test_attention_of_large_and_small_values_is_as_exact(split_engine, products, exponent):
    """Values of keys that differ by up to 2^20 from each other, far from 1."""
    rng = np.random.default_rng(6)
    q, k, v = (rng.standard_normal((150, 64)) for _ in range(3))
    v = v * 2.0 ** (exponent + rng.integers(-10, 11, (150, 1)))
    operands = [x.astype(np.float32) for x in (q, k, v)] + [attending.offsets(150)] * 2
    given = {"heads": 1, "kv_heads": 1, "head_dim": 64, "scale": 0.125}
    expected = evaluate("attention", operands, given)
    magnitude = evaluate("attention", [*operands[:2], np.abs(operands[2]), *operands[3:]], given)
    off = {}
    for name in ("plain", "split"):
        products(name)
        off[name] = (np.abs(run(split_engine, "attention", operands, given) - expected) / (2.0**-24 * magnitude)).max()
    assert off["split"] <= max(MOST, 1.5 * off["plain"]), off


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("place", ["query", "key", "value"])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e35, 1e-38])
def test_attention_rows_that_cannot_be_split_are_plain_and_leave_the_others_alone(split_engine, causal, place, value):
    rng = np.random.default_rng(7)
    bounds = attending.offsets(40, 100, 7)
    operands = [rng.standard_normal((147, 128), np.float32) for _ in range(3)]
    given = {"heads": 2, "kv_heads": 2, "head_dim": 64, "scale": 0.125, "causal": causal}
    clean = run(split_engine, "attention", [*operands, bounds, bounds], given)
    row, touched = 77, operands[("query", "key", "value").index(place)]
    if value == 1e-38:
        touched[row, :64] *= np.float32(1e-38)
    else:
        touched[row, 3] = value
    y = run(split_engine, "attention", [*operands, bounds, bounds], given)
    expected = evaluate("attention", [*operands, bounds, bounds], given)
    seeing = np.arange(row if causal else 40, 140) if place != "query" else np.array([row])
    others = np.ones(y.shape, bool)
    others[seeing, :64] = False
    assert (y[others] == clean[others]).all()
    found, wanted = y[seeing, :64], expected[seeing, :64]
    if np.isfinite(value):
        magnitude = evaluate("attention", [*operands[:2], np.abs(operands[2]), bounds, bounds], given)[seeing, :64]
        assert (np.abs(found - wanted) <= 2.0**-24 * 64 * magnitude + 2.0**-126).all()
    else:
        with np.errstate(invalid="ignore"):
            assert (np.isfinite(found) == np.isfinite(wanted)).all()


def test_a_text_is_attended_to_with_the_same_bits_alone_and_among_others(split_engine):
    rng = np.random.default_rng(8)
    lengths = [1, 31, 64, 65, 200, 3]
    bounds = attending.offsets(*lengths)
    q, k, v = (rng.standard_normal((bounds[-1], 96), np.float32) for _ in range(3))
    given = {"heads": 3, "kv_heads": 3, "head_dim": 32, "scale": 0.2}
    whole = run(split_engine, "attention", [q, k, v, bounds, bounds], given)
    for start, length in zip(bounds, lengths):
        rows, own = slice(start, start + length), attending.offsets(length)
        assert (run(split_engine, "attention", [q[rows], k[rows], v[rows], own, own], given) == whole[rows]).all()


def test_the_switch_is_checked_reported_and_changes_nothing_without_matrix_cores(engine, products):
    with pytest.raises(InvalidArgumentError, match=r'float32_products is "fast", expected "split" or "plain"'):
        products("fast")
    with pytest.raises(InvalidArgumentError, match="float32_products"):
        VulkanSentenceTransformer(TINY_BERT, float32_products="tf32")
    with pytest.raises(InvalidTypeError, match="float32_products"):
        VulkanSentenceTransformer(TINY_BERT, float32_products=True)
    able = any(row["float32_products"] == "split" for row in grilly.info()["devices"] if row["name"] == engine.device)
    x, w = np.ones((3, 64), np.float32), np.full((64, 64), 0.1, np.float32)
    found = {}
    for name in ("plain", "split"):
        products(name)
        assert grilly.info()["float32_products"] == name
        found[name] = np.asarray(functional.linear(x, w))
        model = VulkanSentenceTransformer(TINY_BERT, device="vulkan", float32_products=name)
        assert ("(float32 products are plain)" in model.plan) == (able and name == "plain")
        assert " x linear: linear" in model.plan and ", not linear-matrix (no variant for float32)" in model.plan
        found[f"{name} model"] = model.encode(["A cat.", "On the mat, a dog."])
        model.close()
    if not able:
        assert (found["plain"] == found["split"]).all() and (found["plain model"] == found["split model"]).all()
    on_cpu = VulkanSentenceTransformer(TINY_BERT, device="cpu")
    assert " x linear: linear" not in on_cpu.plan
