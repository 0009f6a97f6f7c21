"""Registration, state and parameters of `grilly.nn`."""

import copy
import pickle

import numpy as np
import pytest
from cases.comparison import close, values

from grilly import errors, nn


def test_registration_by_assignment():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter([2.0])
            self.inner = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
            self.plain = 3

        def forward(self, x):
            return self.inner(x) * self.scale

    net = Net()
    assert [name for name, _ in net.named_parameters()] == ["scale", "inner.0.weight", "inner.0.bias"]
    net.scale = nn.Parameter([5.0])
    assert net.scale.tolist() == [5.0] and len(list(net.parameters())) == 3
    net.scale = None
    assert len(list(net.parameters())) == 2 and net.plain == 3
    del net.inner
    assert list(net.parameters()) == []
    with pytest.raises(AttributeError, match="no attribute 'inner'"):
        net.inner  # noqa: B018
    with pytest.raises(TypeError, match="super"):

        class Early(nn.Module):
            def __init__(self):
                self.inner = nn.ReLU()

        Early()


def test_state_is_nested_and_loading_binds(made):
    source, target = nn.TransformerEncoderLayer(8, 2).eval(), made(nn.TransformerEncoderLayer(8, 2))
    x = values(1, 3, 8)
    assert not np.array_equal(source(x), target(x))
    identity = id(target.linear1.weight)
    target.load_state_dict(source.state_dict())
    assert id(target.linear1.weight) == identity
    close(target(x), np.asarray(source(x), np.float64))
    assert set(source.state_dict()["self_attn"]) == {"q_proj", "k_proj", "v_proj", "out_proj", "result_dropout"}
    flat = {name: np.zeros_like(p) for name, p in target.named_parameters()}
    target.load_state_dict(flat)
    assert not any(p.any() for p in target.parameters())
    state = source.state_dict()
    state["linear1"]["weight"][...] = 7
    assert not (source.linear1.weight == 7).any()


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda s: s.pop("bias"), "bias is missing"),
        (lambda s: s.update(more=np.ones(1)), "more is unknown"),
        (lambda s: s.update(bias=np.ones(4)), r"bias has shape \[4\], expected \[3\]"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(change, words):
    layer = nn.Linear(2, 3)
    before, state = layer.weight.copy(), {name: value + 1 for name, value in layer.state_dict().items()}
    change(state)
    with pytest.raises(errors.InvalidArgumentError, match=words):
        layer.load_state_dict(state)
    assert (layer.weight == before).all()
    if "shape" not in words:
        layer.load_state_dict(state, strict=False)
        assert (layer.weight == before + 1).all()


@pytest.mark.parametrize(
    "write",
    [
        lambda p: p.__setitem__(..., 3.0),
        lambda p: p.__iadd__(3.0 - p),
        lambda p: np.multiply(p, 0, out=p) + np.add(p, 3.0, out=p),
        lambda p: p.fill(3.0),
        lambda p: (p.view(np.ndarray).__setitem__(..., 3.0), p.touch()),
    ],
)
def test_writing_to_a_parameter_renews_its_copy_on_a_device(write):
    layer = nn.Linear(2, 1, bias=False)
    layer.weight.place("cpu")
    layer(np.ones(2))
    write(layer.weight)
    assert layer(np.ones(2, np.float32)).tolist() == [6.0]


def test_parameters_are_arrays():
    p = nn.Parameter(np.arange(3), requires_grad=False)
    assert isinstance(p, np.ndarray) and p.dtype == np.float32 and not p.requires_grad
    assert not isinstance(p + 1, nn.Parameter) and isinstance(p, nn.Parameter)
    again = pickle.loads(pickle.dumps(p))
    assert isinstance(again, nn.Parameter) and again.tolist() == [0, 1, 2] and not again.requires_grad
    p.accumulate([1.0, 1.0, 1.0])
    assert p.grad is None
    net = copy.deepcopy(nn.Sequential(nn.Linear(2, 2)))
    assert len(list(net.parameters())) == 2
    p.grad = np.ones(3, np.float32)
    q = copy.deepcopy(p)
    assert isinstance(q, nn.Parameter) and not q.requires_grad and q.grad is not p.grad and q.grad.tolist() == [1, 1, 1]


def test_a_chain_pickles_after_a_call_and_keeps_no_inputs_in_evaluation():
    net, x = nn.Sequential(nn.Linear(2, 3), nn.ReLU()), values(4, 2)
    placed = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    for parameter in placed.parameters():
        parameter.place("cpu")
    for module in (net, placed):
        expected = module(x)
        for again in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
            assert np.array_equal(again(x), expected)
    assert len(net._inputs) == 2
    net.eval()(x)
    assert net._inputs == []
    with pytest.raises(errors.InvalidArgumentError, match="training mode"):
        net.backward(values(4, 3))


@pytest.mark.parametrize(
    "wrong, kind",
    [
        (lambda: nn.Linear(2, 2).to("cuda"), ValueError),
        (lambda: nn.ReLU().to("vulkan:99"), IndexError),
        (lambda: nn.MSELoss("average"), ValueError),
        (lambda: nn.GELU("erf"), ValueError),
        (lambda: nn.Linear(2, 2).load_state_dict(None), TypeError),
        (lambda: nn.Linear(2, 2).cuda(), AttributeError),
    ],
)
def test_wrong_choices_are_refused_when_they_are_made(wrong, kind):
    with pytest.raises(kind):
        wrong()
