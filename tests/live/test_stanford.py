"""Folders of Stanford's ColBERT beside sentence-transformers, and beside colbert-ai itself where its Python is named.

`GRILLY_COLBERT` names the Python of an environment with colbert-ai 0.2.22, transformers 4 and torch.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sentence_transformers
import torch
from models import stanford

from grilly import MultiVectorEncoder

FLOAT32 = 1e-5
SETTINGS = [
    {},
    {"attend_to_mask_tokens": True},
    {"mask_punctuation": False, "query_maxlen": 20, "doc_maxlen": 30},
    {"query_token_id": "[unused1]", "doc_token_id": "[unused0]"},
]
TEXTS = ["a dog and the cat!", "one two three.", "a dog " * 20, "the way of life is. a child, and a world?", "", "dog"]


@pytest.fixture(scope="module", params=SETTINGS, ids=lambda settings: "-".join(settings) or "usual")
def folder(request, tmp_path_factory) -> Path:
    return stanford.build(tmp_path_factory.mktemp("stanford"), **request.param)


def largest(found, expected) -> float:
    found, expected = ([np.asarray(rows, np.float64) for rows in each] for each in (found, expected))
    assert [rows.shape for rows in found] == [rows.shape for rows in expected]
    return max(np.abs(left - right).max(initial=0) for left, right in zip(found, expected, strict=True))


def both_sides(model, texts) -> list[np.ndarray]:
    return [*model.encode_query(texts, convert_to_numpy=True), *model.encode_document(texts, convert_to_numpy=True)]


def test_sentence_transformers(folder, device, tmp_path, texts):
    some = [*TEXTS, *texts[1::20]]
    theirs = sentence_transformers.MultiVectorEncoder(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})
    expected = both_sides(theirs, some)
    with MultiVectorEncoder(folder, device=device, dtype="float32") as ours:
        assert ours.prompts == theirs.prompts and ours.similarity_fn_name == theirs.similarity_fn_name
        assert largest(both_sides(ours, some), expected) <= FLOAT32
        ours.save_pretrained(tmp_path)
    saved = sentence_transformers.MultiVectorEncoder(str(tmp_path), device="cpu")
    assert all(map(np.array_equal, both_sides(saved, some), expected))


@pytest.mark.skipif("GRILLY_COLBERT" not in os.environ, reason="GRILLY_COLBERT names no Python that has colbert-ai")
def test_colbert_itself(folder, tmp_path):
    script, out = Path(__file__).with_name("colbert_vectors.py"), tmp_path / "vectors.npz"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"HF_HUB_OFFLINE": "1"}
    texts = [text for text in TEXTS if text]  # it gives no vectors of an empty text
    command = [os.environ["GRILLY_COLBERT"], script, folder, json.dumps(texts), out]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    with np.load(out) as file:
        expected = [file[f"{side}{place}"] for side in ("query", "document") for place in range(len(texts))]
    with MultiVectorEncoder(folder, device="cpu", dtype="float32") as ours:
        assert largest(both_sides(ours, texts), expected) <= FLOAT32, sys.executable
