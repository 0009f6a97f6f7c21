"""Cross entropy and its derivative."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.device_array import VulkanTensor, integers_of
from grilly.errors import IndexOutOfRangeError, InvalidTypeError
from grilly.functional.checks import fraction, need_axes, need_shape, one_of, whole
from grilly.functional.dispatch import Operand, Prepared, Result, evaluate, floats, optional
from grilly.operands import as_ids

__all__ = [
    "cross_entropy",
    "cross_entropy_backward",
]

REDUCTIONS = ("mean", "sum", "none")
IGNORED = -1


def cross_entropy(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    reduction: str = "mean",
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Result:
    """Cross entropy of logits: `w[t] (log(sum(exp(x))) - x[t])` for every row.

    Args:
        input: Logits `(..., C)`.
        target: Classes `(...)`, integers of any type.
        weight: `(C,)`; default ones.
        reduction: `"mean"` (divided by the sum of `w[t]`), `"sum"` or `"none"`; default `"mean"`.
        ignore_index: A class that contributes nothing; default -100.
        label_smoothing: Probability mass spread over all classes of the target; default 0.

    Returns:
        A number, or `(...)` for `"none"`.

    Raises:
        IndexOutOfRangeError: A class outside `0 .. C - 1`.
        InvalidArgumentError: Incompatible shapes, or an unknown reduction.

    Source: upstream's `functional.cross_entropy`; `torch.nn.functional.cross_entropy`, which has the classes on axis 1.

    Example:
        >>> from grilly import functional
        >>> round(float(functional.cross_entropy([[0.0, 0.0], [5.0, 5.0]], [0, 1])), 4)
        0.6931
    """
    kind = one_of("cross_entropy", "reduction", reduction, REDUCTIONS)
    x, w, host = classes("cross_entropy", input, target, weight, ignore_index)
    smoothing = fraction("cross_entropy", "label_smoothing", label_smoothing)

    def body(r: Any, x: Any, w: Any) -> Any:
        wide = r.wide(x)
        losses = r("cross_entropy", wide, r.constant(host), w, label_smoothing=smoothing)
        if kind == "none":
            return r.like(losses, x)
        total = r("reduce", losses.reshape([host.size]), axis=0, kind="sum")
        if kind == "mean":
            total = r("binary", total, divisor(r, w, host), kind="divide")
        return r.like(total, x)

    return evaluate("cross_entropy", body, x, w)


def cross_entropy_backward(
    grad_output: Operand,
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    reduction: str = "mean",
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Result:
    """Derivative of `cross_entropy`: `g w[t] (softmax(x) - onehot(t))`, scaled according to the reduction.

    Args:
        grad_output: Gradient with respect to the loss: a number, or `(...)` for `"none"`.
        input: Logits `(..., C)`.
        target: Classes `(...)`.
        weight: As in `cross_entropy`; default ones.
        reduction: As in `cross_entropy`; default `"mean"`.
        ignore_index: As in `cross_entropy`; default -100.
        label_smoothing: As in `cross_entropy`; default 0.

    Returns:
        `(..., C)`.

    Raises:
        IndexOutOfRangeError: A class outside `0 .. C - 1`.
        InvalidArgumentError: Incompatible shapes, or an unknown reduction.

    Source: upstream's `Compute.fnn.cross_entropy_backward`, which implements `"sum"`.

    Example:
        >>> from grilly import functional
        >>> functional.cross_entropy_backward(1.0, [[0.0, 0.0]], [1]).tolist()
        [[0.5, -0.5]]
    """
    kind = one_of("cross_entropy_backward", "reduction", reduction, REDUCTIONS)
    x, w, host = classes("cross_entropy_backward", input, target, weight, ignore_index)
    smoothing = fraction("cross_entropy_backward", "label_smoothing", label_smoothing)
    g = floats(grad_output, "grad_output")
    need_shape("cross_entropy_backward", "grad_output", g, host.shape if kind == "none" else ())

    def body(r: Any, g: Any, x: Any, w: Any) -> Any:
        if kind != "none":
            g = r.wide(g)
            if kind == "mean":
                g = r("binary", g, divisor(r, w, host), kind="divide")
            g = r("binary", r.constant(np.ones(host.shape)), g, kind="multiply")
        return r.gradient("cross_entropy", g, x, r.constant(host), w, label_smoothing=smoothing)

    return evaluate("cross_entropy_backward", body, g, x, w)


def classes(
    name: str, input: Operand, target: Operand, weight: Operand | None, ignore_index: int
) -> tuple[Prepared, Prepared | None, npt.NDArray[np.int32]]:
    """Logits, weights, and targets with the ignored ones set to -1."""
    x, w = floats(input, "input"), optional(weight, "weight")
    axes = need_axes(name, "input", x, 1)
    need_shape(name, "weight", w, axes[-1:])
    if isinstance(target, VulkanTensor) and target.dtype != np.int32:
        raise InvalidTypeError(f"{name}: target is of type {target.dtype}, expected integers")
    host = integers_of(target) if isinstance(target, VulkanTensor) else as_ids(target, "target")
    need_shape(name, "target", host, axes[:-1])
    ignored = host == whole(name, "ignore_index", ignore_index, least=-(2**63))
    wrong = ~ignored & ((host < 0) | (host >= axes[-1]))
    if wrong.any():
        raise IndexOutOfRangeError(f"{name}: target has the class {host[wrong].flat[0]}, expected 0 to {axes[-1] - 1}")
    return x, w, np.asarray(np.where(ignored, IGNORED, host), dtype=np.int32, order="C")


def divisor(r: Any, w: Any, host: npt.NDArray[np.int32]) -> Any:
    """The sum of the targets' weights, as an array without axes."""
    kept = (host != IGNORED).astype(np.float32)
    if w is None:
        return r.constant(kept.sum(dtype=np.float64))
    places = r.constant(np.where(host == IGNORED, 0, host).astype(np.int32))
    picked = r("embedding_sum", places, w.reshape([w.shape[0], 1]))
    return r("reduce", picked.reshape([host.size]), r.constant(kept.reshape(-1)), axis=0, kind="sum")
