"""`python -m grilly demo-train`: what it prints and draws, and the model of pairs beside which it stands."""

import math
import re

import pytest

from grilly.__main__ import main
from grilly.train import demo
from train.test_training import TEXT


def test_pairs_are_counted_with_one_more_each():
    text, held_out = b"abracadabra", b"rabab!"
    total = 0.0
    for first, second in zip(held_out, held_out[1:]):
        pairs = list(zip(text, text[1:]))
        known = sum(pair[0] == first for pair in pairs)
        total -= math.log((pairs.count((first, second)) + 1) / (known + 256))
    assert demo.bigram_loss(text, held_out) == pytest.approx(total / 5, rel=1e-12)


def test_it_trains_and_tells_what_it_did(tmp_path, capsys):
    (tmp_path / "text").write_bytes(TEXT * 4)
    out = tmp_path / "run"
    arguments = ["demo-train", "--text", str(tmp_path / "text"), "--out", str(out), "--device", "cpu", "--steps", "2"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "2,400 bytes, of which the last 240 are held out" in printed
    assert "the settings for a CPU" in printed and "batch_size 4, steps 2" in printed
    loss, pairs = re.search(r"(\d\.\d+) nats per byte.*\n +(\d\.\d+) of a model of pairs", printed).groups()
    assert 5 < float(loss) < 6 and float(pairs) == pytest.approx(
        demo.bigram_loss((TEXT * 4)[:2160], (TEXT * 4)[2160:]), abs=1e-3
    )
    assert "goes on:" in printed and (out / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert main(arguments) == 1
    assert "has a checkpoint of step 2" in capsys.readouterr().err


@pytest.mark.vulkan
def test_settings_are_those_of_the_kind(vulkan, monkeypatch):
    name = demo._core.engine(vulkan).device
    for kind, expected in (("discrete", "gpu"), ("integrated", "cpu"), ("software", "cpu")):
        monkeypatch.setattr(demo, "devices", lambda kind=kind: [{"name": name, "type": kind}])
        assert demo.device_kind(vulkan) == expected
    assert set(demo.SETTINGS) == {"cpu", "gpu"} and demo.device_kind("cpu") == "cpu"
