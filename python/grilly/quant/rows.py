"""Quantisation and its inverse, in general and by the names of activations and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly.device_array import VulkanTensor
from grilly.errors import InvalidTypeError
from grilly.functional.checks import one_of, whole, wrong_shape
from grilly.functional.dispatch import Operand, Prepared, Result, evaluate, floats
from grilly.functional.dropout import draw_seed, seed_value
from grilly.operands import host_array

__all__ = [
    "dequantize",
    "dequantize_activations_8bit",
    "dynamic_quantize_activations",
    "quantize",
    "quantize_activations",
    "quantize_activations_8bit",
    "quantize_gradients",
]

KINDS = ("absmax", "affine", "ternary", "binary")
LEVELS = ("int8", "ternary", "binary")
PER_BYTE = {"int8": 1, "ternary": 4, "binary": 8}


def quantize(x: Operand, kind: str = "absmax", scope: str | int = "row", seed: int | None = None) -> Result:
    """Integers of 8, 2 or 1 bits and their scales, by which `x` is nearly `q / scale`; ties are rounded to even.

    | kind | scale, of `n` elements | q |
    |---|---|---|
    | `"absmax"` | `127 / max(max abs(x), 1e-5)` | `clamp(round(x scale), -128, 127)` |
    | `"affine"` | `255 / max(max(x, 0) - min(x, 0), 1e-5)` | `clamp(round(x scale) + zero, -128, 127)` |
    | `"ternary"` | `n / max(sum abs(x), 1e-5 n)` | `clamp(round(x scale), -1, 1)` |
    | `"binary"` | as `"ternary"` | 1 where `x > 0`, else -1 |

    `zero = clamp(-128 - round(min(x, 0) scale), -128, 127)`. Where an element is infinite or NaN, the scale that it
    shares is NaN and `q` is 0, so `dequantize` gives NaN. The integers of `"absmax"` and `"affine"` are the same in
    every bit on every device; a mean is summed in the device's order.

    Args:
        x: `(..., K)`; float16 is widened.
        kind: As above; default `"absmax"`.
        scope: What shares a scale: `"row"` (default), `"tensor"`, or the size of groups of neighbours in a row, of
            which the last may be smaller.
        seed: For `"absmax"` and `"affine"`: rounds up with the probability of the fraction, by the random numbers of
            `functional.dropout`, so that the mean over seeds is exact; default None, to the nearest.

    Returns:
        `(q, scale)`, of `"affine"` `(q, scale, zero)`. `q` is int8 `(..., K)`, of `"ternary"` uint8
        `(..., ceil(K / 4))`, of `"binary"` uint8 `(..., ceil(K / 8))`, packed as these formats of `pack`. `scale` is
        float32 `(...)`, `(1,)` or `(..., ceil(K / scope))`, and `zero` int32 of this shape.

    Raises:
        InvalidArgumentError: Unknown kind or scope, a seed with another kind, or `x` without axes.

    Source: Wang et al., BitNet (2023); Ma et al., The Era of 1-bit LLMs (2024); Jacob et al. (2018) for `"affine"`.

    Example:
        >>> from grilly import quant
        >>> q, scale = quant.quantize([[1.0, -0.5, 0.25]])
        >>> q.tolist(), scale.tolist()
        ([[127, -64, 32]], [127.0])
    """
    return _quantize("quantize", x, one_of("quantize", "kind", kind, KINDS), scope, seed)


def _quantize(name: str, x: Operand, kind: str, scope: str | int, seed: int | None) -> Result:
    attributes: dict[str, Any] = {"kind": kind, "scope": scope_of(name, scope)}
    if seed is not None:
        attributes["seed"] = seed_value(name, seed)
    return evaluate(name, lambda r, x: tuple(r.each("quantize_rows", x, **attributes)), floats(x, "x"))


def dequantize(
    q: Operand,
    scale: Operand,
    zero: Operand | None = None,
    *,
    levels: str = "int8",
    scope: str | int = "row",
    columns: int | None = None,
) -> Result:
    """The numbers that quantised ones stand for: `(q - zero) / scale`.

    Args:
        q: As `quantize` gives it.
        scale: As `quantize` gives it.
        zero: int32, of the shape of `scale`; default none, which is 0.
        levels: `"int8"` (default), `"ternary"` or `"binary"`: the values of `q`.
        scope: As in `quantize`; default `"row"`.
        columns: `K` of packed values; default as many as fill the bytes.

    Returns:
        float32 `(..., K)`.

    Raises:
        InvalidArgumentError: Unknown levels or scope, or shapes that do not fit.
        InvalidTypeError: `q` is not int8, of packed values uint8, or `zero` not int32.

    Source: the inverse of `quantize`.

    Example:
        >>> from grilly import quant
        >>> q, scale = quant.quantize([[0.75, -0.75, 0.0]], "ternary", scope="tensor")
        >>> quant.dequantize(q, scale, levels="ternary", scope="tensor", columns=3).tolist()
        [[0.5, -0.5, 0.0]]
    """
    name = "dequantize"
    one_of(name, "levels", levels, LEVELS)
    packed = weight(name, q, levels)
    attributes = {"levels": levels, "scope": scope_of(name, scope), "zero": zero is not None}
    attributes |= columns_of(name, packed, columns, levels)
    offset = None if zero is None else integers(name, "zero", zero, "int32")
    given = packed, floats(scale, "scale"), offset
    return evaluate(name, lambda r, *given: r("dequantize_rows", *given, **attributes), *given)


def quantize_activations(x: Operand) -> Result:
    """Activations to int8, one scale per token: `quantize(x, "absmax")`, what `bitlinear_forward` does with its input.

    Args:
        x: `(..., K)`.

    Returns:
        `(q, scale)`, int8 `(..., K)` and float32 `(...)`; `x` is nearly `q / scale`.

    Raises:
        InvalidArgumentError: `x` has no axes.

    Source: Wang et al., BitNet (2023); transformers' `BitLinear.activation_quant`.

    Example:
        >>> from grilly import quant
        >>> [part.tolist() for part in quant.quantize_activations([[0.0, -2.0], [0.0, 0.0]])]
        [[[0, -127], [0, 0]], [63.5, 12700000.0]]
    """
    return _quantize("quantize_activations", x, "absmax", "row", None)


def quantize_activations_8bit(x: Operand, scope: str | int = "row") -> Result:
    """Activations to int8 with a zero point: `quantize(x, "affine", scope)`.

    Args:
        x: `(..., K)`.
        scope: As in `quantize`; default `"row"`, one range per token.

    Returns:
        `(q, scale, zero)`, int8, float32 and int32; `x` is nearly `(q - zero) / scale`, and 0 exactly.

    Raises:
        InvalidArgumentError: Unknown scope, or `x` without axes.

    Source: Jacob et al., Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference
    (2018).

    Example:
        >>> from grilly import quant
        >>> [part.tolist() for part in quant.quantize_activations_8bit([[0.0, 51.0]])]
        [[[-128, 127]], [5.0], [-128]]
    """
    return _quantize("quantize_activations_8bit", x, "affine", scope, None)


def dequantize_activations_8bit(
    q: Operand, scale: Operand, zero: Operand | None = None, *, scope: str | int = "row"
) -> Result:
    """The inverse of `quantize_activations_8bit` and `quantize_activations`: `(q - zero) / scale`.

    Args:
        q: int8 `(..., K)`.
        scale: As it was given.
        zero: int32 of the shape of `scale`; default none, which is 0.
        scope: As it was given; default `"row"`.

    Returns:
        float32 `(..., K)`.

    Raises:
        InvalidArgumentError: Shapes that do not fit.
        InvalidTypeError: Other types.

    Source: as `quantize_activations_8bit`.

    Example:
        >>> from grilly import quant
        >>> quant.dequantize_activations_8bit(*quant.quantize_activations_8bit([[0.0, 51.0]])).tolist()
        [[0.0, 51.0]]
    """
    return dequantize(q, scale, zero, scope=scope)


def dynamic_quantize_activations(x: Operand) -> Result:
    """A batch of activations to int8 by its own range, found as it runs: `quantize(x, "affine", "tensor")`.

    Args:
        x: `(..., K)`.

    Returns:
        `(q, scale, zero)`: int8 `(..., K)`, float32 `(1,)`, int32 `(1,)`.

    Raises:
        InvalidArgumentError: `x` has no axes.

    Source: dynamic quantisation of `torch.ao.quantization`, with one range for all of `x`.

    Example:
        >>> from grilly import quant
        >>> [part.tolist() for part in quant.dynamic_quantize_activations([[0.0, 25.0], [51.0, 1.0]])]
        [[[-128, -3], [127, -123]], [5.0], [-128]]
    """
    return _quantize("dynamic_quantize_activations", x, "affine", "tensor", None)


def quantize_gradients(gradient: Operand, seed: int | None = None, scope: str | int = "tensor") -> Result:
    """Gradients to int8, rounded at random so that their mean is exact: `quantize(gradient, "absmax", scope, seed)`.

    Args:
        gradient: `(..., K)`.
        seed: 0 .. 2^64 - 1; default one from NumPy's global generator.
        scope: As in `quantize`; default `"tensor"`.

    Returns:
        `(q, scale)`: int8 `(..., K)` and float32; the mean of `q / scale` over seeds is `gradient`.

    Raises:
        InvalidArgumentError: Unknown scope, a seed out of its range, or `gradient` without axes.

    Source: Gupta et al., Deep Learning with Limited Numerical Precision (2015), for stochastic rounding.

    Example:
        >>> from grilly import quant
        >>> q, scale = quant.quantize_gradients([[1.0, -0.5]], seed=1)
        >>> bool(q[0, 0] == 127 and q[0, 1] in (-64, -63)), scale.tolist()
        (True, [127.0])
    """
    key = draw_seed() if seed is None else seed
    return _quantize("quantize_gradients", gradient, "absmax", scope, key)


def integers(operation: str, name: str, value: Any, dtype: str) -> Prepared:
    """An array of exactly this type: bytes mean nothing in another."""
    if isinstance(value, VulkanTensor):
        found: Prepared = value
    else:
        found = np.require(host_array(value, name), requirements=["C", "A"])
    if str(found.dtype) != dtype:
        raise InvalidTypeError(f"{operation}: {name} is of type {found.dtype}, expected {dtype}")
    return found


def weight(operation: str, value: Any, levels: str) -> Prepared:
    """A weight of int8, or a packed one."""
    one_of(operation, "levels", levels, LEVELS)
    return integers(operation, "weight", value, "int8" if levels == "int8" else "uint8")


def scope_of(operation: str, scope: Any) -> str | int:
    """`"row"`, `"tensor"`, or the size of a group."""
    if isinstance(scope, str):
        return one_of(operation, "scope", scope, ("row", "tensor"))
    return whole(operation, "scope", scope)


def weight_scope(operation: str, weight: Prepared, scale: Prepared, group_size: int | None) -> str | int:
    """The scope that a weight's scales have by their shape: `[N]`, `[1]`, or `[N, G]` with a group's size."""
    axes, rows = tuple(scale.shape), tuple(weight.shape)[:1]
    if group_size is not None:
        if len(axes) != 2:
            raise wrong_shape(operation, "weight_scale", axes, "[out_features, groups] with group_size")
        return whole(operation, "group_size", group_size)
    if axes == rows:
        return "row"
    if axes == (1,):
        return "tensor"
    raise wrong_shape(operation, "weight_scale", axes, f"{[*rows]} or [1], or two axes and group_size")


def columns_of(operation: str, packed: Prepared, columns: Any, levels: str) -> dict[str, int]:
    """The columns of a matrix, as an attribute, which it has unless they are the bytes of int8."""
    if levels == "int8":
        return {}
    found = packed.shape[-1] * PER_BYTE[levels] if columns is None else whole(operation, "columns", columns, least=0)
    return {"columns": int(found)}
