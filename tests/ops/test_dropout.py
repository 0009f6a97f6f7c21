"""Masks of dropout: how often elements are dropped, and that other places, batches, heads and rows have other masks."""

import numpy as np
import pytest

from grilly import _core

P, LENGTH, HEADS, TEXTS = 0.3, 64, 2, 3
SIZES = {"heads": HEADS, "kv_heads": HEADS, "head_dim": LENGTH, "scale": 1.0}


@pytest.fixture(scope="module")
def engine(device):
    return _core.engine(device)


def words(seed: int, offset: int) -> np.ndarray:
    return np.uint64([seed, offset]).view(np.uint32)


def of_elements(engine, seed=1, offset=0, stream=0) -> np.ndarray:
    ones = np.ones((TEXTS * LENGTH, HEADS * LENGTH), np.float32)
    operands = [engine.upload(x) for x in (ones, words(seed, offset))]
    return engine.call("dropout", operands, {"p": P, "seed": 0, "stream": stream}).numpy()


def of_weights(engine, seed=1, offset=0, stream=0) -> np.ndarray:
    """Equal weights of values that are an identity matrix are the mask itself, by query, head and key."""
    zeros = np.zeros((TEXTS * LENGTH, HEADS * LENGTH), np.float32)
    values = np.tile(np.eye(LENGTH, dtype=np.float32), (TEXTS, HEADS))
    offsets = (LENGTH * np.arange(TEXTS + 1)).astype(np.int32)
    operands = [engine.upload(x) for x in (zeros, zeros, values, offsets, offsets, words(seed, offset))]
    found = engine.call("attention", operands, {**SIZES, "dropout": P, "stream": stream}).numpy()
    return found * LENGTH


@pytest.mark.parametrize("mask", [of_elements, of_weights])
def test_masks(engine, mask):
    changes = [{"offset": number << 32} for number in range(24)]
    changes += [{"stream": 1}, {"stream": 2}, {"seed": 2}, {"seed": 2**32 + 1}]
    masks = np.stack([mask(engine, **change) for change in changes]).astype(np.float64)
    dropped = masks == 0
    np.testing.assert_allclose(masks[~dropped], 1 / (1 - P), rtol=1e-6)
    # Five standard deviations: of the share of zeros of each mask and of each element, and of correlations.
    deviation = np.sqrt(P * (1 - P))
    size = dropped[0].size
    assert (np.abs(dropped.mean(axis=(1, 2)) - P) < 5 * deviation / np.sqrt(size)).all()
    assert (np.abs(dropped.mean(axis=0) - P) < 6 * deviation / np.sqrt(len(masks))).all()
    # The mean of many masks changes nothing.
    assert abs(masks.mean() - 1) < 5 * deviation / (1 - P) / np.sqrt(masks.size)
    apart = dropped.reshape(len(masks), TEXTS, LENGTH, HEADS, LENGTH) - P

    def correlation(one, other):
        return (one * other).mean() / deviation**2, 5 / np.sqrt(one.size)

    pairs = [(apart[0], other) for other in apart[1:]]
    pairs += [(apart[:, 0], apart[:, 1]), (apart[:, :, 0], apart[:, :, 1]), (apart[:, :, :, 0], apart[:, :, :, 1])]
    pairs += [(apart[..., shift:], apart[..., :-shift]) for shift in (1, 2, 4)]
    for place, (one, other) in enumerate(pairs):
        found, most = correlation(one, other)
        assert abs(found) < most, place
