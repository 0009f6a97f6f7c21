"""Every row of the op-case table in float32 that the mode covers, on both backends, beside the model."""

import numpy as np
import pytest
from cases import CASES
from conftest import LONG, is_software

from grilly.errors import UnsupportedError

from .comparison import call
from .operations import OPERATIONS


def refused(case) -> bool:
    """Whether version 1 has no numbers for it: dropout."""
    return bool(case.attributes.get("dropout"))


#: Rows in float32.
ROWS = [case for case in CASES if case.op in OPERATIONS and case.dtype == "float32" and not refused(case)]
#: On a software driver, where most of a row's time is the compiler's, one of so many.
SHARE = 8


@pytest.mark.parametrize("case", ROWS, ids=lambda case: case.id)
def test_the_bits_are_the_models(case, same, device):
    if is_software(device) and not LONG and ROWS.index(case) % SHARE:
        pytest.skip(f"one row of {SHARE} on a software driver")
    same(case.op, case.operands(), **case.attributes)


def test_what_has_no_numbers_is_refused(engine):
    case = next(case for case in CASES if case.op == "attention" and refused(case))
    with pytest.raises(UnsupportedError, match=f"^{case.op}: "):
        call(engine, case.op, case.operands(), case.attributes)


def test_every_operation_of_the_model_is_promised_and_has_rows():
    from grilly import _core

    told = dict(_core.everywhere_rows())
    assert {told[name] for name in OPERATIONS} <= {"promised", "steps"}
    assert {case.op for case in ROWS} == OPERATIONS.keys()
    assert not any(value.dtype == np.float16 for case in ROWS for value in case.operands())
