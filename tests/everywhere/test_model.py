"""The model itself: exact sums, one rounding, no subnormal numbers, and how far its numbers are from exact ones."""

import math
from fractions import Fraction

import numpy as np
import pytest
from models.golden import per_text

from . import arithmetic, functions, integers, rows
from .attention import attention

F = np.float32
erf = np.vectorize(math.erf, otypes=[float])
#: Largest error of a function in units in the last place, of results from 2^-96 on; the range that is tried.
UNITS = {
    "exp": (np.exp, 1.0, -66.0, 88.7),
    "tanh": (np.tanh, 1.3, -11.0, 11.0),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 2.4, -60.0, 20.0),
    "log": (np.log, 0.8, 1e-20, 100.0),
    "softplus": (lambda x: np.logaddexp(0, x), 1.7, -60.0, 30.0),
    "silu": (lambda x: x / (1 + np.exp(-x)), 3.2, -60.0, 20.0),
    "sqrt": (np.sqrt, 0.5, 0.0, 100.0),
}


def rounded(exact: Fraction) -> float:
    """A number to 24 bits, ties to even; infinite from 2^128 on and zero below 2^-126 after that."""
    if not exact:
        return 0.0
    size = abs(exact)
    power = size.numerator.bit_length() - size.denominator.bit_length()
    power += (Fraction(2) ** power <= size) - 1
    power += size >= Fraction(2) ** (power + 1)
    unit = Fraction(2) ** (power - 23)
    value = round(size / unit) * unit
    y = math.inf if value >= 2**128 else 0.0 if value < Fraction(1, 2**126) else float(value)
    return math.copysign(y, exact)


def test_sums_are_rounded_once():
    random = np.random.default_rng(1)
    sums = np.concatenate(
        [random.integers(-(2**62), 2**62, 3000) >> random.integers(0, 62, 3000), [0, 2**63 - 1, -(2**63) + 1]]
    )
    halves = (2 * random.integers(2**23, 2**24, 600) + 1) << random.integers(0, 38, 600)
    sums = np.concatenate([sums, halves, halves + 1, halves - 1, (1 << 24 + random.integers(0, 38, 50)) - 1])
    exponent = random.integers(-200, 120, len(sums))
    expected = F([rounded(Fraction(int(s)) * Fraction(2) ** int(e)) for s, e in zip(sums, exponent)])
    for found in (integers.assemble(sums, exponent), integers.assemble(sums.astype(object), exponent)):
        assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("depth", [1, 7, 40_000, 131_072, 131_073])
def test_sums_of_integers_are_exact(depth):
    random = np.random.default_rng(depth)
    x, w = (
        random.choice([-1, 1], (2, depth)) * random.integers(8_355_000, integers.LARGEST + 1, (2, depth)) for _ in "xw"
    )
    x[0] = w[0] = integers.LARGEST
    expected = [[sum(int(a) * int(b) for a, b in zip(row, column)) for column in w] for row in x]
    assert integers.dots(x, integers.halves(w)).tolist() == expected


def test_integers_are_within_half_a_step_and_three_digits():
    random = np.random.default_rng(2)
    x = random.integers(0, 2**32, (4000, 5), np.uint32).view(F)
    x = np.where(np.isfinite(x), x, F(2.0**127))
    held = integers.integers(x)
    step = np.ldexp(1.0, held.exponent - 22)[:, None]
    normal = np.where(np.abs(x) < 2.0**-126, 0, x.astype(float))
    assert (np.abs(held.q * step - normal) <= step / 2).all()
    assert np.abs(held.q).max() <= integers.LARGEST and (np.abs(held.q).max(axis=1) >= 2**21)[normal.any(axis=1)].all()


def test_nothing_is_below_the_normal_numbers():
    """Of sums, products and quotients of settled numbers: processors that have none get the same."""
    random = np.random.default_rng(3)
    a, b = (arithmetic.settle(random.integers(0, 0x10000000, 200_000, np.uint32).view(F)) for _ in "ab")
    for y in (
        arithmetic.add(a, b),
        arithmetic.sub(a, b),
        arithmetic.mul(a, b),
        arithmetic.div(a, b + F(1)),
        rows.normalize(a[:64], 1e-12),
    ):
        assert not ((y != 0) & (np.abs(y) < 2.0**-126)).any()
        assert not (arithmetic.bits(y) == 0x80000000).any()


@pytest.mark.parametrize("name", UNITS)
def test_functions_are_near(name):
    exact, units, low, high = UNITS[name]
    x = np.concatenate(
        [np.linspace(low, high, 400_001), np.clip(2.0 ** np.linspace(-98, 6, 20_001), low, high)]
    ).astype(F)
    with np.errstate(divide="ignore"):
        expected = exact(x.astype(float))
    y = functions.apply(name, x)
    with np.errstate(invalid="ignore"):
        error = np.abs(y - expected) / np.spacing(np.abs(expected).astype(F)).astype(float)
    assert error[(np.abs(expected) >= 2.0**-96) & np.isfinite(expected)].max() <= units
    assert np.array_equal(y[~np.isfinite(expected)], expected[~np.isfinite(expected)].astype(F))


