"""Arrays of 33 to 64 axes, where NumPy has them: the functions that broadcast leading axes or masks."""

import numpy as np
import pytest

from grilly import functional

AXES = (33, 48, 63, 64)


@pytest.fixture(params=AXES)
def x(request):
    try:
        return np.random.default_rng(request.param).random((1,) * (request.param - 4) + (2, 3, 2, 2), np.float32)
    except ValueError:
        pytest.skip("this NumPy has 32 axes")


def small(x):
    """Without the axes of size 1."""
    return x.reshape(x.shape[-4:])


def test_products(put, x):
    wide = np.ones((2, 5), np.float32)
    for other, expected in ((x, small(x) @ small(x)), (small(x), small(x) @ small(x)), (wide, small(x) @ wide)):
        found = np.asarray(functional.matmul(put(x), other))
        assert found.ndim == x.ndim
        np.testing.assert_allclose(small(found), expected, rtol=1e-6)
    assert np.asarray(functional.matmul(put(x), np.ones(2, np.float32))).shape == x.shape[:-1]


@pytest.mark.parametrize("axes", [(2, 2), (3, 1, 1), (2, 1, 1, 2), (2, 3, 2, 2)])
@pytest.mark.parametrize("kind", [bool, np.float32])
def test_masks(put, x, axes, kind):
    mask = np.random.default_rng(1).random(axes) < 0.7
    given = mask if kind is bool else np.where(mask, 0, -np.inf).astype(kind)
    for masks in ({}, {"window": 1, "causal": True}):
        expected = functional.attention(put(small(x)), small(x), small(x), given, **masks)
        for form in (given, given.reshape((1,) * (x.ndim - len(axes)) + axes)):
            found = functional.attention(put(x), x, x, form, **masks)
            for one, other in zip(found, expected, strict=True):
                assert np.asarray(one).ndim == x.ndim
                np.testing.assert_array_equal(small(np.asarray(one)), np.asarray(other))
