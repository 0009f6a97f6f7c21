"""Tokens that are learned from the text of a run."""

import json
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from grilly.__main__ import main
from grilly.errors import CheckpointError, IndexOutOfRangeError, InvalidArgumentError
from grilly.train import Trainer, TransformerConfig
from train.reference import Reference, parameters

CONFIG = TransformerConfig(vocab_size=300, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
LINES = [f"The {n}th café serves crêpes to {n * n % 17} guests, and naïve questions — {n}.\n" for n in range(120)]
TEXT = "".join(LINES)


def trained(folder, text=TEXT, **options) -> Trainer:
    options = {"tokenizer": "bpe", "batch_size": 4, "steps": 4, "checkpoint_steps": 2, "device": "cpu", **options}
    return Trainer(CONFIG, text, folder, **options)


def test_a_run_keeps_its_tokens(tmp_path):
    trainer = trained(tmp_path / "run")
    steps = list(trainer.run())
    tokens = trainer.encode(TEXT)
    assert trainer.decode(tokens) == TEXT.encode() and len(tokens) < len(TEXT.encode()) / 2
    assert max(tokens) < 300
    resumed = Trainer.resume(TEXT, tmp_path / "run", steps=6, device="cpu")
    assert resumed.encode(TEXT) == tokens and [step.step for step in resumed.run()] == [5, 6]
    straight = trained(tmp_path / "straight", steps=6)
    assert [step.loss for step in straight.run()][:4] == [step.loss for step in steps]
    assert straight.hashes() == resumed.hashes()
    loaded = Trainer.load(tmp_path / "run", device="cpu")
    found = loaded.generate("The café", 5, seed=1)
    assert found == loaded.decode(loaded.generate(loaded.encode("The café"), 5, seed=1))
    loaded.save(tmp_path / "copy")
    assert Trainer.load(tmp_path / "copy", device="cpu").encode(TEXT) == tokens


def test_losses_are_also_per_byte(tmp_path):
    trainer = trained(tmp_path)
    step = list(trainer.run())[-1]
    lengths = np.array([len(trainer.decode([token])) for token in range(300)])
    # The text is divided between characters, and its parts are tokenized one by one.
    text = TEXT.encode()
    split = len(text) - len(text) // 10
    while text[split] & 0xC0 == 0x80:
        split -= 1
    held = trainer.encode(text[split:])
    windows = [held[8 * i : 8 * i + 9] for i in range((len(held) - 1) // 8)]
    expected = Reference(parameters(trainer.tensors()), np.array(windows), 2).loss
    assert abs(step.held_out_loss - expected) < 1e-5
    targets = np.array(windows)[:, 1:]
    per_byte = expected * targets.size / lengths[targets].sum()
    assert abs(step.held_out_loss_per_byte - per_byte) < 1e-5
    assert step.loss_per_byte < step.loss
    line = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])
    assert line["held_out_loss_per_byte"] == step.held_out_loss_per_byte
    plain = Trainer(replace(CONFIG, vocab_size=256), TEXT, tmp_path / "plain", device="cpu", batch_size=4, steps=1)
    assert next(plain.run()).loss_per_byte is None


def test_tokens_are_learned_from_the_training_part_alone(tmp_path):
    text = TEXT.encode()
    split = len(text) - len(text) // 10
    found = []
    for name, held in (("one", text[split:]), ("other", b"zqzq" * (len(text[split:]) // 4 + 1))):
        list(trained(tmp_path / name, text[:split] + held[: len(text) - split], steps=1).run())
        found.append((tmp_path / name / "tokenizer.json").read_bytes())
    assert found[0] == found[1]


def test_other_processes_learn_the_same(tmp_path):
    """The library hashes with other numbers in every process."""
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]);"
        "from train.test_vocabulary import trained; list(trained(sys.argv[2], steps=1).run())"
    )
    found = set()
    for number in range(3):
        folder = tmp_path / str(number)
        subprocess.run([sys.executable, "-c", code, Path(__file__).parent.parent, folder], check=True)
        found.add(sha256((folder / "tokenizer.json").read_bytes()).hexdigest())
    assert len(found) == 1


def test_the_command(tmp_path, capsys):
    (tmp_path / "text").write_text(TEXT * 3, encoding="utf-8")
    given = ["train", "--data", str(tmp_path / "text"), "--out", str(tmp_path / "run"), "--device", "cpu"]
    options = ["--tokenizer", "bpe", "--vocab-size", "300", "--batch-size", "2", "--steps", "1"]
    options += ["--dropout", "0.1", "--positions", "rotary", "--bitlinear"]
    assert main([*given, *options]) == 0
    assert "per byte" in capsys.readouterr().out
    config = Trainer.load(tmp_path / "run", device="cpu").config
    changed = {"dropout": 0.1, "positions": "rotary", "bitlinear": True}
    assert config == replace(TransformerConfig.tiny(), vocab_size=300, **changed)
    assert main([*given, "--resume", "--vocab-size", "400"]) == 1
    assert "--resume takes the settings" in capsys.readouterr().err
    assert main([*given, "--resume", "--steps", "2"]) == 0


def test_what_does_not_fit_is_named(tmp_path):
    with pytest.raises(InvalidArgumentError, match="vocab_size is 100, expected at least 256"):
        Trainer(replace(CONFIG, vocab_size=100), TEXT, tmp_path / "few", device="cpu", tokenizer="bpe")
    with pytest.raises(InvalidArgumentError, match="not UTF-8 at byte 3"):
        trained(tmp_path / "bytes", b"abc\xff" * 500)
    with pytest.raises(InvalidArgumentError, match="learned from a text, and there is none"):
        Trainer(CONFIG, device="cpu", tokenizer="bpe")
    with pytest.raises(InvalidArgumentError, match="unknown variant `words`"):
        trained(tmp_path / "kind", tokenizer="words")
    trainer = trained(tmp_path / "run", steps=1)
    list(trainer.run())
    with pytest.raises(IndexOutOfRangeError, match="token 300 is outside the vocabulary of 300"):
        trainer.decode([300])
    with pytest.raises(InvalidArgumentError, match="not UTF-8"):
        trainer.encode(b"\xff")
    tokenizer = tmp_path / "run" / "tokenizer.json"
    whole = tokenizer.read_text()
    tokenizer.write_text(whole[:-9])
    with pytest.raises(CheckpointError, match=r"tokenizer.json: is damaged"):
        Trainer.load(tmp_path / "run", device="cpu")
    tokenizer.unlink()
    with pytest.raises(CheckpointError, match=r"tokenizer.json: cannot be read"):
        Trainer.resume(TEXT, tmp_path / "run", device="cpu")
