"""The functions of one number: the formulas of shaders/include/numbers.glsl, each product and sum rounded."""

import math

import numpy as np

from .arithmetic import INFINITY, NAN, F, add, bits, canonical, div, floats, larger, magnitude, mul, quiet, root, settle
from .arithmetic import smaller as smallest


def is_nan(x) -> np.ndarray:
    return magnitude(x) > 0x7F800000


def polynomial(x: np.ndarray, *coefficients: float) -> np.ndarray:
    """By Horner: `(c[0] x + c[1]) x + ...`"""
    y = floats(coefficients[0])
    for coefficient in coefficients[1:]:
        y = x * y + F(coefficient)
    return y


def power_of_two(n: np.ndarray) -> np.ndarray:
    """2^n for integers n = -127, where it is 0, up to 128, where it is infinite."""
    return ((n + 127).astype(np.uint32) << np.uint32(23)).view(F)


@quiet
def split(bounded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`e`, `n` with `e^x = e 2^n`, n an integer."""
    n = np.rint(bounded * F(1.44269504))
    # ln 2 in two parts: the first has 9 bits, so its product with n up to 2^15 is exact.
    r = (bounded - n * F(0.693359375)) + n * F(2.12194440e-4)
    q = polynomial(r, 1.381446737e-3, 8.368780401e-3, 4.166839421e-2, 1.666652011e-1, 4.999999341e-1)
    return F(1) + ((r * r) * q + r), n.astype(np.int64)


def parts(x) -> tuple[np.ndarray, np.ndarray]:
    """`e`, `n` of a score, whose softmax is taken later; NaN counts as 0."""
    x = np.where(is_nan(x), F(0), settle(x))
    return split(smallest(larger(x, F(-(2**20))), F(2**20)))


@quiet
def exponential(x) -> np.ndarray:
    x = settle(x)
    e, n = split(smallest(larger(np.where(is_nan(x), F(0), x), F(-104)), F(89)))
    half = n >> 1
    y = (e * power_of_two(half)) * power_of_two(n - half)
    return np.where(is_nan(x), NAN, settle(y))


def with_sign(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    return (bits(y) | (bits(x) & np.uint32(0x80000000))).view(F)


@quiet
def error_function(x) -> np.ndarray:
    x = settle(x)
    t = smallest(np.abs(x), F(4))
    p = polynomial(
        t * t, -5.955112335e-4, 4.986210243e-3, -2.676190378e-2, 1.12816876e-1, -3.761248158e-1, 1.283791478e-1
    )
    q = polynomial(
        t,
        -1.123129675e-5,
        3.228037243e-4,
        -3.642458369e-3,
        2.376206135e-2,
        -1.062368757e-1,
        -6.351513176e-1,
        -1.12864849,
    )
    y = np.where(t <= F(0.92), t * p + t, F(1) - exponential(t * q))
    return np.where(is_nan(x), NAN, settle(with_sign(y, x)))


@quiet
def hyperbolic_tangent(x) -> np.ndarray:
    x = settle(x)
    t = smallest(np.abs(x), F(10))
    s = t * t
    p = polynomial(s, -5.704986925e-3, 2.063908739e-2, -5.373971522e-2, 1.33314422e-1, -3.333328194e-1)
    y = np.where(t <= F(0.625), t * (s * p) + t, F(1) - div(F(2), exponential(F(2) * t) + F(1)))
    return np.where(is_nan(x), NAN, settle(with_sign(y, x)))


@quiet
def logistic(x) -> np.ndarray:
    x = settle(x)
    e = exponential(-np.abs(x))
    return div(np.where(x < 0, e, F(1)), F(1) + e)


@quiet
def logarithm_near(f: np.ndarray, n: np.ndarray) -> np.ndarray:
    s = f * f
    p = polynomial(
        f, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
        2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
    )  # fmt: skip
    low = (f * s) * p + n * F(-2.12194440e-4)
    return (f + (low - F(0.5) * s)) + n * F(0.693359375)


@quiet
def logarithm(x) -> np.ndarray:
    x = settle(x)
    scaled = bits(x).astype(np.int64)
    n = (scaled - 0x3F3504F3) >> 23
    f = (scaled - (n << 23)).astype(np.uint32).view(F) - F(1)
    y = np.where(x == INFINITY, INFINITY, logarithm_near(f, n.astype(F)))
    y = np.where(x == 0, -INFINITY, y)
    return np.where((x < 0) | is_nan(x), NAN, settle(y))


@quiet
def softplus(x) -> np.ndarray:
    x = settle(x)
    e = exponential(-np.abs(x))
    half_way = e > F(0.414213562)
    f = np.where(half_way, F(0.5) * e - F(0.5), e)
    return np.where(is_nan(x), NAN, larger(x, F(0)) + logarithm_near(f, half_way.astype(F)))


@quiet
def gelu_erf(x) -> np.ndarray:
    x = settle(x)
    t = smallest(np.abs(x), F(16))
    p = polynomial(
        t, -3.092422e-8, 9.000113e-7, -1.1261285e-5, 7.726784e-5, -2.7937116e-4, -6.5681093e-6, 6.9611883e-3,
        -5.24542e-2, -4.5921594e-1, -1.1511048, -1.0,
    )  # fmt: skip
    p = larger(p, F(-127))
    n = np.rint(p)
    r = p - n
    e = polynomial(r, 1.5353362e-4, 1.3398875e-3, 9.618437e-3, 5.5503324e-2, 2.4022648e-1, 6.931472e-1, 1.0)
    # A tail below the normal numbers would give a result below 2^-100.
    tail = settle(e * power_of_two(np.where(is_nan(x), F(0), n).astype(np.int64)))
    return np.where(is_nan(x), NAN, mul(x, np.where(x < 0, tail, F(1) - tail)))


@quiet
def gelu_tanh(x) -> np.ndarray:
    x = settle(x)
    t = x * ((x * x) * F(-0.0713548163) + F(-1.59576912))
    t = np.where(is_nan(t), F(0), smallest(larger(t, F(-88)), F(89)))
    e, n = split(t)
    return np.where(is_nan(x), NAN, div(x, e * power_of_two(n) + F(1)))


@quiet
def relu(x) -> np.ndarray:
    x = settle(x)
    return np.where(is_nan(x), NAN, larger(x, F(0)))


def silu(x) -> np.ndarray:
    x = settle(x)
    return mul(x, logistic(x))


def quick_gelu(x) -> np.ndarray:
    x = settle(x)
    return mul(x, logistic(mul(F(1.702), x)))


@quiet
def leaky_relu(x, a: float = 1.0) -> np.ndarray:
    x = settle(x)
    return np.where(x < 0, mul(settle(a), x), x)


def roswish(x, a: float = 1.0, b: float = 1.0) -> np.ndarray:
    x, a, b = settle(x), settle(a), settle(b)
    return add(mul(add(x, a), logistic(mul(b, x))), -mul(F(0.5), a))


def two_over_pi(places: int) -> int:
    """`floor(2 / pi 2^places)`, pi by Machin's formula."""
    one = 1 << places + 40

    def arc_cotangent(n: int) -> int:
        terms = (one // ((2 * k + 1) * n ** (2 * k + 1)) for k in range(places))
        return sum(-term if k % 2 else term for k, term in enumerate(terms))

    pi = 4 * (4 * arc_cotangent(5) - arc_cotangent(239))
    return (2 * one << places) // pi


#: Bits of 2 / pi of which a product takes 96.
TURN_BITS = two_over_pi(222)


def far_angle(x: float) -> tuple[int, int, int]:
    """Quarter turns of |x| >= 800, rounded, the size of what is left in units of 2^-62, and whether it is below 0."""
    mantissa, power = math.frexp(abs(x))
    # The bits of 2 / pi that do not count whole turns alone: |x| = mantissa 2^(power - 32), 62 places and 32 more.
    window = TURN_BITS >> (222 + 2 - 32 - 32 - power) & (2**96 - 1)
    turns = (int(mantissa * 2**32) * window >> 32) & (2**64 - 1)
    quarters = (turns + 2**61) >> 62
    left = turns - (quarters << 62)
    return quarters, abs(left), left < 0


@quiet
def angle(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quarter turns of settled numbers and what is left; NaN of what is not finite."""
    near = np.where(np.abs(x) < 800, x, F(0))
    n = np.rint(near * F(0.636619772))
    rest = ((near - n * F(1.5703125)) - n * F(4.837512969970703e-4)) - n * F(7.549789954891e-8)
    quarters = n.astype(np.int64)
    for place in np.argwhere((np.abs(x) >= 800) & np.isfinite(x)):
        at = tuple(place)
        whole, left, below = far_angle(float(x[at]))
        own = (F(left >> 32) * F(2.0**-30) + F(left & 0xFFFFFFFF) * F(2.0**-62)) * F(1.57079633)
        negative = x[at] < 0
        quarters[at] = -whole if negative else whole
        rest[at] = -own if negative != below else own
    return quarters, np.where(np.isfinite(x), rest, NAN)


@quiet
def gcu(x) -> np.ndarray:
    """`x cos x`"""
    x = settle(x)
    quarters, r = angle(x)
    s = r * r
    odd = (r * s) * polynomial(s, -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1) + r
    q = polynomial(s, 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
    even = (s * s) * q + (s * F(-0.5) + F(1))
    # The cosine is the sine a quarter turn on.
    y = np.where(quarters % 2 == 0, even, odd)
    return mul(x, np.where((quarters + 1) & 2 != 0, -y, y))


def square_root(x) -> np.ndarray:
    return root(settle(x))


ACTIVATIONS = {
    "identity": settle,
    "gelu_erf": gelu_erf,
    "gelu_tanh": gelu_tanh,
    "relu": relu,
    "silu": silu,
    "tanh": hyperbolic_tangent,
    "sigmoid": logistic,
    "quick_gelu": quick_gelu,
    "softplus": softplus,
    "leaky_relu": leaky_relu,
    "roswish": roswish,
    "gcu": gcu,
    "sqrt": square_root,
    "exp": exponential,
    "log": logarithm,
}


def apply(kind: str, x, **parameters: float) -> np.ndarray:
    """`act(x)`, as stored."""
    return canonical(ACTIVATIONS[kind](x, **parameters))
