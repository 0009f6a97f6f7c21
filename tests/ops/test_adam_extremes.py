"""Steps of Adam whose squares and quotients leave float32: finite where torch is, by its order of operations."""

import numpy as np
import pytest

import grilly
from grilly import functional

INF, NAN = np.inf, np.nan
#: Parameter, m, v and gradient before a step; then parameter, m and v after it in torch 2.15, by a rate of 0.1.
STEPS = [
    ((1.0, 0.0, 0.0, 3e19), (0.9, 3e18, 9e35)),
    ((1.0, 0.0, 0.0, 1e20), (0.9, 1e19, 1e37)),
    ((1.0, 0.0, 0.0, 1e25), (1.0, 1e24, INF)),
    ((1.0, 0.0, 0.0, -1e37), (1.0, -1e36, INF)),
    ((1.0, 0.0, 0.0, INF), (NAN, INF, INF)),
    ((1.0, INF, INF, 1.0), (NAN, NAN, INF)),
    ((1.0, 0.0, INF, 1.0), (1.0, 0.1, INF)),
    ((INF, 0.0, 0.0, 1.0), (INF, 0.1, 0.001)),
    ((1.0, 0.0, 0.0, NAN), (NAN, NAN, NAN)),
    ((1.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0)),
    ((1.0, 0.0, 0.0, 2.0), (0.9, 0.2, 0.004)),
]


@pytest.mark.parametrize("count", [1, 7, 65, 130])
def test_a_step_is_torchs(count, device):
    before = np.float32([given for given, _ in STEPS])
    expected = np.float64([after for _, after in STEPS])
    # Each at several places of a long array, among numbers that are none.
    rows = np.resize(np.arange(len(STEPS)), count)
    p, m, v, g = (grilly.to_vulkan(np.ascontiguousarray(before[rows, part]), device) for part in range(4))
    found = functional.adam_update(p, g, m, v, 0.1, beta1_t=0.9, beta2_t=0.999)
    for part, values in enumerate(found):
        np.testing.assert_allclose(values.numpy(), expected[rows, part], rtol=3e-5, atol=1e-7)
