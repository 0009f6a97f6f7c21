"""Recorded programs from Python, and the parameters whose numbers they hold."""

import copy
import pickle

import numpy as np
import pytest

import grilly
from grilly import nn
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError, UnusableError
from grilly.program import Graph

ROWS, WIDTH, CLASSES, STEPS = 16, 6, 5, 12
RATE, BETAS = 0.05, (0.9, 0.999)


def module() -> nn.Linear:
    layer, numbers = nn.Linear(WIDTH, CLASSES), np.random.default_rng(3)
    layer.load_state_dict({"weight": numbers.normal(size=(CLASSES, WIDTH)), "bias": numbers.normal(size=CLASSES)})
    return layer


def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.random.default_rng(step)
    return numbers.normal(size=(ROWS, WIDTH)).astype(np.float32), numbers.integers(0, CLASSES, ROWS, dtype=np.int32)


def rates(step: int) -> np.ndarray:
    return np.array([RATE, *(1 - beta ** (step + 1) for beta in BETAS)], np.float32)


def training(layer: nn.Linear, device: str):
    """Cross-entropy of a linear layer, with Adam."""
    graph = Graph()
    x, targets = graph.input("x", (ROWS, WIDTH)), graph.input("targets", (ROWS,), "int32")
    step = graph.input("rates", (3,))
    parameters = [graph.state(name, parameter) for name, parameter in layer.named_parameters()]
    losses = graph.call("cross_entropy", graph.call("linear", x, *parameters, bias=True), targets)
    loss = graph.call("reduce", losses, axis=0, kind="mean")
    share = graph.filled(1 / ROWS, (ROWS,))
    for parameter, gradient in zip(parameters, graph.gradients(losses, share, parameters)):
        moments = [graph.state(f"{parameter.name} {which}", np.zeros(parameter.shape)) for which in "mv"]
        graph.call("adam", parameter, *moments, gradient, step)
    return graph.program([loss], device)


def reference(layer: nn.Linear) -> tuple[list[float], dict[str, np.ndarray]]:
    """The same training in float64."""
    state = {name: np.array(p, np.float64) for name, p in layer.named_parameters()}
    moments = {name: [np.zeros_like(p), np.zeros_like(p)] for name, p in state.items()}
    losses = []
    for step in range(STEPS):
        x, targets = batch(step)
        scores = x @ state["weight"].T + state["bias"]
        p = np.exp(scores - scores.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        losses.append(float(-np.log(p[np.arange(ROWS), targets]).mean()))
        p[np.arange(ROWS), targets] -= 1
        for name, gradient in {"weight": p.T @ x / ROWS, "bias": p.sum(0) / ROWS}.items():
            m, v = moments[name]
            m += (1 - BETAS[0]) * (gradient - m)
            v += (1 - BETAS[1]) * (gradient**2 - v)
            _, c1, c2 = (float(rate) for rate in rates(step))
            state[name] -= RATE * (m / c1) / (np.sqrt(v / c2) + 1e-8)
    return losses, state


def train(program, steps=range(STEPS)) -> list[float]:
    return [program.run(*batch(step), rates(step))[0].item() for step in steps]


def test_training_has_the_numbers_of_float64_and_the_same_bits_again(device):
    layer, again = module(), module()
    expected, state = reference(layer)
    program = training(layer, device)
    losses = train(program)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    found = layer.state_dict()
    for name, values in found.items():
        np.testing.assert_allclose(values, state[name], atol=2e-5)
    repeated = training(again, device)
    assert train(repeated) == losses
    for name, values in again.state_dict().items():
        assert values.tobytes() == found[name].tobytes()
    # What the program holds is what the module computes with, and what it is saved as.
    x, _ = batch(99)
    expected = x @ found["weight"].T + found["bias"]
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)
    for kept in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert not kept.weight.lent and kept.weight.tobytes() == found["weight"].tobytes()
    program.release()
    assert layer.weight.tobytes() == found["weight"].tobytes() and layer.weight.flags.writeable
    layer.weight += 1
    np.testing.assert_allclose(layer(x), x @ (found["weight"] + 1).T + found["bias"], atol=1e-5)


