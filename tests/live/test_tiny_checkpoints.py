"""Checkpoints that `grilly.testing.tiny_checkpoint` makes, read by sentence-transformers."""

import gzip
import json

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from grilly import SentenceTransformer as OwnTransformer
from grilly import testing, tiny_checkpoints

# What the reference has under its name; "new" and "liquid_moe" are formats of other code.
FAMILIES = json.loads(gzip.decompress(tiny_checkpoints.TABLE.read_bytes()))["families"]
KNOWN = sorted(set(FAMILIES) & set(CONFIG_MAPPING_NAMES))
TEXTS = ["a short text", "Another, longer text: with 12 numbers & signs!", "déjà vu, naïve", ""]


def test_most_families_are_known():
    assert set(FAMILIES) - set(KNOWN) == {"liquid_moe", "new"}


@pytest.mark.parametrize("name", KNOWN)
def test_the_reference_gives_the_same_numbers(name, tmp_path):
    folder = testing.tiny_checkpoint(name, tmp_path, seed=7)
    texts = TEXTS[:-1] if name.startswith("gpt") else TEXTS
    own = OwnTransformer(folder, device="cpu").encode(texts)
    # A text's numbers depend on its padding there; of other families the reference fails on an empty text alone.
    batch_size = 1 if name in ("convbert", "mobilebert") else 32
    theirs = SentenceTransformer(str(folder), device="cpu").encode(texts, batch_size=batch_size)
    assert np.abs(own - theirs).max() <= 2e-6 * np.abs(theirs).max()
