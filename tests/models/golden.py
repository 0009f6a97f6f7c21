"""Reading the golden files."""

import numpy as np


def padded(rows) -> np.ndarray:
    """Token ids of each text as one array, filled up with -1."""
    rows = list(rows)
    filled = np.full((len(rows), max(map(len, rows))), -1, np.int32)
    for row, ids in zip(filled, rows, strict=True):
        row[: len(ids)] = ids
    return filled


def per_text(filled: np.ndarray) -> list[list[int]]:
    """The token ids back: as the reference tokenizer gives them, special tokens in, truncated."""
    return [row[row >= 0].tolist() for row in filled]


def normalized(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)


def scaled_difference(actual: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference in units of the largest expected number (of one, if all are below one)."""
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    return float(np.abs(actual - expected).max() / max(1.0, np.abs(expected).max()))


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
