"""Values for tests of functions and layers, and how close a result must be."""

from __future__ import annotations

from typing import Any

import numpy as np

from cases.reference import evaluate

RNG = np.random.default_rng(3)


def values(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """About -2 .. 2."""
    return np.asarray(RNG.uniform(-2, 2, shape)).astype(dtype)


def close(found: Any, expected: np.ndarray, terms: int = 256) -> None:
    """Within what `terms` roundings of float32, or one of float16, do to values of this size; see cases/bounds.py."""
    found = np.asarray(found)
    assert found.dtype in (np.float32, np.float16)
    assert found.shape == np.shape(expected)
    size = max(1.0, np.abs(expected).max(initial=0))
    bound = 8 * np.sqrt(2 * terms + 4) * 2.0**-24 * size + (2.0**-11 * size if found.dtype == np.float16 else 0)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=0, atol=bound)


def soft(scores: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Softmax of the scores that are kept."""
    return evaluate("softmax", [scores, np.broadcast_to(keep, scores.shape)], {})
