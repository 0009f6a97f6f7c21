"""WebGPU's limits: what is found beyond them. Every operation's rows are checked where they run (test_export.py)."""

import pytest
from exported import compiled_for, of
from web_limits import BEYOND, MOST, beyond, check

from grilly import _core, kernels


def test_few_operations_ask_for_more():
    assert len(BEYOND) <= MOST and BEYOND.keys() <= set(_core.op_names())


@pytest.mark.parametrize(
    "text, other, limit",
    [
        ("array<f32, 512>", "array<f32, 4097>", "maxComputeWorkgroupStorageSize"),
        ("@workgroup_size(256, 1, 1)", "@workgroup_size(256, 2, 1)", "maxComputeInvocationsPerWorkgroup"),
        ("var<uniform>", "var<storage> a: f32;" * 5 + "var<uniform>", "maxStorageBuffersPerShaderStage"),
    ],
)
def test_what_exceeds_a_limit_is_found(text, other, limit):
    compiled = compiled_for(of("layer_norm-3x65"), "wgsl")
    assert beyond(compiled) == {}
    (name, code), *_ = compiled.code.items()
    assert text.encode() in code
    changed = kernels.Compiled({name: code.replace(text.encode(), other.encode())}, compiled.interface)
    assert beyond(changed).keys() == {limit}
    with pytest.raises(AssertionError):
        check("layer_norm", changed)


def test_large_matrices_are_bound_in_slices_and_large_activations_are_reported():
    sliced = kernels.compile_op("linear", [("float32", (2, 1024)), ("float32", (40000, 1024))], "wgsl")
    assert len(sliced.interface["dispatches"]) == 2 and beyond(sliced) == {} == dict(sliced.interface["limits"])
    large = kernels.compile_op("normalize", [("float32", (40000, 1024))], "wgsl")
    (told,) = large.interface["limits"]
    assert beyond(large) == {told["name"]: told["needed"]} == {"maxStorageBufferBindingSize": 40000 * 4096}


def test_memory_that_decides_about_barriers_is_read_as_uniform():
    (code,) = compiled_for(of("attention_output-random-33x65"), "wgsl").code.values()
    assert b"workgroupUniformLoad((&agreed_keys[" in code and b"atomicLoad((&agreed_" not in code
