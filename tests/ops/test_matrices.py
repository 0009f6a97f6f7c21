"""Where a device has matrix cores, each kernel for them runs, and is right beside float64."""

import numpy as np
import pytest
from cases.comparison import agrees
from cases.reference import evaluate
from cases.table import OpCase
from conftest import need
from export_cases import bounds, tuples

from . import matrix_calls
from .matrix_calls import CALLS, TYPES, Call

pytestmark = pytest.mark.vulkan


@pytest.fixture
def matrices(vulkan) -> dict[str, str]:
    """For types of matrices, what the names of kernels have of the shape that they take."""
    found = matrix_calls.shapes()
    need("matrices", bool(found), "the device multiplies no matrices (`make test-devices` has one that does)")
    return found


def kernels_of(call: Call, matrices: dict[str, str]) -> set[str]:
    of = TYPES[call.dtype]
    need(of, of in matrices, f"the device has no matrices of {of} (those of tests/emulated have)")
    return {kernel.format(matrices[of]) for kernel in call.kernels}


def check(call: Call, kernels: set[str]) -> None:
    results, ran = call.run()
    if call.rows:
        others = {"rows-in-lanes": "not known", "shared-rows": "known"}
        need(call.rows, kernels <= ran, f"which lane holds what of a matrix is {others[call.rows]}: {sorted(ran)}")
    assert kernels <= ran, f"{call.op} ran {sorted(ran)}, not {sorted(kernels)}"
    operands = call.rounded()
    expected = evaluate(call.op, operands, call.attributes)
    stored = "float16" if any(result.dtype == np.float16 for result in results) else "float32"
    case = OpCase(call.op, call.name, lambda _: operands, call.attributes)
    wide, narrow = bounds(case, operands, expected, "bfloat16" if call.dtype == "bfloat16" else stored)
    limits = tuples(wide if narrow is None else narrow)
    for found, wanted, limit in zip(results, tuples(expected), limits, strict=True):
        problem = agrees(found, wanted, np.broadcast_to(limit, wanted.shape))
        assert problem is None, f"{call.op}: {problem}"


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_matrices(matrices, call):
    check(call, kernels_of(call, matrices))
