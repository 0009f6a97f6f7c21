"""Runs an exported kernel on a GPU through wgpu-py; needs no grilly.

python -m grilly export softmax_dropout --target wgsl --option p=0.0 --rows 4 --out softmax.wgsl
pip install wgpu numpy
python examples/launch_webgpu.py softmax.json
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import wgpu

TYPES = {"uint": np.uint32, "int": np.int32, "float": np.float32}


@cache
def device() -> Any:
    """A device, with all that its GPU allows: wgpu-py asks for no less."""
    adapters = [one for one in wgpu.gpu.enumerate_adapters_sync() if one.info["backend_type"] == "Vulkan"]
    adapter = adapters[0] if adapters else wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    return adapter.request_device_sync()


def check(gpu: Any, limits: list[dict[str, Any]]) -> None:
    """Raises an error for what a kernel needs beyond WebGPU's default limits, and the GPU has not."""
    for row in limits:
        name = re.sub("[A-Z]", lambda letter: f"-{letter[0].lower()}", row["name"])
        if gpu.limits[name] < row["needed"]:
            raise RuntimeError(f"this GPU has a {name} of {gpu.limits[name]}: {row['needed']}, {row['reason']}")


def parameters(block: dict[str, Any]) -> bytes:
    """The parameters of a dispatch, 4 bytes each."""
    data = bytearray(block["bytes"])
    for member in block["members"]:
        data[member["offset"] : member["offset"] + 4] = TYPES[member["type"]](member["value"]).tobytes()
    return bytes(data)


def initial(row: dict[str, Any], operands: list[np.ndarray]) -> bytes:
    """What a buffer holds at first: results and scratch memory NaN, so that what is not written shows."""
    if row["kind"] == "operand":
        data = np.ascontiguousarray(operands[row["place"]]).tobytes()
    elif row["kind"] == "counts":
        data = np.asarray(row["words"], np.uint32).tobytes()
    else:
        data = b"\xff" * row["bytes"]
    return data.ljust(max(row["bytes"], 4), b"\0")


def results(interface: dict[str, Any], read: Any) -> list[np.ndarray]:
    """The results in order; `read` returns the bytes of a buffer by its place."""
    places = sorted((row["place"], at) for at, row in enumerate(interface["buffers"]) if row["kind"] == "result")
    found = []
    for _, at in places:
        row = interface["buffers"][at]
        count = int(np.prod(row["shape"], dtype=np.int64))
        found.append(np.frombuffer(read(at), row["dtype"], count).reshape(row["shape"]))
    return found


def run(interface: dict[str, Any], code: dict[str, str], operands: list[np.ndarray]) -> list[np.ndarray]:
    """The results of a kernel, whose shaders' texts are given by name, for these operands."""
    gpu = device()
    check(gpu, interface["limits"])
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
    data = [initial(row, operands) for row in interface["buffers"]]
    buffers = [gpu.create_buffer_with_data(data=one, usage=usage) for one in data]
    for row in interface["dispatches"]:
        dispatch(gpu, row, code[row["shader"]], interface["entry_point"], buffers)
    return results(interface, lambda place: gpu.queue.read_buffer(buffers[place]))


def dispatch(gpu: Any, row: dict[str, Any], text: str, entry_point: str, buffers: list[Any]) -> None:
    """Submits one dispatch."""
    kinds = {"read": wgpu.BufferBindingType.read_only_storage, "read_write": wgpu.BufferBindingType.storage}
    layout, entries = [], []

    def bind(number: int, kind: str, resource: dict[str, Any]) -> None:
        layout.append({"binding": number, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}})
        entries.append({"binding": number, "resource": resource})

    for one in row["bindings"]:
        part = {"buffer": buffers[one["buffer"]], "offset": one["offset"], "size": one["bytes"]}
        bind(one["binding"], kinds[one["access"]], part)
    block = row["parameters"]
    uniform = gpu.create_buffer_with_data(data=parameters(block), usage=wgpu.BufferUsage.UNIFORM)
    bind(block["binding"], wgpu.BufferBindingType.uniform, {"buffer": uniform, "offset": 0, "size": block["bytes"]})
    group_layout = gpu.create_bind_group_layout(entries=layout)
    pipeline = gpu.create_compute_pipeline(
        layout=gpu.create_pipeline_layout(bind_group_layouts=[group_layout]),
        compute={"module": gpu.create_shader_module(code=text), "entry_point": entry_point},
    )
    encoder = gpu.create_command_encoder()
    commands = encoder.begin_compute_pass()
    commands.set_pipeline(pipeline)
    commands.set_bind_group(0, gpu.create_bind_group(layout=group_layout, entries=entries))
    commands.dispatch_workgroups(*row["grid"])
    commands.end()
    gpu.queue.submit([encoder.finish()])


def main(path: Path) -> None:
    """Runs the kernel of an interface file on random operands."""
    interface = json.loads(path.read_text())
    code = {row["shader"]: (path.parent / row["file"]).read_text() for row in interface["dispatches"]}
    rng = np.random.default_rng(0)
    given = [row for row in interface["buffers"] if row["kind"] == "operand"]
    operands = [rng.random(row["shape"]).astype(row["dtype"]) for row in given]
    for result in run(interface, code, operands):
        print(device().adapter.info["device"], result.dtype, result.shape, result.ravel()[:4])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
