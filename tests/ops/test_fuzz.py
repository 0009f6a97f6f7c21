"""10,000 random functional calls, valid and not: the right answer, or an exception with a type."""

import numpy as np
import pytest
from conftest import LONG

import grilly
from grilly import errors, functional

CALLS = 10_000
BLOCKS = 20
#: Blocks that run; all of them under GRILLY_TEST_LONG.
SOME = BLOCKS if LONG else 8
ALLOWED = errors.GrillyError
DTYPES = (np.float32,) * 6 + (np.float16, np.float64, bool, np.int8, np.int64, np.uint16, np.complex64, object, "U3")
DIMENSIONS = (0, 1, 1, 2, 2, 3, 4, 4, 4, 5, 8)
UNARY = {
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "softplus": lambda x: np.logaddexp(x, 0),
    "quick_gelu": lambda x: x / (1 + np.exp(-1.702 * x)),
    "gcu": lambda x: x * np.cos(x),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "leaky_relu": lambda x: np.where(x < 0, 0.01 * x, x),
    "roswish": lambda x: (x + 1) / (1 + np.exp(-x)) - 0.5,
}


class Caller:
    """Draws operands and arguments: mostly such as fit, sometimes not."""

    def __init__(self, rng):
        self.rng = rng

    def chance(self, share):
        return self.rng.random() < share

    def pick(self, items):
        return items[self.rng.integers(len(items))]

    def shape(self, *last):
        """Some axes before `last`, which is now and then wrong."""
        lead = [self.pick(DIMENSIONS) for _ in range(self.rng.integers(0, 4))]
        return (*lead, *(self.pick(DIMENSIONS) if self.chance(0.05) else n for n in last))

    def array(self, shape, dtype=None):
        """Values in any layout, or now and then something that is no array."""
        if self.chance(0.01):
            return self.pick(["text", [[1.0], [1.0, 2.0]], {}, object(), float("nan")])
        dtype = dtype or self.pick(DTYPES)
        x = self.rng.integers(-3, 4, shape) if dtype != np.float32 else self.rng.uniform(-3, 3, shape)
        x = np.abs(x) if dtype == np.uint16 else x
        x = np.asarray(x).astype(dtype)
        layout = self.rng.integers(5)
        if layout == 1 and x.ndim > 1:
            x = np.asfortranarray(x)
        if layout == 2 and x.ndim:
            x = np.repeat(x, 2, axis=-1)[..., ::2]
        if layout == 3 and x.ndim:
            x = x[::-1]
        if layout == 4 and x.dtype in (np.float32, np.float16) and self.chance(0.3):
            return grilly.to_vulkan(x)
        return x

    def width(self):
        return self.pick(DIMENSIONS)


def wide(*operands):
    """Operands in float64, as the operation saw them."""
    return [np.asarray(x).astype(np.float64) for x in operands]


def unary(c):
    name = c.pick(list(UNARY))
    x = c.array(c.shape())
    return name, (x,), {}, lambda: UNARY[name](*wide(x))


def softmax(c):
    x, dim = c.array(c.shape(c.width())), int(c.rng.integers(-4, 4))

    def expected():
        (v,) = wide(x)
        powers = np.exp(v - v.max(axis=dim, keepdims=True, initial=-np.inf))
        return powers / powers.sum(axis=dim, keepdims=True)

    return "softmax", (x, dim), {}, expected


def linear(c):
    k, n = c.width(), c.width()
    x, w = c.array(c.shape(k)), c.array((n, k))
    b = None if c.chance(0.3) else c.array((n,))
    return "linear", (x, w, b), {}, lambda: wide(x)[0] @ wide(w)[0].T + (0 if b is None else wide(b)[0])


def matmul(c):
    k = c.width()
    a, b = c.array(c.shape(c.width(), k)), c.array((k, c.width()) if c.chance(0.5) else c.shape(k, c.width()))
    return "matmul", (a, b), {}, lambda: wide(a)[0] @ wide(b)[0]


def layer_norm(c):
    n = c.width()
    x, w, b = c.array(c.shape(n)), c.array((n,)), c.array((n,))
    eps = float(c.pick([1e-5, 0.1, 1.0]))

    def expected():
        v, weight, bias = wide(x, w, b)
        variance = v.var(axis=-1, keepdims=True) + eps
        return (v - v.mean(axis=-1, keepdims=True)) / np.sqrt(variance) * weight + bias

    return "layer_norm", (x, n if c.chance(0.9) else c.pick([-1, "n", (), 2.5]), w, b, eps), {}, expected


def rms_norm(c):
    n = c.width()
    x, w = c.array(c.shape(n)), c.array((n,))

    def expected():
        v, weight = wide(x, w)
        return v / np.sqrt(np.square(v).mean(axis=-1, keepdims=True) + 0.5) * weight

    return "rms_norm", (x, (n,), w, 0.5), {}, expected


