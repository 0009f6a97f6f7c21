"""`python -m grilly train`, in processes of its own."""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import time

import pytest

from grilly.__main__ import main
from grilly.errors import CheckpointError, UnsupportedError
from grilly.train import Trainer, draw_loss, read_metrics
from train.test_training import BYTES, TEXT

ARGUMENTS = ["--device", "cpu", "--batch-size", "2", "--learning-rate", "0.001"]


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(TEXT * 3)
    return path


def test_it_trains_and_resumes(data, tmp_path, capsys):
    out = tmp_path / "run"
    arguments = ["train", "--config", "tiny", "--data", str(data), "--out", str(out), *ARGUMENTS]
    schedule = ["--schedule", '{"kind": "linear", "warmup": 2}']
    assert main([*arguments, "--steps", "2", *schedule]) == 0
    printed = capsys.readouterr().out
    assert "3,323,392 parameters, steps 0 to 2" in printed
    assert re.search(r"done: step 2, held-out loss \d\.\d{4} nats", printed)
    assert main(arguments) == 1
    assert "has a checkpoint of step 2; resume it" in capsys.readouterr().err
    resume = ["train", "--data", str(data), "--out", str(out), "--device", "cpu", "--resume"]
    assert main([*resume, "--seed", "3"]) == 1
    assert "--resume takes the settings of the checkpoint" in capsys.readouterr().err
    assert main([*resume, "--steps", "3"]) == 0
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["rate"]) for line in lines] == [(1, 0.0005), (2, 0.001), (3, 0.001)]


def test_the_help_names_every_default(capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        main(["train", "--help"])
    assert ended.value.code == 0
    told = " ".join(capsys.readouterr().out.split())
    list(Trainer(BYTES, TEXT, tmp_path, device="cpu", steps=1).run())
    options = json.loads((tmp_path / "step-00000001.json").read_text())["options"]
    counts = ("batch_size", "accumulate", "shards", "epochs", "seed", "checkpoint_epochs", "keep")
    for name in (*counts, "learning_rate", "momentum", "weight_decay", "held_out"):
        option = "--" + name.replace("_", "-")
        [default] = re.findall(rf"{option} [A-Z]+ (?:(?! --).)*default ([\d.e-]+)", told)
        assert float(default) == options[name], option
    for name in ("dtype", "optimizer", "tokenizer"):
        assert f"{options[name]} (default)" in told


def scalars(folder) -> dict[str, list[tuple[int, float]]]:
    """Steps and values by tag, of the file of events: records of a length, its checksum, an event and its checksum."""
    from tensorboardX.proto.event_pb2 import Event

    (path,) = folder.glob("events*")
    content, found = path.read_bytes(), {}
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        event = Event.FromString(content[12 : 12 + length])
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, value.simple_value))
        content = content[16 + length :]
    return found


def test_events_and_the_curve(data, tmp_path, capsys, monkeypatch):
    out = tmp_path / "run"
    arguments = ["train", "--data", str(data), "--out", str(out), *ARGUMENTS]
    assert main([*arguments, "--steps", "2"]) == 0
    resume = ["train", "--data", str(data), "--out", str(out), "--device", "cpu", "--resume"]
    assert main([*resume, "--steps", "3"]) == 0
    lines = read_metrics(out)
    # The resumed run has the events of all steps, each once.
    found = scalars(out / "tensorboard")
    assert [step for step, _ in found["loss/training"]] == [1, 2, 3]
    assert [step for step, _ in found["loss/held_out"]] == [2, 3]
    for tag, name in (("loss/training", "loss"), ("gradient_norm", "norm"), ("learning_rate", "rate")):
        assert [value for _, value in found[tag]] == pytest.approx([line[name] for line in lines], rel=1e-6)
    assert (out / "loss.png").read_bytes().startswith(b"\x89PNG")
    # Without the packages there are neither, and a run still ends well.
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main([*resume, "--steps", "4", "--tensorboard"]) == 1
    assert "TensorBoard events need tensorboardX or tensorboard" in capsys.readouterr().err
    (out / "loss.png").unlink()
    assert main([*resume, "--steps", "4"]) == 0
    assert "loss.png needs matplotlib" in capsys.readouterr().err and not (out / "loss.png").exists()
    assert len(read_metrics(out)) == 4
    with pytest.raises(UnsupportedError, match="matplotlib"):
        draw_loss(out)
    with pytest.raises(CheckpointError, match=r"metrics.jsonl: cannot be read"):
        read_metrics(tmp_path)


def test_a_file_that_is_missing(tmp_path, capsys):
    assert main(["train", "--data", str(tmp_path / "none"), "--out", str(tmp_path / "run")]) == 1
    assert "none" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
def test_ctrl_c_saves_and_stops(data, tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "grilly", "train", "--data", str(data), "--out", str(out), *ARGUMENTS]
    process = subprocess.Popen(
        [*command, "--steps", "1000000"], stderr=subprocess.PIPE, text=True, env=os.environ | {"GRILLY_DEBUG": "0"}
    )
    metrics = out / "metrics.jsonl"
    end = time.monotonic() + 60
    while not (metrics.exists() and metrics.read_text()) and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    stopped = re.search(r"stopped after step (\d+), which has a checkpoint", errors)
    steps = len(metrics.read_text().splitlines())
    assert stopped and int(stopped[1]) == steps == Trainer.load(out, device="cpu").steps_done
