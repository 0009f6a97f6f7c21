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


@linux
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kept", ["in a file", "one part at a time"])
def test_a_stream_of_texts_takes_no_memory_for_those_before(run, tiny_model, real_model_path, tmp_path, kept):
    model, texts, part = (real_model_path, 100_000, 8_192) if LONG else (tiny_model, 30_000, 1_000)
    done = run(
        """
        import random, sys
        from pathlib import Path
        from grilly import SentenceTransformer
        folder, texts, part, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
        draw, told = random.Random(0), []
        def anonymous():
            lines = Path("/proc/self/status").read_text().splitlines()
            return int(next(line.split()[1] for line in lines if line.startswith("RssAnon:"))) * 1024
        def given():
            for n in range(texts):
                if n in (texts // 2, texts - 1):
                    told.append(anonymous())
                yield " ".join(str(draw.randint(0, 9999)) for _ in range(draw.randint(2, 20)))
        with SentenceTransformer(folder, device="cpu") as model:
            if out:
                rows = len(model.encode(given(), out=out, chunk_size=part))
            else:
                rows = sum(map(len, model.encode(given(), chunk_size=part)))
        assert rows == texts, rows
        print(told[1] - told[0])
        """,
        model,
        texts,
        part,
        tmp_path / "rows.npy" if kept == "in a file" else "",
        timeout=1500,
    )
    # The rows of half of the texts alone have 73 MiB under GRILLY_TEST_LONG, otherwise 2 MB; texts and tokens more.
    assert int(done.output) < (16 << 20 if LONG else 1 << 20), done.output + done.errors
