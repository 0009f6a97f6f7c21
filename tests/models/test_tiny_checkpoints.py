"""Checkpoints that the package makes for tests: of every family, readable, and the same in every run."""

import gzip
import json

import numpy as np
import pytest
from fixtures import make_tiny

from grilly import VulkanSentenceTransformer, testing, tiny_checkpoints
from grilly.errors import InvalidArgumentError

TABLE = json.loads(gzip.decompress(tiny_checkpoints.TABLE.read_bytes()))
TEXTS = ["the quick brown fox", "a dog", "one two three four five six seven"]


def test_the_table_is_that_of_the_fixtures():
    assert make_tiny.table() == TABLE, "run python tests/fixtures/make_tiny.py"


@pytest.mark.parametrize("model_type", sorted(TABLE["families"]))
def test_a_checkpoint_of_every_family_is_read(model_type, tmp_path):
    folder = testing.tiny_checkpoint(model_type, tmp_path / "model")
    model = VulkanSentenceTransformer(folder, device="cpu")
    assert model.model_type == model_type
    vectors = model.encode(TEXTS)
    assert vectors.shape == (3, model.get_embedding_dimension()) and np.isfinite(vectors).all()
    # Every text has its own vector, and another seed gives others.
    assert len(np.unique(vectors.round(4), axis=0)) == 3
    other = VulkanSentenceTransformer(testing.tiny_checkpoint(model_type, tmp_path / "other", seed=1), device="cpu")
    assert abs(other.encode(TEXTS) - vectors).max() > 1e-3


def test_two_checkpoints_have_the_same_bytes(tmp_path):
    one, two = (testing.tiny_checkpoint("mpnet", tmp_path / name, seed=3) for name in ("one", "two"))
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert [path.name for path in files] == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert all((one / path).read_bytes() == (two / path).read_bytes() for path in files)


def test_what_is_wrong_is_named(tmp_path):
    with pytest.raises(
        InvalidArgumentError, match="model_type 'robert': expected one of albert, .*; the nearest name is 'roberta'"
    ):
        testing.tiny_checkpoint("robert", tmp_path)
    with pytest.raises(InvalidArgumentError, match="seed -1: expected a whole number from 0"):
        testing.tiny_checkpoint("bert", tmp_path, seed=-1)
    testing.tiny_checkpoint("bert", tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    with pytest.raises(InvalidArgumentError, match="config.json"):
        testing.tiny_checkpoint("llama", tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == before
