"""A run that is killed at random moments: its newest checkpoint always loads, and it ends with the same bits."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import LONG

from grilly.train import Trainer, read_metrics
from train.test_training import TEXT, trained

#: All fifty in make test-long.
KILLS = 50 if LONG else 4
STEPS = 100
CODE = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from train.test_training import TEXT, trained
from grilly.train import Trainer
options = dict(steps=int(sys.argv[3]), checkpoint_steps=1)
folder = Path(sys.argv[2])
if any(folder.glob("*.json")):
    trainer = Trainer.resume(TEXT, folder, device="cpu")
else:
    trainer = trained(folder, **options)
for step in trainer.run():
    print(step.step, flush=True)
"""


# Fifty take minutes where flushing a file to the disk takes long.
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_killed_run_ends_with_the_same_bits(tmp_path):
    straight = trained(tmp_path / "straight", steps=STEPS * KILLS, checkpoint_epochs=1000, checkpoint_steps=None)
    list(straight.run())
    folder, moments = tmp_path / "killed", random.Random(1)
    command = [sys.executable, "-c", CODE, str(Path(__file__).parent.parent), str(folder), str(STEPS * KILLS)]
    killed = 0
    for _ in range(KILLS):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"GRILLY_DEBUG": "0"})
        process.stdout.readline()
        time.sleep(moments.uniform(0, 0.3))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        if any(folder.glob("*.json")):
            newest = max(json.loads(path.read_text())["step"] for path in folder.glob("*.json"))
            assert Trainer.load(folder, device="cpu").steps_done == newest
    assert killed > KILLS / 2, "the runs ended before they were killed"
    rest = Trainer.resume(TEXT, folder, device="cpu")
    list(rest.run())
    assert rest.hashes() == straight.hashes()
    assert [line["step"] for line in read_metrics(folder)] == list(range(1, STEPS * KILLS + 1))
    assert not list(folder.glob("*.unfinished"))
