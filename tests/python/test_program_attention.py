"""Gradients of attention in recorded programs, whose queries, keys and values are columns of one product."""

import numpy as np
import pytest
from cases.reference import evaluate

from grilly.errors import UnsupportedError
from grilly.program import Graph

HEADS, WIDTH, COLUMNS = 4, 4, 16
GIVEN = {"heads": HEADS, "kv_heads": HEADS, "head_dim": WIDTH, "scale": WIDTH**-0.5, "causal": True}
PACKED = GIVEN | {"q_column": 0, "k_column": COLUMNS, "v_column": 2 * COLUMNS}


def graph_of(weight: np.ndarray) -> tuple[Graph, list]:
    """The result, and the gradients of the weight and of the rows."""
    graph = Graph()
    x, g = (graph.input(name, ("T", COLUMNS)) for name in ("x", "g"))
    bounds, weight = graph.input("bounds", ("B+1",), "uint32"), graph.state("weight", weight)
    packed = graph.call("linear", x, weight)
    y = graph.call("attention", packed, packed, packed, bounds, bounds, **PACKED)
    return graph, [y, *graph.gradients(y, g, [weight, x])]


def expected(weight: np.ndarray, x: np.ndarray, g: np.ndarray, bounds: np.ndarray) -> list[np.ndarray]:
    packed = x @ weight.T
    operands = [packed, packed, packed, bounds, bounds]
    y = evaluate("attention", operands, PACKED)
    by_packed = evaluate("attention_backward", [g, y, *operands], PACKED | {"packed": True})
    return [y, by_packed.T @ x, by_packed @ weight]


def test_gradients_of_a_projection_are_those_of_float64_and_a_text_has_its_own_bits(device):
    rng = np.random.default_rng(5)
    weight = rng.normal(size=(3 * COLUMNS, COLUMNS), scale=0.3).astype(np.float32)
    graph, outputs = graph_of(weight)
    program = graph.program(outputs, device, {"T": 200, "B": 4})
    bounds = np.array([0, 70, 70, 75, 200])
    x, g = (rng.normal(size=(200, COLUMNS)).astype(np.float32) for _ in range(2))
    found = [value.numpy().copy() for value in program.run(x, g, bounds)]
    for value, wanted in zip(found, expected(*(a.astype(np.float64) for a in (weight, x, g)), bounds), strict=True):
        # Sums of at most 200 terms after attention's, whose scores are of size 10.
        assert np.abs(value - wanted).max() <= 8 * np.sqrt(2 * 200) * 2.0**-24 * 10 * np.abs(wanted).max()
    again = program.run(x, g, bounds)
    assert [value.numpy().tobytes() for value in again] == [value.tobytes() for value in found]
    for first, end in zip(bounds, bounds[1:]):
        if first == end:
            continue
        y, _, by_x = program.run(x[first:end], g[first:end], [0, end - first])
        assert y.numpy().tobytes() == found[0][first:end].tobytes()
        assert by_x.numpy().tobytes() == found[2][first:end].tobytes()


def test_what_has_no_derivative_is_named():
    graph = Graph()
    x, g = graph.input("x", ("T", 3 * COLUMNS)), graph.input("g", ("T", COLUMNS))
    bounds, bias = graph.input("bounds", ("B+1",), "uint32"), graph.state("bias", np.zeros((HEADS, 5), np.float32))
    far = graph.state("far", np.zeros((5, COLUMNS), np.float32))
    y = graph.call("attention", x, x, x, bounds, bounds, bias, **PACKED, bias=True)
    assert graph.gradients(y, g, [x])[0].shape == ("T", 3 * COLUMNS)
    with pytest.raises(UnsupportedError, match="attention has no derivative in bias"):
        graph.gradients(y, g, [bias])
    y = graph.call("attention", x, x, x, bounds, bounds, far, **PACKED, distances=[0, None])
    with pytest.raises(UnsupportedError, match="attention has no derivative"):
        graph.gradients(y, g, [x])
