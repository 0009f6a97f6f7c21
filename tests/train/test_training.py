"""Training against the same model in float64, and its bits against themselves."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import grilly
from grilly import ShaderCompiler, ShaderCompilerConfig
from grilly.backend import shader_registry
from grilly.errors import (
    CheckpointError,
    GrillyError,
    IndexOutOfRangeError,
    InvalidArgumentError,
    InvalidTypeError,
    NotFiniteError,
)
from grilly.train import Trainer, TransformerConfig
from train.reference import Adam, Masks, Reference, Rounded, parameters

CONFIG = TransformerConfig(vocab_size=61, d_model=32, num_layers=2, num_heads=2, ffn_dim=48, max_seq_len=12)
BYTES = TransformerConfig(vocab_size=128, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
TEXT = bytes((7 * i * i + 3 * i) % 128 for i in range(600))


def windows(step: int, rows: int = 3, length: int = 12) -> np.ndarray:
    # A power law, so that some tokens occur often and most not at all.
    return (61 * np.random.default_rng(step).random((rows, length + 1)) ** 3).astype(np.int64)


@pytest.mark.parametrize("positions, masks", [("learned", Masks(0.0, 0, 0)), ("rotary", Masks(0.1, 3, 5))])
def test_the_reference_has_its_own_gradients(positions, masks):
    config = replace(CONFIG, positions=positions)
    numbers = np.random.default_rng(0)
    p = {
        name: x + 0.3 * numbers.normal(size=x.shape)
        for name, x in parameters(Trainer(config, device="cpu").tensors()).items()
    }
    gradients = Reference(p, windows(0), CONFIG.num_heads, masks).gradients()
    for _ in range(64):
        direction = {name: numbers.normal(size=x.shape) for name, x in p.items()}
        expected = sum(float((gradients[name] * direction[name]).sum()) for name in p)

        def loss(step, direction=direction):
            return Reference({name: x + step * direction[name] for name, x in p.items()}, windows(0), 2, masks).loss

        found = (loss(1e-5) - loss(-1e-5)) / 2e-5
        # The difference's own error: its third derivative times 1e-10 / 6, and rounding of the losses over 2e-5.
        assert abs(found - expected) <= 1e-5 * max(abs(expected), 1), (found, expected)


CHANGES = {
    "plain": {},
    "tied": {"tied_output": True},
    "dropout": {"dropout": 0.1},
    "rotary": {"positions": "rotary"},
    "rotary-dropout": {"positions": "rotary", "dropout": 0.1},
}


@pytest.mark.parametrize("changed", CHANGES.values(), ids=CHANGES.keys())
def test_gradients_are_those_of_float64(device, changed):
    config = replace(CONFIG, **changed)
    # A mean that forgets everything is the gradient itself.
    trainer = Trainer(config, device=device, batch_size=3, betas=(0.0, 0.999))
    before = parameters(trainer.tensors())
    step = trainer.step(windows(0))
    reference = Reference(before, windows(0), config.num_heads, Masks(config.dropout, 0, 0))
    assert abs(step.loss - reference.loss) <= 2e-6 * reference.loss
    expected, found = reference.gradients(), trainer.tensors()
    for name, gradient in expected.items():
        error = np.linalg.norm(found[f"m.{name}"] - gradient)
        assert error <= 1e-5 * np.linalg.norm(gradient) + 1e-7, (name, error, np.linalg.norm(gradient))
    norm = np.sqrt(sum((g**2).sum() for g in expected.values()))
    assert abs(step.norm - norm) <= 1e-5 * norm


def test_gradients_of_ternary_layers_go_straight_through(device):
    config = replace(CONFIG, bitlinear=True)
    trainer = Trainer(config, device=device, batch_size=1, betas=(0.0, 0.999))
    p = parameters(trainer.tensors())

    def reference(seed):
        return Reference(p, windows(seed, rows=1, length=5), config.num_heads, rounded=Rounded())

    # Windows of which nothing is near a tie, relative to the largest, so that float32 rounds to the same integers.
    seed = next(seed for seed in range(99) if reference(seed).rounded.margin > 2e-6)
    expected = reference(seed)
    step = trainer.step(windows(seed, rows=1, length=5))
    assert abs(step.loss - expected.loss) <= 2e-6 * expected.loss
    plain = Reference(p, windows(seed, rows=1, length=5), config.num_heads)
    assert abs(plain.loss - expected.loss) > 1e-5 * expected.loss, "the reference of floats would pass, too"
    found, exact = trainer.tensors(), plain.gradients()
    for name, gradient in expected.gradients().items():
        error = np.linalg.norm(found[f"m.{name}"] - gradient)
        assert error <= 1e-5 * np.linalg.norm(gradient) + 1e-7, (name, error, np.linalg.norm(gradient))
        assert np.linalg.norm(exact[name] - gradient) > 1e-3 * np.linalg.norm(gradient) or name.endswith("key.bias")


def test_gradients_of_the_whole_smallest_model_are_those_of_float64(device):
    # Here, since processes of their own import this file, too.
    from conftest import LONG, is_software

    if is_software(device) and not LONG:
        pytest.skip("its sizes have pipelines of their own, which a software driver compiles in every mode")
    config = TransformerConfig.tiny()
    trainer = Trainer(config, device=device, batch_size=1, betas=(0.0, 0.999))
    before = parameters(trainer.tensors())
    tokens = (256 * np.random.default_rng(0).random((1, 129)) ** 3).astype(np.int64)
    step = trainer.step(tokens)
    reference = Reference(before, tokens, config.num_heads)
    assert abs(step.loss - reference.loss) <= 2e-6 * reference.loss
    found = trainer.tensors()
    for name, gradient in reference.gradients().items():
        error = np.linalg.norm(found[f"m.{name}"] - gradient)
        assert error <= 1e-5 * np.linalg.norm(gradient) + 1e-7, (name, error, np.linalg.norm(gradient))


@pytest.mark.parametrize("accumulate, shards, dropout", [(1, 1, 0.0), (2, 1, 0.0), (2, 1, 0.1), (4, 2, 0.1)])
def test_steps_are_those_of_float64(device, accumulate, shards, dropout):
    schedule = {"kind": "linear", "warmup": 4}
    options = {"batch_size": 4 // accumulate, "accumulate": accumulate, "learning_rate": 3e-3, "max_norm": 1.7}
    config = replace(CONFIG, dropout=dropout)
    options |= {"shards": shards, "weight_decay": 0.1, "seed": 2**40 + 3}
    trainer = Trainer(config, device=device, schedule=schedule, **options)
    p = parameters(trainer.tensors())
    adam = Adam(p, 3e-3, decay=0.1, max_norm=1.7)
    norms = []
    for number in range(20):
        tokens = windows(number % 3, rows=4)
        masks = [Masks(dropout, 2**40 + 3, number * accumulate + part) for part in range(accumulate)]
        parts = [Reference(p, own, 2, mask) for own, mask in zip(np.split(tokens, accumulate), masks, strict=True)]
        loss = np.mean([part.loss for part in parts])
        each = [part.gradients() for part in parts]
        factor = min(1.0, (number + 1) / 4)
        norm = adam.step({name: sum(own[name] for own in each) / accumulate for name in p}, factor)
        step = trainer.step(tokens)
        norms.append(norm)
        assert (step.step, step.rate) == (number + 1, 3e-3 * factor)
        # Adam divides a gradient by its own size, so its relative error, up to 1e-5 by the test above, is one of the
        # update; the updates change losses by less than 2, and norms by less than half.
        assert abs(step.loss - loss) <= 2e-5, number
        assert abs(step.norm - norm) <= 2e-5 * norm, number
    # Both sides of the largest norm were seen.
    assert min(norms) < 1.7 < max(norms)
    assert loss < (3.2 if dropout else 3.0) and trainer.steps_done == 20
    # Without dropout.
    assert abs(trainer.evaluate(windows(0)) - Reference(p, windows(0), CONFIG.num_heads).loss) <= 2e-5


def test_a_step_moves_its_tokens_and_a_few_numbers_alone(vulkan):
    trainer = Trainer(CONFIG, device=vulkan, batch_size=3)
    trainer.step(windows(0))
    before = grilly.stats()
    for number in range(1, 4):
        trainer.step(windows(number))
    after = grilly.stats()
    # Tokens and targets; three rates, the share and the largest norm.
    assert after["bytes_up"] - before["bytes_up"] == 3 * 4 * (2 * 3 * 12 + 3 + 1 + 1)
    assert after["bytes_down"] - before["bytes_down"] == 3 * 4 * 2
    # Loss and norm are read at once.
    assert after["submits"] - before["submits"] == after["waits"] - before["waits"] == 3


def trained(folder, device="cpu", dropout=0.0, steps=7, **options) -> Trainer:
    options = {"batch_size": 4, "learning_rate": 0.01, "checkpoint_steps": 3, "seed": 5, **options}
    return Trainer(replace(BYTES, dropout=float(dropout)), TEXT, folder, device=device, steps=steps, **options)


def earlier(path: Path, **changed) -> None:
    """Writes a checkpoint's record as builds did that gave it no SHA-256, with other values."""
    record = json.loads(path.read_text())
    record.pop("metrics", None)
    del record["record_sha256"]
    path.write_text(json.dumps({**record, "format": 1, **changed}))


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_every_bit_repeats(device, dropout, tmp_path):
    first = trained(tmp_path / "first", device, dropout)
    steps = list(first.run())
    hashes = first.hashes()
    assert [step.checkpoint for step in steps] == [False, False, True, False, False, True, True]
    # Another run, one that stopped and was resumed, and one in another process.
    again = trained(tmp_path / "again", device, dropout)
    assert [step._replace(seconds=None) for step in again.run()] == [step._replace(seconds=None) for step in steps]
    assert again.hashes() == hashes
    stopped = trained(tmp_path / "stopped", device, dropout)
    for step in stopped.run():
        if step.step == 5:
            break
    del stopped
    resumed = Trainer.resume(TEXT, tmp_path / "stopped", device=device)
    assert resumed.steps_done == 3
    assert [step.loss for step in resumed.run()] == [step.loss for step in steps[3:]]
    assert resumed.hashes() == hashes
    lines = [json.loads(line) for line in (tmp_path / "stopped" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 8)) and lines[3]["loss"] == steps[3].loss
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); from train.test_training import trained;"
        "trainer = trained(*sys.argv[2:]); list(trainer.run()); print(json.dumps(trainer.hashes()))"
    )
    command = [sys.executable, "-c", code, Path(__file__).parent.parent, tmp_path / "other", device, str(dropout)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"GRILLY_DEBUG": "0"})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == hashes
    other = trained(tmp_path / "seed", device, dropout, seed=6)
    assert other.hashes() != Trainer.load(tmp_path / "first", device=device).hashes() == hashes


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_checkpointing_changes_no_bit(device, dropout):
    def found(**options) -> tuple:
        config = replace(CONFIG, num_layers=3, dropout=dropout)
        trainer = Trainer(config, device=device, batch_size=3, max_norm=1.0, **options)
        return [trainer.step(windows(number)) for number in range(4)], trainer.hashes()

    assert found(gradient_checkpointing=True) == found()


