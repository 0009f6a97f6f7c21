"""Where a device has matrix cores for bytes, products and attention run there, and so the other tests test them."""

import numpy as np
import pytest
from conftest import need

from .test_attention import HEADS, offsets

pytestmark = pytest.mark.vulkan
MATRICES = "coopmat_s8_s32_"


@pytest.fixture
def shape(vulkan) -> str:
    """Rows, columns and terms of the device's matrices of bytes."""
    import grilly

    found = grilly.info()
    features = next(row["features"] for row in found["devices"] if row["name"] == found["choice"]["name"])
    shapes = [name.removeprefix(MATRICES) for name in features if name.startswith(MATRICES)]
    need("matrices", bool(shapes), "the device multiplies no matrices of bytes (`make test-devices` has one that does)")
    return shapes[0]


def test_kernels_of_digits_run(shape):
    import grilly
    from grilly import _core

    random = np.random.default_rng(0)
    variant = {"16x16x32": "", "8x8x8": "-eights"}[shape]
    expected = {f"linear-everywhere-matrix{variant}", f"attention-everywhere-matrix{variant}", "head-integers"}
    engine = _core.engine("vulkan")
    x, w = random.standard_normal((70, 64), np.float32), random.standard_normal((128, 64), np.float32)
    heads = HEADS | {"heads": 2, "kv_heads": 1}
    ends = offsets(70)
    with grilly.profile() as taken:
        for op, operands, attributes in (
            ("linear", [x, w], {}),
            ("attention", [x, x[:, :32], x[:, 32:], ends, ends], heads),
        ):
            engine.call(
                op, [engine.upload(np.ascontiguousarray(value)) for value in operands], attributes, None, "everywhere-1"
            )
    kernels = set(taken.by_kernel())
    assert expected <= kernels, kernels
