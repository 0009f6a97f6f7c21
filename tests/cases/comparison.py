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


def agrees(found: np.ndarray, expected: np.ndarray, allowed: np.ndarray) -> str | None:
    """What is wrong with `found`, if anything: NaN and infinities must be where the reference has them."""
    if found.shape != expected.shape:
        return f"shape {found.shape}, expected {expected.shape}"
    wide = found.astype(np.float64)
    if found.dtype.kind == "f":
        expected = np.where(np.abs(expected) > np.finfo(found.dtype).max, np.copysign(np.inf, expected), expected)
    finite = np.isfinite(expected)
    with np.errstate(invalid="ignore"):
        close = np.abs(wide - expected) <= allowed
    same = np.where(finite, close, (wide == expected) | (np.isnan(wide) & np.isnan(expected)))
    if same.all():
        return None
    place = np.unravel_index(int(np.argmin(same)), same.shape) if same.ndim else ()
    worst = np.asarray(allowed)[place] if np.ndim(allowed) else allowed
    return f"{(~same).sum()} of {same.size}; at {place} {wide[place]!r}, expected {expected[place]!r} +- {worst!r}"
