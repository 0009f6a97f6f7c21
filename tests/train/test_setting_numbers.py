"""Settings that JSON has no number for: named, or none."""

import numpy as np
import pytest

from grilly.errors import InvalidArgumentError
from grilly.train import Trainer, TransformerConfig

CONFIG = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
TOKENS = [[1, 2, 3, 4], [5, 6, 7, 8]]


@pytest.mark.parametrize("infinity", [float("inf"), np.float32("inf")])
def test_an_infinite_norm_tells_the_norm_alone(infinity):
    free, told = (Trainer(CONFIG, device="cpu", batch_size=2, **options) for options in ({}, {"max_norm": infinity}))
    for _ in range(2):
        assert free.step(TOKENS) == told.step(TOKENS)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), np.float32("nan")])
@pytest.mark.parametrize("name", ["learning_rate", "eps", "weight_decay", "max_norm", "held_out", "betas", "schedule"])
def test_a_number_that_is_none_is_named(name, value):
    if name == "max_norm" and value > 0:
        return
    given = {"betas": (0.9, value), "schedule": {"kind": "cosine", "least": value}}.get(name, value)
    with pytest.raises(InvalidArgumentError, match=rf"Trainer: {name}.* is -?(nan|inf), expected a finite number"):
        Trainer(CONFIG, device="cpu", **{name: given})


def test_a_container_in_itself_is_refused_and_so_are_sampling_numbers():
    schedule = {"kind": "cosine"}
    schedule["more"] = schedule
    with pytest.raises(InvalidArgumentError, match="schedule.* is nested too deeply, or in itself"):
        Trainer(CONFIG, device="cpu", schedule=schedule)
    trainer = Trainer(CONFIG, device="cpu")
    for name in ("temperature", "top_p"):
        with pytest.raises(InvalidArgumentError, match=f"generate: {name} is inf, expected a finite number"):
            trainer.generate("a", 1, **{name: float("inf")})
