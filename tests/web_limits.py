"""WebGPU's limits, in numbers of the exported WGSL itself."""

from __future__ import annotations

import re
from math import prod

from grilly import kernels

#: What every device has.
DEFAULTS = {
    "maxStorageBuffersPerShaderStage": 8,
    "maxComputeWorkgroupStorageSize": 16 << 10,
    "maxComputeInvocationsPerWorkgroup": 256,
    "maxStorageBufferBindingSize": 128 << 20,
    "maxBufferSize": 256 << 20,
}
#: Operations that ask for more, at most MOST of them. Attention's gradients hold weights of 64 rows and 64 others.
BEYOND = {"attention_backward": {"maxComputeWorkgroupStorageSize"}}
MOST = 5


def bytes_of(kind: str) -> int:
    """Of a type of WGSL, as memory of a workgroup holds it."""
    if found := re.fullmatch(r"array<(.*), (\d+)>", kind):
        return bytes_of(found[1]) * int(found[2])
    if found := re.fullmatch(r"vec([234])<[fiu]32>", kind):
        return 8 if found[1] == "2" else 16
    assert kind in ("f32", "u32", "i32", "atomic<u32>"), f"{kind} is not known here"
    return 4


def counted(text: str) -> dict[str, int]:
    """What a module needs, by the names of limits."""
    memory = re.findall(r"var<workgroup> \w+: ([^;]+);", text)
    assert len(memory) == text.count("var<workgroup>")
    (sizes,) = re.findall(r"@workgroup_size\((\d+), (\d+), (\d+)\)", text)
    return {
        "maxStorageBuffersPerShaderStage": text.count("var<storage"),
        "maxComputeWorkgroupStorageSize": sum(-(-bytes_of(kind) // 16) * 16 for kind in memory),
        "maxComputeInvocationsPerWorkgroup": prod(map(int, sizes)),
    }


def needed(compiled: kernels.Compiled) -> dict[str, int]:
    """What an export needs: of its modules, its bindings, some of which no module uses, and its buffers."""
    found = dict.fromkeys(DEFAULTS, 0)
    for code in compiled.code.values():
        for name, number in counted(code.decode()).items():
            found[name] = max(found[name], number)
    rows = compiled.interface["dispatches"]
    bound = max(len(row["bindings"]) for row in rows)
    found["maxStorageBuffersPerShaderStage"] = max(found["maxStorageBuffersPerShaderStage"], bound)
    found["maxStorageBufferBindingSize"] = max(one["bytes"] for row in rows for one in row["bindings"])
    found["maxBufferSize"] = max(row["bytes"] for row in compiled.interface["buffers"])
    return found


def beyond(compiled: kernels.Compiled) -> dict[str, int]:
    """What of it is more than every device has."""
    return {name: number for name, number in needed(compiled).items() if number > DEFAULTS[name]}


def check(op: str, compiled: kernels.Compiled) -> None:
    """An operation keeps to the limits, or is one of those that tell what they need, in the sizes of its interface."""
    found, told = beyond(compiled), compiled.interface["limits"]
    assert found.keys() == BEYOND.get(op, set()), found
    assert {row["name"]: row["needed"] for row in told} == found
    assert all(row["default"] == DEFAULTS[row["name"]] and row["reason"] for row in told)
    for row in compiled.interface["dispatches"]:
        text = compiled.code[row["shader"]].decode()
        numbers = counted(text)
        assert "@workgroup_size({}, {}, {})".format(*row["workgroup_size"]) in text
        assert numbers["maxStorageBuffersPerShaderStage"] <= len(row["bindings"])
        # Of 16 bytes a piece, as WebGPU counts.
        assert numbers["maxComputeWorkgroupStorageSize"] == -(-row["workgroup_memory"] // 16) * 16
