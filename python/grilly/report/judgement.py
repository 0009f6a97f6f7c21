"""Whether results are as near to those expected as they may be, in numbers that a report has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from grilly.report.references import Array

__all__ = ["judged", "short"]


def short(number: float) -> float | None:
    """A number to three digits; None where JSON has none.

    Example:
        >>> from grilly.report.judgement import short
        >>> short(1 / 3), short(float("nan"))
        (0.333, None)
    """
    return float(f"{number:.3g}") if math.isfinite(number) else None


def judged(found: Sequence[Array], expected: Sequence[Array], allowed: Sequence[Array]) -> dict[str, Any]:
    """The verdict about results: the error that is the largest part of its bound, with that bound.

    Args:
        found: The results of an operation.
        expected: The same in float64.
        allowed: How far from these each element may be.

    Returns:
        `verdict`, `"right"` or `"wrong"`; `error`, `bound` and `of_bound`, their quotient (None if infinite or NaN);
        and of wrong results `text`.

    Example:
        >>> import numpy as np
        >>> from grilly.report.judgement import judged
        >>> judged([np.ones(2)], [np.array([1.0, 1.25])], [np.full(2, 0.5)])
        {'verdict': 'right', 'error': 0.25, 'bound': 0.5, 'of_bound': 0.5}
    """
    shapes = [[part.shape for part in parts] for parts in (found, expected)]
    if shapes[0] != shapes[1]:
        return {"verdict": "wrong", "text": f"shapes {shapes[0]}, expected {shapes[1]}"}
    worst, wrong, text = (-1.0, 0.0, 0.0), 0, ""
    for result, wanted, limit in zip(found, expected, allowed, strict=True):
        if not result.size:
            continue
        with np.errstate(all="ignore"):
            off = np.abs(result.astype(float) - wanted)
            limit = np.broadcast_to(limit, off.shape)
            part = np.where(off <= limit, off / np.where(limit > 0, limit, 1), np.inf)
            beyond = np.where(off > limit, off / limit, part)
        place = np.unravel_index(int(np.argmax(beyond)), off.shape)
        worst = max(worst, (float(beyond[place]), float(off[place]), float(limit[place])))
        count = int((~(off <= limit)).sum())
        if count and not wrong:
            first = f"at {list(map(int, place))} {result[place]}, expected {wanted[place]:.9g}"
            text = f"{count} of {off.size} elements; {first}"
        wrong += count
    verdict = {"verdict": "wrong" if wrong else "right"}
    numbers = {"error": short(worst[1]), "bound": short(worst[2]), "of_bound": short(max(worst[0], 0.0))}
    return verdict | numbers | ({"text": text} if wrong else {})
