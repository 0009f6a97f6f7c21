"""Functions of one number and operations on rows: every edge, and random bits of every kind."""

import numpy as np
import pytest
from conftest import LONG, is_software

from .functions import ACTIVATIONS

F = np.float32
PARAMETERS = {"leaky_relu": [{"a": 0.01}, {"a": 2.0**-90}], "roswish": [{}, {"a": 0.7, "b": 1.3}]}
ROWS = 1563


def around(*values: float) -> np.ndarray:
    """Numbers within four units of each value and of its opposite."""
    bits = F(values).view(np.uint32).astype(np.int64)[:, None] + np.arange(-4, 5)
    near = np.clip(bits, 0, 0x7F800000).astype(np.uint32).view(F).ravel()
    return np.concatenate([near, -near])


#: Ends of ranges, of exponents and of formulas; NaN of every kind.
EDGES = np.concatenate([
    around(0.0, *(2.0 ** np.float64([-149, -126, -125, -101, -100, -99, -64, -63, -50, -25, -24, -23]))),
    around(0.41421356, 0.5, 0.625, 0.6931472, 0.70710677, 0.92, 1.0, 1.4142135, 2.0, 4.0, 9.0, 10.0, 11.0, 12.0, 12.5),
    around(13.0, 16.0, 32.0, 64.0, 69.3, 69.31472, 87.0, 87.33655, 88.0, 88.72284, 89.0, 103.97, 104.0, 150.0),
    around(*(2.0 ** np.float64([20, 23, 24, 31, 63, 64, 126, 127])), 3.4028235e38, np.inf),
    np.uint32([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF]).view(F),
    F(0.6931472) * np.arange(-160, 160, 0.5, F),
    F(0.1) * np.arange(-1300, 1300, dtype=F),
    around(799.9999, 800.0, *(np.pi / 2 * np.arange(1, 600, 7))),
])  # fmt: skip


