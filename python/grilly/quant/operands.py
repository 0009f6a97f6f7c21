"""Operands of quantised operations: integers as they are stored, and what shares a scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly.device_array import VulkanTensor
from grilly.errors import InvalidTypeError
from grilly.functional.checks import one_of, whole, wrong_shape
from grilly.functional.dispatch import Prepared
from grilly.operands import host_array

__all__: list[str] = []

LEVELS = ("int8", "ternary", "binary")
PER_BYTE = {"int8": 1, "ternary": 4, "binary": 8}


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