#: The same in units where the argument's own error is multiplied: the function, and by how much.
GATES = {
    "gelu_erf": (lambda x: x * (1 + erf(x / math.sqrt(2))) / 2, lambda x: x * x, 2.5),
    "gelu_tanh": (
        lambda x: x / (1 + np.exp(-TWICE * (x + CUBE * x**3))),
        lambda x: 2 * TWICE * abs(x + CUBE * x**3),
        2.0,
    ),
    "quick_gelu": (lambda x: x / (1 + np.exp(-1.702 * x)), lambda x: 1.702 * abs(x), 1.9),
}
TWICE, CUBE = 2 * math.sqrt(2 / math.pi), 0.044715


@pytest.mark.parametrize("name", GATES)
def test_gates_are_near(name):
    exact, amplified, units = GATES[name]
    x = np.linspace(-3.5, 8, 400_001).astype(F)
    x = x[x != 0]
    expected = exact(x.astype(float))
    error = np.abs(functions.apply(name, x) - expected) / np.spacing(np.abs(expected).astype(F)).astype(float)
    assert (error <= units * (1 + amplified(x.astype(float)))).all()
    # Where little is left, of the unit of the numbers beside.
    x = np.linspace(-40, -3.5, 100_001).astype(F)
    with np.errstate(over="ignore"):
        expected = exact(x.astype(float))
    assert np.abs(functions.apply(name, x) - expected).max() <= 2.0**-23


def test_angles_are_near_however_large():
    """Within two units of the larger of x and the result, and of quarter turns that no float64 product would give."""
    random = np.random.default_rng(9)
    x = np.concatenate([
        np.linspace(-900, 900, 200_001), 10.0 ** random.uniform(2.8, 38, 20_000), F(math.pi / 2) * np.arange(2000),
    ]).astype(F)  # fmt: skip
    wide = x.astype(float)
    found = functions.apply("gcu", x)
    assert (np.abs(found - wide * np.cos(wide)) <= 2 * np.spacing(np.abs(x)) + 2.0**-99).all()
    assert functions.TURN_BITS >> 192 == 0x28BE60DB


OUTLIERS = {
    "no outliers": (1.0, 1.0),
    "plain weights": (1.0, 0.0),
    "inverse weights": (1.0, -1.0),
    "weights below inverse": (1 / 16, -1.0),
    "weights above inverse": (4.0, -1.0),
}


@pytest.mark.parametrize("depth", [384, 1536])
@pytest.mark.parametrize("case", OUTLIERS)
def test_products_are_nearly_as_near_as_float32s(case, depth):
    """Two columns of x are 100 to 10,000 times the others: the largest error is at most 4 times that of float32."""
    times, power = OUTLIERS[case]
    random = np.random.default_rng(depth)
    for factor in (1.0,) if case == "no outliers" else (1e2, 1e3, 1e4):
        x, w = (random.standard_normal((n, depth), F) for n in (64, 200))
        x[:, [3, depth // 2]] *= F(factor)
        w[:, [3, depth // 2]] *= F(times * factor**power)
        exact = x.astype(float) @ w.T.astype(float)
        plain, found = (np.abs(y - exact).max() for y in (x @ w.T, integers.linear(x, w)))
        assert found <= 4 * plain, f"{factor}: {found / plain:.2f} times"


@pytest.mark.parametrize("size", [1.0, 8.0, 30.0])
def test_attention_is_nearly_as_near_as_float32s(size):
    random = np.random.default_rng(5)
    q, k, v = (random.standard_normal((3, 150, 32)).astype(F) for _ in "qkv")
    q *= F(size)
    scale = F(32**-0.5)

    def plain(*given):
        q, k, v = given
        scores = q @ k.swapaxes(1, 2) * scale
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True) @ v

    exact = plain(*(x.astype(float) for x in (q, k, v)))
    near, found = (np.abs(y - exact).max() for y in (plain(q, k, v), attention(q, k, v, scale)))
    assert found <= 4 * near, f"{found / near:.2f} times"


#: Largest difference of a component of a unit vector from that of float64.
LARGEST_DIFFERENCE = 1e-6


def test_embeddings_are_near_exact(minilm, minilm_golden, sample):
    ids = per_text(minilm_golden["ids"])
    for index in sample:
        difference = np.abs(minilm.embed(ids[index]) - minilm_golden["embeddings_float64"][index]).max()
        assert difference <= LARGEST_DIFFERENCE, f"text {index} differs by {difference:.2e}"