def test_a_step_moves_its_batch_and_its_loss_alone(vulkan):
    program = training(module(), vulkan)
    train(program, range(2))
    before = grilly.stats()
    train(program, range(2, 7))
    after = grilly.stats()
    assert after["submits"] - before["submits"] == 5
    assert after["bytes_up"] - before["bytes_up"] == 5 * 4 * (ROWS * WIDTH + ROWS + 3)
    assert after["bytes_down"] - before["bytes_down"] == 5 * 4


def test_a_parameter_is_nan_and_read_only_while_a_program_holds_it():
    layer = module()
    weight = layer.weight.numpy()
    program = training(layer, "cpu")
    assert np.isnan(layer.weight).all() and layer.weight.lent and layer.weight.placed == "cpu"
    changes = [
        lambda p: p.fill(1),
        lambda p: p.__setitem__(0, 1),
        lambda p: np.add(p, 1, out=p),
        lambda p: p.place("cpu"),
    ]
    for change in changes:
        with pytest.raises(UnusableError, match="release it"):
            change(layer.weight)
    with pytest.raises(ValueError, match="read-only"):
        layer.weight[0][0] = 1
    with pytest.raises(InvalidArgumentError, match="weight belongs to a program"):
        layer.load_state_dict(module().state_dict())
    assert (layer.weight.numpy() == weight).all()
    layer.sync()
    assert (layer.weight == weight).all() and not layer.weight.flags.writeable
    train(program, range(1))
    assert np.isnan(layer.weight).all() and (layer.weight.numpy() != weight).any()


@pytest.mark.parametrize("read", ["numpy", "sync", "take_back", "state_dict", "release"])
@pytest.mark.parametrize("synced", [False, True])
def test_a_write_through_an_older_view_is_noticed(read, synced):
    layer = module()
    view = layer.weight[0]
    program = training(layer, "cpu")
    if synced:
        layer.sync()
    kept = program.states()["weight"].numpy()
    view[0] = 7
    calls = {"state_dict": layer.state_dict, "release": program.release}
    call = calls.get(read) or getattr(layer.weight, read)
    with pytest.raises(UnusableError, match="written through a view"):
        call()
    call()
    assert layer.state_dict()["weight"].tobytes() == kept.tobytes()


def test_a_write_before_a_run_is_noticed_there():
    layer = module()
    view, program = layer.weight[0], training(layer, "cpu")
    layer.sync()
    view[0] = 7
    with pytest.raises(UnusableError, match="written through a view"):
        train(program, range(1))
    train(program, range(1))


def test_a_parameter_belongs_to_one_program():
    layer = module()
    program = training(layer, "cpu")
    with pytest.raises(InvalidArgumentError, match="weight belongs to another program"):
        training(layer, "cpu")
    program.release()
    with pytest.raises(UnusableError, match="released"):
        train(program, range(1))
    train(training(layer, "cpu"), range(1))


def test_counted_axes(device):
    graph = Graph()
    tokens, offsets = graph.input("tokens", ("T", 4)), graph.input("offsets", ("B+1",), "uint32")
    first = graph.input("first", ("B",), "uint32")
    pooled = graph.call("pool", tokens, offsets, first, modes=["mean"])
    assert pooled.shape == ("B", 4)
    program = graph.program([pooled], device, {"T": 5, "B": 2})
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    found = program.run(x, [0, 2, 5], [0, 0])[0].numpy()
    np.testing.assert_allclose(found, [x[:2].mean(0), x[2:].mean(0)], rtol=1e-6)


@pytest.mark.parametrize("rows", [3, "T"])
def test_a_gradient_by_an_operand_without_effect_is_zeros(device, rows):
    graph = Graph()
    x, unused = graph.input("x", (rows, 2)), graph.input("unused", (rows, 4))
    y = graph.call("activation", x, kind="relu")
    outputs = [y, *graph.gradients(y, graph.filled(1.0, (rows, 2)), [x, unused]), graph.filled(2.5, (2,))]
    program = graph.program(outputs, device, {"T": 3})
    found = [result.numpy() for result in program.run(np.full((3, 2), 4, np.float32), np.zeros((3, 4), np.float32))]
    expected = [np.full((3, 2), 4), np.ones((3, 2)), np.zeros((3, 4)), np.full(2, 2.5)]
    assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


