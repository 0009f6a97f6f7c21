"""Losses that reduce to one number, and their derivatives."""

from __future__ import annotations

from typing import Any

from grilly.functional.checks import need_shape, one_of
from grilly.functional.cross_entropy import REDUCTIONS
from grilly.functional.dispatch import Operand, Prepared, Result, evaluate, floats, optional

__all__ = ["binary_cross_entropy", "binary_cross_entropy_backward", "mse_loss", "mse_loss_backward"]


def _operands(
    name: str, reduction: str, input: Operand, target: Operand, weight: Operand | None = None
) -> tuple[Prepared, Prepared, Prepared | None]:
    """The operands of a loss; checks them and the reduction."""
    one_of(name, "reduction", reduction, REDUCTIONS)
    x, t = floats(input, "input"), floats(target, "target")
    need_shape(name, "target", t, x.shape)
    return x, t, optional(weight, "weight")


def _loss(name: str, kind: str, reduction: str, *given: Any) -> Result:
    operands = _operands(name, reduction, *given)
    return evaluate(name, lambda r, *xs: r("loss", *xs, kind=kind, reduction=reduction), *operands, alike=2)


def _loss_backward(name: str, kind: str, reduction: str, grad_output: Operand, *given: Any) -> Result:
    x, t, w = _operands(name, reduction, *given)
    g = floats(grad_output, "grad_output")
    need_shape(name, "grad_output", g, x.shape if reduction == "none" else ())

    def body(r: Any, g: Any, x: Any, t: Any, w: Any) -> Any:
        return r.like(r.gradient("loss", r.wide(g), r.wide(x), r.wide(t), w, kind=kind, reduction=reduction), x)

    return evaluate(name, body, g, x, t, w, alike=3)


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
    return _loss("binary_cross_entropy", "binary_cross_entropy", reduction, input, target, weight)


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
    name = "binary_cross_entropy_backward"
    return _loss_backward(name, "binary_cross_entropy", reduction, grad_output, input, target, weight)


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
    return _loss("mse_loss", "squared", reduction, input, target)


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
    return _loss_backward("mse_loss_backward", "squared", reduction, grad_output, input, target)
