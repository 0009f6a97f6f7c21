"""The folder of a run: one run at a time writes to it, and what it holds is of one run."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import LONG

from grilly.errors import CheckpointError
from grilly.train import Trainer, draw_loss, read_metrics
from train.test_training import TEXT, trained

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither fork nor SIGKILL")
TESTS = str(Path(__file__).parent.parent)


def process(code: str, *arguments: object, errors: int | None = subprocess.STDOUT) -> subprocess.Popen:
    """Python code in a process of its own, which prints lines; by default with what it writes to stderr among them."""
    start = "import os, sys, time; sys.path.insert(0, sys.argv[1])\nfrom train.test_training import TEXT, trained\n"
    command = [sys.executable, "-c", start + code, TESTS, *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
    return subprocess.Popen(command, **pipes, text=True, env=os.environ | {"GRILLY_DEBUG": "0"})


def steps(folder: Path) -> list[int]:
    return [line["step"] for line in read_metrics(folder)]


def test_a_folder_in_use_is_refused(tmp_path):
    first, second = trained(tmp_path, steps=4, checkpoint_steps=2), trained(tmp_path, steps=4, seed=1)
    running = first.run()
    next(running)
    own = rf"{tmp_path}: is used by another Trainer of this process, {os.getpid()}"
    for call in (lambda: next(second.run()), second.save, lambda: Trainer(device="cpu").save(tmp_path)):
        with pytest.raises(CheckpointError, match=own):
            call()
    next(running)
    with pytest.raises(CheckpointError, match=own):
        Trainer.resume(TEXT, tmp_path, device="cpu")
    assert Trainer.load(tmp_path, device="cpu").steps_done == 2, "reading needs no lock"
    # Its own checkpoints are its own.
    next(running)
    first.save(tmp_path / ".")
    assert [step.step for step in running] == [4]
    assert not (tmp_path / "run.lock").exists()
    with pytest.raises(CheckpointError, match="has a checkpoint of step 4; resume it"):
        next(second.run())
    assert steps(tmp_path) == [1, 2, 3, 4]


def test_runs_that_take_turns_do_not_mix(tmp_path):
    first = trained(tmp_path, steps=9, checkpoint_steps=3)
    running = first.run()
    for _ in range(4):
        next(running)
    running.close()
    second = Trainer.resume(TEXT, tmp_path, device="cpu")
    assert [step.step for _, step in zip(range(2), second.run(), strict=False)] == [4, 5]
    # The first one's line of step 4 is gone.
    with pytest.raises(CheckpointError, match="metrics.jsonl: has no longer the lines of this run"):
        next(first.run())
    assert [step.step for step in second.run()] == [6, 7, 8, 9]
    with pytest.raises(CheckpointError, match="has a checkpoint of step 9 by another run; resume it"):
        next(first.run())
    assert steps(tmp_path) == list(range(1, 10))
    straight = trained(tmp_path / "straight", steps=9)
    list(straight.run())
    assert straight.hashes() == second.hashes()


def test_a_new_run_drops_the_metrics_of_one_without_a_checkpoint(tmp_path):
    running = trained(tmp_path, steps=50, checkpoint_steps=None).run()
    assert [next(running).step for _ in range(3)] == [1, 2, 3]
    del running
    again = trained(tmp_path, steps=2)
    assert steps(tmp_path) == [1, 2, 3], "a run that has not begun changes nothing"
    list(again.run())
    assert steps(tmp_path) == [1, 2]


@pytest.mark.parametrize(
    "name", ["step-5.json", "step-00000009.json/", "step-x.json", "notes.txt", "run.lock/", "run.lock", "events/"]
)
def test_a_stray_file_blocks_nothing(tmp_path, name):
    (tmp_path / name).mkdir() if name.endswith("/") else (tmp_path / name).write_text("other")
    list(trained(tmp_path, steps=2, checkpoint_steps=1).run())
    assert Trainer.resume(TEXT, tmp_path, device="cpu", steps=3).steps_done == 2
    assert Trainer.load(tmp_path, device="cpu").steps_done == 2
    assert (tmp_path / name).exists() or name == "run.lock"


def test_unfinished_files_are_removed(tmp_path):
    left = ["step-00000003.json.unfinished", "step-00000003.safetensors.4194304-7.unfinished"]
    mine = "notes.unfinished"
    for name in [*left, mine]:
        (tmp_path / name).write_text("half")
    list(trained(tmp_path, steps=1).run())
    assert [(tmp_path / name).exists() for name in [*left, mine]] == [False, False, True]


def test_metrics_that_were_removed_begin_anew(tmp_path, caplog):
    running = trained(tmp_path, steps=4, checkpoint_steps=1).run()
    next(running), next(running)
    (tmp_path / "metrics.jsonl").unlink()
    next(running)
    assert steps(tmp_path) == [3] and "the metrics so far are gone" in caplog.text
    running.close()
    list(Trainer.resume(TEXT, tmp_path, device="cpu").run())
    assert steps(tmp_path) == [3, 4]


def test_a_link_in_place_of_metrics_or_picture_is_replaced(tmp_path):
    """As of the other files of a run: what a link names stays as it is, and none is made that it names in vain."""
    place, own, metrics = tmp_path / "run", tmp_path / "own", tmp_path / "run" / "metrics.jsonl"
    place.mkdir()

    def link(name, content=b"mine"):
        if content is None:
            own.unlink(missing_ok=True)
        else:
            own.write_bytes(content)
        (place / name).unlink(missing_ok=True)
        (place / name).symlink_to(own)

    def replaced(name, content=b"mine"):
        assert (own.read_bytes() == content) if content is not None else not own.exists()
        return (place / name).is_file() and not (place / name).is_symlink()

    link("metrics.jsonl")
    trainer = trained(place, steps=7, checkpoint_steps=2)
    running = trainer.run()
    next(running), next(running)
    assert replaced("metrics.jsonl") and steps(place) == [1, 2]
    # Its lines, moved to another place in the middle of a run, between two and before it is resumed.
    for number in (3, 4, 5):
        moved = metrics.read_bytes()
        link("metrics.jsonl", moved)
        if number > 3:
            running.close()
            trainer = trainer if number == 4 else Trainer.resume(TEXT, place, device="cpu")
            running = trainer.run()
        assert next(running).step == number
        assert replaced("metrics.jsonl", moved) and steps(place) == [*range(1, number + 1)]
    # Nothing, or what is no run's.
    link("metrics.jsonl", None)
    next(running)
    assert replaced("metrics.jsonl", None) and steps(place) == [6]
    link("metrics.jsonl")
    with pytest.raises(CheckpointError, match=r"metrics.jsonl: has no longer the lines of this run"):
        next(running)
    assert own.read_bytes() == b"mine"
    pytest.importorskip("matplotlib")
    metrics.unlink()
    list(trainer.run())
    for content in (b"mine", None):
        link("loss.png", content)
        assert draw_loss(place) == place / "loss.png"
        assert replaced("loss.png", content) and (place / "loss.png").read_bytes().startswith(b"\x89PNG")
    (place / "loss.png").unlink()
    (place / "loss.png").mkdir()
    with pytest.raises(CheckpointError, match=r"loss.png: cannot be written"):
        draw_loss(place)


@posix
def test_the_lock_ends_with_its_process_even_if_a_fork_lives(tmp_path):
    code = """
