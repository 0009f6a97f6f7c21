"""Growth of a layer by what Oja's rule leaves over."""

from __future__ import annotations

import math
from typing import Any

from grilly.functional.checks import need_shape, number
from grilly.functional.dispatch import Operand, Result, evaluate, floats
from grilly.functional.hebbian import checked, flat

__all__ = ["neurogenesis_update"]

#: Added to the energy of a batch, so that zeros divide nothing by zero.
LEAST = 1e-30


def neurogenesis_update(
    weights: Operand, units: Operand, data: Operand, learning_rate: float = 0.1, threshold: float = 1e-3
) -> tuple[Result, Result, Result]:
    """One step of a layer that grows by the residual of Oja's rule: `r = x - y W` with `y = x W^T`, of a batch `x`.

    If the residual has more than `threshold` of the energy, `|r|^2 > threshold |x|^2`, and there is room, a unit is
    added: the row of `r` of largest norm, the first of equal ones, divided by its norm. Then all units learn by
    `oja_update`, with `learning_rate` divided by the mean energy of a row of `x`; so the scale of the data has no
    effect, and rates below 1 are stable. Data of rank `n` get `n` units, if each of its directions has more of the
    energy than `threshold`.

    Args:
        weights: `W (N, K)`, of which the first `units` rows are units and the others zeros; `N` is the capacity.
        units: The number of units, a float of no axes, so that it stays on the device.
        data: `(..., K)`.
        learning_rate: Default 0.1.
        threshold: From 0; default 0.001.

    Returns:
        `(weights, units, share)`: the new weights and number, and the share of the energy that the units left before
        the step, or 0 of data without energy. The operands are unchanged.

    Raises:
        InvalidArgumentError: Incompatible shapes, or a rate or threshold that is not finite.

    Source: Oja (1989) for the rule and its residual.

    Example:
        >>> from grilly import functional
        >>> weights, units, share = functional.neurogenesis_update([[0.0, 0.0]], 0.0, [[3.0, 4.0]])
        >>> weights.round(4).tolist(), units.tolist(), share.tolist()
        ([[0.6000000238418579, 0.800000011920929]], 1.0, 1.0)
    """
    name = "neurogenesis_update"
    w, count, x = checked(name, weights, data)[0], floats(units, "units"), floats(data, "data")
    need_shape(name, "units", count, ())
    columns, rate = w.shape[1], number(name, "learning_rate", learning_rate)
    least = number(name, "threshold", threshold, least=0)

    def body(r: Any, w: Any, count: Any, x: Any) -> tuple[Any, Any, Any]:
        rows = r.wide(x.reshape(flat(x.shape)))
        new, count, share = r.each("neurogenesis", r.wide(w), r.wide(count), rows, threshold=least)
        if math.prod(x.shape):
            squares = r("binary", rows, rows, kind="multiply").reshape([math.prod(x.shape)])
            energy = r("binary", r("reduce", squares, axis=0, kind="mean"), r.constant(LEAST), kind="add")
            new = r("hebbian_update", new, rows, r("binary", r.constant(rate / columns), energy, kind="divide"))
        return r.like(new, w), count, share

    return evaluate(name, body, w, count, x)
