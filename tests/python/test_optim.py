"""Optimisers and schedules against their formulas in float64; tests/live/test_optim.py compares with torch's."""

import copy
import math

import numpy as np
import pytest
from cases.comparison import values

import grilly
from grilly import functional, nn, optim
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError

SHAPE, STEPS = (5, 7), 6


def adam64(p, gradients, lr, betas=(0.9, 0.999), eps=1e-8, coupled=0.0, decoupled=0.0, amsgrad=False):
    m, v, most = np.zeros_like(p), np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(gradients, 1):
        g = g + coupled * p
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g**2
        most = np.maximum(most, v)
        root = np.sqrt((most if amsgrad else v) / (1 - betas[1] ** t))
        p = p - lr * (m / (1 - betas[0] ** t) / (root + eps) + decoupled * p)
    return p


def sgd64(p, gradients, lr, momentum=0.0, weight_decay=0.0, dampening=0.0, nesterov=False):
    b = None
    for g in gradients:
        d = g + weight_decay * p
        b = d if b is None else momentum * b + (1 - dampening) * d
        p = p - lr * (d + momentum * b if nesterov else b if momentum else d)
    return p


CASES = {
    "adam": (optim.Adam, {"lr": 0.1}, lambda p, g: adam64(p, g, 0.1)),
    "adam decay": (
        optim.Adam,
        {"lr": 0.1, "betas": (0.5, 0.75), "eps": 1e-3, "weight_decay": 0.2},
        lambda p, g: adam64(p, g, 0.1, (0.5, 0.75), 1e-3, coupled=0.2),
    ),
    "adamw": (optim.AdamW, {"lr": 0.1}, lambda p, g: adam64(p, g, 0.1, decoupled=0.01)),
    "amsgrad": (optim.AdamW, {"amsgrad": True}, lambda p, g: adam64(p, g, 1e-3, decoupled=0.01, amsgrad=True)),
    "sgd": (optim.SGD, {"lr": 0.1}, lambda p, g: sgd64(p, g, 0.1)),
    "momentum": (
        optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.2, "dampening": 0.3},
        lambda p, g: sgd64(p, g, 0.1, 0.9, 0.2, 0.3),
    ),
    "nesterov": (
        optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "nesterov": True},
        lambda p, g: sgd64(p, g, 0.1, 0.9, nesterov=True),
    ),
}


def gradients():
    # The largest first, so that the largest mean square is not the newest.
    numbers = np.random.default_rng(2)
    return [(numbers.standard_normal(SHAPE) * 3.0**-t).astype(np.float32) for t in range(STEPS)]


def close(found, expected, scale=1.0):
    """To within the roundings of six steps whose numbers are of this size."""
    assert np.abs(np.asarray(found, np.float64) - expected).max() <= 40 * STEPS * 2.0**-24 * scale


@pytest.mark.parametrize("place", ["numpy", "cpu", "device"])
@pytest.mark.parametrize("name", CASES)
def test_steps_are_those_of_float64(name, place, vulkan):
    kind, settings, expected = CASES[name]
    p = nn.Parameter(values(*SHAPE))
    before = np.array(p, np.float64)
    if place == "device":
        p.place(vulkan)
    optimizer = kind([p], **settings, use_gpu=place != "cpu")
    stats = grilly.stats()
    for g in gradients():
        p.grad = g.copy()
        assert optimizer.step() is None and p.grad is None
    close(p, expected(before, [g.astype(np.float64) for g in gradients()]))
    assert (grilly.stats()["dispatches"] > stats["dispatches"]) == (place != "cpu")
    if place == "device":
        assert np.array_equal(p.operand().numpy(), p)
        held = [x for key, x in optimizer.state[id(p)].items() if key != "step"]
        assert all(isinstance(x, grilly.VulkanTensor) for x in held)


def test_arrays_gradients_by_id_and_a_closure():
    p = np.ones(3, np.float32)
    optimizer = optim.SGD([p], lr=0.5)
    assert optimizer.step(lambda: 7.0, {id(p): np.full(3, 2.0)}) == 7.0
    assert p.tolist() == [0.0] * 3
    assert optimizer.step() is None and p.tolist() == [0.0] * 3
    half = nn.Parameter(np.ones(3, np.float16))
    half.accumulate(np.full(3, 2.0))
    optim.AdamW([half], lr=0.25, weight_decay=0.0).step()
    assert half.dtype == np.float16 and np.abs(half - 0.75).max() < 1e-3


def test_groups_have_settings_of_their_own():
    a, b = nn.Parameter([1.0]), nn.Parameter([1.0])
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.25}], lr=0.5)
    for p in (a, b):
        p.accumulate([1.0])
    optimizer.step()
    assert (a.tolist(), b.tolist()) == ([0.5], [0.75])
    a.accumulate([1.0])
    optimizer.zero_grad()
    assert a.grad is None


