"""Exported operations against float64: which rows of the table run, and how their results are judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from cases import CASES
from cases.bounds import bound
from cases.comparison import agrees
from cases.reference import REFERENCES, evaluate
from export_cases import bounds, forms
from models import safetensors_file

from grilly import errors, kernels

#: Rows that `make test` runs in several languages; WGSL runs two of every operation.
CHOSEN = (
    "activation-gelu_tanh-257", "attention-causal-31x32x33-4x2x33", "binary-add-3x65-65", "dropout-0.1-3x65",
    "layer_norm-3x65", "layer_norm_backward-3x65", "layer_norm_linear-bias-32x33x63", "linear-33x63x64",
    "matmul-NT-33x63x64", "quantize_rows-3x257", "softmax-3x65", "reduce-sum-3x65-1",
)  # fmt: skip
#: Rows of kernels that the others do not run, and of the widest tiles.
ALSO = (
    "attention-129x2-4x2x33", "attention-hidden-distances", "attention_output-t5-33x65", "attention_output-llama-33x65",
    "attention_output-window-33x65", "attention_output-global-33x65", "attention_output-random-33x65",
    "attention_output-1x1x1x63x129x128", "dropout-keyed-3x65", "matmul-NT-5x3x1023", "quantize_rows-65x64",
    "reduce-sum-2x3x4x5-1",
)  # fmt: skip


#: A row of each fused operation and of attention, which run with bfloat16 in place of its float16.
NARROW = (
    "attention-half-1-2x2x32", "bias_gelu-tanh-half", "gated_linear-silu-half", "layer_norm_linear-half",
    "residual_layer_norm-half", "residual_rms_norm-half", "rms_norm_rope-half", "softmax_dropout-half",
)  # fmt: skip


def rows(every: bool) -> list[Any]:
    """The chosen rows, or two of every operation."""
    return of_every_op(2) if every else [case for case in CASES if case.id in CHOSEN]


def of_every_op(count: int) -> list[Any]:
    """So many float32 rows of every operation, spread over its rows, without NaN and infinities, and those of ALSO."""
    found: list[Any] = [case for case in CASES if case.id in ALSO]
    for op in REFERENCES:
        own = [case for case in CASES if case.op == op and "not-finite" not in case.name and case.dtype == "float32"]
        own = [case for case in own if all(value.size for value in case.operands())]
        places = [len(own) * (1 + place) // (1 + count) for place in range(count)]
        found += [case for case in {own[place].id: own[place] for place in places}.values() if case.id not in ALSO]
    return found


def of(name: str) -> Any:
    """The row of this name."""
    (case,) = (case for case in CASES if case.id == name)
    return case


def compiled_for(case: Any, target: str) -> kernels.Compiled:
    operands = [(value.dtype.name, value.shape) for value in case.operands()]
    return kernels.compile_op(case.op, operands, target, **case.attributes)


#: Operations with builds for matrix cores.
ON_MATRICES = (
    "linear", "gated_linear", "layer_norm_linear", "expert_linear", "matmul", "attention", "attention_backward",
)  # fmt: skip


#: Places of matrices that are float32 beside others in 16 bits, as vectors are.
WIDE = {"attention": 5, "expert_linear": 4}


def matrix_operands(case: Any) -> list[np.ndarray]:
    """The operands of a row as kernels take them."""

    def widened(place: int, value: np.ndarray) -> np.ndarray:
        wide = value.ndim == 1 or WIDE.get(case.op) == place
        return value.astype(np.float32) if wide and value.dtype == np.float16 else value

    return [widened(*pair) for pair in enumerate(case.operands())]


def compiled_matrices(case: Any, target: str = "cuda", matrix_cores: bool = True) -> kernels.Compiled:
    operands = [(value.dtype.name, value.shape) for value in matrix_operands(case)]
    return kernels.compile_op(case.op, operands, target, matrix_cores=matrix_cores, **case.attributes)


def every_on_matrices(target: str) -> list[str]:
    """The float16 rows that run on matrix cores in a language."""
    narrow = [case for case in CASES if case.dtype == "float16" and case.op in ON_MATRICES]
    return [case.id for case in narrow if all(value.size for value in case.operands()) and _on_matrices(case, target)]


def _on_matrices(case: Any, target: str) -> bool:
    try:
        return any("-matrix" in name for name in compiled_matrices(case, target).code)
    except errors.UnsupportedError:
        return False  # rows of odd length


def matrix_fault(case: Any, found: list[np.ndarray]) -> str | None:
    """What is wrong with results in float16 of a row."""
    operands = case.operands()
    expected = evaluate(case.op, operands, case.attributes)
    return beyond(found, expected, bounds(case, operands, expected, "float16")[1])


def fault(case, found: list[np.ndarray]) -> str | None:
    """What is wrong with the results of a row: NaN must be where the reference has it, and nowhere else."""
    operands = case.operands()
    expected = evaluate(case.op, operands, case.attributes)
    return beyond(found, expected, bound(case.op, operands, case.attributes, expected, False))


def fault_in_bfloat16(case, target: str, run: Callable[..., list[np.ndarray]]) -> str | None:
    """As `fault` of a row in bfloat16, whose operands and results NumPy has as words of 16 bits."""
    _, (_, operands, _) = forms(case)
    name = {"attention": "flash_attention", "gated_linear": "swiglu"}.get(case.op, case.op)
    # Weight vectors are float32.
    types = [kind for kind, _ in kernels.get(name, use_bfloat16=True).operands()][: len(operands)]
    operands = [np.float32(value) if kind == "float32" else value for kind, value in zip(types, operands, strict=True)]
    shapes = [(kind, value.shape) for kind, value in zip(types, operands, strict=True)]
    compiled = kernels.compile_op(case.op, shapes, target, **case.attributes)
    assert all(name.endswith("-bfloat16") for name in compiled.code)
    narrow = [row for row in compiled.interface["buffers"] if row.get("dtype") == "bfloat16"]
    results = [row for row in narrow if row["kind"] == "result"]
    for row in narrow:
        row["dtype"] = "uint16"
    given = [
        np.frombuffer(safetensors_file.to_bytes(value, "BF16"), np.uint16) if kind == "bfloat16" else value
        for kind, value in zip(types, operands, strict=True)
    ]
    found = run(compiled, given)
    assert len(found) == len(results)
    found = [(words.astype(np.uint32) << 16).view(np.float32) for words in found]
    expected = evaluate(case.op, operands, case.attributes)
    _, allowed = bounds(case, operands, expected, "bfloat16")
    return beyond(found, expected, allowed)


def beyond(found: list[np.ndarray], expected: Any, allowed: Any) -> str | None:
    if not isinstance(expected, tuple):
        expected, allowed = (expected,), (allowed,)
    each = zip(found, expected, allowed, strict=True)
    faults = [agrees(y, of, np.broadcast_to(within, np.shape(of))) for y, of, within in each]
    return next((problem for problem in faults if problem), None)