def counted(rows: int | str):
    """Losses, their statistics and gradients of a linear layer, with rows that a batch may count."""
    graph = Graph()
    x, targets = graph.input("x", (rows, WIDTH)), graph.input("targets", (rows,), "int32")
    share = graph.input("share", (rows,))
    w, b = graph.state("w", module().weight.numpy()), graph.state("b", module().bias.numpy())
    scores = graph.call("linear", x, w, b, bias=True)
    losses = graph.call("cross_entropy", scores, targets)
    outputs = [graph.call("reduce", losses, axis=0, kind=kind) for kind in ("mean", "max", "deviation")]
    outputs += [graph.call("reduce", scores, share, axis=0, kind="mean"), *graph.gradients(losses, share, [w, b, x])]
    return graph, outputs


def test_each_run_has_sizes_of_its_own(device):
    graph, outputs = counted("R1")
    assert [value.shape for value in outputs[-3:]] == [(CLASSES, WIDTH), (CLASSES,), ("R1", WIDTH)]
    program, rng = graph.program(outputs, device, {"R1": 1100}), np.random.default_rng(1)
    for rows in (5, 1100, 1, 5):
        given = rng.normal(size=(rows, WIDTH)), np.arange(rows) % CLASSES, np.full(rows, 1 / rows)
        fixed, values = counted(rows)
        for found, expected in zip(program.run(*given), fixed.program(values, device).run(*given), strict=True):
            assert found.numpy().tobytes() == expected.numpy().tobytes() and found.shape == expected.shape
    x, targets, share = given
    for error, words, inputs in [
        (InvalidArgumentError, r"targets has shape \[4\], expected \[5\] \(\[R1\]\)", (x, targets[1:], share)),
        (InvalidArgumentError, "x has 1101 along R1, prepared are at most 1100", (np.ones((1101, WIDTH)), *given[1:])),
        (InvalidArgumentError, r"expected \[1, 6\] \(\[R1, 6\]\)", (np.ones((1, 7)), targets[:1], share[:1])),
        (InvalidArgumentError, "elements along axis 0 for max", (x[:0], targets[:0], share[:0])),
    ]:
        with pytest.raises(error, match=words):
            program.run(*inputs)
    assert program.run(*given)[0].numpy().shape == ()


def test_only_the_first_axis_of_a_result_is_counted():
    graph = Graph()
    x = graph.input("x", ("T", 3))
    with pytest.raises(InvalidArgumentError, match=r"matmul: its result would be \[T, T\]; a batch counts no axis but"):
        graph.call("matmul", x, x, transpose_b=True)


