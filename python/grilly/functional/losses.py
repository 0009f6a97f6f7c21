"""Losses that reduce to one number, and their derivatives."""

from __future__ import annotations

import math
from typing import Any

from grilly.functional.checks import need_shape, one_of
from grilly.functional.cross_entropy import REDUCTIONS
from grilly.functional.dispatch import Operand, Prepared, Result, evaluate, filled, floats, optional

__all__ = ["binary_cross_entropy", "binary_cross_entropy_backward", "mse_loss", "mse_loss_backward"]


def reduced(r: Any, losses: Any, kind: str) -> Any:
    """The unreduced losses, their sum or their mean."""
    if kind == "none":
        return losses
    return r("reduce", losses.reshape([math.prod(losses.shape)]), axis=0, kind=kind)


def spread(r: Any, g: Any, axes: tuple[int, ...], kind: str) -> Any:
    """Spreads the gradient of a reduced loss over all elements."""
    if kind == "none":
        return g
    each = 1.0 / max(math.prod(axes), 1) if kind == "mean" else 1.0
    return r("binary", r.kept(filled, each, tuple(axes)), r.wide(g), kind="multiply")


def pair(name: str, input: Operand, target: Operand) -> tuple[Prepared, Prepared]:
    x, t = floats(input, "input"), floats(target, "target")
    need_shape(name, "target", t, x.shape)
    return x, t


def binary_cross_entropy(
    input: Operand, target: Operand, weight: Operand | None = None, reduction: str = "mean"
) -> Result:
    """Binary cross entropy of probabilities: `-w (t log(p) + (1 - t) log(1 - p))`, with logarithms clamped at -100.

    Args:
        input: Probabilities, any shape.
        target: The same shape, in 0 .. 1.
        weight: A shape that broadcasts to it; default ones.
        reduction: `"mean"` (over all elements), `"sum"` or `"none"`; default `"mean"`.

    Returns:
        A number, or `input`'s shape for `"none"`.

    Raises:
        InvalidArgumentError: Incompatible shapes, or an unknown reduction.

    Source: upstream's `functional.binary_cross_entropy`; `torch.nn.functional.binary_cross_entropy`.

    Example:
        >>> from grilly import functional
        >>> functional.binary_cross_entropy([0.0], [1.0]).tolist()
        100.0
    """
    kind = one_of("binary_cross_entropy", "reduction", reduction, REDUCTIONS)
    x, t = pair("binary_cross_entropy", input, target)

    def body(r: Any, x: Any, t: Any, w: Any) -> Any:
        losses = r("binary_cross_entropy", r.wide(x), t)
        losses = losses if w is None else r("binary", losses, w, kind="multiply")
        return r.like(reduced(r, losses, kind), x)

    return evaluate("binary_cross_entropy", body, x, t, optional(weight, "weight"), alike=2)


def binary_cross_entropy_backward(
    grad_output: Operand, input: Operand, target: Operand, weight: Operand | None = None, reduction: str = "mean"
) -> Result:
    """Derivative of `binary_cross_entropy`: `g w (p - t) / max(p (1 - p), 1e-12)`.

    Args:
        grad_output: Gradient with respect to the loss: a number, or `input`'s shape for `"none"`.
        input: As in `binary_cross_entropy`.
        target: As in `binary_cross_entropy`.
        weight: As in `binary_cross_entropy`; default ones.
        reduction: As in `binary_cross_entropy`; default `"mean"`.

    Returns:
        `input`'s shape.

    Raises:
        InvalidArgumentError: Incompatible shapes, or an unknown reduction.

    Source: `torch.nn.functional.binary_cross_entropy`'s derivative.

    Example:
        >>> from grilly import functional
        >>> functional.binary_cross_entropy_backward(1.0, [0.5], [1.0]).tolist()
        [-2.0]
    """
    kind = one_of("binary_cross_entropy_backward", "reduction", reduction, REDUCTIONS)
    x, t = pair("binary_cross_entropy_backward", input, target)
    axes, g = x.shape, floats(grad_output, "grad_output")
    need_shape("binary_cross_entropy_backward", "grad_output", g, axes if kind == "none" else ())

    def body(r: Any, g: Any, x: Any, t: Any, w: Any) -> Any:
        each = r.wide(spread(r, g, axes, kind))
        each = each if w is None else r("binary", each, w, kind="multiply")
        return r.like(r.vjp("binary_cross_entropy", each, r.wide(x), r.wide(t))[0], x)

    return evaluate("binary_cross_entropy_backward", body, g, x, t, optional(weight, "weight"), alike=3)


def mse_loss(input: Operand, target: Operand, reduction: str = "mean") -> Result:
    """Squared error: `(x - t)^2`.

    Args:
        input: Any shape.
        target: The same shape.
        reduction: `"mean"` (over all elements), `"sum"` or `"none"`; default `"mean"`.

    Returns:
        A number, or `input`'s shape for `"none"`.

    Raises:
        InvalidArgumentError: The shapes differ, or an unknown reduction.

    Source: upstream's `nn.MSELoss`; `torch.nn.functional.mse_loss`.

    Example:
        >>> from grilly import functional
        >>> float(functional.mse_loss([1.0, 5.0], [1.0, 1.0]))
        8.0
    """
    kind = one_of("mse_loss", "reduction", reduction, REDUCTIONS)

    def body(r: Any, x: Any, t: Any) -> Any:
        difference = r("binary", r.wide(x), t, kind="subtract")
        return r.like(reduced(r, r("binary", difference, difference, kind="multiply"), kind), x)

    return evaluate("mse_loss", body, *pair("mse_loss", input, target), alike=2)


def mse_loss_backward(grad_output: Operand, input: Operand, target: Operand, reduction: str = "mean") -> Result:
    """Derivative of `mse_loss`: `2 g (x - t)`, divided by the number of elements for `"mean"`.

    Args:
        grad_output: Gradient with respect to the loss: a number, or `input`'s shape for `"none"`.
        input: As in `mse_loss`.
        target: As in `mse_loss`.
        reduction: As in `mse_loss`; default `"mean"`.

    Returns:
        `input`'s shape.

    Raises:
        InvalidArgumentError: Incompatible shapes, or an unknown reduction.

    Source: upstream's `nn.MSELoss.backward`.

    Example:
        >>> from grilly import functional
        >>> functional.mse_loss_backward(1.0, [1.0, 5.0], [1.0, 1.0]).tolist()
        [0.0, 4.0]
    """
    kind = one_of("mse_loss_backward", "reduction", reduction, REDUCTIONS)
    x, t = pair("mse_loss_backward", input, target)
    axes, g = x.shape, floats(grad_output, "grad_output")
    need_shape("mse_loss_backward", "grad_output", g, axes if kind == "none" else ())

    def body(r: Any, g: Any, x: Any, t: Any) -> Any:
        difference = r("binary", r.wide(x), t, kind="subtract")
        twice = r("binary", difference, r.kept(filled, 2.0), kind="multiply")
        return r.like(r("binary", twice, spread(r, g, axes, kind), kind="multiply"), x)

    return evaluate("mse_loss_backward", body, g, x, t, alike=3)
