"""Reading the golden files."""

import numpy as np

FLOAT32 = 1e-5  # of `error`; torch's own float32 is within 5.1e-6 of every golden file's numbers
NARROW = 1.5  # times the error of the reference in the same type, which the golden file holds
TYPES = ("float32", "float16", "bfloat16")


def error(rows: np.ndarray, expected: np.ndarray) -> float:
    """`max|a - b| / max|b|`."""
    assert rows.shape == expected.shape
    return float(np.abs(rows.astype(np.float64) - expected).max() / np.abs(expected).max())


def bound(golden: dict[str, np.ndarray], name: str, dtype: str) -> float:
    """The largest error of a type: for 16 bits by that of the reference, `name/dtype` in the golden file."""
    return FLOAT32 if dtype == "float32" else NARROW * golden[f"{name}/{dtype}"]


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