@pytest.mark.parametrize("dtype, units", [("bfloat16", 2.0**-9), ("float16", 2.0**-12)])
def test_16_bits_are_near(device, dtype, units):
    config = replace(BYTES, num_layers=2)
    tokens = windows(0, rows=4, length=8)
    once = Trainer(config, device=device, batch_size=4, betas=(0.0, 0.999), dtype=dtype)
    reference = Reference(parameters(once.tensors()), tokens, config.num_heads)
    step, expected = once.step(tokens), reference.gradients()
    # Each of about ten roundings in a row is at most one unit.
    assert abs(step.loss - reference.loss) <= 10 * units * reference.loss
    for name, gradient in expected.items():
        error = np.linalg.norm(once.tensors()[f"m.{name}"] - gradient)
        assert error <= 20 * units * np.linalg.norm(gradient) + units * step.norm, name


def repeats(tmp_path, device, dtype="float32", **changed) -> None:
    """A run has the same bits again, stopped and resumed, and with less memory."""
    config = replace(BYTES, num_layers=2, **changed)

    def run(folder, **options) -> Trainer:
        options = {"batch_size": 4, "learning_rate": 0.01, "checkpoint_steps": 3, "dtype": dtype, **options}
        return Trainer(config, TEXT, tmp_path / folder, device=device, steps=5, **options)

    first = run("first")
    losses = [step.loss for step in first.run()]
    assert [step.loss for step in run("again").run()] == losses
    for step in run("stopped").run():
        if step.step == 4:
            break
    resumed = Trainer.resume(TEXT, tmp_path / "stopped", device=device)
    assert resumed.config == config and [step.loss for step in resumed.run()] == losses[3:]
    checkpointed = run("checkpointed", gradient_checkpointing=True)
    assert [step.loss for step in checkpointed.run()] == losses
    assert first.hashes() == resumed.hashes() == checkpointed.hashes()


