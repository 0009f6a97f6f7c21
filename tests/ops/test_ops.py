"""Every row of the op-case table on both backends: values, repeats, guard bands; and the table itself."""

import numpy as np
import pytest
from cases import CASES
from cases.bounds import bound
from cases.comparison import agrees
from cases.reference import REFERENCES, evaluate

import grilly
from grilly import _core

COUNTS = {op: [case.id for case in CASES if case.op == op] for op in REFERENCES}


@pytest.fixture(scope="module", autouse=True)
def guarded():
    """Bytes beyond every result are checked when it is read."""
    _core.guard_bands(True)
    yield
    _core.guard_bands(False)


@pytest.fixture(scope="module")
def engine(device):
    engine = _core.engine(device)
    assert engine.backend == device
    return engine


def run(engine, case, operands):
    given = [engine.upload(np.asarray(value, order="C")) for value in operands]
    return [result.numpy() for result in engine.call_all(case.op, given, case.attributes)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_value(engine, case):
    operands = case.operands()
    results = run(engine, case, operands)
    found = results[0]
    half = any(result.dtype == np.float16 for result in results)
    own = case.op in ("embedding_sum", "layer_norm_weight_backward", "max_sim", "route") or case.op.endswith(
        "quantize_rows"
    )
    own = own or "wide" in case.attributes
    wanted = case.attributes.get("to", "float16" if not own and operands[0].dtype == np.float16 else None)
    if wanted:
        assert found.dtype == wanted
    expected = evaluate(case.op, operands, case.attributes)
    allowed = bound(case.op, operands, case.attributes, expected, half)
    if not isinstance(expected, tuple):
        expected, allowed = (expected,), (allowed,)
    for found, expected_, allowed_ in zip(results, expected, allowed, strict=True):
        limit = np.broadcast_to(allowed_, expected_.shape)
        assert (problem := agrees(found, expected_, limit)) is None, problem
    again = run(engine, case, operands)
    assert [a.tobytes() for a in again] == [b.tobytes() for b in results], "a second call gave other bits"


#: Dispatches of calls in float16: one where rows are whole quads, and a cast more for each operand that is widened, as
#: vectors of weights are, and for the result.
DISPATCHES = {
    "activation-silu-half-1000": 1,
    "activation-silu-half": 3,
    "binary-add-half-3x1028-1028": 1,
    "binary-add-half-2x3x5x8-2x1x5x8": 1,
    "binary-add-half-3x64-3x1": 4,
    "binary-add-half-and-float32": 3,
    "dropout-half-1000": 1,
    "dropout-half": 3,
    "gated-silu-half-1000": 1,
    "gated-silu-half-12": 3,
    "rms_norm-half-1000": 2,
    "rms_norm-half": 4,
    "rope-half-1x33x2x64-angles-float32": 1,
    "rope-half-2x5x3x4-angles-float32": 3,
    "softmax-half-1000": 1,
    "softmax-keep-half-1000": 1,
    "softmax-half": 3,
}


@pytest.mark.parametrize("name", DISPATCHES)
def test_float16_is_widened_only_where_rows_are_no_whole_quads(vulkan, name):
    (case,) = (case for case in CASES if case.id == name)
    engine = _core.engine(vulkan)
    given = [engine.upload(np.asarray(value, order="C")) for value in case.operands()]
    engine.synchronize()
    before = grilly.stats()["dispatches"]
    assert engine.call(case.op, given, case.attributes).dtype == "float16"
    engine.synchronize()
    assert grilly.stats()["dispatches"] - before == DISPATCHES[name]


def test_rows_have_names_of_their_own():
    names = [case.id for case in CASES]
    assert len(names) == len(set(names))
