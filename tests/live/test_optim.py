"""Optimisers and schedules against torch's, step by step."""

import numpy as np
import pytest
import torch

from grilly import nn, optim

STEPS = 30
OPTIMISERS = {
    "adam": ("Adam", {"lr": 0.05, "betas": (0.8, 0.99), "weight_decay": 0.1}),
    "adamw": ("AdamW", {"lr": 0.05, "weight_decay": 0.1}),
    "amsgrad": ("AdamW", {"lr": 0.05, "amsgrad": True}),
    "sgd": ("SGD", {"lr": 0.05, "weight_decay": 0.1}),
    "momentum": ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.1}),
    "nesterov": ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
}
SCHEDULES = {
    "step": ("StepLR", {"step_size": 7, "gamma": 0.5}),
    "linear": ("LinearLR", {"start_factor": 0.1, "total_iters": 9}),
    "cosine": ("CosineAnnealingLR", {"T_max": 20, "eta_min": 0.01}),
    "one cycle": ("OneCycleLR", {"max_lr": 0.1, "total_steps": STEPS}),
    "one linear cycle": (
        "OneCycleLR",
        {"max_lr": 0.1, "epochs": 3, "steps_per_epoch": 10, "anneal_strategy": "linear"},
    ),
}


@pytest.mark.parametrize("schedule", [None, "warm-up", *SCHEDULES])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_are_torchs(name, schedule):
    numbers = np.random.default_rng(0)
    kind, settings = OPTIMISERS[name]
    first = numbers.standard_normal((5, 7)).astype(np.float32)
    ours, theirs = nn.Parameter(first), torch.nn.Parameter(torch.tensor(first, dtype=torch.float64))
    a, b = getattr(optim, kind)([ours], **settings), getattr(torch.optim, kind)([theirs], **settings)
    rates = []
    if schedule == "warm-up":
        for library, optimiser in ((optim, a), (torch.optim.lr_scheduler, b)):
            parts = [library.LinearLR(optimiser, 0.1, total_iters=5), library.CosineAnnealingLR(optimiser, 25)]
            rates.append(library.SequentialLR(optimiser, parts, [5]))
    elif schedule is not None:
        kind, settings = SCHEDULES[schedule]
        cycles = "Cycle" in kind and name in ("adam", "adamw", "amsgrad", "momentum", "nesterov")
        settings = settings | ({"cycle_momentum": cycles} if "Cycle" in kind else {})
        rates = [getattr(optim, kind)(a, **settings), getattr(torch.optim.lr_scheduler, kind)(b, **settings)]
    for _ in range(STEPS):
        gradient = numbers.standard_normal((5, 7)).astype(np.float32)
        ours.grad, theirs.grad = gradient.copy(), torch.tensor(gradient, dtype=torch.float64)
        a.step(), b.step()
        if rates:
            assert rates[0].get_last_lr() == pytest.approx(rates[1].get_last_lr(), rel=1e-12)
            for each in rates:
                each.step()
    exact = theirs.detach().numpy()
    # Each step rounds a parameter of about 1 and a change of at most the rate a few times.
    assert np.abs(ours - exact).max() <= 8 * STEPS * 2.0**-24 * max(1, np.abs(exact).max())


def test_a_plateau_is_torchs():
    numbers = np.random.default_rng(1)
    for mode in ("min", "max"):
        for threshold_mode in ("rel", "abs"):
            settings = {"mode": mode, "factor": 0.5, "patience": 2, "threshold": 0.1, "threshold_mode": threshold_mode}
            settings |= {"cooldown": 1, "min_lr": 0.01}
            a, b = (
                optim.SGD([nn.Parameter([1.0])], lr=1.0),
                torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0),
            )
            ours = optim.ReduceLROnPlateau(a, **settings)
            theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(b, **settings)
            for measure in numbers.random(40):
                ours.step(measure), theirs.step(measure)
                assert a.param_groups[0]["lr"] == pytest.approx(b.param_groups[0]["lr"])