@pytest.mark.parametrize("dtype, dropout", [("bfloat16", 0.0), ("bfloat16", 0.1), ("float16", 0.0)])
def test_16_bits_repeat(device, dtype, dropout, tmp_path):
    repeats(tmp_path, device, dtype, dropout=dropout)


def test_ternary_layers_repeat(device, tmp_path):
    repeats(tmp_path, device, bitlinear=True, dropout=0.1)


def test_ternary_layers_repeat_in_16_bits(device, tmp_path):
    repeats(tmp_path, device, "bfloat16", bitlinear=True)


def test_ternary_layers_learn_and_generate(device):
    trainer = Trainer(replace(CONFIG, bitlinear=True), device=device, batch_size=3, learning_rate=0.01)
    losses = [trainer.step(windows(0)).loss for _ in range(60)]
    assert losses[-1] < 0.5 * losses[0]
    prompt = windows(0)[0, :5].tolist()
    # Caches change no bit of a row that is rounded by itself.
    one_by_one = list(prompt)
    for _ in range(7):
        one_by_one += trainer.generate(one_by_one, 1, temperature=0)
    assert one_by_one[5:] == trainer.generate(prompt, 7, temperature=0) == windows(0)[0, 5:12].tolist()


def test_a_shader_of_yours_takes_float32_in_16_bits(vulkan, tmp_path):
    """grilly's own text, whose gradient of a norm is zero."""
    source = (Path(__file__).parents[2] / "shaders" / "norm" / "layer-norm-backward.glsl").read_text()
    result = "(h - means.y - (quad - means.x) * slope) * scale"
    assert result in source
    (tmp_path / "zero.glsl").write_text(source.replace(result, "vec4(0.0)"))

    def gradients() -> tuple[float, dict[str, np.ndarray]]:
        once = Trainer(BYTES, device=vulkan, batch_size=4, betas=(0.0, 0.999), dtype="bfloat16")
        return once.step(windows(0, rows=4, length=8)).loss, once.tensors()

    loss, expected = gradients()
    compiler = ShaderCompiler(ShaderCompilerConfig(tmp_path, enable_caching=False))
    shader_registry.register_generic_shader("layer-norm-backward", "zero", compiler=compiler)
    try:
        own_loss, found = gradients()
    finally:
        shader_registry.unregister("layer-norm-backward")
    # Before the last norm nothing has a gradient.
    assert own_loss == loss and not found["m.embedding.weight"].any() and expected["m.embedding.weight"].any()
    assert np.array_equal(found["m.output.weight"], expected["m.output.weight"])