running = trained(sys.argv[2], steps=1000).run()
next(running)
child = os.fork()
if child == 0:
    print("child", os.getpid(), flush=True)
sys.stdin.read()
os._exit(0)
"""
    # From 3.12 on Python warns of a fork beside other threads, in the parent, while the child prints.
    holder = process(code, tmp_path, errors=None)
    child = int(holder.stdout.readline().split()[1])
    try:
        with pytest.raises(CheckpointError, match=f"is used by process {holder.pid}: wait for its end"):
            next(trained(tmp_path, steps=2).run())
        holder.kill()
        holder.wait()
        os.kill(child, 0)
        list(trained(tmp_path, steps=2).run())
        assert steps(tmp_path) == [1, 2]
    finally:
        holder.kill()
        os.kill(child, signal.SIGKILL)


# Twenty in make test-long.
@pytest.mark.timeout(900)
@pytest.mark.parametrize("pair", range(20 if LONG else 2))
def test_two_processes_in_one_folder(tmp_path, pair):
    folder, moments = tmp_path / "both", random.Random(pair)
    code = """
from grilly.errors import CheckpointError
try:
    trainer = trained(sys.argv[2], steps=40, checkpoint_steps=10, seed=int(sys.argv[3]))
    time.sleep(float(sys.argv[4]))
    list(trainer.run())
    print("done", flush=True)
except CheckpointError as error:
    print("refused", error, flush=True)
"""
    both = [process(code, folder, seed, moments.uniform(0, 0.1)) for seed in (1, 2)]
    printed = [found.communicate(timeout=600)[0].splitlines() for found in both]
    ends = [lines[-1].split()[0] for lines in printed]
    assert sorted(ends) == ["done", "refused"], printed
    for end, lines in zip(ends, printed, strict=True):
        # Refused when it was made, or in its first step.
        assert end == "done" or "used by process" in lines[-1] or "has a checkpoint of step" in lines[-1], lines
    straight = trained(tmp_path / "straight", steps=40, seed=1 + ends.index("done"))
    list(straight.run())
    assert Trainer.load(folder, device="cpu").hashes() == straight.hashes()
    assert steps(folder) == list(range(1, 41))


@posix
@pytest.mark.parametrize("kill", range(12 if LONG else 2))
def test_a_run_killed_before_its_first_checkpoint_leaves_nothing(tmp_path, kill):
    moments = random.Random(kill)
    code = """
for step in trained(sys.argv[2], steps=10000, checkpoint_steps=None, checkpoint_epochs=1000).run():
    print(step.step, flush=True)
"""
    killed = process(code, tmp_path)
    killed.stdout.readline()
    time.sleep(moments.uniform(0, 0.1))
    killed.kill()
    killed.communicate()
    assert steps(tmp_path)[:1] == [1] and not list(tmp_path.glob("step-*.json"))
    list(trained(tmp_path, steps=3).run())
    assert steps(tmp_path) == [1, 2, 3]
