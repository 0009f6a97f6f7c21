"""Exported operations against float64: which rows of the table run, and how their results are judged."""

from __future__ import annotations

from typing import Any

import numpy as np
from cases import CASES
from cases.bounds import bound
from cases.comparison import agrees
from cases.reference import REFERENCES, evaluate

from grilly import kernels

#: Rows that `make test` runs; `make test-long` runs two of every operation.
CHOSEN = (
    "activation-gelu_tanh-257", "attention-causal-31x32x33-4x2x33", "binary-add-3x65-65", "dropout-0.1-3x65",
    "layer_norm-3x65", "layer_norm_backward-3x65", "layer_norm_linear-bias-32x33x63", "linear-33x63x64",
    "matmul-NT-33x63x64", "quantize_rows-3x257", "softmax-3x65", "reduce-sum-3x65-1",
)  # fmt: skip


def rows(every: bool) -> list[Any]:
    """The chosen rows, or two of every operation, the first and the last without NaN and infinities."""
    if not every:
        return [case for case in CASES if case.id in CHOSEN]
    found: list[Any] = []
    for op in REFERENCES:
        own = [case for case in CASES if case.op == op and "not-finite" not in case.name and case.dtype == "float32"]
        own = [case for case in own if all(value.size for value in case.operands())]
        found += {case.id: case for case in (own[len(own) // 3], own[2 * len(own) // 3])}.values()
    return found


def of(name: str) -> Any:
    """The row of this name."""
    (case,) = (case for case in CASES if case.id == name)
    return case


def compiled_for(case: Any, target: str) -> kernels.Compiled:
    operands = [(value.dtype.name, value.shape) for value in case.operands()]
    return kernels.compile_op(case.op, operands, target, **case.attributes)


def fault(case, found: list[np.ndarray]) -> str | None:
    """What is wrong with the results of a row: NaN must be where the reference has it, and nowhere else."""
    operands = case.operands()
    expected = evaluate(case.op, operands, case.attributes)
    allowed = bound(case.op, operands, case.attributes, expected, False)
    if not isinstance(expected, tuple):
        expected, allowed = (expected,), (allowed,)
    each = zip(found, expected, allowed, strict=True)
    faults = [agrees(y, of, np.broadcast_to(within, np.shape(of))) for y, of, within in each]
    return next((problem for problem in faults if problem), None)
