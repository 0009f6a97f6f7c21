"""Schedules in the orders of construction, loading and combination that torch allows; the numbers are torch 2.15's."""

import copy

import numpy as np
import pytest

from grilly import nn, optim
from grilly.errors import InvalidArgumentError


def sgd(lr=1.0, momentum=0.0):
    return optim.SGD([nn.Parameter([1.0])], lr=lr, momentum=momentum)


def trace(optimizer, schedules, steps):
    found = [optimizer.param_groups[0]["lr"]]
    for _ in range(steps):
        for schedule in schedules:
            schedule.step()
        found.append(optimizer.param_groups[0]["lr"])
    return found


def test_several_schedules_on_one_optimiser_multiply():
    optimizer = sgd()
    schedules = [optim.StepLR(optimizer, 2, 0.5), optim.LinearLR(optimizer, 0.5, total_iters=4)]
    expected = [0.5, 0.625, 0.375, 0.4375, 0.25, 0.25, 0.125]
    assert trace(optimizer, schedules, 6) == pytest.approx(expected, rel=1e-12)
    optimizer = sgd()
    schedules = [optim.CosineAnnealingLR(optimizer, 4, 0.1), optim.StepLR(optimizer, 1, 0.5)]
    expected = [1.0, 0.4340990257669732, 0.14785533905932735, 0.057008252147247765, 0.05, 0.09090097423302679]
    assert trace(optimizer, schedules, 5) == pytest.approx(expected, rel=1e-9)
    # Each tells the rates that it set itself.
    assert schedules[0].get_last_lr()[0] == pytest.approx(2 * schedules[1].get_last_lr()[0])


@pytest.mark.parametrize("first", ["schedule", "optimiser"])
def test_a_schedule_made_before_or_after_loading_goes_on(first):
    optimizer = sgd()
    schedule = optim.CosineAnnealingLR(optimizer, T_max=10)
    trace(optimizer, [schedule], 7)
    saved, saved_schedule = optimizer.state_dict(), schedule.state_dict()
    rest = trace(optimizer, [schedule], 6)
    again = sgd()
    if first == "schedule":
        schedule = optim.CosineAnnealingLR(again, T_max=10)
        schedule.load_state_dict(saved_schedule)
        again.load_state_dict(saved)
    else:
        again.load_state_dict(saved)
        schedule = optim.CosineAnnealingLR(again, T_max=10)
        assert again.param_groups[0]["lr"] == rest[0] == pytest.approx(0.20610737385376345)
        schedule.load_state_dict(saved_schedule)
    assert trace(again, [schedule], 6) == rest
    assert saved_schedule["last_epoch"] == 7 and len(saved_schedule["base_lrs"]) == 1


def test_a_state_is_a_copy():
    schedule = optim.StepLR(sgd(), 2)
    state = schedule.state_dict()
    state["base_lrs"][0] = 5.0
    assert schedule.base_lrs == [1.0]
    schedule.load_state_dict(state)
    state["base_lrs"][0] = 7.0
    assert schedule.base_lrs == [5.0]


def test_a_loaded_state_has_its_first_rate_for_the_next_schedule():
    optimizer = sgd(0.25)
    optim.StepLR(optimizer, 1, 0.5)
    optimizer.load_state_dict(sgd(1.0).state_dict())
    assert optim.StepLR(optimizer, 1, 0.5).base_lrs == [1.0]


def test_groups_added_after_a_schedule_are_scheduled():
    optimizer = sgd()
    schedule = optim.StepLR(optimizer, 1, 0.5)
    optimizer.add_param_group({"params": [nn.Parameter([1.0])], "lr": 0.1})
    schedule.step()
    assert [group["lr"] for group in optimizer.param_groups] == schedule.get_last_lr() == [0.5, 0.05]

    class Halving(optim.LRScheduler):
        def get_lr(self):
            return [rate * 0.5**self.last_epoch for rate in self.base_lrs]

    schedule = Halving(optimizer)
    optimizer.add_param_group({"params": [nn.Parameter([1.0])], "lr": 0.2})
    schedule.step()
    assert schedule.get_last_lr() == [0.5, 0.025, 0.1]
    plateau = optim.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, min_lr=0.04)
    optimizer.add_param_group({"params": [nn.Parameter([1.0])], "lr": 0.06})
    plateau.step(1.0), plateau.step(1.0)
    assert plateau.get_last_lr() == [0.25, 0.025, 0.05, 0.04]
    each = optim.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, min_lr=[0.0] * 4)
    optimizer.add_param_group({"params": [nn.Parameter([1.0])]})
    each.step(1.0)
    with pytest.raises(InvalidArgumentError, match="min_lrs has 4 rates, and the optimiser has 5 groups; set min_lrs"):
        each.step(1.0)
    cycle = optim.OneCycleLR(sgd(momentum=0.5), 1.0, 10)
    cycle.optimizer.add_param_group({"params": [nn.Parameter([1.0])]})
    with pytest.raises(InvalidArgumentError, match="group 1 has no initial_lr, max_lr, min_lr, max_momentum"):
        cycle.step()


