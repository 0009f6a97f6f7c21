"""Models of integers: every product beside the independent one, and the same embeddings on every device."""

import re

import numpy as np
import pytest
from conftest import LONG, is_software

from . import hashes, quantized
from .comparison import NUMERICS, difference


def opened(name, device, place):
    model = hashes.integer_model(name, device, place)
    assert (model.backend, model.numerics) == (device, NUMERICS)
    return model


@pytest.fixture(scope="module")
def sentences(variants_golden) -> list[str]:
    return [str(text) for text in variants_golden["texts"]]


@pytest.mark.parametrize("name", hashes.INTEGERS)
def test_hashes(name, device, sentences, tmp_path):
    """Of all texts in one batch, and of some again in others."""
    if is_software(device) and not LONG and name not in hashes.FEW_INTEGERS:
        pytest.skip("one model of each kind on a software driver")
    with opened(name, device, tmp_path) as model:
        rows = model.encode(sentences, normalize_embeddings=False)
        assert rows.dtype == np.float32
        assert hashes.of(rows) == hashes.stored(NUMERICS, name, len(sentences))
        again = model.encode(sentences[::-3], batch_size=2, normalize_embeddings=False)
        assert difference(again, np.ascontiguousarray(rows[::-3])) is None


@pytest.mark.parametrize("name", ["base-int8", "head_64-int8"])
def test_products_have_the_models_bits(name, device, sentences, tmp_path):
    """Of what a product reads: rows rounded with factors of their columns, the matrix by row, what follows the sum."""
    if is_software(device) and not LONG and name != "base-int8":
        pytest.skip("one model on a software driver")
    seen = set()
    with opened(name, device, tmp_path) as model:
        for node, activation, affine, arrays in model._core.integer_products(sentences[1:3]):
            kind = "affine" if affine else "absmax"
            factors = [arrays["factors"].ravel()] if "factors" in arrays else []
            q, scale = quantized.quantize_rows(arrays["x"], *factors, kind=kind, pairs=affine)
            w, weight_scale = quantized.quantize_rows(arrays["matrix"])
            bias, residual = (arrays.get(name) for name in ("bias", "residual"))
            function = activation and re.sub(r"(?<!^)(?=[A-Z])", "_", activation).lower()
            own = quantized.quantized_linear(
                q, scale, w, weight_scale, None if bias is None else bias.ravel(), function, residual, pairs=affine
            )
            problem = difference(arrays["y"], own)
            assert problem is None, f"{node}: {problem}"
            seen.add((affine, len(factors), function, residual is not None))
    assert len(seen) >= 3, seen