@pytest.mark.parametrize("kind", [optim.Adam, optim.AdamW, lambda params: optim.SGD(params, momentum=0.9)])
def test_a_state_that_is_saved_goes_on_with_the_same_bits(kind):
    def fresh():
        np.random.seed(3)
        layer = nn.Linear(4, 3)
        return layer, kind(layer.parameters())

    def train(layer, optimizer, steps):
        for step in steps:
            for number, p in enumerate(layer.parameters()):
                p.accumulate(np.random.default_rng([step, number]).standard_normal(p.shape))
            optimizer.step()

    straight, stopped, resumed = fresh(), fresh(), fresh()
    train(*straight, range(6))
    train(*stopped, range(3))
    state = copy.deepcopy(stopped[1].state_dict())
    resumed[0].load_state_dict(stopped[0].state_dict())
    resumed[1].load_state_dict(state)
    train(*resumed, range(3, 6))
    assert all(np.array_equal(a, b) for a, b in zip(straight[0].parameters(), resumed[0].parameters()))
    other = kind(nn.Linear(4, 3, bias=False).parameters())
    with pytest.raises(InvalidArgumentError, match=r"the groups have \[2\] parameters, expected \[1\]"):
        other.load_state_dict(state)
    wide = kind(nn.Linear(5, 3).parameters())
    with pytest.raises(InvalidArgumentError, match=r"has shape \[3, 4\], expected \[3, 5\]"):
        wide.load_state_dict(state)
    assert not any(wide.state.values())


def test_bad_arguments_are_named():
    p = nn.Parameter([1.0])
    for make, error, problem in [
        (lambda: optim.SGD([]), InvalidArgumentError, "there are no parameters"),
        (lambda: optim.SGD([p, p]), InvalidArgumentError, "a parameter occurs twice"),
        (lambda: optim.SGD([[1.0]]), InvalidTypeError, "a parameter is of type list"),
        (lambda: optim.SGD([np.arange(3)]), InvalidTypeError, "a parameter is of type int64"),
        (lambda: optim.Adam([p], lr=-1), InvalidArgumentError, "lr is -1.0, expected at least 0"),
        (lambda: optim.Adam([p], betas=(0.9, 1.0)), InvalidArgumentError, "one of betas is 1.0"),
        (lambda: optim.Adam([p], betas=(0.9,)), InvalidArgumentError, "betas has 1 numbers, expected 2"),
        (lambda: optim.SGD([p], nesterov=True), InvalidArgumentError, "nesterov needs a momentum"),
        (lambda: optim.Optimizer([p], {}).step(gradients={id(p): [1.0]}), UnsupportedError, "Optimizer has no update"),
        (lambda: optim.StepLR(p, 3), InvalidTypeError, "optimizer is of type Parameter"),
        (lambda: optim.StepLR(optim.SGD([p]), 0), InvalidArgumentError, "step_size is 0"),
        (lambda: optim.OneCycleLR(optim.SGD([p]), 1.0), InvalidArgumentError, "set total_steps, or epochs"),
        (
            lambda: optim.OneCycleLR(optim.SGD([p]), [1.0, 2.0], 5),
            InvalidArgumentError,
            "max_lr has 2 numbers, expected 1",
        ),
        (lambda: optim.ReduceLROnPlateau(optim.SGD([p]), factor=1.0), InvalidArgumentError, "factor is 1.0"),
    ]:
        with pytest.raises(error, match=problem):
            make()
    q = nn.Parameter([1.0, 2.0])
    optimizer = optim.SGD([p, q])
    p.accumulate([1.0])
    with pytest.raises(InvalidArgumentError, match=r"a gradient has shape \[3\], expected \[2\]"):
        optimizer.step(gradients={id(q): np.ones(3)})
    assert p.tolist() == [1.0] and p.grad is not None  # nothing was updated


def rates(schedule, steps):
    found = schedule.get_last_lr()
    for _ in range(steps):
        schedule.step()
        found += schedule.get_last_lr()
    return found


def sgd(lr=1.0):
    return optim.SGD([nn.Parameter([1.0])], lr=lr, momentum=0.5)


def test_schedules_have_their_formulas():
    assert rates(optim.StepLR(sgd(), 2, 0.5), 5) == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]
    assert rates(optim.LinearLR(sgd(4.0), 0.25, 1.0, 3), 4) == pytest.approx([1.0, 2.0, 3.0, 4.0, 4.0])
    warm = sgd()
    parts = [optim.LinearLR(warm, 0.25, 1.0, 3), optim.CosineAnnealingLR(warm, 4)]
    halves = [(1 + math.cos(math.pi * t / 4)) / 2 for t in range(4)]
    assert rates(optim.SequentialLR(warm, parts, [3]), 6) == pytest.approx([0.25, 0.5, 0.75, *halves])
    with pytest.raises(InvalidArgumentError, match=r"milestones is \[3, 2\], expected 1 steps that do not fall"):
        optim.SequentialLR(warm, parts, [3, 2])
    cosine = [0.1 + 0.9 * (1 + math.cos(math.pi * t / 4)) / 2 for t in range(7)]
    assert rates(optim.CosineAnnealingLR(sgd(), 4, 0.1), 6) == pytest.approx(cosine)
    # Those of OneCycleLR(max_lr=1, total_steps=10) in torch 2.15.
    cycle = [0.04, 0.52, 1.0, 0.95048463, 0.81174565, 0.61126202, 0.38874198, 0.18825835, 0.04951937, 4e-06]
    optimizer = sgd()
    schedule = optim.OneCycleLR(optimizer, 1.0, epochs=2, steps_per_epoch=5)
    assert rates(schedule, 2) == pytest.approx(cycle[:3]) and optimizer.param_groups[0]["momentum"] == 0.85
    assert rates(schedule, 7)[1:] == pytest.approx(cycle[3:], rel=1e-6)
    assert optimizer.param_groups[0]["momentum"] == pytest.approx(0.95)
    schedule.step()
    with pytest.raises(InvalidArgumentError, match="step 11 is after the last, 10"):
        schedule.step()
    adam = optim.Adam([nn.Parameter([1.0])])
    optim.OneCycleLR(adam, 1.0, 10)
    assert adam.param_groups[0]["betas"] == (0.95, 0.999)


