"""The derivative of every operation, on both backends, against differences of its reference in float64."""

import numpy as np
import pytest
from cases import CASES
from cases.bounds import U
from cases.gradients import STRAIGHT_THROUGH, differences, is_taken, result
from cases.reference import REFERENCES

from grilly import _core
from grilly.errors import UnsupportedError
from grilly.program import Graph

WITHOUT = _core.without_derivative()
ROWS = [case for case in CASES if case.op not in WITHOUT and is_taken(case)]


@pytest.fixture(scope="module")
def engine(device):
    return _core.engine(device)


#: Parts that may cancel are as large as g or, of an operation with steeper slopes, so many times.
STEEPEST = {"normalize": lambda x: max(1.0, 1.0 / np.linalg.norm(x, axis=-1).min())}


def upload(engine, values):
    return engine.upload(np.asarray(values, order="C"))


@pytest.mark.parametrize("op", sorted(set(_core.op_names()) - set(WITHOUT) - set(STRAIGHT_THROUGH)))
def test_every_derivative_has_rows(op):
    assert any(case.op == op for case in ROWS), f"tests/cases has no row of {op} for its gradients"


@pytest.mark.parametrize("case", ROWS, ids=lambda case: case.id)
def test_gradients_are_those_of_differences(engine, case):
    operands = case.operands()
    y = result(case.op, operands, case.attributes)
    g = np.random.default_rng(5).standard_normal(y.shape).astype(np.float32)
    given = [upload(engine, value) for value in operands]
    found = engine.vjp(case.op, given, upload(engine, g), case.attributes)
    assert any(gradient is not None for gradient in found)
    again = engine.vjp(case.op, given, upload(engine, g), case.attributes)
    for place, (gradient, repeated) in enumerate(zip(found, again, strict=True)):
        if gradient is None:
            continue
        values = gradient.numpy()
        assert values.shape == operands[place].shape
        assert values.tobytes() == repeated.numpy().tobytes(), "a second call gave other bits"
        expected, chosen = differences(case.op, operands, case.attributes, place, g)
        error = np.linalg.norm(values.reshape(-1)[chosen] - expected)
        part = np.abs(g).max() * STEEPEST.get(case.op, lambda x: 1.0)(operands[0])
        limit = 1e-5 * np.linalg.norm(expected) + 32 * U * part
        assert error <= limit, f"operand {place}: off by {error:.2e}, at most {limit:.2e}"


def test_gradients_of_integers_are_those_of_the_numbers_that_they_stand_for(engine):
    numbers = np.random.default_rng(7)
    x, g = (numbers.standard_normal((3, 6)).astype(np.float32) for _ in "xg")
    q, weight = (numbers.integers(-128, 128, shape).astype(np.int8) for shape in ((3, 6), (5, 6)))
    scale, weight_scale, bias = (numbers.uniform(1, 2, size).astype(np.float32) for size in (3, 1, 5))
    ternary = {"kind": "ternary", "scope": "tensor", "unpacked": True}

    def found(op: str, operands, g, attributes):
        gradients = engine.vjp(op, [upload(engine, value) for value in operands], upload(engine, g), attributes)
        return {place: gradient.numpy() for place, gradient in enumerate(gradients) if gradient is not None}

    for op, operands, attributes in (
        ("quantize_rows", [x], {}),
        ("quantize_rows", [x], ternary),
        ("dequantize_rows", [q, scale], {}),
    ):
        gradients = found(op, operands, g, attributes)
        assert list(gradients) == [0] and gradients[0].tobytes() == g.tobytes()
    with pytest.raises(UnsupportedError, match="quantize_rows has no derivative: no kernels compute it"):
        found("quantize_rows", [x], np.zeros((3, 2), np.float32), {"kind": "ternary"})
    g = numbers.standard_normal((3, 5)).astype(np.float32)
    gradients = found("quantized_linear", [q, scale, weight, weight_scale, bias], g, {"scope": "tensor", "bias": True})
    seen, matrix = q / scale[:, None].astype(np.float64), weight / weight_scale.astype(np.float64)
    expected = {0: g @ matrix, 2: g.T @ seen, 4: g.sum(0, dtype=np.float64)}
    assert gradients.keys() == expected.keys()
    for place, gradient in expected.items():
        part = np.abs(g).max() * 128
        np.testing.assert_allclose(gradients[place], gradient, rtol=1e-5, atol=32 * U * part)


#: Of each operation the first row; none of attention and pool, whose rows a batch counts.
FIRST = {case.op: case for case in reversed(ROWS) if case.op not in ("attention", "pool")}.values()


@pytest.mark.parametrize("case", FIRST, ids=lambda case: case.id)
def test_programs_have_the_same_gradients(engine, device, case):
    operands = case.operands()
    g = np.random.default_rng(5).standard_normal(result(case.op, operands, case.attributes).shape).astype(np.float32)
    given = [upload(engine, value) for value in operands]
    expected = engine.vjp(case.op, given, upload(engine, g), case.attributes)
    graph = Graph()
    inputs = [graph.input(str(place), value.shape, value.dtype.name) for place, value in enumerate(operands)]
    # No input, which no program returns.
    share = graph.call("binary", graph.input("g", g.shape), graph.filled(1.0, ()), kind="multiply")
    y = graph.call(case.op, *inputs, **case.attributes)
    places = [place for place, gradient in enumerate(expected) if gradient is not None]
    found = graph.gradients(y, share, [inputs[place] for place in places])
    program = graph.program(found, device)
    for place, gradient in zip(places, program.run(*operands, g), strict=True):
        assert np.asarray(gradient).tobytes() == expected[place].numpy().tobytes(), f"operand {place}"


@pytest.mark.parametrize("op", sorted(WITHOUT))
def test_what_has_no_derivative_says_why(op):
    case = next(case for case in CASES if case.op == op and all(value.size for value in case.operands()))
    engine = _core.engine("cpu")
    given = [upload(engine, value) for value in case.operands()]
    g = upload(engine, np.zeros(result(op, case.operands(), case.attributes).shape, np.float32))
    with pytest.raises(UnsupportedError, match=WITHOUT[op].split(",")[0]):
        engine.vjp(op, given, g, case.attributes)


BACKWARD = [case for case in ROWS if f"{case.op}_backward" in REFERENCES]


@pytest.mark.parametrize("case", BACKWARD, ids=lambda case: case.id)
def test_references_of_derivatives_are_those_of_differences(case):
    """What kernels of derivatives are held against, in the operand that they are of: the first."""
    operands = [value.astype(np.float64) if value.dtype.kind == "f" else value for value in case.operands()]
    y = result(case.op, operands, case.attributes)
    g = np.random.default_rng(5).standard_normal(y.shape)
    # Softmax's takes the result, attention's too; of the others, the norms' lack the bias.
    given = {"softmax": [y], "softmax_along": [y], "layer_norm": operands[:2], "attention": [y, *operands]}.get(
        case.op, operands
    )
    expected, chosen = differences(case.op, operands, case.attributes, 0, g)
    found = result(f"{case.op}_backward", [g, *given], case.attributes).reshape(-1)[chosen]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * max(1, np.abs(expected).max()))
