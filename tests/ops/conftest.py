"""Where operands come from."""

import pytest

import grilly


@pytest.fixture(params=["numpy", "array on the cpu", "array on vulkan"])
def put(request):
    """Makes an operand: a NumPy array, or an array on a device."""
    if request.param == "numpy":
        return lambda x: x
    if request.param.endswith("vulkan"):
        request.getfixturevalue("vulkan")
        return lambda x: grilly.to_vulkan(x, "vulkan")
    return lambda x: grilly.to_vulkan(x, "cpu")
