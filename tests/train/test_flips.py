"""Files of a run in which a bit is another: refused with the file's name, or without effect."""

import json
import random
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from conftest import LONG
from fuzz import damage

from grilly.errors import CheckpointError
from grilly.train import Trainer, read_metrics
from train.test_training import BYTES, earlier

TEXT = "The café serves naïve crêpes, 12 of them, then 345.\n" * 12
#: Bits of each file. In make test-long all of them, and this many of the tensors, in parts for as many processes.
BITS = 120
OF_TENSORS = 20_000
PARTS = 16 if LONG else 1


def chosen(name, count):
    """Bits of a file of `count` bits that are flipped, one after the other."""
    if LONG and not name.endswith(".safetensors"):
        return range(count)
    return random.Random(44).sample(range(count), OF_TENSORS if LONG else BITS)


def state(folder):
    """What a run that is resumed goes on with."""
    resumed = Trainer.resume(TEXT, folder, device="cpu")
    return resumed.steps_done, resumed.config, resumed._core.settings(), resumed.hashes(), read_metrics(folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flipped") / "run"
    config = replace(BYTES, vocab_size=270, d_model=4, ffn_dim=8)
    list(Trainer(config, TEXT, folder, device="cpu", tokenizer="bpe", batch_size=4, steps=3, max_norm=1.0).run())
    return folder


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", ["step-00000003.json", "tokenizer.json", "metrics.jsonl", "step-00000003.safetensors"])
def test_a_flipped_bit_is_refused_or_without_effect(run, name, part):
    path, expected = run / name, state(run)
    whole = path.read_bytes()
    bits = chosen(name, 8 * len(whole))[part::PARTS]
    refused = 0
    try:
        for bit in bits:
            changed = bytearray(whole)
            changed[bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            try:
                assert state(run) == expected, f"bit {bit}"
            except CheckpointError as error:
                refused += 1
                assert str(path) in str(error), (bit, str(error))
            if name == "metrics.jsonl":
                with pytest.raises(CheckpointError, match="metrics.jsonl"):
                    read_metrics(run)
    finally:
        path.write_bytes(whole)
    assert refused > 0.9 * len(bits)
    assert state(run) == expected


@pytest.mark.parametrize("change, problem", [
    ({"shape": [2, 2]}, "step-00000003.json: is no checkpoint: the checkpoint has no final_norm.weight of shape .4."),
    ({"dtype": "I32"}, "step-00000003.safetensors: is damaged: final_norm.weight is I32, expected F32"),
])  # fmt: skip
def test_another_shape_or_type_in_the_header_is_refused(run, change, problem):
    """The SHA-256 of a tensor is that of its bytes."""
    path = run / "step-00000003.safetensors"
    whole = path.read_bytes()
    header, body = damage.parts(whole)
    header["final_norm.weight"] |= change
    try:
        path.write_bytes(damage.joined(header, body))
        for call in (Trainer.load, partial(Trainer.resume, TEXT)):
            with pytest.raises(CheckpointError, match=problem):
                call(run, device="cpu")
    finally:
        path.write_bytes(whole)


def test_checkpoints_without_hashes_resume(tmp_path):
    config = replace(BYTES, vocab_size=256)

    def trained(folder, **options):
        return Trainer(config, TEXT, folder, device="cpu", batch_size=4, **options)

    list(trained(tmp_path / "run", steps=4, checkpoint_steps=2).run())
    for step in (2, 4):
        earlier(tmp_path / "run" / f"step-0000000{step}.json")
    assert len(read_metrics(tmp_path / "run")) == 4
    (tmp_path / "run" / "step-00000004.json").unlink()
    resumed = Trainer.resume(TEXT, tmp_path / "run", device="cpu", steps=5)
    assert [step.step for step in resumed.run()] == [3, 4, 5]
    assert [line["step"] for line in read_metrics(tmp_path / "run")] == [1, 2, 3, 4, 5]
    assert json.loads((tmp_path / "run" / "step-00000005.json").read_text())["format"] == 2
    straight = trained(tmp_path / "straight", steps=5)
    list(straight.run())
    assert straight.hashes() == resumed.hashes()


def test_a_loss_that_is_not_a_number_is_told(tmp_path):
    config = replace(BYTES, vocab_size=256)
    trainer = Trainer(config, TEXT, tmp_path, device="cpu", batch_size=4, steps=1, learning_rate=1e37)
    (step,) = trainer.run()
    assert np.isnan(step.held_out_loss) and np.isnan(trainer.held_out_loss())

    def refuse(constant):
        raise AssertionError(constant)

    (line,) = [
        json.loads(line, parse_constant=refuse) for line in (tmp_path / "metrics.jsonl").read_text().split("\n")[:-1]
    ]
    assert line["held_out_loss"] == "NaN"
    (line,) = read_metrics(tmp_path)
    assert np.isnan(line["held_out_loss"]) and isinstance(line["loss"], float)
