"""What sentence-transformers' own documentation runs: the same results with this package under its name."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import reference_blocks
import snippet_runner
from models import heads

#: Of those that run there, what does not here, with the first words of the error.
OTHERS = {
    "multi_vector_encoder/evaluation/distillation:MultiVectorDistillationEvaluator:0": "UnsupportedError",
    "sparse_encoder/model:transformers_model:0": "UnsupportedNameError",
}
SHARE = 0.9
#: Weights of words are larger than numbers of rows of length 1: the bound of tests/live/test_words.py.
WEIGHTS = 1e-5


@pytest.fixture(scope="module")
def ran(real_model_path, tmp_path_factory):
    """What each block leaves, under sentence-transformers and under this package in its place."""
    folder = tmp_path_factory.mktemp("models")
    for name, task, checkpoint in (
        ("CrossEncoder", "scores", "bert"),
        ("CrossEncoder-nli", "scores", "bert-labels"),
        ("SparseEncoder", "words", "bert"),
        ("MultiVectorEncoder", "vectors", "bert"),
    ):
        (folder / name).symlink_to(heads.build(task, checkpoint, folder / task))
    (folder / "SentenceTransformer").symlink_to(real_model_path)

    def run(package):
        target = folder / f"{package}.json"
        program = [sys.executable, str(Path(reference_blocks.__file__)), package, str(folder), str(target)]
        # Without the software driver, which takes minutes for what the CPU does in seconds.
        told = {name: value for name, value in os.environ.items() if name != "ALLOW_CPU_VULKAN"}
        done = subprocess.run(program, capture_output=True, text=True, env=told | {"HF_HUB_OFFLINE": "1"})
        assert done.returncode == 0, done.stderr
        return json.loads(target.read_text())

    with ThreadPoolExecutor() as pool:
        yield dict(zip(("theirs", "ours"), pool.map(run, (reference_blocks.PACKAGE, "grilly"))))


def test_blocks(ran, capsys):
    run = {name: found["variables"] for name, found in ran["theirs"].items() if "variables" in found}
    told = {name: found["error"] for name, found in ran["ours"].items() if name in run and "error" in found}
    same = [name for name in run if name not in told and near(name, ran["ours"][name]["variables"], run[name])]
    with capsys.disabled():
        listed = {name: reference_blocks.reason(name, code) for name, code in reference_blocks.blocks().items()}
        print(f"\n{len(same)} of {len(run)} blocks give the same results; {len(listed)} blocks in all")
        for name in listed:
            if name not in same:
                reason = listed[name] or told.get(name) or ran["theirs"][name].get("error") or "other results"
                print(f"  {name}: {reason}")
    assert {name: told[name].partition(":")[0] for name in told} == OTHERS
    assert set(run) - set(same) == set(OTHERS) and len(same) >= SHARE * len(run) and len(run) >= 40


def near(name, ours, theirs):
    """Whether all variables that both have are equal, and none with numbers is absent here."""
    shared = {name: value for name, value in theirs.items() if name in ours}
    if any(value not in ([], {}) for name, value in theirs.items() if name not in shared):
        return False
    try:
        found = snippet_runner.difference({name: ours[name] for name in shared}, shared)
    except AssertionError:
        return False
    return found <= (WEIGHTS if "sparse" in name.lower() else snippet_runner.TOLERANCE)
