"""Steps of each optimiser against torch's formulas in float64, and their state in checkpoints."""

import json

import numpy as np
import pytest

from grilly.errors import CheckpointError
from grilly.train import Trainer
from train.reference import Adam, Reference, Sgd, parameters
from train.test_training import CONFIG, TEXT, earlier, trained, windows

ADAM = {"betas": (0.8, 0.99), "eps": 1e-6}
OPTIMIZERS = {
    "adam": (3e-3, {}, {"apart": False}, Adam),
    "adamw": (3e-3, ADAM, ADAM, Adam),
    "sgd": (0.1, {"momentum": 0.8}, {"momentum": 0.8}, Sgd),
    "sgd without momentum": (0.1, {"momentum": 0.0}, {"momentum": 0.0}, Sgd),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_torchs_formulas(device, name):
    rate, options, own, reference = OPTIMIZERS[name]
    common = {"batch_size": 3, "learning_rate": rate, "max_norm": 1.7, "weight_decay": 0.1}
    trainer = Trainer(CONFIG, device=device, optimizer=name.split()[0], **common, **options)
    p = parameters(trainer.tensors())
    rule, norms = reference(p, rate, decay=0.1, max_norm=1.7, **own), []
    for number in range(10):
        expected = Reference(p, windows(number % 3), CONFIG.num_heads)
        norms.append(rule.step(expected.gradients()))
        step = trainer.step(windows(number % 3))
        # As in test_training.py.
        assert abs(step.loss - expected.loss) <= 2e-5, number
        assert abs(step.norm - norms[-1]) <= 2e-5 * norms[-1], number
    # Both sides of the largest norm were seen.
    assert min(norms) < 1.7 < max(norms)
    assert step.loss < 4.0


def stored(folder) -> list[str]:
    return sorted({name[:2] if name[1] == "." else "" for name in Trainer.load(folder, device="cpu").tensors()})


def test_gradient_descent_repeats_and_is_resumed(device, tmp_path):
    options = {"device": device, "optimizer": "sgd", "momentum": 0.8, "learning_rate": 0.1, "weight_decay": 0.01}
    straight = trained(tmp_path / "straight", **options)
    losses = [step.loss for step in straight.run()]
    for step in trained(tmp_path / "stopped", **options).run():
        if step.step == 5:
            break
    resumed = Trainer.resume(TEXT, tmp_path / "stopped", device=device)
    assert resumed.options["optimizer"] == "sgd" and resumed.options["momentum"] == 0.8 and resumed.steps_done == 3
    assert [step.loss for step in resumed.run()] == losses[3:]
    assert resumed.hashes() == straight.hashes()
    # The sums of the gradients alone, not zeros of other optimisers.
    assert stored(tmp_path / "straight") == ["", "m."]
    moments = [x for name, x in straight.tensors().items() if name.startswith("m.")]
    assert all(np.abs(moment).max() > 0 for moment in moments)
    assert trained(tmp_path / "other", **{**options, "momentum": 0.7}).hashes() != straight.hashes()


@pytest.mark.parametrize(
    "written, read, problem",
    [
        ("adamw", "sgd", r"the checkpoint has v\.\S+, which neither its model nor its optimizer has"),
        ("sgd", "adam", r"the checkpoint has no v\.embedding\.weight of shape \[128, 16\]"),
    ],
)
def test_a_checkpoint_of_another_optimiser_is_refused(tmp_path, written, read, problem):
    trained(tmp_path, optimizer=written, steps=1).save()
    (path,) = tmp_path.glob("step-*.json")
    earlier(path, options={**json.loads(path.read_text())["options"], "optimizer": read})
    with pytest.raises(CheckpointError, match=problem):
        Trainer.resume(TEXT, tmp_path, device="cpu")


def test_checkpoints_without_an_optimiser_are_adamws(tmp_path):
    first = trained(tmp_path, steps=1)
    list(first.run())
    (path,) = tmp_path.glob("step-*.json")
    options = json.loads(path.read_text())["options"]
    del options["optimizer"], options["momentum"]
    earlier(path, options=options)
    loaded = Trainer.load(tmp_path, device="cpu")
    assert loaded.options["optimizer"] == "adamw" and loaded.hashes() == first.hashes()