@pytest.mark.parametrize(("dtype", "columns"), [("float32", 6), ("float32", 16), ("float16", 16)])
def test_rotary_positions_of_counted_rows(device, dtype, columns):
    """Angles are rows of a table, chosen by position."""
    positions, heads = np.array([0, 1, 2, 0, 1, 7, 3]), 3
    graph = Graph()
    x, places = graph.input("x", ("R2", heads, columns), dtype), graph.input("positions", ("R2",), "int32")
    cos, sin = (graph.input(name, (8, columns // 2)) for name in ("cos", "sin"))
    angles = [graph.call("embedding_sum", places, table) for table in (cos, sin)]
    turned, counts = graph.call("rope", x, *angles), {"R2": len(positions)}
    program = graph.program([turned], device, counts)
    rng = np.random.default_rng(1)
    given, turns = rng.normal(size=(len(positions), heads, columns)).astype(dtype), rng.random((8, columns // 2))
    found = program.run(given, positions, np.cos(turns), np.sin(turns))[0].numpy()
    first, second = np.split(given.astype(np.float64), 2, axis=-1)
    c, s = (f(turns[positions])[:, None] for f in (np.cos, np.sin))
    expected = np.concatenate([first * c - second * s, second * c + first * s], axis=-1)
    np.testing.assert_allclose(found, expected, atol=1e-6 if dtype == "float32" else 4e-3)


@pytest.mark.parametrize(
    ("op", "shapes", "attributes", "shape"),
    [
        ("gated", [(2, 0)], {"kind": "silu"}, (2, 0)),
        ("gated_backward", [(2, 0), (2, 0)], {"kind": "silu"}, (2, 0)),
        ("softmax", [(2, 0)], {}, (2, 0)),
        ("layer_norm", [(2, 0), (0,), (0,)], {}, (2, 0)),
        ("bias_gelu", [(0, 3), (3,)], {}, (0, 3)),
        ("linear", [(2, 0), (3, 0)], {}, (2, 3)),
        ("gated_linear", [(2, 3), (0, 3), (0, 3)], {"kind": "silu"}, (2, 0)),
        ("reduce", [(2, 0)], {"axis": 1, "kind": "sum"}, (2,)),
    ],
)
def test_operands_without_elements(device, op, shapes, attributes, shape):
    graph = Graph()
    values = [graph.input(f"x{n}", shape) for n, shape in enumerate(shapes)]
    program = graph.program([graph.call(op, *values, **attributes)], device)
    found = program.run(*[np.ones(shape, np.float32) for shape in shapes])[0].numpy()
    assert np.array_equal(found, np.zeros(shape, np.float32))


def test_what_does_not_fit_is_named(device):
    graph = Graph()
    x, w = graph.input("x", (2, 3)), graph.input("w", (4, 3))
    half, ids = graph.input("half", (4, 3), "float16"), graph.input("ids", (2,), "int32")
    y = graph.call("linear", x, w)
    cases = [
        (InvalidArgumentError, "1 operand, expected", lambda: graph.call("linear", x)),
        (InvalidArgumentError, "no op is called|unknown|there is no", lambda: graph.call("sum_of_all", x)),
        (InvalidTypeError, "weight is float16, expected float32", lambda: graph.call("linear", x, half)),
        (InvalidTypeError, "x is int32, expected float32", lambda: graph.call("activation", ids, kind="relu")),
        (InvalidTypeError, "a value of this graph", lambda: graph.call("linear", np.zeros((2, 3)), w)),
        (InvalidArgumentError, "another graph", lambda: Graph().call("linear", x, w)),
        (InvalidArgumentError, 'an axis is "Q"', lambda: graph.input("q", ("Q",))),
        (InvalidArgumentError, 'an axis is "-1"', lambda: graph.input("q", (-1,))),
        (InvalidArgumentError, "float31", lambda: graph.input("q", (1,), "float31")),
        (InvalidArgumentError, "has shape", lambda: graph.gradients(y, x, [w])),
        (UnsupportedError, "no derivative", lambda: graph.gradients(graph.call("softmax_backward", x, x), x, [x])),
        (InvalidArgumentError, 'counts has "S"', lambda: graph.program([y], device, {"S": 1})),
        (InvalidArgumentError, "no step computes the output x", lambda: graph.program([x], device)),
        (InvalidArgumentError, "more elements", lambda: Graph.program(graph_of(2**62), [], device)),
    ]
    for error, words, call in cases:
        with pytest.raises(error, match=words):
            call()
    program = graph.program([y], device)
    given = np.ones((2, 3)), np.ones((4, 3)), np.ones((4, 3), np.float16), [0, 1]
    for error, words, inputs in [
        (InvalidArgumentError, "2 inputs, expected 4", given[:2]),
        (InvalidArgumentError, r"x has shape \[3, 2\]", (given[0].T, *given[1:])),
        (InvalidTypeError, "half is float32", (*given[:2], given[1], given[3])),
    ]:
        with pytest.raises(error, match=words):
            program.run(*inputs)
    assert program.run(*given)[0].numpy().tolist() == [[3.0] * 4] * 2


def graph_of(rows: int) -> Graph:
    graph = Graph()
    graph.input("x", (rows, 4))
    return graph


def test_two_states_with_one_name_or_array_are_refused():
    graph, parameter = Graph(), nn.Parameter([1.0])
    graph.state("p", parameter)
    for name, value in [("p", [1.0]), ("q", parameter)]:
        with pytest.raises(InvalidArgumentError, match="already"):
            graph.state(name, value)
