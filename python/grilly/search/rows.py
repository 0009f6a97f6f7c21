"""How an index holds rows and compares queries with them, by element type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly import _core
from grilly.closed import closed

__all__ = ["KINDS", "Call", "Kind", "on_host"]

Host = npt.NDArray[Any]


@closed()
@dataclass(frozen=True)
class Call:
    """Operations on arrays, on the device of the first, whose numbers mean what `numerics` names."""

    numerics: str

    def __call__(self, operation: str, *operands: _core.Array | None, **attributes: Any) -> list[_core.Array]:
        first = operands[0]
        assert first is not None
        return first.engine.call_all(operation, operands, attributes, None, self.numerics)

    @property
    def is_everywhere(self) -> bool:
        """Whether results have the same bits on every device."""
        return self.numerics != "run"


def as_given(call: Call, rows: _core.Array) -> _core.Array:
    """Queries that are compared in the type that they have."""
    return rows


@closed()
@dataclass(frozen=True)
class Kind:
    """An element type: a row of so many columns has `row_bytes`.

    `encode` makes of float32 rows `(N, D)` what is held, `query` likewise of queries; both run on the CPU. `scores`
    gives `(Q, N)` in float32, of queries after `ready`, `decode` the rows that stand in for the vectors, in float32 or
    float16, on the device of their operands.
    """

    row_bytes: Callable[[int], int]
    encode: Callable[[Call, Host], list[Host]]
    query: Callable[[Call, Host], list[Host]]
    scores: Callable[[Call, list[_core.Array], list[_core.Array]], _core.Array]
    decode: Callable[[Call, list[_core.Array], int], _core.Array]
    ready: Callable[[Call, _core.Array], _core.Array] = as_given


def on_host(call: Call, operation: str, rows: Host, **attributes: Any) -> list[Host]:
    """All results of an operation on one operand, on the CPU."""
    engine = _core.engine("cpu")
    return [result.numpy() for result in call(operation, engine.upload(rows), **attributes)]


def products(call: Call, queries: list[_core.Array], rows: list[_core.Array]) -> _core.Array:
    """Products of rows of floats, in float32."""
    if queries[0].shape[0] == 1 and queries[0].engine.backend == "cpu":
        # The CPU packs the second operand: that should be the smaller one. Its sums have one order.
        return call("matmul", rows[0], queries[0], transpose_b=True, wide=True)[0].reshape([1, rows[0].shape[0]])
    return call("matmul", queries[0], rows[0], transpose_b=True, wide=True)[0]


def integer_products(levels: str) -> Callable[[Call, list[_core.Array], list[_core.Array]], _core.Array]:
    """Exact sums of products of integers, divided by both scales."""
    return lambda call, queries, rows: call("quantized_linear", *queries, *rows, levels=levels)[0]


def signs(call: Call, rows: Host) -> list[Host]:
    """Signs, eight a byte, with scales of 1."""
    packed, _ = on_host(call, "quantize_rows", rows, kind="binary")
    return [packed, np.ones(len(rows), np.float32)]


def signs_of_queries(call: Call, rows: Host) -> list[Host]:
    """Signs, one a byte."""
    return [np.where(rows > 0, 1, -1).astype(np.int8), np.ones(len(rows), np.float32)]


FLOAT32 = Kind(
    row_bytes=lambda columns: 4 * columns,
    encode=lambda call, rows: [rows],
    query=lambda call, rows: [rows],
    scores=products,
    decode=lambda call, rows, columns: rows[0],
)
FLOAT16 = Kind(
    row_bytes=lambda columns: 2 * columns,
    encode=lambda call, rows: on_host(call, "cast", rows, to="float16"),
    query=lambda call, rows: [rows],
    scores=products,
    decode=lambda call, rows, columns: rows[0],
    ready=lambda call, rows: call("cast", rows, to="float16")[0],
)
INT8 = Kind(
    row_bytes=lambda columns: columns + 4,
    encode=lambda call, rows: on_host(call, "quantize_rows", rows),
    query=lambda call, rows: on_host(call, "quantize_rows", rows),
    scores=integer_products("int8"),
    decode=lambda call, rows, columns: call("dequantize_rows", *rows)[0],
)
BINARY = Kind(
    row_bytes=lambda columns: columns // 8 + 5,
    encode=signs,
    query=signs_of_queries,
    scores=integer_products("binary"),
    decode=lambda call, rows, columns: call("dequantize_rows", *rows, levels="binary", columns=columns)[0],
)

KINDS = {"float32": FLOAT32, "float16": FLOAT16, "int8": INT8, "binary": BINARY}