def random_bits(name: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(list(name.encode())).integers(0, 2**32, shape, np.uint32).view(F)


def moderate(name: str, *shape: int) -> np.ndarray:
    """Numbers whose exponents are from -12 to 5."""
    random = np.random.default_rng(list(name.encode()))
    return (random.uniform(1, 2, shape) * 2.0 ** random.integers(-12, 5, shape) * random.choice([-1, 1], shape)).astype(
        F
    )


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_functions(same, kind):
    for numbers in PARAMETERS.get(kind, [{}]):
        for x in (EDGES, random_bits(kind, 100_000), moderate(kind, 100_000)):
            same("activation", [x], kind=kind, **numbers)


@pytest.mark.parametrize("kind", ["gelu_erf", "gelu_tanh", "silu", "relu", "sigmoid", "identity"])
def test_gates(same, kind):
    first = np.concatenate([EDGES, random_bits(f"{kind} 1", 20_000)])
    second = np.concatenate([np.roll(EDGES, 77), moderate(f"{kind} 2", 20_000)])
    same("gated", [np.stack([first, second], axis=-1)], kind=kind)


@pytest.mark.parametrize("kind", ["add", "subtract", "multiply", "divide"])
def test_arithmetic(same, kind):
    random = np.random.default_rng(7)
    pairs = [
        [random.permutation(np.tile(EDGES, 9)) for _ in range(2)],
        [random_bits(f"{kind} {n}", 100_000) for n in range(2)],
        [moderate(f"{kind} {n}", 100_000) for n in range(2)],
    ]
    for a, b in pairs:
        same("binary", [a, b], kind=kind)


def test_quotients_near_the_middle_of_two_numbers(same):
    """`(m (2 n + 1) +- 1) / m`-like quotients of 24-bit integers, which an approximate quotient rounds wrongly."""
    random = np.random.default_rng(11)
    b = random.integers(2**23, 2**24, 200_000) | 1
    q = random.integers(2**23, 2**24, 200_000)
    product = b * (2 * q + 1)
    a = (product >> np.maximum(np.frexp(product.astype(float))[1] - 24, 0)) + random.integers(-1, 2, 200_000)
    same("binary", [a.astype(F), b.astype(F)], kind="divide")
    same("binary", [np.full(2**16, 1, F), random.integers(2**23, 2**24, 2**16).astype(F)], kind="divide")


def test_roots_of_squares_and_their_neighbours(same):
    m = np.random.default_rng(13).integers(2**23, 2**24, 50_000).astype(F)
    bits = (m * m).view(np.uint32).astype(np.int64)[:, None] + np.arange(-2, 3)
    x = bits.astype(np.uint32).view(F).ravel()
    same("activation", [np.concatenate([x, x * F(2), x * F(2.0**-90), x * F(2.0**-145)])], kind="sqrt")


#: Columns: one below and above the lanes of a sum, of a workgroup and of quads.
WIDTHS = (1, 2, 63, 64, 65, 127, 128, 129, 384, 1000, 1025)


@pytest.fixture(params=WIDTHS)
def width(request, device):
    if is_software(device) and not LONG and request.param not in (1, 64, 65, 384):
        pytest.skip("some widths on a software driver")
    return request.param


def rows_of(name: str, width: int) -> np.ndarray:
    """Moderate rows, rows of every size, constant, with an outlier, of random bits, with what is not finite."""
    plain = moderate(name, 12, width)
    sized = plain[:8] * F(2.0) ** F([[-149], [-110], [-70], [-50], [40], [62], [64], [100]])
    random = random_bits(name, 6, width)
    finite = np.where(np.isfinite(random), random, F(1))
    wild = plain[:5].copy()
    wild[np.arange(5), width // 2] = F([np.nan, np.inf, -np.inf, 2.0**-140, 3e38])
    constant = np.broadcast_to(F([[0], [-0.0], [1], [2.0**-101], [1e30]]), (5, width))
    outlier = plain[:2].copy()
    outlier[:, -1] = F([3000, -1e20])
    return np.concatenate([plain, sized, random, finite, wild, constant, outlier])


def test_norms(same, width):
    x = rows_of(f"norms {width}", width)
    weight, bias = moderate("weight", width), moderate("bias", width)
    for eps in (1e-12, 1e-5, 0.05):
        same("layer_norm", [x, weight, bias], eps=eps)
        same("rms_norm", [x, weight], eps=eps)
    same("layer_norm", [x])
    same("rms_norm", [x])
    same("normalize", [x])
    same("normalize", [x], eps=1e-8, floor="add")
    wild = np.where(np.arange(width) == width // 2, F(np.nan), weight)
    same("layer_norm", [x, wild, bias], eps=1e-5)


def test_softmax(same, width):
    x = rows_of(f"softmax {width}", width)
    same("softmax", [x])
    same("softmax", [x], masked=True)
    same("softmax", [np.where(x > 1, -np.inf, x).astype(F)], masked=True)
    keep = np.random.default_rng(3).integers(0, 2, x.shape).astype(np.int32)
    keep[:3] = [[0], [0], [1]]
    same("softmax", [x, keep])
    same("softmax", [x], causal=True)


def test_pooling(same, width):
    x = rows_of(f"pool {width}", width)
    x = np.concatenate([x, x[:12], x[:12]])
    ends = np.int32([0, 12, 12, 20, 38, 43, len(x)])
    skipped = np.int32([0, 0, 9, 2, 5, 1])
    modes = ["cls", "max", "mean", "mean_sqrt_length", "weighted_mean", "last_token", "sum"]
    same("pool", [x, ends, skipped], modes=modes)


def test_embeddings_and_rotations(same, width):
    tables = [rows_of(f"table {n} {width}", width) for n in range(4)]
    index = np.random.default_rng(5).integers(0, len(tables[0]), (4, 70)).astype(np.int32)
    for count in range(1, 5):
        same("embedding_sum", [part for pair in zip(index[:count], tables) for part in pair])
    x = rows_of(f"rope {width}", 4 * width).reshape(-1, 2, 2 * width)
    angles = np.random.default_rng(6).uniform(-300, 300, (len(x), width))
    same("rope", [x, np.cos(angles).astype(F), np.sin(angles).astype(F)])


#: Around a chunk of a long axis, two and more of them, and where a chunk has twice as many numbers.
LENGTHS = (1, 1023, 1024, 1025, 2048, 2500, 1_050_625)


@pytest.mark.parametrize("length", LENGTHS)
def test_reductions(same, length, device):
    if is_software(device) and not LONG and length not in (1, 2500):
        pytest.skip("some lengths on a software driver")
    longest = length == LENGTHS[-1]
    shape = (length, 1) if longest else (3, length, 2)
    axis = len(shape) - 2
    wild = moderate(f"reduce {length}", *shape)
    for place, number in enumerate(np.uint32([0x7FC00000, 0x7F800000, 0xFF800000, 0x00012345, 0xFF7FFFFF]).view(F)):
        wild[..., (place * 211) % length, place % shape[-1]] = number
    sizes = moderate(f"sizes {length}", *shape) * F(2.0) ** F([[60], [-90], [0], [100]])[np.arange(length) % 4]
    weights = [moderate(f"weights {length}", *shape[:-1]), np.zeros(shape[:-1], F), np.full(shape[:-1], -1, F)]
    weights[1][..., -1] = F(2.0**-40)
    all_rows = (moderate(f"plain {length}", *shape), sizes, wild, random_bits(f"reduce {length}", *shape))
    for x in all_rows[: 1 if longest else 4]:
        for kind in ("sum", "mean", "max", "deviation"):
            same("reduce", [x], axis=axis, kind=kind)
        for kind, by in ((kind, by) for kind in ("sum", "mean", "max") for by in weights[: 1 if longest else 3]):
            same("reduce", [x, by], axis=axis, kind=kind)


def test_softmax_along_any_axis(same):
    x = rows_of("along", 66).reshape(-1, 2, 33)
    for axis in range(3):
        same("softmax_along", [x], axis=axis)
    same("softmax_along", [moderate("long", 1500, 3)], axis=0)
