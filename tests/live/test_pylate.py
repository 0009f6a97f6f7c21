"""Folders of PyLate beside PyLate itself, where its Python is named.

`GRILLY_PYLATE` names the Python of an environment with pylate 1.6. It is made on sentence-transformers 5, which takes
white space off both ends of a text, where 6.2 and grilly do not; no text here has any. Of skiplist_words that are no
tokens it leaves out the unknown token, where 6.2 and grilly say that they are left out.
"""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from models import families, heads

from grilly import MultiVectorEncoder

FLOAT32 = 1e-5
TEXTS = [
    "a dog and the cat!",
    "one two three.",
    " ".join(["a dog"] * 12),
    "the way of life is. a child, and a world?",
    "dog",
]
#: Of all new models; the encoders have 40 positions.
SIZES = {"embedding_size": 24, "document_length": 30}
#: Arguments of new models on plain encoders.
MADE = {
    "usual": {},
    "seen": {"query_length": 12, "document_length": 20, "attend_to_expansion_tokens": True, "skiplist_words": []},
    "plain": {"do_query_expansion": False, "query_prefix": "", "document_prefix": "", "bias": True},
    "prefixes": {"query_prefix": "the ", "document_prefix": "a dog ", "skiplist_words": ["the", "!"]},
}
NEW = [f"{family}-{made}" for family in ("electra", "roberta", "modernbert") for made in MADE]
#: Of grilly's other tests, in PyLate's layout. It makes the prefixes tokens, new ones where they are none yet.
SAVED = [name for name, fixture in heads.table()["vectors"].items() if "markers" in fixture]

if "GRILLY_PYLATE" not in os.environ:
    pytest.skip("GRILLY_PYLATE names no Python that has pylate", allow_module_level=True)


@pytest.fixture(scope="module")
def some(texts) -> list[str]:
    """No longer than the positions of the small encoders: of some, PyLate has no limit."""
    return [*TEXTS, *(text for text in texts[1::4] if text and text == text.strip() and len(text.encode()) <= 28)]


@pytest.fixture(scope="module")
def folder(some, tmp_path_factory) -> Path:
    """Of each model the vectors of PyLate's queries and documents, and what it saves; of one process."""
    place = tmp_path_factory.mktemp("pylate")
    listed = []
    for name in NEW:
        family, made = name.split("-")
        (place / name).mkdir()
        listed.append([str(families.build(family, place / name)), SIZES | MADE[made], str(place / name)])
    for name in SAVED:
        listed.append([str(heads.build("vectors", name, place / "saved")), {}, str(place / "saved" / name)])
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"HF_HUB_OFFLINE": "1"}
    script = Path(__file__).with_name("pylate_vectors.py")
    command = [os.environ["GRILLY_PYLATE"], script, json.dumps(listed), json.dumps(some)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return place


def same(folder: Path, vectors: Path, texts: list[str], device: str) -> bool:
    """Whether a folder gives the vectors of a file, to rounding."""
    with MultiVectorEncoder(folder, device=device, dtype="float32") as model:
        found = [*model.encode_query(texts), *model.encode_document(texts)]
    with np.load(vectors) as file:
        expected = [file[f"{side}{place}"] for side in ("query", "document") for place in range(len(texts))]
    assert [rows.shape for rows in found] == [rows.shape for rows in expected]
    pairs = zip(found, expected, strict=True)
    return max(np.abs(left.astype(np.float64) - right).max(initial=0) for left, right in pairs) <= FLOAT32


@pytest.mark.parametrize("name", NEW)
def test_a_new_model(name, folder, some, device):
    assert same(folder / name / "saved", folder / name / "vectors.npz", some, device)


@pytest.mark.parametrize("name", SAVED)
def test_the_folders_of_the_fixtures(name, folder, some, device):
    """What grilly's other tests take for PyLate's are such folders, and PyLate saves them so."""
    place = folder / "saved" / name
    assert same(place, place / "vectors.npz", some, device)
    assert same(place / "saved", place / "vectors.npz", some, device)
