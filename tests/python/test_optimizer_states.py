"""States of optimisers: copied, pickled and loaded in every order, with parameters that come and go."""

import copy
import pickle

import numpy as np
import pytest

import grilly
from grilly import nn, optim
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError

KINDS = {
    "adam": lambda params: optim.Adam(params, weight_decay=0.1),
    "amsgrad": lambda params: optim.AdamW(params, amsgrad=True),
    "momentum": lambda params: optim.SGD(params, momentum=0.9),
}


def train(params, optimizer, steps):
    for step in steps:
        for place, p in enumerate(params):
            p.grad = np.random.default_rng([step, place]).standard_normal(p.shape).astype(np.float32)
        optimizer.step()


def layer(place=None):
    np.random.seed(3)
    made = nn.Linear(4, 3)
    for p in made.parameters():
        p.place(place)
    return made


def both(copies):
    return {"deepcopy": copy.deepcopy, "pickle": lambda x: pickle.loads(pickle.dumps(x))}[copies]


@pytest.mark.parametrize("place", [None, "cpu"])
@pytest.mark.parametrize("copies", ["deepcopy", "pickle"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_of_model_optimiser_and_schedule_goes_on_alone(kind, copies, place):
    model = layer(place)
    optimizer = KINDS[kind](model.parameters())
    schedule = optim.StepLR(optimizer, 2, 0.5)
    train(model.parameters(), optimizer, range(3))
    schedule.step()
    model2, optimizer2, schedule2 = both(copies)((model, optimizer, schedule))
    assert schedule2.optimizer is optimizer2
    assert [id(p) for p in optimizer2.param_groups[0]["params"]] == [id(p) for p in model2.parameters()]
    before = [p.numpy() for p in model.parameters()]
    train(model2.parameters(), optimizer2, range(3, 6))
    schedule2.step()
    assert all(np.array_equal(a, b) for a, b in zip(before, model.parameters()))
    assert (optimizer.param_groups[0]["lr"], schedule.last_epoch) == (optimizer.defaults["lr"], 1)
    train(model.parameters(), optimizer, range(3, 6))
    schedule.step()
    assert all(np.array_equal(a, b) for a, b in zip(model.parameters(), model2.parameters()))
    assert optimizer.param_groups[0]["lr"] == optimizer2.param_groups[0]["lr"] == 0.5 * optimizer.defaults["lr"]
    # Alone, it has parameters of its own, with their states.
    alone = both(copies)(optimizer)
    train(alone.param_groups[0]["params"], alone, [6])
    train(model.parameters(), optimizer, [6])
    assert all(np.array_equal(a, b) for a, b in zip(alone.param_groups[0]["params"], model.parameters()))


def test_groups_have_the_loaded_settings_alone():
    a, b = optim.SGD([nn.Parameter([1.0])], lr=0.5), optim.SGD([nn.Parameter([1.0])], lr=0.1, momentum=0.5)
    b.param_groups[0].update(initial_lr=7.0, betas=1)
    state = a.state_dict()
    state["param_groups"][0]["more"] = [1]
    del state["param_groups"][0]["momentum"]
    group = b.param_groups[0]
    b.load_state_dict(state)
    state["param_groups"][0]["more"].append(2)
    assert group is b.param_groups[0] and group["lr"] == 0.5 and "initial_lr" not in group and "betas" not in group
    assert group["momentum"] == 0.5 and group["more"] == [1]


def test_adam_and_adamw_load_each_others_states():
    def one(kind):
        p = nn.Parameter([1.0])
        return p, kind([p], lr=0.1, weight_decay=0.5)

    p, adamw = one(optim.AdamW)
    q, adam = one(optim.Adam)
    r, plain = one(optim.AdamW)
    expected = adamw.state_dict()
    plain.load_state_dict(adam.state_dict()), adam.load_state_dict(expected)
    for each, optimizer in ((p, adamw), (q, adam), (r, plain)):
        train([each], optimizer, range(2))
    assert p.tolist() == q.tolist() == r.tolist()  # as in torch, all three are decoupled


def test_parameters_come_and_go():
    a, b = nn.Parameter([1.0]), nn.Parameter([2.0])
    optimizer = optim.SGD([a], lr=0.5, momentum=0.5)
    train([a], optimizer, range(2))
    held = optimizer.state[id(a)]["momentum_buffer"]
    optimizer.param_groups[0]["params"] = [b]
    assert optimizer.state_dict()["state"] == {}
    train([b], optimizer, range(1))
    optimizer.param_groups[0]["params"].append(a)
    assert optimizer.state_dict()["state"][1]["momentum_buffer"].tolist() == held.tolist()
    optimizer.state = {}
    train([a, b], optimizer, range(1))
    assert len(optimizer.state_dict()["state"]) == 2
    # Another parameter never has the state of one that is gone, whatever its address is.
    for _ in range(200):
        optimizer.param_groups[0]["params"] = [nn.Parameter([1.0])]
        assert not optimizer.state_dict()["state"]
        train(optimizer.param_groups[0]["params"], optimizer, range(1))


def test_a_momentum_that_is_switched_off_comes_back():
    p = nn.Parameter([0.0])
    optimizer = optim.SGD([p], lr=1.0, momentum=0.5)
    for momentum, gradient, expected in [(0.5, 1.0, -1.0), (0.0, 1.0, -2.0), (0.5, 0.0, -2.5)]:
        optimizer.param_groups[0]["momentum"] = momentum
        p.grad = np.float32([gradient])
        optimizer.step()
        assert p.tolist() == [expected]


def test_parameters_with_names():
    model = layer()
    optimizer = optim.AdamW(model.named_parameters())
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    other = optim.AdamW(layer().parameters())
    other.load_state_dict(optimizer.state_dict())
    optimizer.load_state_dict(optim.AdamW(layer().parameters()).state_dict())
    for each in (optimizer, other):
        assert each.param_groups[0]["param_names"] == ["weight", "bias"]
    with pytest.raises(InvalidArgumentError, match="1 of 2 parameters of a group have names"):
        optim.SGD([("weight", model.weight), model.bias])


def test_states_of_own_optimisers_are_kept_whole():
    class Counting(optim.Optimizer):
        def update(self, p, gradient, state, group):
            row = state.get("row", np.zeros(p.shape[0], np.float32)) + 1
            return p - group["lr"] * gradient, {
                "row": row,
                "seen": [*state.get("seen", []), row],
                "name": "x",
                "no": None,
            }

    p = nn.Parameter(np.ones((2, 3)))
    optimizer = Counting([p], {"lr": 0.5})
    train([p], optimizer, range(2))
    state = optimizer.state_dict()
    other = Counting([nn.Parameter(np.ones((2, 3)))], {"lr": 0.5})
    other.load_state_dict(state)
    (held,) = other.state.values()
    assert held["row"].tolist() == [2, 2] and held["seen"][0].tolist() == [1, 1] and held["no"] is None
    assert held["row"] is not state["state"][0]["row"] and copy.deepcopy(other).state_dict()["state"][0]["name"] == "x"


@pytest.mark.parametrize("kind", KINDS)
def test_a_setting_that_is_not_finite_is_named_before_anything_changes(kind):
    a, b = nn.Parameter([1.0]), nn.Parameter([1.0])
    optimizer = KINDS[kind]([{"params": [a]}, {"params": [b], "lr": 1e200}])
    schedule = optim.StepLR(optimizer, 1, 1e200)
    schedule.step()
    for p in (a, b):
        p.grad = np.ones(1, np.float32)
    with pytest.raises(InvalidArgumentError, match=rf"{type(optimizer).__name__}: lr is inf, expected a finite number"):
        optimizer.step()
    assert a.tolist() == b.tolist() == [1.0] and a.grad is not None


def test_bad_groups_and_states_are_named():
    p = nn.Parameter([1.0])
    adam = optim.Adam([p])
    good = adam.state_dict()
    for make, error, problem in [
        (lambda: adam.add_param_group([p]), InvalidTypeError, "a group is of type list"),
        (lambda: adam.add_param_group({"lr": 1.0}), InvalidArgumentError, "a group has no params"),
        (lambda: adam.add_param_group({"params": p}), InvalidArgumentError, "a parameter occurs twice"),
        (lambda: optim.SGD([{"params": p, "maximize": True}]), UnsupportedError, "a group has maximize"),
        (lambda: adam.load_state_dict([]), InvalidTypeError, "the state is of type list"),
        (lambda: adam.load_state_dict({"state": {}}), InvalidArgumentError, "the state has no param_groups"),
        (lambda: adam.load_state_dict({"param_groups": []}), InvalidArgumentError, "the state has no state"),
        (lambda: adam.load_state_dict(good | {"param_groups": [{}]}), InvalidArgumentError, "group 0 .* has no params"),
        (
            lambda: adam.load_state_dict(good | {"state": {"x": {}}}),
            InvalidArgumentError,
            "the state of 'x' belongs to",
        ),
        (lambda: adam.load_state_dict(good | {"state": {0: {"step": None}}}), InvalidArgumentError, "step is None"),
        (lambda: adam.load_state_dict(good | {"state": {0: 3}}), InvalidArgumentError, "the state of 0 belongs to no"),
    ]:
        with pytest.raises(error, match=problem):
            make()
    assert len(adam.param_groups) == 1 and adam.state == {id(p): {}}


def test_a_decay_next_to_one_is_below_one_for_the_kernel():
    p = nn.Parameter([1.0])
    train([p], optim.Adam([p], betas=(0.9, 1 - 1e-12)), range(3))
    assert np.isfinite(p).all() and p.tolist() != [1.0]


def test_states_on_a_device_are_pickled(vulkan):
    p = nn.Parameter([1.0])
    p.place(vulkan)
    optimizer = optim.AdamW([p])
    train([p], optimizer, range(2))
    q, again = pickle.loads(pickle.dumps((p, optimizer)))
    for each, by in ((p, optimizer), (q, again)):
        train([each], by, range(2, 4))
    assert p.tolist() == q.tolist() and isinstance(again.state[id(q)]["exp_avg"], grilly.VulkanTensor)