def test_a_step_that_overflows_changes_nothing_and_halves_the_scale(device, tmp_path):
    trainer = Trainer(BYTES, TEXT, tmp_path, device=device, steps=70, batch_size=4, dtype="float16", checkpoint_steps=1)
    next(trainer.run())
    record = json.loads((tmp_path / "step-00000001.json").read_text())
    assert record["loss_scale"] == {"factor": 65536.0, "steady": 1, "skipped": 0}
    # The sum of the squares overflows.
    earlier(tmp_path / "step-00000001.json", loss_scale={**record["loss_scale"], "factor": 2.0**66})
    resumed = Trainer.resume(TEXT, tmp_path, device=device)
    before, skipped = resumed.hashes(), 0
    for step in resumed.run():
        scale = json.loads((tmp_path / f"step-{step.step:08}.json").read_text())["loss_scale"]
        if np.isfinite(step.norm):
            assert resumed.hashes() != before
            break
        skipped += 1
        assert resumed.hashes() == before
        # The shortest digits that are this float32.
        assert np.float32(scale.pop("factor")) == 2.0 ** (66 - skipped)
        assert scale == {"steady": 0, "skipped": skipped}
    assert 0 < skipped < 60


def test_more_steps_and_fewer_checkpoints(tmp_path):
    list(trained(tmp_path, steps=4, checkpoint_steps=1, keep=2).run())
    assert sorted(path.name for path in tmp_path.glob("*.json")) == ["step-00000003.json", "step-00000004.json"]
    longer = Trainer.resume(TEXT, tmp_path, steps=6, device="cpu")
    assert [step.step for step in longer.run()] == [5, 6] and longer.steps == 6
    straight = trained(tmp_path / "straight", steps=6, checkpoint_steps=1)
    list(straight.run())
    assert straight.hashes() == longer.hashes()


