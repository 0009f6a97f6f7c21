"""Random programs of optimisers and schedules beside torch, compared after every operation; states of torch."""

import numpy as np
import pytest
import torch
from fuzz import optimizers
from fuzz.optimizer_programs import draw

from grilly import nn, optim


@pytest.mark.parametrize("part", range(8))
def test_programs_end_where_torchs_do(part):
    operations = sum(optimizers.run(draw(seed)) for seed in range(250 * part, 250 * part + 250))
    assert operations > 1000


@pytest.mark.parametrize("kind, settings", [("AdamW", {"amsgrad": True}), ("Adam", {}), ("SGD", {"momentum": 0.9})])
def test_a_run_of_torch_goes_on_here(kind, settings):
    numbers = np.random.default_rng(0)
    theirs = torch.nn.Parameter(torch.tensor(numbers.standard_normal((3, 4)).astype(np.float32)))
    other = getattr(torch.optim, kind)([theirs], lr=0.1, **settings)
    rates = [torch.optim.lr_scheduler.CosineAnnealingLR(other, 5)]
    pairs = [(theirs, other)]

    def train(steps):
        for _ in range(steps):
            gradient = numbers.standard_normal((3, 4)).astype(np.float32)
            for p, optimizer in pairs:
                p.grad = torch.tensor(gradient) if p is theirs else gradient
                optimizer.step()
            for schedule in rates:
                schedule.step()

    train(3)
    ours = nn.Parameter(theirs.detach().numpy())
    pairs.append((ours, getattr(optim, kind)([ours], lr=9.0, **settings)))
    rates.append(optim.CosineAnnealingLR(pairs[1][1], 5))
    pairs[1][1].load_state_dict(other.state_dict())
    rates[1].load_state_dict(rates[0].state_dict())
    train(5)
    assert rates[0].get_last_lr() == rates[1].get_last_lr() and rates[0].last_epoch == rates[1].last_epoch == 8
    assert np.abs(ours - theirs.detach().numpy()).max() < 1e-6
