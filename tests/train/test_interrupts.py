"""Ctrl-C ends long calls of training at once, and a run goes on after it as if nothing had been."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

START = """
import os, random, signal, sys, threading, time
# A process that a shell starts in the background ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from grilly.train import Trainer, TransformerConfig, read_metrics
from train.test_training import BYTES
folder = Path(sys.argv[2])

def interrupted(call, after=0.7):
    at = []
    def interrupt():
        at.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Timer(after, interrupt).start()
    try:
        call()
    except KeyboardInterrupt:
        print("seconds", time.monotonic() - at[0], flush=True)
    else:
        print("not interrupted", flush=True)
"""
CODES = {
    "evaluate": """
trainer = Trainer(TransformerConfig.tiny(), device="cpu", batch_size=2)
windows = [[1] * 129] * 20000
interrupted(lambda: trainer.evaluate(windows), after=2)
""",
    "generate": """
trainer = Trainer(BYTES, device="cpu")
interrupted(lambda: trainer.generate("a", 10**9))
""",
    "steps of many batches": """
trainer = Trainer(BYTES, device="cpu", batch_size=1, accumulate=200000)
windows = [[1, 2, 3]] * 200000
before = trainer.hashes()
interrupted(lambda: trainer.step(windows), after=2)
assert trainer.hashes() == before and trainer.steps_done == 0
""",
    "vocabulary": """
numbers = random.Random(1)
words = ["".join(numbers.choices("abcdefghijklmnop", k=numbers.randint(2, 9))) for _ in range(300000)]
text = " ".join(words)
config = TransformerConfig(30000, 16, 1, 2, 32, 8)
interrupted(lambda: Trainer(config, text, folder / "run", device="cpu", tokenizer="bpe"))
assert not (folder / "run").exists()
""",
    "held out": """
text = bytes((7 * i * i + 3 * i) % 128 for i in range(500000))
def trained(name):
    return Trainer(BYTES, text, folder / name, device="cpu", batch_size=1, steps=2, held_out=0.5, checkpoint_steps=1)
def plain(name):
    return [{**line, "seconds": 0} for line in read_metrics(folder / name)]
trainer = trained("run")
interrupted(lambda: list(trainer.run()))
[step.step for step in trainer.run()]
straight = trained("straight")
list(straight.run())
assert plain("run") == plain("straight") and [line["step"] for line in plain("run")] == [1, 2]
assert trainer.hashes() == straight.hashes() == Trainer.load(folder / "run", device="cpu").hashes()
""",
}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT so")
@pytest.mark.parametrize("name", CODES)
def test_ctrl_c_ends_a_long_call(tmp_path, name):
    command = [sys.executable, "-c", START + CODES[name], str(Path(__file__).parent.parent), str(tmp_path)]
    environment = os.environ | {"GRILLY_DEBUG": "0"}
    found = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert found.returncode == 0, found.stdout + found.stderr
    kind, seconds = found.stdout.split()
    # Two seconds on an idle machine.
    assert kind == "seconds" and float(seconds) < 5, found.stdout
