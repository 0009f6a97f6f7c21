"""Tables of rotary positions that a checkpoint may hold: without one, the numbers are the reference's sinusoids."""

import numpy as np

from grilly import VulkanSentenceTransformer

from . import families
from .spoil import rewrite

TABLE = "roformer.encoder.embed_positions.weight"
TEXTS = ["a dog and the time of a year", "way", "the people have been here for a long time " * 3]


def sinusoids(rows: int, columns: int) -> np.ndarray:
    """`sin(p / 10000^(2 i / columns))` for each pair, then the cosines, as Vaswani et al. 2017 has the angles."""
    angles = np.arange(rows)[:, None] / 10_000.0 ** (2 * np.arange(columns // 2) / columns)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


def encode(folder) -> np.ndarray:
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        return model.encode(TEXTS)


def test_a_missing_table_is_that_of_sinusoids(tmp_path):
    folder = families.build("roformer", tmp_path)
    drawn = encode(folder)
    rewrite(folder, lambda tensors: tensors.update({TABLE: sinusoids(*tensors[TABLE].shape)}))
    stored = encode(folder)
    rewrite(folder, lambda tensors: tensors.pop(TABLE))
    computed = encode(folder)
    assert np.abs(computed - stored).max() <= 1e-6
    assert np.abs(drawn - stored).max() > 1e-3, "the table of the checkpoint counts"