def test_the_part_held_out_is_evaluated(tmp_path):
    trainer = trained(tmp_path, steps=4, evaluate_steps=2)
    steps = list(trainer.run())
    assert [step.held_out_loss is not None for step in steps] == [False, True, False, True]
    held = np.frombuffer(TEXT[540:], np.uint8)
    rows = [held[8 * i : 8 * i + 9].tolist() for i in range(7)]
    p = parameters(trainer.tensors())
    expected = np.mean([Reference(p, np.array([row]), 2).loss for row in rows])
    assert abs(steps[-1].held_out_loss - expected) <= 1e-5 and trainer.held_out_loss() == steps[-1].held_out_loss
    assert trained(tmp_path / "none", held_out=0.0).held_out_loss() is None


@pytest.mark.parametrize("changed", [{}, CHANGES["rotary-dropout"]], ids=["learned", "rotary"])
def test_what_is_generated(device, changed):
    trainer = Trainer(replace(CONFIG, **changed), device=device, batch_size=3, learning_rate=0.01)
    for _ in range(30):
        trainer.step(windows(0))
    p = parameters(trainer.tensors())
    prompt = windows(0)[0, :5].tolist()
    found = trainer.generate(prompt, 12, temperature=0)
    tokens = list(prompt)
    for token in found:
        seen = np.array([tokens[-12:] + [0]])
        probabilities = Reference(p, seen, 2).probabilities[0, -1]
        # The most probable token but for float32's rounding.
        assert probabilities[token] >= probabilities.max() * (1 - 1e-4)
        tokens.append(token)
    assert found[:8] == windows(0)[0, 5:].tolist(), "it has learned the window by heart"
    # Keys and values in caches change no token, within the longest sequence and beyond it.
    one_by_one = list(prompt)
    for _ in range(12):
        one_by_one += trainer.generate(one_by_one, 1, temperature=0)
    assert one_by_one[5:] == found
    drawn = [trainer.generate(prompt, 12, seed=seed, top_k=20, top_p=0.95, temperature=2.0) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    for arguments, problem in [
        (([], 3), "the prompt is empty"),
        (([1], 3, {"temperature": -1.0}), "temperature is -1"),
        (([1], 3, {"top_k": 0}), "top_k is 0"),
        (([1], 3, {"top_p": 2.0}), "top_p is 2"),
    ]:
        given, options = arguments[:2], dict(*arguments[2:])
        with pytest.raises(InvalidArgumentError, match=problem):
            trainer.generate(*given, **options)
    with pytest.raises(IndexOutOfRangeError):
        trainer.generate([61], 1)


def test_a_loss_that_is_not_a_number_stops(tmp_path):
    trainer = trained(tmp_path, learning_rate=1e30, checkpoint_steps=1)
    with pytest.raises(NotFiniteError, match=r"step 2: the loss is NaN .* that of embedding.weight; resume from"):
        list(trainer.run())
    for call in (trainer.save, trainer.hashes, lambda: next(trainer.run()), lambda: trainer.save(tmp_path / "other")):
        with pytest.raises(NotFiniteError, match="step 2"):
            call()
    assert Trainer.load(tmp_path, device="cpu").steps_done == 1


@pytest.mark.parametrize(
    "error, options, problem",
    [
        (InvalidArgumentError, {"batch_size": 0}, "batch_size is 0, expected at least 1"),
        (InvalidArgumentError, {"batch": 3}, "options: unknown field `batch`"),
        (InvalidArgumentError, {"batch_size": 1000}, "a batch has 1000 windows, expected 1 to 67"),
        (InvalidArgumentError, {"optimizer": "lion"}, "`lion`, expected one of `adam`, `adamw`, `sgd`$"),
        (InvalidArgumentError, {"schedule": {"kind": "sine"}}, "options: unknown variant `sine`"),
        (InvalidArgumentError, {"schedule": {"kind": "cosine", "least": 2}}, "least is 2"),
        (InvalidArgumentError, {"held_out": 0.001}, "held_out|held-out"),
        (InvalidTypeError, {"seed": object()}, "a setting is of type object"),
    ],
)
def test_bad_settings_are_named(tmp_path, error, options, problem):
    with pytest.raises(error, match=problem):
        trained(tmp_path, **options)


def test_bad_texts_and_folders_are_named(tmp_path):
    with pytest.raises(InvalidArgumentError, match="the training part has 6 of 6 tokens, fewer than a window of 8"):
        Trainer(BYTES, TEXT[:6], tmp_path / "short", device="cpu")
    with pytest.raises(IndexOutOfRangeError, match="token 200 at 600 is outside the vocabulary"):
        Trainer(BYTES, TEXT + b"\xc8", tmp_path / "byte", device="cpu")
    with pytest.raises(InvalidArgumentError, match="text and folder belong together"):
        Trainer(BYTES, TEXT)
    with pytest.raises(InvalidTypeError, match="the text is of type int"):
        Trainer(BYTES, 3, tmp_path)
    with pytest.raises(InvalidArgumentError, match="d_model is 250"):
        Trainer(TransformerConfig(256, 250, 1, 4, 64, 8), device="cpu")
    with pytest.raises(InvalidArgumentError, match="depends on the number of steps"):
        Trainer(BYTES, device="cpu", schedule={"kind": "cosine"})
    with pytest.raises(CheckpointError, match="has no checkpoint to resume"):
        Trainer.resume(TEXT, tmp_path / "none", device="cpu")
    with pytest.raises(CheckpointError, match="has no checkpoint"):
        Trainer.load(tmp_path / "none", device="cpu")
    trainer = trained(tmp_path / "run", steps=1)
    list(trainer.run())
    with pytest.raises(CheckpointError, match="has a checkpoint of step 1; resume it"):
        trained(tmp_path / "run")
    with pytest.raises(CheckpointError, match="holds a run on another text"):
        Trainer.resume(TEXT[1:], tmp_path / "run", device="cpu")
    stored = tmp_path / "run" / "step-00000001.safetensors"
    stored.write_bytes(stored.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"step-00000001.safetensors: is damaged.*remove .*step-00000001.json"):
        Trainer.resume(TEXT, tmp_path / "run", device="cpu")
    (tmp_path / "file").write_text("")
    with pytest.raises(GrillyError, match="file"):
        trained(tmp_path / "file" / "inside")


def test_bad_tokens_are_named():
    trainer = Trainer(CONFIG, device="cpu", batch_size=2)
    for tokens, error, problem in [
        ([[1, 2]], InvalidArgumentError, "the batch has 1 windows, expected 2 times 1"),
        ([[1], [2]], InvalidArgumentError, "2 tokens do not divide into windows of 0"),
        (np.ones((2, 20), int), InvalidArgumentError, "a sequence has 19 tokens, expected 1 to max_seq_len, 12"),
        ([[1, 61], [1, 2]], IndexOutOfRangeError, "61"),
        ([[61, 1], [1, 2]], IndexOutOfRangeError, "61"),
        ([[-1, 1], [1, 2]], InvalidArgumentError, "expected integers from 0"),
        ([1, 2], InvalidArgumentError, "expected 2 axes of integers"),
        ([[1.5, 2], [1, 2]], InvalidArgumentError, "expected 2 axes of integers"),
    ]:
        with pytest.raises(error, match=problem):
            trainer.step(tokens)
    assert trainer.steps_done == 0
