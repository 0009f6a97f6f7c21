"""Where operands come from, and which rows of the table a software driver computes."""

from itertools import groupby

import lavapipe
import pytest
from conftest import LONG

import grilly

OF_ROWS = (
    "tests/ops/test_gradients.py::test_gradients_are_those_of_differences[vulkan-",
    "tests/ops/test_ops.py::test_value[vulkan-",
)


def pytest_collection_modifyitems(config, items) -> None:
    """On lavapipe every second row of an operation; the CPU computes all.

    All of them, too, where tests are named and under GRILLY_TEST_LONG. Nearly all of a row's time there is the driver's
    compiler's, and neighbours share pipelines.
    """
    if LONG or not lavapipe.chosen() or any("::" in argument for argument in config.args):
        return
    rows = [item for item in items if item.nodeid.startswith(OF_ROWS)]
    left = {
        item
        for _, of_an_op in groupby(rows, key=lambda item: item.callspec.params["case"].op)
        for item in list(of_an_op)[1::2]
    }
    if left:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]


@pytest.fixture(params=["numpy", "array on the cpu", "array on vulkan"])
def put(request):
    """Makes an operand: a NumPy array, or an array on a device."""
    if request.param == "numpy":
        return lambda x: x
    if request.param.endswith("vulkan"):
        request.getfixturevalue("vulkan")
        return lambda x: grilly.to_vulkan(x, "vulkan")
    return lambda x: grilly.to_vulkan(x, "cpu")
