"""Fused operations beside their definitions, run step by step on the same device."""

import numpy as np
import pytest
from cases import fused, fused_products, quantized
from cases.bounds import bound
from cases.reference import evaluate
from conftest import LONG

from grilly import _core

ROWS = [case for family in (fused, fused_products) for case in family.cases() if case.dtype == "float32"]


@pytest.fixture(scope="module")
def engine(device):
    return _core.engine(device)


def upload(engine, operands):
    return [engine.upload(np.asarray(value, order="C")) for value in operands]


@pytest.mark.parametrize("op", sorted({case.op for case in ROWS}))
def test_an_operation_is_within_its_bound_of_its_definition(engine, op):
    """Each of both is within the bound of the reference, so they are within twice the bound of each other."""
    for case in [case for case in ROWS if case.op == op][:: 1 if LONG else 4]:
        operands = case.operands()
        given = upload(engine, operands)
        apart = engine.call_apart(op, given, case.attributes).numpy()
        fused = engine.call(op, given, case.attributes).numpy()
        expected = evaluate(op, operands, case.attributes)
        allowed = 2 * bound(op, operands, case.attributes, expected, False)
        finite = np.isfinite(expected)
        assert (np.isfinite(apart) == np.isfinite(fused)).all(), case.id
        with np.errstate(invalid="ignore"):
            off = np.abs(apart.astype(np.float64) - fused)
        assert (off <= allowed)[finite].all(), case.id


def test_a_row_normalised_on_its_way_into_a_product_has_the_bits_of_the_norm():
    """On the CPU; shaders take two steps instead of three, which on a device with fma are other bits."""
    engine = _core.engine("cpu")
    for case in (case for case in ROWS if case.op == "layer_norm_linear"):
        given = upload(engine, case.operands())
        fused, apart = (call(case.op, given, case.attributes) for call in (engine.call, engine.call_apart))
        assert np.array_equal(fused.numpy(), apart.numpy(), equal_nan=True), case.id


@pytest.mark.parametrize("op", ["layer_norm_quantize_rows", "rms_norm_quantize_rows"])
def test_rows_rounded_on_their_way_out_of_a_norm_have_the_bits_of_both_steps(engine, op):
    """Integers, scales and the norm's result, of rows that registers hold: longer ones are read again, and a driver's
    compiler may contract a difference then. On the CPU, which holds rows in float32 between the steps, in float32."""
    types = ("float32",) if engine.backend == "cpu" else ("float32", "float16")
    held = [case for case in quantized.norms() if case.op == op and "9000" not in case.name]
    for case in (case for case in held if case.dtype in types):
        given, norm = upload(engine, case.operands()), op.removesuffix("_quantize_rows")
        vectors = {"layer_norm": 3, "rms_norm": 2}[norm]
        eps = {name: value for name, value in case.attributes.items() if name == "eps"}
        y = engine.call(norm, given[:vectors], eps)
        factors = {"factors": case.attributes.get("factors", False)}
        apart = [*engine.call_all("quantize_rows", [y, *given[vectors:]], factors), y]
        for found, expected in zip(engine.call_all(op, given, case.attributes), apart):
            assert found.numpy().tobytes() == expected.numpy().tobytes(), case.id


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("width", [64, 65])
def test_dropout_behind_softmax_has_the_mask_of_dropout(engine, width, dtype):
    ones = np.ones((33, width), dtype)
    dropped = {"p": 0.4, "seed": 2**40 + 3, "offset": 5}
    (x,) = upload(engine, [ones])
    mask = engine.call("dropout", [x], dropped).numpy() != 0
    fused = engine.call("softmax_dropout", [x], dropped).numpy() != 0
    assert (mask == fused).all() and 0.5 < mask.mean() < 0.7


def test_an_operation_that_stands_for_itself_has_no_definition(engine):
    (x,) = upload(engine, [np.ones(3, np.float32)])
    with pytest.raises(ValueError, match="activation stands for itself"):
        engine.call_apart("activation", [x], {"kind": "relu"})
