"""Scripts and pages of sentence-transformers' repository give its results here, with its name taken for the process.

GRILLY_REFERENCE_CLONE names a clone of the repository; GRILLY_REFERENCE_RESULTS a folder that keeps what they gave, so
that a second run runs only what is new. A script whose imports are missing is one at which the original stops: beside
what `make setup-live` installs they import datasets, faiss-cpu, usearch, hnswlib, annoy, nltk, pandas, matplotlib,
rank_bm25, splade-index and mteb.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import reference_scripts
import reference_table
from conftest import need
from models import heads

CLONE = Path(os.environ.get("GRILLY_REFERENCE_CLONE", ""))
MODELS = {
    "CrossEncoder": ("scores", "bert"),
    "CrossEncoder labels": ("scores", "bert-labels"),
    "SparseEncoder": ("words", "bert-sum"),
    "MultiVectorEncoder": ("vectors", "bert"),
}
#: The part of the scripts and blocks counted that gives the original's results.
PART = 0.9
#: Seconds for the scripts of one package.
SECONDS = 7200


@pytest.fixture(scope="module")
def results(real_model_path, tmp_path_factory) -> Path:
    present = "GRILLY_REFERENCE_CLONE" in os.environ and (CLONE / "examples").is_dir()
    need("clone", present, "GRILLY_REFERENCE_CLONE names no clone of sentence-transformers' repository")
    folder = tmp_path_factory.mktemp("models")
    paths = {name: str(heads.build(*place, folder / place[0])) for name, place in MODELS.items()}
    listed = folder / "models.json"
    listed.write_text(json.dumps({"SentenceTransformer": str(real_model_path)} | paths), encoding="utf-8")
    kept = os.environ.get("GRILLY_REFERENCE_RESULTS")
    target = Path(kept) if kept else tmp_path_factory.mktemp("results")
    environment = os.environ | {
        "HF_HUB_OFFLINE": "1", "MPLBACKEND": "agg", "PYTHONHASHSEED": "0", "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": "1", "TORCHDYNAMO_DISABLE": "1",
        "GRILLY_DEBUG": "0", "ALLOW_CPU_VULKAN": "0",
    }  # fmt: skip
    for package in ("sentence_transformers", "grilly"):
        command = [sys.executable, reference_scripts.__file__, package, str(CLONE), str(listed), str(target)]
        subprocess.run(command, env=environment, check=True, timeout=SECONDS)
    return target


@pytest.mark.timeout(2 * SECONDS + 60)  # on two cores they take eight minutes of the ten that other tests have
def test_scripts_give_the_originals_results(results):
    counted, others = reference_table.table(CLONE, results)
    told = reference_table.report(counted, others)
    (results / "table.md").write_text(told, encoding="utf-8")
    assert len(counted) > 150, told
    assert sum(why is None for _, why in counted) >= PART * len(counted), told
