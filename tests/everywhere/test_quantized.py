"""Integers of rows and products of them beside the model: scales of every size, ties, sums, groups, zeros."""

import numpy as np
import pytest
from conftest import LONG, is_software

from . import quantized
from .comparison import call, call_all, difference

F = np.float32
KINDS = ("absmax", "affine", "ternary", "binary")
#: Sizes of the numbers of a row; those of some have scales below 2^-100, of others all numbers are 0.
SIZES = (2.0 ** np.float64([-126, -110, -101, -100, -60, -17, -16, 0, 1, 30, 100, 105, 110, 126, 127])).astype(F)


def drawn(name: str) -> np.random.Generator:
    return np.random.default_rng(list(name.encode()))


def skip_most(device: str, place: int, share: int) -> None:
    if is_software(device) and not LONG and place % share:
        pytest.skip(f"one of {share} on a software driver")


def rows_of_sizes(columns: int) -> np.ndarray:
    """Rows of every size, with subnormal numbers and zeros of both signs."""
    random = drawn(f"sizes {columns}")
    x = (random.uniform(-1, 1, (len(SIZES), columns)) * SIZES[:, None].astype(float)).astype(F)
    small = random.integers(0, 2**23, (2, columns), np.uint32).view(F)
    return np.concatenate([x, small, random.choice(F([0.0, -0.0]), (2, columns)), x[7:8] + F(3)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [1, 7, 64, 260, 1100])
def test_rows_of_every_size(same, device, kind, columns):
    skip_most(device, KINDS.index(kind) + columns, 5)
    x = rows_of_sizes(columns)
    factors = drawn(f"factors {columns}").choice(SIZES[3:-2], columns)
    for attributes in ({}, {"scope": 5}, {"pairs": True}):
        if kind == "affine" or not attributes.get("pairs"):
            same("quantize_rows", [x], kind=kind, **attributes)
            same("quantize_rows", [x, factors], kind=kind, factors=True, **attributes)


def test_halves_are_rounded_to_even(same):
    """Numbers that a scale of 1, or of a power of two, has midway between two integers."""
    x = np.arange(-127, 127, dtype=F) + F(0.5)
    rows = np.stack([np.r_[F(127), x], np.r_[F(-127), -x], 4 * np.r_[F(127), x]])
    same("quantize_rows", [rows])
    same("quantize_rows", [rows], kind="affine")


@pytest.mark.parametrize("count", [1, 255, 257, 4096, 70_001, pytest.param(1_100_000, id="long")])
def test_sums_of_magnitudes_have_one_order(same, count):
    """Of one tensor, around the ends of a lane's sums."""
    if count > 100_000 and not LONG:
        pytest.skip("long")
    x = drawn(f"sums {count}").standard_normal((1, count)).astype(F) ** 3
    for kind in ("ternary", "binary"):
        same("quantize_rows", [x], kind=kind, scope="tensor", unpacked=True)


def test_what_is_not_finite_spoils_what_shares_its_scale(same):
    x = drawn("wild").standard_normal((6, 24)).astype(F)
    x[1:6, 5] = np.uint32([0x7FC00000, 0xFFFFFFFF, 0x7F800001, 0x7F800000, 0xFF800000]).view(F)
    for kind in KINDS:
        for scope in ("row", 8, "tensor"):
            same("quantize_rows", [x], kind=kind, scope=scope)
    large = np.full((1, 24), 3e38, F)
    for kind in KINDS:
        same("quantize_rows", [large], kind=kind)


def test_rounding_at_random_is_the_same(engine, device):
    """The numbers are those of the CPU."""
    from grilly import _core

    x = rows_of_sizes(33)
    for kind in ("absmax", "affine"):
        attributes = {"kind": kind, "seed": 5, "offset": 3}
        found, own = (call_all(place, "quantize_rows", [x], attributes) for place in (engine, _core.engine("cpu")))
        assert all(difference(a, b) is None for a, b in zip(found, own, strict=True))
        plain = quantized.quantize_rows(x, kind=kind)
        assert (found[1] == plain[1]).all() and np.abs(found[0].astype(int) - plain[0]).max() == 1


def operands(random, levels: str, m: int, k: int, n: int, scope="row", pairs=False) -> list[np.ndarray]:
    """Integers at their ends, and scales of every size."""
    values = {"int8": [-128, -127, 0, 1, 127], "ternary": [-1, 0, 1], "binary": [-1, 1]}[levels]
    weight = quantized.pack(random.choice(values, (n, k)), levels)
    axes = {"row": (n,), "tensor": (1,)}.get(scope) or (n, -(-k // scope))
    size = lambda *shape: (random.uniform(1, 2, shape) * random.choice([1e-30, 1e-3, 1.0, 40.0, 1e6], shape)).astype(F)  # noqa: E731
    scale = size(m)
    if pairs:
        scale = np.stack([scale, random.integers(-128, 128, m).astype(F)], axis=-1)
    return [random.integers(-128, 128, (m, k)).astype(np.int8), scale, weight, size(*axes)]


#: Rows, terms and columns for each kernel: one by one, lanes, tiles; whole quads and not.
PRODUCTS = [(1, 1, 1), (3, 7, 5), (5, 64, 36), (2, 1040, 12), (70, 160, 68), (33, 36, 31), (1, 16, 260), (2, 40_000, 4)]


@pytest.mark.parametrize("levels", ["int8", "ternary", "binary"])
@pytest.mark.parametrize("size", PRODUCTS, ids=str)
def test_products(same, device, levels, size):
    skip_most(device, PRODUCTS.index(size) + len(levels), 6)
    random, (m, k, n) = drawn(f"{levels} {size}"), size
    # lavapipe ends the loops of an invocation after 65,535 iterations.
    for scope, pairs in (("row", False), ("tensor", True), (12 if k < 10_000 else 500, True)):
        given = operands(random, levels, m, k, n, scope, pairs)
        options = {"levels": levels, "scope": scope, "pairs": pairs}
        same("quantized_linear", given, **options)
        bias, residual = random.standard_normal(n).astype(F), random.standard_normal((m, n)).astype(F)
        options["residual"] = "added"
        same("quantized_linear", [*given, bias, residual], bias=True, activation="gelu_erf", **options)
        same("quantized_linear", [*given, residual], activation="relu", **options)
    same("integer_linear", [given[0], given[2]], levels=levels)


@pytest.mark.parametrize("scale", [0.0, -0.0, 2e-45, 2.0**-126, 2.0**-101, -3.0, 2.0**126, 2.0**127, np.inf, np.nan])
def test_scales_of_every_kind(same, scale):
    """Subnormal ones are 0, whose reciprocal is infinite; so are reciprocals below the normal numbers."""
    random = drawn(f"scale {scale}")
    q, rows, weight, columns = operands(random, "int8", 6, 32, 8)
    rows[:3] = scale
    same("quantized_linear", [q, rows, weight, columns])
    same("quantized_linear", [q, rows, weight, columns, columns], bias=True)
    columns[:5] = scale
    same("quantized_linear", [q, rows, weight, columns])
    same("dequantize_rows", [q, rows])
    zero = random.integers(-128, 128, 6).astype(np.int32)
    same("dequantize_rows", [q, rows, zero], zero=True)


def test_what_rounds_is_undone(same):
    """Integers and their scales give the numbers, within half a step, in groups, too."""
    x = drawn("undone").standard_normal((5, 37)).astype(F)
    for scope in ("row", 8, "tensor"):
        q, scale, zero = quantized.quantize_rows(x, kind="affine", scope=scope)
        y = same("dequantize_rows", [q, scale, zero], zero=True, scope=scope)
        assert np.abs(y - x).max() <= 0.51 / scale.min()
        for kind in ("ternary", "binary"):
            q, scale = quantized.quantize_rows(x, kind=kind, scope=scope)
            same("dequantize_rows", [q, scale], levels=kind, scope=scope, columns=37)


@pytest.mark.parametrize("op, vectors", [("layer_norm_quantize_rows", 2), ("rms_norm_quantize_rows", 1)])
def test_norms(same, device, op, vectors):
    random = drawn(op)
    for place, columns in enumerate((4, 132, 1028)):
        x = rows_of_sizes(columns)
        given = [x, *(random.standard_normal(columns).astype(F) for _ in range(vectors))]
        if device == "cpu" or place < 2:
            same(op, given)
            same(op, [*given, random.uniform(0.5, 2, columns).astype(F)], factors=True, kept=True)


def test_rows_written_into_a_table_are_copies(same):
    random = drawn("table")
    bits = random.integers(0, 2**32, (12, 5), np.uint32)
    bits = np.where((bits & 0x7FFFFFFF) > 0x7F800000, 0x7FC00000, bits).astype(np.uint32)
    same("set_rows", [bits[:9].view(F), bits[9:].view(F), np.int32([7, 0, 3])])


def test_a_row_has_the_same_bits_in_any_number_of_rows(engine):
    random = drawn("rows")
    q, scale, weight, columns = operands(random, "int8", 70, 64, 36)
    expected = quantized.quantized_linear(q, scale, weight, columns)
    for part in (np.s_[:1], np.s_[5:8], np.s_[3:36], np.s_[::-1]):
        found = call(engine, "quantized_linear", [q[part], scale[part], weight, columns], {})
        assert difference(found, np.ascontiguousarray(expected[part])) is None
