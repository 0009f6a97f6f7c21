"""Steps of optimisers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.functional.checks import flag, need_shape, number
from grilly.functional.dispatch import Operand, Result, evaluate, filled, floats, optional

__all__ = ["adam_update", "sgd_update"]


def adam_update(
    weights: Operand,
    gradients: Operand,
    moment1: Operand,
    moment2: Operand,
    learning_rate: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    beta1_t: float = 0.0,
    beta2_t: float = 0.0,
    clear_grad: bool = False,
    *,
    weight_decay: float = 0.0,
) -> tuple[Result, Result, Result]:
    """One step of Adam with decoupled weight decay, in the fused kernel `adam`:

    `m = beta1 m + (1 - beta1) g`, `v = beta2 v + (1 - beta2) g^2`,
    `w = w - learning_rate ((m / (1 - beta1_t)) / (sqrt(v / (1 - beta2_t)) + epsilon) + weight_decay w)`

    Args:
        weights: Any shape.
        gradients: The same shape.
        moment1: The mean gradient so far, at first zeros; the same shape.
        moment2: The mean squared gradient so far, at first zeros; the same shape.
        learning_rate: Factor of the step.
        beta1: Decay of the mean gradient, from 0 to below 1; default 0.9.
        beta2: Decay of the mean squared gradient, from 0 to below 1; default 0.999.
        epsilon: Added to the divisor; default 1e-8.
        beta1_t: `beta1^t` in step `t`, counted from 1, for the correction of the bias; default 0, no correction.
        beta2_t: `beta2^t`, likewise.
        clear_grad: Whether `gradients`, a NumPy array, is filled with zeros afterwards; default False.
        weight_decay: Default 0.

    Returns:
        The new `(weights, moment1, moment2)`; the operands are unchanged.

    Raises:
        InvalidArgumentError: Another shape, or a number out of its range.
        InvalidTypeError: `clear_grad` with gradients that are no NumPy array.

    Source: upstream's `Compute.learning.adam_update`; Kingma and Ba (2015), Loshchilov and Hutter (2019).

    Example:
        >>> from grilly import functional
        >>> w, m, v = functional.adam_update([1.0], [0.5], [0.0], [0.0], 0.1, beta1_t=0.9, beta2_t=0.999)
        >>> w.round(4).tolist(), m.round(4).tolist()
        ([0.8999999761581421], [0.05000000074505806])
    """
    rates = {"beta1_t": beta1_t, "beta2_t": beta2_t, "learning_rate": learning_rate, "epsilon": epsilon}
    clears = flag("adam_update", "clear_grad", clear_grad)
    if clears and not isinstance(gradients, np.ndarray):
        kind = type(gradients).__name__
        raise InvalidTypeError(f"adam_update: gradients is of type {kind}, expected a NumPy array to clear")
    moments = (moment1, moment2, None)
    found = adam_step(weights, gradients, moments, (beta1, beta2), decoupled=weight_decay, **rates)[:3]
    if clears:
        gradients.fill(0)  # type: ignore[union-attr]
    return found


def adam_step(
    weights: Operand,
    gradients: Operand,
    moments: tuple[Operand, Operand, Operand | None],
    betas: tuple[float, float],
    *,
    learning_rate: float,
    epsilon: float,
    beta1_t: float,
    beta2_t: float,
    coupled: float = 0.0,
    decoupled: float = 0.0,
) -> tuple[Result, Result, Result, Result]:
    """`adam_update` with a decay of weights that is coupled to the gradient or not.

    The third moment, unless it is None, is the largest mean squared gradient so far, which then is in the divisor
    (Reddi et al. 2018).

    Example:
        >>> from grilly.functional.optimisers import adam_step
        >>> rates = {"learning_rate": 0.1, "epsilon": 1e-8, "beta1_t": 0.9, "beta2_t": 0.999}
        >>> adam_step([1.0], [0.5], ([0.0], [0.0], [2.0]), (0.9, 0.999), **rates)[3].tolist()
        [2.0]
    """
    name = "adam_update"
    w, g = floats(weights, "weights"), floats(gradients, "gradients")
    m, v = floats(moments[0], "moment1"), floats(moments[1], "moment2")
    most = optional(moments[2], "the largest moment2")
    for what, operand in (("gradients", g), ("moment1", m), ("moment2", v), ("the largest moment2", most)):
        need_shape(name, what, operand, w.shape)
    beta1, beta2 = (share(name, f"beta{place}", beta) for place, beta in enumerate(betas, 1))
    decay, added = number(name, "weight_decay", decoupled), number(name, "weight_decay", coupled)
    settings = {"eps": number(name, "epsilon", epsilon), "decay": decay}
    if added:
        settings["coupled"] = added
    corrections = [1 - share(name, "beta1_t", beta1_t), 1 - share(name, "beta2_t", beta2_t)]
    rates = [number(name, "learning_rate", learning_rate), *corrections]

    def body(r: Any, w: Any, g: Any, m: Any, v: Any, most: Any) -> tuple[Any, Any, Any, Any]:
        old, g, m, v = (r.wide(x) for x in (w, g, m, v))
        given = r.constant(rates)
        new, m, v = r.each("adam", old, m, v, g, given, beta1=beta1, beta2=beta2, **settings)
        if most is not None:
            most = larger(r, r.wide(most), v)
            # Decays of 1 leave both moments as they are; a gradient that is not finite would reach them.
            settings.pop("coupled", None)
            zeros = r.kept(filled, 0.0, tuple(w.shape))
            new = r.each("adam", old, m, most, zeros, given, beta1=1.0, beta2=1.0, **settings)[0]
        return r.like(new, w), m, v, most

    return evaluate(name, body, w, g, m, v, most)


def sgd_update(
    weights: Operand,
    gradients: Operand,
    momentum_buffer: Operand | None,
    learning_rate: float,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
) -> tuple[Result, Result]:
    """One step of gradient descent with momentum:

    `d = g + weight_decay w`, `b = momentum b + (1 - dampening) d`, in the first step `b = d`, and
    `w = w - learning_rate b`, or `w - learning_rate (d + momentum b)` by Nesterov

    Args:
        weights: Any shape.
        gradients: The same shape.
        momentum_buffer: `b` so far, in the same shape, or None in the first step.
        learning_rate: Factor of the step.
        momentum: Default 0, for which `b` is not kept.
        dampening: Default 0.
        weight_decay: Default 0.
        nesterov: Whether the step looks ahead; default False.

    Returns:
        The new `(weights, momentum_buffer)`, the second None without momentum; the operands are unchanged.

    Raises:
        InvalidArgumentError: Another shape, or a number that is not finite.

    Source: `torch.optim.SGD`; Sutskever et al., On the Importance of Initialization and Momentum (2013).

    Example:
        >>> from grilly import functional
        >>> w, b = functional.sgd_update([1.0], [0.5], None, 0.5, momentum=0.5)
        >>> w, b = functional.sgd_update(w, [0.5], b, 0.5, momentum=0.5)
        >>> w.tolist(), b.tolist()
        ([0.375], [0.75])
    """
    name = "sgd_update"
    w, g = floats(weights, "weights"), floats(gradients, "gradients")
    kept = optional(momentum_buffer, "momentum_buffer")
    need_shape(name, "gradients", g, w.shape)
    need_shape(name, "momentum_buffer", kept, w.shape)
    rate, mu = number(name, "learning_rate", learning_rate), number(name, "momentum", momentum)
    rest, decay = 1 - number(name, "dampening", dampening), number(name, "weight_decay", weight_decay)
    ahead = flag(name, "nesterov", nesterov)

    def body(r: Any, w: Any, g: Any, b: Any) -> tuple[Any, Any]:
        old, change = r.wide(w), r.wide(g)
        if decay:
            change = plus(r, change, decay, old)
        new = None
        if mu:
            new = change
            if b is not None:
                new = plus(r, r("binary", change, r.constant(rest), kind="multiply"), mu, r.wide(b))
            change = plus(r, change, mu, new) if ahead else new
        return r.like(plus(r, old, -rate, change), w), new

    return evaluate(name, body, w, g, kept)


def plus(r: Any, x: Any, factor: float, y: Any) -> Any:
    """`x + factor y`."""
    return r("binary", x, r("binary", y, r.constant(factor), kind="multiply"), kind="add")


def larger(r: Any, x: Any, y: Any) -> Any:
    """The larger numbers of two arrays of one shape, infinity too; NaN prevails."""
    rows = [1, math.prod(x.shape)]
    both = r("embedding_sum", r.kept(places, 0, 0), x.reshape(rows))
    return r("reduce", r("set_rows", both, y.reshape(rows), r.kept(places, 1)), axis=0, kind="max").reshape(x.shape)


def places(*numbers: int) -> npt.NDArray[np.int32]:
    """Numbers of rows."""
    return np.array(numbers, np.int32)


def share(operation: str, name: str, value: Any) -> float:
    """A number from 0 to below 1."""
    found = number(operation, name, value)
    if not 0 <= found < 1:
        raise InvalidArgumentError(f"{operation}: {name} is {found}, expected 0 to below 1")
    return found