def test_a_sequence_of_schedules_is_torchs():
    def made():
        optimizer = sgd()
        parts = [optim.LinearLR(optimizer, 0.25, 1.0, 3), optim.CosineAnnealingLR(optimizer, 4)]
        return optimizer, optim.SequentialLR(optimizer, parts, [3])

    optimizer, schedule = made()
    expected = [0.25, 0.5, 0.75, 1.0, 0.8535533905932737, 0.5]
    assert trace(optimizer, [schedule], 5) == pytest.approx(expected)
    saved = optimizer.state_dict(), schedule.state_dict()
    again, resumed = made()
    resumed.load_state_dict(saved[1]), again.load_state_dict(saved[0])
    assert resumed.get_last_lr() == schedule.get_last_lr()
    assert trace(again, [resumed], 5) == trace(optimizer, [schedule], 5)
    older = made()[1]
    older.load_state_dict({"last_epoch": 5})  # as earlier builds saved it
    older.optimizer.load_state_dict(saved[0])
    assert older._schedulers[1].last_epoch == 2
    # From the first step on in the second, and two at one step: the last of them.
    optimizer = sgd()
    parts = [optim.StepLR(optimizer, 1, gamma) for gamma in (0.1, 0.2, 0.5)]
    assert trace(optimizer, [optim.SequentialLR(optimizer, parts, [0, 0])], 2) == [1.0, 0.5, 0.25]
    nested = sgd()
    inner = optim.SequentialLR(nested, [optim.StepLR(nested, 1, 0.5), optim.StepLR(nested, 1, 0.1)], [3])
    outer = optim.SequentialLR(nested, [inner, optim.LinearLR(nested, 0.5)], [5])
    expected = [1.0, 0.5, 1.0, 0.1, 0.01, 0.5]
    assert trace(nested, [outer], 5) == pytest.approx(expected)
    with pytest.raises(InvalidArgumentError, match="something else than schedules of this optimiser"):
        optim.SequentialLR(sgd(), parts, [1, 2])
    with pytest.raises(InvalidArgumentError, match="the state has 3 schedules, expected 2"):
        resumed.load_state_dict({"last_epoch": 1, "_schedulers": [{}, {}, {}]})


def test_a_cycle_is_resumed_and_goes_back_after_its_last_step():
    optimizer = sgd(momentum=0.9)
    schedule = optim.OneCycleLR(optimizer, [0.5], 5, anneal_strategy="linear", base_momentum=[0.8], max_momentum=0.9)
    assert optimizer.param_groups[0]["max_lr"] == 0.5 and optimizer.param_groups[0]["momentum"] == 0.9
    saved = copy.deepcopy((optimizer.state_dict(), schedule.state_dict()))
    expected = [0.02, 0.4285717, 0.2857151, 0.1428586, 2e-06, -0.1428546]
    found = trace(optimizer, [schedule], 5)
    again = sgd(momentum=0.5)
    resumed = optim.OneCycleLR(again, 0.25, 5, anneal_strategy="linear")
    again.load_state_dict(saved[0]), resumed.load_state_dict(saved[1])
    assert trace(again, [resumed], 5) == found == pytest.approx(expected, abs=1e-6)
    assert again.param_groups == [again.param_groups[0] | {"momentum": optimizer.param_groups[0]["momentum"]}]


def test_a_step_to_a_number_and_a_last_epoch():
    optimizer = sgd()
    schedule = optim.StepLR(optimizer, 2, 0.5)
    schedule.step(5)
    assert schedule.get_last_lr() == [0.25]
    later = optim.StepLR(optimizer, 2, 0.5, last_epoch=5)  # the rate is reduced in step 6
    assert (later.last_epoch, later.get_last_lr()) == (6, [0.125])
    with pytest.raises(InvalidArgumentError, match="group 0 has no initial_lr for last_epoch=5"):
        optim.StepLR(sgd(), 2, last_epoch=5)
    zero = sgd()
    assert trace(zero, [optim.LinearLR(zero, 0.0, 1.0, 2)], 3) == [0.0, 0.5, 1.0, 1.0]
    assert np.isfinite(trace(zero, [optim.CosineAnnealingLR(zero, 1)], 9)).all()
