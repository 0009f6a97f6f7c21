"""Products: exact sums of any length and size of terms, rows at the ends of the exponents, what is not finite."""

import numpy as np
import pytest
from conftest import LONG, is_software

from .comparison import call, difference
from .operations import evaluate

F = np.float32
#: Around a tile, a chunk of 128 terms, the sums of three products of digits that 32 bits hold (43,690), and of 16 bits.
DEPTHS = (1, 15, 127, 128, 129, 4096, 43_690, 43_691, 70_000)
#: Beyond what 64 bits hold.
LONGEST = 131_073
#: In units of 2^-22: all three digits at their ends.
EXTREMES = np.int64(
    [8_355_711, 127 * 65_536 - 128 * 256 - 128, 127 * 65_536 - 128 * 256 + 127, 127 * 65_536 + 127 * 256 - 128]
)


def drawn(name: str) -> np.random.Generator:
    return np.random.default_rng(list(name.encode()))


@pytest.fixture(params=[*DEPTHS, pytest.param(LONGEST, marks=pytest.mark.skipif(not LONG, reason="long"))])
def depth(request, device):
    if request.param > 4096 and is_software(device) and not LONG:
        pytest.skip("long rows on a software driver")
    return request.param


def test_plain(same, depth):
    random = drawn(f"plain {depth}")
    x, w = (random.standard_normal((rows, depth), F) for rows in (3, 5))
    same("linear", [x, w])
    same("matmul", [x, w], transpose_b=True)


def test_digits_at_their_ends(same, depth):
    """Every product of digits has one sign, so that sums are as large as they get; then the signs differ by column."""
    random = drawn(f"digits {depth}")
    units = random.choice(EXTREMES, (4, depth))
    units[0] = EXTREMES[0]
    units[:, 0] = EXTREMES[0]
    x = np.ldexp(units, -22).astype(F)
    assert np.array_equal(np.ldexp(x.astype(float), 22), units)
    signs = random.choice(F([-1, 1]), depth)
    w = np.concatenate([x, -x, x * signs, np.ones((1, depth), F)])
    same("linear", [x, w])
    same("linear", [x * signs, w])


def test_sums_that_cancel(same, depth):
    """What is left of large terms is exact."""
    random = drawn(f"cancel {depth}")
    half = random.standard_normal((3, depth), F) * F(1000)
    x = np.concatenate([half, half, random.standard_normal((3, 1), F)], axis=1)
    w = np.concatenate([np.ones((2, depth)), -np.ones((2, depth)), np.ones((2, 1))], axis=1).astype(F)
    same("linear", [x, w])


@pytest.mark.parametrize("depth", [1, 33, 130])
def test_rows_of_every_size(same, depth):
    """Rows of 2^-126 to 2^127, alone and mixed, with zeros, -0 and subnormal numbers."""
    random = drawn(f"sizes {depth}")
    size = F(2.0) ** np.float64([-126, -125, -120, -101, -100, -64, -30, 0, 1, 30, 63, 64, 100, 126, 127])
    x = (
        random.uniform(1, 1.9, (len(size), depth)) * random.choice([-1, 1], (len(size), depth)) * size[:, None]
    ).astype(F)
    mixed = x.ravel()[random.permutation(x.size)].reshape(x.shape)
    small = random.integers(0, 2**23, (3, depth), np.uint32).view(F) * F(1)
    zeros = random.choice(F([0.0, -0.0]), (2, depth))
    rows = np.concatenate([x, mixed, small, zeros, np.where(random.random(x.shape) < 0.5, x, small[:1])])
    for weight in (x, mixed, zeros, rows):
        same("linear", [rows, weight])
    same("matmul", [rows, rows], transpose_b=True)
    bias = rows[: len(x), 0]
    same("linear", [rows, x, bias], bias=True)
    residual = random.choice(rows.ravel(), (len(rows), len(x)))
    for kind in ("relu", "gelu_erf", "gelu_tanh", "silu", "tanh", "sigmoid", "quick_gelu", "identity"):
        same("linear", [rows, x, bias, residual], bias=True, activation=kind, residual="added")
    same("linear", [rows, x, residual], residual="added")
    same("linear", [rows, x], activation="relu")


def test_mantissas_where_an_integer_would_be_too_large(same):
    """Around 8,355,711 units a row's exponent changes; halves are rounded to even."""
    bits = np.uint32([0x3F7EFEFD, 0x3F7EFEFE, 0x3F7EFEFF, 0x3F7EFF00, 0x3FFEFEFE, 0x3FFEFEFF, 0x3F7FFFFF, 0x3F800000])
    x = bits.view(F)[:, None] * F([1, 2.0**-1, 2.0**-22, 3 * 2.0**-23, -(2.0**-23), 5 * 2.0**-24])
    same("linear", [x, x])
    same("matmul", [x, x], transpose_b=True)


@pytest.mark.parametrize("depth", [17, 128])
def test_what_is_not_finite_spoils_its_row_alone(same, depth):
    random = drawn(f"wild {depth}")
    x, w = (random.standard_normal((8, depth), F) for _ in range(2))
    wild = np.uint32([0x7FC00000, 0xFFFFFFFF, 0x7F800001, 0x7F800000, 0xFF800000]).view(F)
    for rows in (x, w):
        rows[1:6, depth // 2] = wild
    y = same("linear", [x, w])
    assert np.isnan(y[1:6]).all() and np.isnan(y[:, 1:6]).all() and np.isfinite(y[[0, 6, 7]][:, [0, 6, 7]]).all()
    same("linear", [x, w, w[:, 0], x[:, :8]], bias=True, activation="relu", residual="added")
    same("matmul", [x, np.ascontiguousarray(w.T)], scale=0.3)


@pytest.mark.parametrize("factor", [2.0**-40, 1e-3, 1e3, 2.0**40])
def test_columns_of_other_sizes(same, factor):
    """Columns of the weight far below or above the others, of zeros, and of the least and the largest numbers."""
    random = drawn(f"columns {factor}")
    x, w = (random.standard_normal((n, 96), F) for n in (6, 9))
    w[:, [3, 50]] *= F(factor)
    x[:, [3, 50]] /= F(factor)
    same("linear", [x, w])
    w[:, [7, 60]] = F([0.0, 2.0**-140])
    w[:, 20], w[:, 21] = F(2.0**-126), F(2.0**127)
    same("linear", [x, w])
    x[:, :] = 0
    x[:, 7] = F(1e30)
    same("linear", [x, w])
    x[:, 21] = F(1e30)
    same("linear", [x, w])


def test_scale_and_axes_of_matmul(same):
    random = drawn("axes")
    a, b = random.standard_normal((2, 3, 17, 40), F), random.standard_normal((2, 3, 40, 9), F)
    for scale in (1.0, 0.125, 0.3, 1e-30):
        same("matmul", [a * F(1e-5), b], scale=scale)
    same("matmul", [a, b[0, 0]])


def test_a_row_has_the_same_bits_in_any_number_of_rows(engine):
    random = drawn("rows")
    x, w = random.standard_normal((70, 130), F), random.standard_normal((40, 130), F)
    expected = evaluate("linear", [x, w], {})
    for part in (x[:1], x[5:6], x[3:36], x[::-1], x):
        own = evaluate("linear", [part, w], {})
        assert difference(call(engine, "linear", [part, w], {}), own) is None
    assert difference(evaluate("linear", [x[5:6], w], {}), expected[5:6]) is None
