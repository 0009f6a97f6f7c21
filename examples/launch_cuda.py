"""Runs an exported kernel on an NVIDIA GPU through its driver; needs no grilly, and of CUDA's toolkit nothing.

python -m grilly export softmax_dropout --target ptx --option p=0.0 --rows 4 --out softmax.ptx
python examples/launch_cuda.py softmax.json

The driver compiles PTX of its own version of CUDA and older ones. `nvcc -ptx` makes it from the target "cuda", too.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

TYPES = {"uint": np.uint32, "int": np.int32, "float": np.float32}
#: CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
MOST_DYNAMIC_MEMORY = 8


def parameters(block: dict[str, Any]) -> bytes:
    """The parameters of a dispatch, 4 bytes each."""
    data = bytearray(block["bytes"])
    for member in block["members"]:
        data[member["offset"] : member["offset"] + 4] = TYPES[member["type"]](member["value"]).tobytes()
    return bytes(data)


class Driver:
    """The CUDA driver with a context of the first GPU."""

    def __init__(self) -> None:
        self.library, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        """A function of the driver, whose failure is an exception."""
        status = getattr(self.library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} failed with {status}")

    def buffer(self, data: bytes) -> ctypes.c_uint64:
        """Memory of the GPU with these bytes."""
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(len(data)))
        self.call("cuMemcpyHtoD_v2", pointer, data, ctypes.c_size_t(len(data)))
        return pointer

    def read(self, pointer: ctypes.c_uint64, size: int) -> bytes:
        """Bytes of the GPU's memory, once all launches are done."""
        data = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", data, pointer, ctypes.c_size_t(size))
        return data.raw

    def function(self, ptx: bytes) -> ctypes.c_void_p:
        """The kernel of a PTX text."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ptx + b"\0")
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"main0")
        return function

    def launch(self, function: ctypes.c_void_p, row: dict[str, Any], buffers: list[ctypes.c_uint64]) -> None:
        """Starts one dispatch: a pointer per binding, then the parameters; dynamic memory has to be allowed."""
        given: list[Any] = [
            ctypes.c_uint64((buffers[one["buffer"]].value or 0) + one["offset"]) for one in row["bindings"]
        ]
        if row["parameters"]["members"]:
            given.append(ctypes.create_string_buffer(parameters(row["parameters"])))
        pointers = (ctypes.c_void_p * len(given))(*(ctypes.addressof(one) for one in given))
        dynamic = row.get("dynamic_memory", 0)
        if dynamic:
            self.call("cuFuncSetAttribute", function, MOST_DYNAMIC_MEMORY, dynamic)
        self.call("cuLaunchKernel", function, *row["grid"], *row["workgroup_size"], dynamic, None, pointers, None)


def run(interface: dict[str, Any], code: dict[str, bytes], operands: list[np.ndarray]) -> list[np.ndarray]:
    """The results of a kernel, whose shaders' PTX is given by name, for these operands."""
    driver, buffers = Driver(), []
    for row in interface["buffers"]:
        if row["kind"] == "operand":
            data = np.ascontiguousarray(operands[row["place"]]).tobytes()
        elif row["kind"] == "counts":
            data = np.asarray(row["words"], np.uint32).tobytes()
        else:
            # NaN, so that what is not written shows.
            data = b"\xff" * row["bytes"]
        buffers.append(driver.buffer(data.ljust(max(row["bytes"], 16), b"\0")))
    functions = {name: driver.function(text) for name, text in code.items()}
    for row in interface["dispatches"]:
        driver.launch(functions[row["shader"]], row, buffers)
    found = []
    for _, at in sorted((row["place"], at) for at, row in enumerate(interface["buffers"]) if row["kind"] == "result"):
        row = interface["buffers"][at]
        count = int(np.prod(row["shape"], dtype=np.int64))
        data = driver.read(buffers[at], row["bytes"])
        found.append(np.frombuffer(data, row["dtype"], count).reshape(row["shape"]))
    return found


def main(path: Path) -> None:
    """Runs the kernel of an interface file on random operands."""
    interface = json.loads(path.read_text())
    code = {row["shader"]: (path.parent / row["file"]).read_bytes() for row in interface["dispatches"]}
    rng = np.random.default_rng(0)
    given = [row for row in interface["buffers"] if row["kind"] == "operand"]
    operands = [rng.random(row["shape"]).astype(row["dtype"]) for row in given]
    for result in run(interface, code, operands):
        print(result.dtype, result.shape, result.ravel()[:4])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
