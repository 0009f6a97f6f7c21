"""An embedding table beyond 128 MiB, the storage-buffer range of small devices: its rows are read in slices."""

import json

import numpy as np
import pytest

from grilly import VulkanSentenceTransformer

from . import reference
from .golden import scaled_difference
from .variant_list import sized

WORDS, HIDDEN = 120_000, 320  # 153.6 MB
BOUNDARY = (128 << 20) // (HIDDEN * 4)  # the row in which the first 128 MiB end
TEXTS = ["A dog runs through the wet grass.", "", "How do I renew a passport?", "the the the", "7:30 Zürich, мягких 我"]


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """The tiny tokenizer with its ordinary ids spread over the whole table, some around the boundary."""
    folder = tmp_path_factory.mktemp("wide") / "model"
    sized(
        41, vocab_size=WORDS, hidden_size=HIDDEN, num_attention_heads=5, intermediate_size=64, num_hidden_layers=1
    ).write(folder)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    step = (WORDS - 1) // len(vocabulary)
    spread = {word: number if number < 5 else number * step for word, number in vocabulary.items()}
    special = {"the": BOUNDARY, "dog": BOUNDARY - 1, "a": BOUNDARY + 1, ".": WORDS - 1}
    tokenizer["model"]["vocab"] = spread | special
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    return folder


def test_rows_on_both_sides_of_the_boundary(wide, device):
    model = reference.Model(wide)
    with VulkanSentenceTransformer(str(wide), device=device) as engine:
        assert engine.backend == device
        ids = [list(engine.tokenizer.encode(text, truncation=True)) for text in TEXTS]
        assert {BOUNDARY - 1, BOUNDARY, BOUNDARY + 1, WORDS - 1} <= {number for row in ids for number in row}
        rows = engine.encode(TEXTS, normalize_embeddings=False)
    expected = np.array([model.embed(row) for row in ids])
    assert scaled_difference(rows, expected) <= 3e-6
