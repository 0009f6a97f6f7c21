"""`python -m grilly bench`: the CPU beside the GPUs, and what it says of those that disagree."""

import json

import pytest

import grilly
from grilly import VulkanSentenceTransformer
from grilly.__main__ import main
from grilly.commands import bench
from grilly.tiny_checkpoints import checkpoint_of_minilm

TYPES = ["float32", "float16", "int8"]


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """Speeds of a software driver, or beside another test process, are not the point."""
    monkeypatch.setattr(bench, "CALLS", 1)


def printed(capsys, *arguments: object) -> tuple[int, str]:
    status = main(["bench", *map(str, arguments)])
    return status, capsys.readouterr().out


def test_every_device_in_every_type(tiny_model, vulkan, capsys):
    status, text = printed(capsys, tiny_model, "--texts", "8", "--json")
    found = json.loads(text)
    gpus = [f"vulkan:{row['position']}" for row in grilly.info()["devices"] if row["position"] is not None]
    assert status == 0 and list(found["devices"]) == ["cpu", *sorted(gpus)] and gpus
    rows = [(row["dtype"], row["device"]) for row in found["rows"]]
    assert rows == [(dtype, device) for dtype in TYPES for device in found["devices"]]
    assert {length: own["texts"] for length, own in found["texts"].items()} == {"short": 8, "long": 2}
    assert found["texts"]["short"]["tokens"] < found["texts"]["long"]["tokens"] == 48  # the model's limit
    by_device = {(row["dtype"], row["device"]): row["texts_per_second"] for row in found["rows"]}
    for row in found["rows"]:
        assert all(speed > 0 for speed in row["texts_per_second"].values())
        if row["device"] == "cpu":
            assert "ratio" not in row and "agrees" not in row
            continue
        assert row["agrees"] and 0 <= row["difference"] < {"float32": 1e-5}.get(row["dtype"], 0.1)
        for length, ratio in row["ratio"].items():
            cpu = by_device[row["dtype"], "cpu"][length]
            assert ratio == pytest.approx(row["texts_per_second"][length] / cpu)
    with VulkanSentenceTransformer(tiny_model, device="auto") as model:
        assert found["auto"] == {"backend": model.backend, "name": model.device_name, "reason": model.device_reason}


def test_as_text(tiny_model, vulkan, capsys):
    status, text = printed(capsys, tiny_model, "--texts", "1")
    lines = text.splitlines()
    assert status == 0 and lines[0].startswith(str(tiny_model))
    rows = [line for line in lines if line.startswith(tuple(TYPES))]
    assert all("/s" in line for line in rows)
    assert all(("the CPU's rows, largest difference" in line) == (" cpu " not in line) for line in rows)
    assert lines[-2].startswith('device="auto" takes ') and lines[-1].startswith("Fastest for short texts: ")


def test_devices_that_disagree_have_no_ratio(tiny_model, vulkan, capsys, monkeypatch):
    monkeypatch.setattr(bench, "AGREE", {"float32": 1.1})  # no rows are so alike
    status, text = printed(capsys, tiny_model, "--texts", "1")
    assert status == 1 and "NOT the CPU's rows: a cosine of 1.0000" in text and " x" not in text
    assert text.splitlines()[-1] == "Fastest for short texts: cpu in float32; for long texts: cpu in float32."


def test_a_device_that_fails(tiny_model, vulkan, capsys, faults):
    faults("device_lost")
    status, text = printed(capsys, tiny_model, "--texts", "1")
    assert status == 1 and "failed: the CPU took over" in text


def test_a_type_that_a_model_does_not_have(monkeypatch, tiny_model, numerics, capsys):
    monkeypatch.setattr(bench, "AGREE", {"float32": 0.9, "float16": 0.9})
    numerics("everywhere")
    status, text = printed(capsys, tiny_model, "--texts", "1")
    refused = [line for line in text.splitlines() if line.startswith("float16")]
    assert status == 0 and refused
    assert all(" refused: " in line and 'load it with dtype="float32"' in line for line in refused)


def test_without_a_gpu(run, tiny_model, no_vulkan):
    code = "import sys; from grilly.__main__ import main; sys.exit(main(['bench', *sys.argv[1:]]))"
    done = run(code, tiny_model, "--texts", 1, "--json", **no_vulkan)
    found = json.loads(done.output)
    assert done.status == 0 and list(found["devices"]) == ["cpu"] and found["auto"]["backend"] == "cpu", done.errors
    assert not done.errors.strip() and "Vulkan" in found["auto"]["reason"]


def test_the_model_without_a_name_has_minilms_sizes(tmp_path):
    folder = checkpoint_of_minilm(tmp_path)
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        config = model.config
        assert model.get_embedding_dimension() == config["hidden_size"] == 384 and model.max_seq_length == 256
        assert config["num_hidden_layers"] == 6 and config["intermediate_size"] == 1536
        assert model.plan.count("attention") >= 6
        [ids] = model.tokenizer(bench.texts_of("short", 1))["input_ids"]
        assert model.tokenizer.unk_token_id not in ids


def test_a_model_that_is_not_there(capsys):
    assert main(["bench", "no-such-folder/model"]) == 1
    shown = capsys.readouterr()
    assert not shown.out and "no-such-folder/model" in shown.err
