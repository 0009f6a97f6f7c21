"""What can go wrong in a run: each is an error that says what was found, and nothing that was saved is lost."""

import json
import os
from contextlib import contextmanager

import pytest

from grilly import testing
from grilly.__main__ import main
from grilly.errors import CheckpointError, DeviceMemoryError
from grilly.train import Trainer, read_metrics
from train.test_training import BYTES, TEXT, earlier, trained, windows

full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has /dev/full")


@contextmanager
def small_files():
    """No file of this process grows beyond the metrics of a few steps."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def folder_at(place):
    """A folder where a file should be."""
    place.mkdir()
    yield
    place.rmdir()


@full
@pytest.mark.parametrize("end, problem", [("safetensors", "File too large"), ("json", "Is a directory")])
def test_a_failed_write_stops_at_the_checkpoint_and_the_run_goes_on(tmp_path, end, problem):
    straight = trained(tmp_path / "straight")
    list(straight.run())
    trainer = trained(tmp_path / "run")
    for step in trainer.run():
        if step.step == 3:
            break
    fault = small_files() if end == "safetensors" else folder_at(tmp_path / "run" / "step-00000006.json")
    with fault, pytest.raises(CheckpointError, match=rf"step-00000006.{end}: cannot be written: {problem}.*are intact"):
        list(trainer.run())
    assert not list((tmp_path / "run").glob("*.unfinished"))
    # There is space again: this run goes on, and so does one from the checkpoint before.
    assert Trainer.load(tmp_path / "run", device="cpu").steps_done == 3
    trainer.save()
    assert [step.step for step in trainer.run()] == [7]
    assert trainer.hashes() == straight.hashes()
    assert [line["step"] for line in read_metrics(tmp_path / "run")] == list(range(1, 8))


def test_metrics_that_cannot_be_written_stop(tmp_path):
    trainer = trained(tmp_path, checkpoint_steps=1)
    next(trainer.run())
    (tmp_path / "metrics.jsonl").unlink()
    with (
        folder_at(tmp_path / "metrics.jsonl"),
        pytest.raises(CheckpointError, match=r"metrics.jsonl: cannot be written: Is a directory"),
    ):
        list(trainer.run())
    resumed = Trainer.resume(TEXT, tmp_path, device="cpu")
    assert resumed.steps_done == 1
    list(resumed.run())
    straight = trained(tmp_path / "straight")
    list(straight.run())
    assert resumed.hashes() == straight.hashes()


def out_of_memory(trainer, tokens, place):
    """Whether a step found no device memory from some call on."""
    testing.inject_fault("allocation", place)
    try:
        trainer.step(tokens)
        return False
    except DeviceMemoryError:
        return True
    finally:
        testing.clear_faults()


@pytest.mark.parametrize("way", ["again", "another", "saved"])
@pytest.mark.parametrize("options", [{}, {"dtype": "float16"}, {"accumulate": 2}], ids="-".join)
def test_a_step_without_memory_is_done_once(tmp_path, vulkan, options, way):
    """Its parameters may be updated before there is no memory to read its loss: the same call then reads it, others go
    on after it, and it is in a checkpoint."""
    trainer, straight = (Trainer(BYTES, device=vulkan, batch_size=3, learning_rate=0.01, **options) for _ in range(2))

    def tokens():
        return windows(straight.steps_done, 3 * options.get("accumulate", 1), 8)

    place = unread = 0
    given = tokens()
    while out_of_memory(trainer, given, place):
        expected = straight.step(given)
        ran = trainer.steps_done == straight.steps_done
        unread += ran
        if ran and way == "saved":
            trainer.save(tmp_path / f"{place}")
            assert trainer.hashes() == straight.hashes()
            trainer = Trainer.load(tmp_path / f"{place}", device=vulkan)
        elif not ran or way == "again":
            # Also where there is still no memory for its numbers.
            assert not ran or (out_of_memory(trainer, given, 0) and trainer.steps_done == straight.steps_done)
            assert trainer.step(given) == expected
        else:
            given = tokens()
            assert trainer.step(given) == straight.step(given)
        assert trainer.hashes() == straight.hashes()
        place, given = place + 1, tokens()
    straight.step(given)
    assert trainer.hashes() == straight.hashes() and unread > 0


@pytest.mark.parametrize("saves", [False, True])
def test_a_run_without_memory_goes_on_where_it_was(tmp_path, vulkan, saves):
    def run(folder):
        return trained(folder, vulkan, steps=3, checkpoint_steps=1)

    def lines(folder):
        return [{**line, "seconds": 0} for line in read_metrics(folder)]

    straight = run(tmp_path / "straight")
    list(straight.run())
    unread = 0
    for last in (1, 3):
        place, failed = 0, True
        while failed:
            folder, failed = tmp_path / f"{last}-{place}", False
            trainer = run(folder)
            running = trainer.run()
            for _ in range(last - 1):
                next(running)
            testing.inject_fault("allocation", place)
            try:
                next(running)
            except DeviceMemoryError:
                failed = True
            finally:
                testing.clear_faults()
            if failed and trainer.steps_done == last and not list(folder.glob(f"step-{last:08}.json")):
                unread += 1
            if failed and saves:
                trainer.save()
            list(trainer.run())
            assert trainer.hashes() == straight.hashes() and lines(folder) == lines(tmp_path / "straight")
            place += 1
    assert unread >= 2


def changed(folder, part, **values):
    """Changes values in the settings of the newest checkpoint."""
    path = max(folder.glob("step-*.json"))
    earlier(path, **{part: {**json.loads(path.read_text())[part], **values}})


@pytest.mark.parametrize(
    "part, values, problem",
    [
        ("config", {"d_model": 32}, r"has no embedding.weight of shape \[128, 32\]"),
        ("config", {"num_layers": 2}, r"layers.1.*"),
        ("config", {"num_heads": 3}, "d_model is 16, expected a multiple of num_heads, 3"),
        ("config", {"hidden": 3}, "unknown field `hidden`"),
        ("options", {"batch_size": 0}, "batch_size is 0"),
    ],
)
def test_a_checkpoint_of_other_sizes_is_refused(tmp_path, part, values, problem):
    list(trained(tmp_path, steps=1).run())
    changed(tmp_path, part, **values)
    for load in (lambda: Trainer.load(tmp_path, device="cpu"), lambda: Trainer.resume(TEXT, tmp_path, device="cpu")):
        with pytest.raises(CheckpointError, match=f"step-00000001.json: is no checkpoint: .*{problem}"):
            load()


@pytest.mark.parametrize(
    "name, change, problem",
    [
        (
            "short",
            lambda data, out: data.write_bytes(b"abc"),
            "the training part has 3 of 3 tokens, fewer than a window",
        ),
        ("empty", lambda data, out: data.write_bytes(b""), "has 0 of 0 tokens"),
        ("folder", lambda data, out: (data.unlink(), data.mkdir()), "Is a directory"),
        ("file", lambda data, out: out.write_text(""), "run"),
    ],
)
def test_the_command_ends_with_the_problem(tmp_path, capsys, name, change, problem):
    data, out = tmp_path / "text", tmp_path / "run"
    data.write_bytes(TEXT * 3)
    change(data, out)
    command = ["train", "--data", str(data), "--out", str(out), "--device", "cpu", "--batch-size", "2", "--steps", "1"]
    assert main(command) == 1
    errors = capsys.readouterr().err
    assert problem in errors and len(errors.splitlines()) == 1, errors


@full
def test_the_command_keeps_the_last_checkpoint(tmp_path, capsys):
    data, out = tmp_path / "text", tmp_path / "run"
    data.write_bytes(TEXT * 3)
    common = ["train", "--data", str(data), "--out", str(out), "--device", "cpu"]
    own = ["--batch-size", "1", "--checkpoint-steps", "1"]
    # The rate makes the second step not finite; the first has a checkpoint.
    assert main([*common, *own, "--steps", "3", "--learning-rate", "1e30"]) == 1
    assert "step 2: the loss is NaN" in capsys.readouterr().err
    assert Trainer.load(out, device="cpu").steps_done == 1 and len(read_metrics(out)) == 1
    other = tmp_path / "other"
    common[4] = str(other)
    assert main([*common, *own, "--steps", "1"]) == 0
    with folder_at(other / "step-00000002.safetensors"):
        assert main([*common, "--resume", "--steps", "2"]) == 1
    assert "Is a directory" in capsys.readouterr().err
    assert main([*common, "--resume", "--steps", "2"]) == 0
    stored = other / "step-00000002.safetensors"
    stored.write_bytes(stored.read_bytes()[:1000])
    assert main([*common, "--resume", "--steps", "3"]) == 1
    problem = capsys.readouterr().err
    assert "is damaged" in problem and "remove" in problem
    (other / "step-00000002.json").unlink()
    assert main([*common, "--resume", "--steps", "2"]) == 0
    assert Trainer.load(other, device="cpu").steps_done == 2
