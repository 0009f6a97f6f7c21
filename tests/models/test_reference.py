"""The float64 NumPy reference agrees with sentence-transformers, so that it may judge what has no golden file."""

import hashlib
import json

import numpy as np
import pytest

from . import reference
from .golden import per_text
from .variants import CALLS, VARIANTS

ROUNDING = 6e-8  # a golden number is a float64 rounded to float32 once


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_reference_equals_golden(name, checkpoint, variants_golden):
    model = reference.Model(checkpoint(name))
    prompt_lengths = json.loads(str(variants_golden["prompt_lengths"]))
    for call in (f"{name}/{label}" for label in CALLS[name]):
        expected = variants_golden[call]
        ids = per_text(variants_golden[f"{call}/ids"])
        actual = np.array([model.embed(row, prompt_lengths[call]) for row in ids])
        assert np.abs(actual - expected).max() <= ROUNDING * max(1, np.abs(expected).max()), call


def test_every_variant_has_goldens(variants_golden):
    for name, calls in CALLS.items():
        assert {f"{name}/{label}" for label in calls} <= set(variants_golden)


def test_real_weights(real_model_path, texts, minilm_golden):
    model = reference.Model(real_model_path)
    rows = per_text(minilm_golden["ids"])
    short = [index for index, ids in enumerate(rows) if len(ids) < 20][::20]
    actual = np.array([model.embed(rows[index]) for index in short])
    assert np.abs(actual - minilm_golden["embeddings_float64"][short]).max() <= ROUNDING


def test_golden_belongs_to_the_texts(texts, minilm_golden):
    assert hashlib.sha256(json.dumps(texts).encode()).hexdigest() == str(minilm_golden["texts_sha256"])
    assert len(texts) == len(minilm_golden["embeddings"]) == 200
    assert "sentence-transformers" in json.loads(str(minilm_golden["made_with"]))