def test_a_plateau_reduces_the_rate():
    optimizer = sgd()
    schedule = optim.ReduceLROnPlateau(optimizer, "max", 0.5, patience=1, cooldown=1, min_lr=0.2)
    found = []
    for measure in (1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0):
        schedule.step(measure)
        found += schedule.get_last_lr()
    # After two without a better one; one that is not counted; two; and not below the least.
    assert found == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2, 0.2]


def test_schedules_are_resumed():
    first, second = (optim.CosineAnnealingLR(sgd(), 10) for _ in range(2))
    rates(first, 4)
    second.load_state_dict(first.state_dict())
    assert second.optimizer.param_groups[0]["lr"] == 1.0  # the rate is in the optimiser's state
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    assert rates(first, 3)[1:] == rates(second, 3)[1:]


def test_adam_update_is_upstreams(backend):
    w, g, m, v = values(3, 4), values(3, 4), np.zeros((3, 4)), np.zeros((3, 4))
    kept = g.copy()
    found = backend.learning.adam_update(w, g, m, v, 0.1, 0.9, 0.999, 1e-8, 0.9, 0.999, clear_grad=True)
    close(found[0], adam64(w.astype(np.float64), [kept.astype(np.float64)], 0.1))
    assert not g.any() and not m.any() and np.array_equal(functional.adam_update(w, kept, m, v, 0.1)[1], found[1])
    on_device = functional.adam_update(grilly.to_vulkan(w), kept, m, v, 0.1, 0.9, 0.999, 1e-8, 0.9, 0.999)
    assert isinstance(on_device[0], grilly.VulkanTensor) and np.array_equal(on_device[0], found[0])
    with pytest.raises(InvalidTypeError, match="expected a NumPy array to clear"):
        functional.adam_update([1.0], [1.0], [0.0], [0.0], 0.1, clear_grad=True)
    with pytest.raises(InvalidArgumentError, match=r"adam_update: moment2 has shape \[4\], expected \[3, 4\]"):
        functional.adam_update(w, kept, m, v[0], 0.1)
    with pytest.raises(InvalidArgumentError, match=r"adam_update: beta1_t is 1.0, expected 0 to below 1"):
        functional.adam_update(w, kept, m, v, 0.1, beta1_t=1.0)
    new, buffer = functional.sgd_update(w, kept, None, 0.5)
    assert buffer is None and np.array_equal(new, w - np.float32(0.5) * kept)


@pytest.mark.parametrize("place", [None, "cpu"])
def test_amsgrad_survives_a_square_that_overflows(place):
    p = nn.Parameter([1.0, 1.0])
    p.place(place)
    optimizer = optim.AdamW([p], lr=0.1, weight_decay=0.0, amsgrad=True)
    found = []
    for gradient in ([1.0, 1.0], [1e30, -0.5], [1.0, 0.25], [0.0, 2.0]):
        p.grad = np.float32(gradient)
        optimizer.step()
        found.append(np.array(p))
    # As in torch: the largest mean square is infinite from then on, and the step 0.
    assert np.isfinite(found).all() and found[0][0] == found[1][0] == found[3][0]
    state = optimizer.state_dict()["state"][0]
    assert state["max_exp_avg_sq"][0] == np.inf and np.isfinite(state["exp_avg"]).all()
    # The largest one in every bit, where it was a sum.
    largest = nn.Parameter(np.zeros(1000))
    optimizer = optim.AdamW([largest], amsgrad=True)
    squares = []
    for step in range(3):
        largest.grad = np.random.default_rng(step).standard_normal(1000).astype(np.float32)
        optimizer.step()
        squares.append(optimizer.state_dict()["state"][0]["exp_avg_sq"])
    assert np.array_equal(optimizer.state_dict()["state"][0]["max_exp_avg_sq"], np.max(squares, axis=0))


def test_a_plateau_tells_the_rates_of_its_last_step():
    optimizer = sgd()
    schedule = optim.ReduceLROnPlateau(optimizer)
    optimizer.param_groups[0]["lr"] = 0.5
    assert schedule.get_last_lr() == [1.0]
    schedule.step(1.0)
    assert schedule.get_last_lr() == [0.5]