def lookup(c):
    rows = c.width()
    table = c.array((rows, c.width()))
    low, high = (-2, rows + 2) if c.chance(0.1) else (0, max(rows, 1))
    ids = c.rng.integers(low, high, c.shape()).astype(c.pick([np.int64, np.int32, np.uint8, np.float32]))
    return "embedding_lookup", (table, ids), {}, lambda: wide(table)[0][in_range(ids, rows)]


def in_range(ids, rows):
    """Indices that must not have been accepted otherwise."""
    assert ids.dtype.kind in "iu" and (ids.size == 0 or (ids.min() >= 0 and ids.max() < rows)) or ids.size == 0
    return ids.astype(np.int64)


def pool(c):
    x = c.array(c.shape(c.width(), c.width()))
    mode = c.pick(["mean", "max", "sum", "sum", "median"])
    kinds = {"mean": np.mean, "max": np.max, "sum": np.sum}
    return "mean_pool", (x,), {"mode": mode}, lambda: kinds[mode](*wide(x), axis=-2)


def attention(c):
    batch = [c.pick(DIMENSIONS) for _ in range(c.rng.integers(0, 4))]
    sq, sk, d = c.width(), c.width(), c.pick([1, 2, 4, 8])
    q, k, v = c.array((*batch, sq, d)), c.array((*batch, sk, d)), c.array((*batch, sk, d))
    mask = c.rng.random((sq, sk)) < 0.5 if c.chance(0.4) else None
    causal = c.chance(0.3)

    def expected():
        a, b, values = wide(q, k, v)
        keep = np.tri(sq, sk, dtype=bool) if causal else np.ones((sq, sk), bool)
        keep = keep if mask is None else keep & mask
        powers = np.where(keep, np.exp(a @ b.swapaxes(-1, -2) / np.sqrt(d)), 0)
        total = powers.sum(axis=-1, keepdims=True)
        return powers / np.where(total == 0, 1, total) @ values

    return "flash_attention2", (q, k, v), {"mask": mask, "causal": causal}, expected


def cross_entropy(c):
    classes = c.width()
    shape = c.shape(classes)
    x = c.array(shape)
    t = c.rng.integers(0, max(classes, 1) + c.chance(0.1), shape[:-1])

    def expected():
        (v,) = wide(x)
        logs = v - np.log(np.exp(v).sum(axis=-1, keepdims=True))
        return -np.take_along_axis(logs, t[..., None], axis=-1)[..., 0]

    return "cross_entropy", (x, t), {"reduction": "none"}, expected


def normalize(c):
    x = c.array(c.shape(c.width()))
    return (
        "embedding_normalize",
        (x,),
        {},
        lambda: wide(x)[0] / (np.linalg.norm(wide(x)[0], axis=-1, keepdims=True) + 1e-8),
    )


def swiglu(c):
    x = c.array(c.shape(2 * c.width()))

    def expected():
        first, second = np.split(wide(x)[0], 2, axis=-1)
        return first * second / (1 + np.exp(-second))

    return "swiglu", (x,), {}, expected


def whitening(c):
    x = c.array(c.shape(c.width()))
    return "whitening_batch_stats", (x,), {}, lambda: (wide(x)[0].mean(axis=0), wide(x)[0].std(axis=0))


KINDS = (
    unary, unary, unary, softmax, linear, linear, matmul, layer_norm, rms_norm, lookup, pool, attention, attention,
    cross_entropy, normalize, swiglu, whitening,
)  # fmt: skip


def same(found, expected):
    """Close for sums of at most 64 terms of size 100, of float16 where the result is; NaN where the answer is NaN."""
    if isinstance(expected, tuple):
        return all(same(*pair) for pair in zip(found, expected, strict=True))
    found = np.asarray(found)
    size = np.abs(np.where(np.isfinite(expected), expected, 0)).max(initial=1.0)
    bound = size * (2.0**-9 if found.dtype == np.float16 else 2.0**-17)
    return found.shape == np.shape(expected) and np.allclose(found, expected, rtol=0, atol=bound, equal_nan=True)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's about means of nothing
@pytest.mark.parametrize("block", range(SOME))
def test_random_calls(block):
    c = Caller(np.random.default_rng([2026, block]))
    right = refused = 0
    for _ in range(CALLS // BLOCKS):
        name, arguments, options, expected = c.pick(KINDS)(c)
        facts = [(getattr(x, "shape", x), str(getattr(x, "dtype", ""))) for x in arguments]
        said = f"{name}{facts} {options}"
        try:
            found = getattr(functional, name)(*arguments, **options)
        except ALLOWED:
            refused += 1
            continue
        except Exception as error:  # noqa: BLE001
            pytest.fail(f"{said} raised {type(error).__name__}: {error}")
        with np.errstate(all="ignore"):
            assert same(found, expected()), said
        right += 1
    # Neither kind of call may be rare: nothing is shown by exceptions alone.
    assert right > CALLS / BLOCKS / 4 and refused > CALLS / BLOCKS / 50, (right, refused)
