"""Exported CUDA on an NVIDIA GPU: every operation against float64, then row kernels timed beside Vulkan's.

python benchmarks/exported_cuda.py     # needs the driver, Vulkan and NVRTC (the system's, or nvidia-cuda-nvrtc-cu12)

Both sides run the same float32 form on the same GPU, in turns; the time is the device's own, the best of five rounds of
ten calls: CUDA's by its events, Vulkan's by its timestamps. First the outputs must agree.
"""

from __future__ import annotations

import ctypes
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "examples")]

import launch_cuda  # noqa: E402
import numpy as np  # noqa: E402
from exported import compiled_for, fault, of, rows  # noqa: E402

import grilly  # noqa: E402
from grilly import _core, kernels  # noqa: E402
from grilly.profiling import profile  # noqa: E402

ROUNDS, CALLS = 5, 10
ROWS, COLUMNS = 16384, 4096
WIDE, VECTOR = (ROWS, COLUMNS), (COLUMNS,)
#: Operation, shapes of its operands, attributes.
TIMED: list[tuple[str, list[tuple[int, ...]], dict[str, Any]]] = [
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
    ("binary", [WIDE, WIDE], {"kind": "add"}),
    ("normalize", [WIDE], {}),
    ("linear", [(4096, 1024), (4096, 1024)], {}),
]


def judge(driver: launch_cuda.Driver) -> int:
    """Runs two rows of every operation, and a control that must fail; returns the number of faults."""
    launch_cuda.Driver = lambda: driver  # type: ignore[assignment, misc]  # one context for all
    right, wrong, start = 0, 0, time.perf_counter()
    for case in rows(every=True):
        try:
            compiled = compiled_for(case, "cuda")
            code = {name: text.decode() for name, text in compiled.code.items()}
            problem = fault(case, launch_cuda.run(compiled.interface, code, case.operands()))
        except (RuntimeError, grilly.GrillyError) as error:
            problem = str(error)[:300]
        right, wrong = right + (problem is None), wrong + (problem is not None)
        if problem:
            print(f"WRONG {case.id}: {problem}")
    print(f"against float64: {right} rows right, {wrong} wrong, {time.perf_counter() - start:.0f} s", flush=True)
    # Barriers are no control: a warp of NVIDIA's runs in step.
    case = of("softmax-3x65")
    compiled = compiled_for(case, "cuda")
    code = {name: text.decode().replace("0.69335", "0.7") for name, text in compiled.code.items()}
    assert code["softmax"] != compiled.code["softmax"].decode()
    problem = fault(case, launch_cuda.run(compiled.interface, code, case.operands()))
    print(f"control, exponentials by another ln 2: {'not noticed' if problem is None else 'noticed'}")
    return wrong + (problem is None)


class Cuda:
    """The exported kernels of an operation, with their memory."""

    def __init__(
        self, driver: launch_cuda.Driver, op: str, operands: list[np.ndarray], attributes: dict[str, Any]
    ) -> None:
        shapes = [("float32", value.shape) for value in operands]
        compiled = kernels.compile_op(op, shapes, "cuda", **attributes)
        self.driver, self.interface, self.buffers = driver, compiled.interface, []
        for row in compiled.interface["buffers"]:
            if row["kind"] == "operand":
                data = operands[row["place"]].tobytes()
            else:
                data = np.asarray(row.get("words", []), np.uint32).tobytes()
            self.buffers.append(driver.buffer(data.ljust(max(row["bytes"], 16), b"\0")))
        made = {name: driver.function(text.decode()) for name, text in compiled.code.items()}
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


def main() -> int:
    driver, engine = launch_cuda.Driver(), _core.engine("vulkan")
    device = grilly.info()["choice"]["name"]
    print(f"device: {device}")
    # The same form on both sides: without matrix cores.
    grilly.configure(float32_products="plain")
    if "NVIDIA" not in device:
        print("Vulkan runs elsewhere: there is nothing to compare")
        return 1
    faults = judge(driver)
    print("| operation | shape | CUDA us | Vulkan us | CUDA / Vulkan | kernels |\n|---|---|---|---|---|---|")
    for op, shapes, attributes in TIMED:
        rng = np.random.default_rng(0)
        operands = [rng.standard_normal(shape, np.float32) for shape in shapes]
        cuda = Cuda(driver, op, operands, attributes)
        arrays = [engine.upload(value) for value in operands]
        expected = engine.call(op, arrays, attributes).numpy().ravel()
        cuda.seconds()
        apart = np.abs(cuda.result() - expected).max() / np.abs(expected).max()
        if not apart < 1e-5:
            print(f"| {op} | {shapes[0]} | differs by {apart:.1e} |")
            faults += 1
        times = [(cuda.seconds(), *vulkan_seconds(engine, op, arrays, attributes)) for _ in range(ROUNDS)]
        one, other = min(row[0] for row in times), min(row[1] for row in times)
        size = "x".join(map(str, shapes[0]))
        print(
            f"| {op} | {size} | {one * 1e6:.0f} | {other * 1e6:.0f} | {one / other:.2f} | {times[0][2]} |", flush=True
        )
        cuda.free()
    return faults


if __name__ == "__main__":
    raise SystemExit(main())
