"""Memory and open files stay as they are: a day's use in small (all of it in make test-long), and closed models."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import LONG
from models import families

TESTS = Path(__file__).parents[1]
linux = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read from /proc")


@linux
@pytest.mark.timeout(7200)
def test_use_leaves_memory_and_open_files_as_they_are(device):
    # A short run is still reaching its allocator's steady state; a leak of 0.2 MB a load would be a fifth.
    short = ["--rounds", "150", "--encodes", "8", "--families", "2", "--grown", "0.03"]
    small = ["--rounds", "1000"] if LONG else short
    command = [sys.executable, str(TESTS / "endurance.py"), "--device", device, *small]
    # How many arenas glibc's allocator opens depends on what else runs on the machine.
    variables = {"GRILLY_DEBUG": "0"} | ({} if LONG else {"MALLOC_ARENA_MAX": "2"})
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables)
    told = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}
    assert done.returncode == 0 and told["files"] and told["before"] > 10, done.stdout + done.stderr


@linux
@pytest.mark.parametrize("name", ["roberta", "llama"])
def test_a_closed_model_keeps_no_words(run, tmp_path, name):
    folder = families.build(name, tmp_path)
    done = run(
        """
        import ctypes, gc, random, sys
        from pathlib import Path
        from grilly import SentenceTransformer
        draw = random.Random(0)
        def resident():
            gc.collect()
            if hasattr(ctypes.CDLL(None), "malloc_trim"):
                ctypes.CDLL(None).malloc_trim(0)
            return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
        for n in range(40):
            with SentenceTransformer(sys.argv[1], device="cpu") as model:
                words = [" ".join(f"{draw.random():.9f}{draw.random():.9f}" for _ in range(50)) for _ in range(40)]
                model.tokenizer(words)
            if n == 9:
                before = resident()
        print(resident() - before)
        """,
        folder,
        RAYON_NUM_THREADS="2",
    )
    # 60,000 words of 20 bytes, each with its tokens, would be over 10 MB.
    assert int(done.output) < 4 << 20, done.output + done.errors
