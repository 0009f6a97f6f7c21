"""Mixtures of experts: routes, products by the experts of rows, sums of a few rows."""

import numpy as np

from . import integers
from .arithmetic import INFINITY, NAN, F, add, canonical, div, floats, mul, quiet, settle, sub
from .functions import exponential
from .rows import in_order


@quiet
def route(scores, top_k: int, normalized: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights [rows, top_k], the largest first, places of them sorted by expert, and where those of each expert begin.

    A weight is `e^(score - max) / sum`, the sum in order of all experts or, normalized, of the chosen. NaN is larger
    than numbers; of equal scores the first expert's is larger.
    """
    scores = settle(scores)
    missing = np.isnan(scores)
    # A stable sort, by the last key first.
    chosen = np.lexsort((np.where(missing, F(0), -scores), ~missing), axis=1)[:, :top_k]
    most = np.where(missing, -INFINITY, scores).max(axis=1, keepdims=True, initial=-INFINITY)
    most = np.where(missing.any(axis=1, keepdims=True), NAN, most)
    powers = exponential(sub(scores, most))
    own = np.take_along_axis(powers, chosen, axis=1)
    weight = canonical(div(own, in_order((own if normalized else powers).T)[:, None]))
    places = chosen.ravel()
    order = np.argsort(places, kind="stable").reshape(chosen.shape)
    starts = [(places < expert).sum() for expert in range(scores.shape[1] + 1)]
    return weight, order.astype(np.int32), np.int32(starts)


def expert_linear(x, weight, places, bias=None, activation=None) -> np.ndarray:
    """Rows of `x [T, K]` or `[T, k, K]` times the matrix of each of their experts: each expert is a linear layer."""
    order, starts = places
    x = floats(x)
    each = x[:, None] if x.ndim == 2 else x
    rows = np.broadcast_to(each, (*order.shape, x.shape[-1])).reshape(order.size, x.shape[-1])
    y = np.zeros((order.size, weight.shape[1]), F)
    for expert in range(len(weight)):
        own = order.ravel()[starts[expert] : starts[expert + 1]]
        y[own] = integers.linear(rows[own], weight[expert], None if bias is None else bias[expert], activation)
    return y.reshape(*order.shape, weight.shape[1])


def weighted_sum(x, weight, bias=None) -> np.ndarray:
    """`sum_r weight[t, r] x[t, r] + bias`, in order."""
    y = in_order(np.moveaxis(mul(settle(x), settle(weight)[..., None]), 1, 0))
    return canonical(y if bias is None else add(y, settle(bias)))
