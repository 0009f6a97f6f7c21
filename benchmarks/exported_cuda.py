"""Exported CUDA on an NVIDIA GPU: every operation against float64, then row kernels timed beside Vulkan's.

python benchmarks/exported_cuda.py     # needs the driver, Vulkan and NVRTC (the system's, or nvidia-cuda-nvrtc-cu12)
python benchmarks/exported_cuda.py --matrix-cores     # products and attention in float16 on matrix cores

Both sides run the same form on the same GPU, in turns, float32 without matrix cores; the time is the device's
own, the best of five rounds of ten calls: CUDA's by its events, Vulkan's by its timestamps. First the outputs must
agree. The table names the kernels of both sides; where they differ, Vulkan's uses a feature that is not exported.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "examples")]

import launch_cuda  # noqa: E402
import measure as machine  # noqa: E402
import numpy as np  # noqa: E402
from exported import (  # noqa: E402
    NARROW,
    compiled_for,
    compiled_matrices,
    every_on_matrices,
    fault,
    fault_in_bfloat16,
    matrix_fault,
    matrix_operands,
    of,
    rows,
)

import grilly  # noqa: E402
from grilly import _core, kernels  # noqa: E402
from grilly.profiling import profile  # noqa: E402

ROUNDS, CALLS = 5, 10
#: Seconds before a row is timed.
WARM = 0.5
ROWS, COLUMNS = 16384, 4096
WIDE, VECTOR = (ROWS, COLUMNS), (COLUMNS,)
#: One text.
TEXT = np.array([0, 4096], np.int32)
ANGLES = (4096, 32)
#: Operation, shapes of its operands, or integers, attributes.
TIMED: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("layer_norm", [WIDE, VECTOR, VECTOR], {}),
    ("layer_norm", [(65536, 384), (384,), (384,)], {}),
    ("rms_norm", [WIDE, VECTOR], {}),
    ("residual_layer_norm", [WIDE, WIDE, VECTOR, VECTOR], {}),
    ("layer_norm_backward", [WIDE, WIDE, VECTOR], {}),
    ("softmax", [WIDE], {}),
    ("softmax", [(65536, 512)], {}),
    ("softmax_backward", [WIDE, WIDE], {}),
    ("activation", [WIDE], {"kind": "gelu_tanh"}),
    ("bias_gelu", [WIDE, VECTOR], {}),
    ("softmax_dropout", [WIDE], {"p": 0.1, "seed": 0}),
    ("residual_rms_norm", [WIDE, WIDE, VECTOR], {}),
    ("rms_norm_rope", [(16, 4096, 16, 64), (1024,), ANGLES, ANGLES], {}),
    ("binary", [WIDE, WIDE], {"kind": "add"}),
    ("normalize", [WIDE], {}),
    ("linear", [(4096, 1024), (4096, 1024)], {}),
    ("linear", [(16384, 768), (768, 768)], {}),
    ("gated_linear", [(4096, 1024), (4096, 1024), (4096, 1024)], {"kind": "silu"}),
    ("gated_linear", [(4096, 1024), (4096, 1024), (4096, 1024)], {"kind": "gelu_tanh"}),
    # The blocks of a device with 256 invocations a workgroup, on both sides.
    (
        "attention",
        [(4096, 1024)] * 3 + [TEXT, TEXT],
        {"heads": 16, "kv_heads": 16, "head_dim": 64, "scale": 0.125, "causal": False, "blocks": [64, 64]},
    ),
    ("layer_norm_linear", [(4096, 1024), (1024,), (1024,), (4096, 1024), (4096,)], {"bias": True}),
]

TOKENS, TEXTS = (32768, 768), np.arange(0, 32769, 512, dtype=np.int32)
HEADS = {"heads": 12, "kv_heads": 12, "head_dim": 64, "scale": 0.125}
#: The same of float16, vectors in float32.
IN_HALF: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("linear", [(8192, 8192), (8192, 8192)], {}),
    ("linear", [(16384, 768), (3072, 768), (3072,)], {"bias": True, "activation": "gelu_erf"}),
    ("linear", [(16384, 3072), (768, 3072), (768,), (16384, 768)], {"bias": True, "residual": "added"}),
    ("gated_linear", [(16384, 768), (2048, 768), (2048, 768)], {"kind": "silu"}),
    ("layer_norm_linear", [(16384, 768), (768,), (768,), (3072, 768), (3072,)], {"bias": True}),
    ("attention", [TOKENS] * 3 + [TEXTS, TEXTS], HEADS),
    ("attention", [TOKENS] * 3 + [TEXTS, TEXTS], {**HEADS, "causal": True}),
    ("attention", [TOKENS] * 3 + [TEXTS, TEXTS], {**HEADS, "blocks": [64, 64]}),
    ("attention", [TOKENS] * 3 + [TEXTS, TEXTS], {**HEADS, "blocks": [64, 64], "causal": True}),
]


def run(compiled: kernels.Compiled, operands: list[np.ndarray]) -> list[np.ndarray]:
    return launch_cuda.run(compiled.interface, compiled.code, operands)


def judge_matrices(only: str | None) -> dict[str, Any]:
    """Runs every row of products and attention in float16 that has a build for matrix cores."""
    names = [name for name in every_on_matrices("cuda") if only in (None, of(name).op)]
    wrong = []
    for name in names:
        problem = matrix_fault(of(name), run(compiled_matrices(of(name), "ptx"), matrix_operands(of(name))))
        if problem:
            wrong.append(f"{name}: {problem}")
            print(f"WRONG {wrong[-1]}")
    print(f"against float64: {len(names) - len(wrong)} rows right, {len(wrong)} wrong", flush=True)
    case = of("linear-half-7x64x80")
    compiled = compiled_matrices(case, "cuda")
    ((shader, code),) = compiled.code.items()
    other = code.decode().replace("LOAD(right_columns, false, false", "LOAD(right_columns, false, true")
    changed = kernels.Compiled({shader: kernels.ptx(other)}, compiled.interface)
    problem = matrix_fault(case, run(changed, matrix_operands(case)))
    print(f"control, a weight exchanged: {problem or 'NOT NOTICED'}")
    return {"right": len(names) - len(wrong), "wrong": wrong, "control": problem}


def judge(only: str | None) -> dict[str, Any]:
    """Runs two rows of every operation, fused ones in bfloat16, too, and a control that must fail."""
    right, wrong, start = 0, [], time.perf_counter()
    for case in [case for case in [*rows(every=True), *map(of, NARROW)] if only in (None, case.op)]:
        try:
            if case.id in NARROW:
                problem = fault_in_bfloat16(case, "ptx", run)
            else:
                problem = fault(case, run(compiled_for(case, "ptx"), case.operands()))
        except (RuntimeError, grilly.GrillyError) as error:
            problem = str(error)[:300]
        right += problem is None
        if problem:
            wrong.append(f"{case.id}: {problem}")
            print(f"WRONG {wrong[-1]}")
    print(f"against float64: {right} rows right, {len(wrong)} wrong, {time.perf_counter() - start:.0f} s", flush=True)
    # Barriers are no control: a warp of NVIDIA's runs in step.
    case = of("softmax-3x65")
    compiled = compiled_for(case, "cuda")
    changed = compiled.code["softmax"].decode().replace("0.69335", "0.7")
    assert changed.encode() != compiled.code["softmax"]
    compiled = kernels.Compiled({"softmax": kernels.ptx(changed)}, compiled.interface)
    problem = fault(case, run(compiled, case.operands()))
    print(f"control, exponentials by another ln 2: {problem or 'NOT NOTICED'}")
    return {"right": right, "wrong": wrong, "control": problem}


class Cuda:
    """The exported kernels of an operation, with their memory."""

    def __init__(
        self, driver: launch_cuda.Driver, op: str, operands: list[np.ndarray], attributes: dict[str, Any], half: bool
    ) -> None:
        shapes = [(value.dtype.name, value.shape) for value in operands]
        compiled = kernels.compile_op(op, shapes, "ptx", matrix_cores=half, **attributes)
        self.driver, self.interface, self.buffers = driver, compiled.interface, []
        for row in compiled.interface["buffers"]:
            if row["kind"] == "operand":
                data = operands[row["place"]].tobytes()
            else:
                data = np.asarray(row.get("words", []), np.uint32).tobytes()
            self.buffers.append(driver.buffer(data.ljust(max(row["bytes"], 16), b"\0")))
        made = {name: driver.function(code) for name, code in compiled.code.items()}
        self.steps = [(made[row["shader"]], row) for row in compiled.interface["dispatches"]]

    def seconds(self) -> float:
        events = [ctypes.c_void_p() for _ in range(2)]
        for event in events:
            self.driver.call("cuEventCreate", ctypes.byref(event), 0)
        self.driver.call("cuEventRecord", events[0], None)
        for _ in range(CALLS):
            for function, row in self.steps:
                self.driver.launch(function, row, self.buffers)
        self.driver.call("cuEventRecord", events[1], None)
        self.driver.call("cuEventSynchronize", events[1])
        passed = ctypes.c_float()
        self.driver.call("cuEventElapsedTime", ctypes.byref(passed), *events)
        return passed.value / 1000 / CALLS

    def result(self) -> np.ndarray:
        place, row = next(pair for pair in enumerate(self.interface["buffers"]) if pair[1]["kind"] == "result")
        return np.frombuffer(self.driver.read(self.buffers[place], row["bytes"]), row["dtype"])

    def names(self) -> str:
        return "+".join(row["shader"] for _, row in self.steps)

    def free(self) -> None:
        for buffer in self.buffers:
            self.driver.call("cuMemFree_v2", buffer)


def vulkan_seconds(engine: Any, op: str, arrays: list[Any], attributes: dict[str, Any]) -> tuple[float, str]:
    """Seconds of a call, and the kernels that ran."""
    with profile() as profiled:
        for _ in range(CALLS):
            engine.call(op, arrays, attributes)
        engine.synchronize()
    return sum(one.seconds for one in profiled.times) / CALLS, "+".join(one.kernel for one in profiled.times)


def timed(
    driver: launch_cuda.Driver, engine: Any, op: str, shapes: list[Any], attributes: dict[str, Any], half: bool
) -> Any:
    """Times of an operation on both sides, once their results agree."""
    rng = np.random.default_rng(0)
    operands = [one if isinstance(one, np.ndarray) else rng.standard_normal(one, np.float32) for one in shapes]
    if half:
        operands = [one.astype(np.float16) if one.ndim > 1 else one for one in operands]
    shapes = [value.shape for value in operands]
    cuda = Cuda(driver, op, operands, attributes, half)
    arrays = [engine.upload(value) for value in operands]
    expected = engine.call(op, arrays, attributes).numpy().ravel().astype(np.float32)
    start = time.perf_counter()
    while time.perf_counter() - start < WARM:
        cuda.seconds()
    apart = float(np.abs(cuda.result() - expected).max() / np.abs(expected).max())
    times = [(cuda.seconds(), *vulkan_seconds(engine, op, arrays, attributes)) for _ in range(ROUNDS)]
    one, other = min(row[0] for row in times), min(row[1] for row in times)
    cuda.free()
    return {
        "operation": op, "shapes": shapes, "attributes": attributes, "apart": apart, "cuda_seconds": one,
        "vulkan_seconds": other, "ratio": one / other, "cuda_kernels": cuda.names(), "vulkan_kernels": times[0][2],
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="OPERATION", help="one operation, in a result file of its own")
    parser.add_argument("--matrix-cores", action="store_true", help="products and attention in float16 on matrix cores")
    given = parser.parse_args()
    only, half = given.only, given.matrix_cores
    # The same form on both sides: without matrix cores.
    grilly.configure(float32_products="plain")
    driver, engine = launch_cuda.Driver(), _core.engine("vulkan")
    device = grilly.info()["choice"]["name"]
    print(f"device: {device}")
    if "NVIDIA" not in device:
        print("Vulkan runs elsewhere: there is nothing to compare")
        return 1
    launch_cuda.Driver = lambda: driver  # type: ignore[assignment, misc]  # one context for all
    judged, rows = (judge_matrices if half else judge)(only), []
    print("| operation | shape | CUDA us | Vulkan us | CUDA / Vulkan | kernels |\n|---|---|---|---|---|---|")
    for one in [one for one in (IN_HALF if half else TIMED) if only in (None, one[0])]:
        row = timed(driver, engine, *one, half)
        rows.append(row)
        size, names = "x".join(map(str, row["shapes"][0])), row["cuda_kernels"]
        if sorted(row["vulkan_kernels"].split("+")) != sorted(names.split("+")):
            names += f"; Vulkan {row['vulkan_kernels']}"
        times = f"{row['cuda_seconds'] * 1e6:.0f} | {row['vulkan_seconds'] * 1e6:.0f} | {row['ratio']:.2f}"
        print(f"| {row['operation']} | {size} | {times} | {names} |", flush=True)
    facts = {"device": device, "machine": machine.machine(), "against_float64": judged, "rows": rows}
    print(machine.save("-".join(["exported-cuda", *["matrices"] * half, *([only] if only else [])]), device, facts))
    most = 2e-3 if half else 1e-5
    differing = [f"{row['operation']} by {row['apart']:.1e}" for row in rows if not row["apart"] < most]
    print("differing results:", differing or "none")
    return int(bool(judged["wrong"] or differing or not judged["control"]))


if __name__ == "__main__":
    raise SystemExit(main())
