"""Learning rules without gradients: Oja's and Sanger's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.functional.checks import need_axes, number, wrong_shape
from grilly.functional.dispatch import Operand, Prepared, Result, evaluate, floats

__all__ = ["oja_update", "sanger_update"]


def oja_update(weights: Operand, data: Operand, learning_rate: float = 0.01) -> Result:
    """One step of Oja's subspace rule, with the activities `y = x W^T` of a batch of `B` rows `x`:

    `W = W + learning_rate (y^T x - y^T y W) / B`

    The whole `y^T y` is subtracted, so the rows of `W` become an orthonormal basis of the space of the leading
    eigenvectors of the data's second moments, in no order; `sanger_update` gives the eigenvectors themselves. Of one
    unit both are Oja's rule, which finds the first. It is stable where `learning_rate` times the largest eigenvalue is
    below 1.

    Args:
        weights: `W (N, K)`, a row for each unit, not zero.
        data: `(..., K)`, as a rule with mean 0; `B` is the number of its rows.
        learning_rate: Default 0.01.

    Returns:
        The new weights; the operands are unchanged.

    Raises:
        InvalidArgumentError: Incompatible shapes, or a rate that is not finite.

    Source: Oja, A Simplified Neuron Model as a Principal Component Analyzer (1982); Oja, Neural Networks, Principal
        Components, and Subspaces (1989).

    Example:
        >>> from grilly import functional
        >>> functional.oja_update([[0.5, 0.0]], [[1.0, 1.0]], learning_rate=0.5).tolist()
        [[0.6875, 0.25]]
    """
    return hebbian("oja_update", weights, data, learning_rate, ordered=False)


def sanger_update(weights: Operand, data: Operand, learning_rate: float = 0.01) -> Result:
    """One step of Sanger's rule, the generalised Hebbian algorithm, with `y = x W^T` of a batch of `B` rows `x`:

    `W = W + learning_rate (y^T x - lower(y^T y) W) / B`

    `lower` keeps the triangle on and below the diagonal, so each unit sees the data without the components of those
    before it, and row `i` of `W` becomes the eigenvector of the data's second moments with the `i`-th largest
    eigenvalue, of length 1 and of either sign. It is stable where `learning_rate` times the largest is below 1.

    Args:
        weights: `W (N, K)`, a row for each unit, not zero.
        data: `(..., K)`, as a rule with mean 0; `B` is the number of its rows.
        learning_rate: Default 0.01.

    Returns:
        The new weights; the operands are unchanged.

    Raises:
        InvalidArgumentError: Incompatible shapes, or a rate that is not finite.

    Source: Sanger, Optimal Unsupervised Learning in a Single-Layer Linear Feedforward Neural Network (1989).

    Example:
        >>> from grilly import functional
        >>> functional.sanger_update([[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0]], learning_rate=0.5).tolist()
        [[1.0, 0.5], [0.0, 1.0]]
    """
    return hebbian("sanger_update", weights, data, learning_rate, ordered=True)


def hebbian(name: str, weights: Operand, data: Operand, learning_rate: float, ordered: bool) -> Result:
    """One step of Sanger's rule if the units are ordered, else of Oja's."""
    w, x = checked(name, weights, data)
    rate = number(name, "learning_rate", learning_rate)

    def body(r: Any, w: Any, x: Any) -> Any:
        inhibition = r.kept(triangle, w.shape[0]) if ordered else None
        rows = r.wide(x.reshape(flat(x.shape)))
        return r.like(r("hebbian_update", r.wide(w), rows, r.constant(rate), inhibition), w)

    return evaluate(name, body, w, x)


def checked(name: str, weights: Operand, data: Operand) -> tuple[Prepared, Prepared]:
    """Weights of units and data of as many columns."""
    w, x = floats(weights, "weights"), floats(data, "data")
    columns = need_axes(name, "weights", w, 2, 2)[1]
    if need_axes(name, "data", x, 1)[-1] != columns:
        raise wrong_shape(name, "data", x.shape, f"last axis {columns} (weights {list(w.shape)})")
    return w, x


def flat(shape: tuple[int, ...]) -> list[int]:
    """The axes of rows as one."""
    return [math.prod(shape[:-1]), shape[-1]]


def triangle(size: int) -> npt.NDArray[np.float32]:
    """Ones on and below the diagonal."""
    return np.tri(size, dtype=np.float32)
