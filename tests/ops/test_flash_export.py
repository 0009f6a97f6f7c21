"""Tuned configurations of flash attention in other languages: limits by architecture, values, the page of all rows."""

import ctypes
import dataclasses
import json
import re

import flash_on_cuda
import flash_page
import launch_webgpu
import native
import numpy as np
import pytest
from cases.bounds import bound
from cases.comparison import agrees
from cases.reference import evaluate
from conftest import need, need_vulkan

from grilly import _core, errors, kernels

ARCHITECTURES = {name: dict(limits) for name, _, _, limits in _core.kernel_architectures()}
OF_ROW = {name: row for name, _, row, _ in _core.kernel_architectures() if row}
ROWS = {name: value for name, value in vars(kernels.TunedConfigs).items() if not name.startswith("_")}
TARGETS = ("spirv", "cuda", "ptx", "msl", "hlsl", "wgsl")
#: Bytes that NVIDIA's, Khronos', Apple's, Microsoft's and W3C's tables state.
PUBLISHED = {
    ("cuda", "any"): 49_152, ("cuda", "sm_75"): 65_536, ("cuda", "sm_80"): 166_912, ("cuda", "sm_86"): 101_376,
    ("cuda", "sm_89"): 101_376, ("cuda", "sm_90"): 232_448, ("cuda", "sm_100"): 232_448, ("cuda", "sm_120"): 101_376,
    ("spirv", "any"): 16_384, ("spirv", "sm_90"): 49_152, ("spirv", "rdna3"): 65_536, ("spirv", "apple"): 32_768,
    ("msl", "apple"): 32_768, ("hlsl", "any"): 32_768, ("wgsl", "any"): 16_384, ("wgsl", "sm_80"): 32_768,
}  # fmt: skip
#: GPUs whose row needs more than they have: their nearest.
NEAREST = {"sm_89": (128, 128, 128), "sm_120": (128, 128, 128)}


def kernel(config, **options):
    return kernels.get("flash_attention", hidden_dim=2 * config.head_dim, config=config, **options)


@pytest.mark.parametrize("target, architecture", PUBLISHED, ids="-".join)
def test_limits_are_the_published_ones(target, architecture):
    assert ARCHITECTURES[architecture][target] == PUBLISHED[target, architecture]


def test_what_each_row_needs():
    needs = {name: kernels.required_shared_memory(config) for name, config in ROWS.items()}
    assert needs["ampere"] <= ARCHITECTURES["sm_86"]["cuda"] and needs["hopper"] <= ARCHITECTURES["sm_90"]["cuda"]
    assert needs["rdna3"] <= ARCHITECTURES["rdna3"]["spirv"] and needs["apple"] <= ARCHITECTURES["apple"]["msl"]


@pytest.mark.parametrize("architecture", OF_ROW)
def test_each_row_compiles_for_the_gpus_that_it_is_named_after(architecture):
    """In their own language; the row of a smaller GPU of a generation is the nearest that fits."""
    name = OF_ROW[architecture]
    for target in ("cuda", "ptx") if architecture.startswith("sm_") else ("spirv", "wgsl"):
        config = ROWS[name]
        if architecture in NEAREST:
            with pytest.raises(kernels.SharedMemoryError, match=f"as {target} on {architecture}: it needs") as caught:
                kernel(config).compile(target, 5, architecture)
            error = caught.value
            assert (error.need, error.limit) == (131_072, ARCHITECTURES[architecture][target])
            assert dataclasses.astuple(error.nearest)[:3] == NEAREST[architecture]
            config = error.nearest
        compiled = kernel(config).compile(target, 5, architecture)
        told = compiled.interface["configuration"]
        assert told["architecture"] == architecture and told["limit"] == ARCHITECTURES[architecture][target]
        assert told["shared_memory"] == kernels.required_shared_memory(config) <= told["limit"], name
        (row,) = compiled.interface["dispatches"]
        assert row["workgroup_memory"] == told["shared_memory"]
        assert row["workgroup_size"][0] == config.block_q


@pytest.mark.parametrize("name", ROWS)
def test_a_row_knows_its_architecture(name):
    """Without one a row compiles for a GPU that it is named after."""
    target = {"apple": "msl", "rdna3": "spirv", "rdna4": "spirv", "intel_xe": "spirv"}.get(name, "cuda")
    told = kernel(ROWS[name]).compile(target).interface["configuration"]
    same = [other for other, row in OF_ROW.items() if ROWS[row] == ROWS[name] and target in ARCHITECTURES[other]]
    assert told["architecture"] in (same or [None])
    assert "reason" not in told


@pytest.mark.parametrize("architecture", OF_ROW)
def test_without_a_configuration_the_nearest_row_is_chosen_and_the_reason_told(architecture):
    target = "cuda" if architecture.startswith("sm_") else "spirv"
    row = ROWS[OF_ROW[architecture]]
    plain = kernels.get("flash_attention", hidden_dim=2 * row.head_dim, head_dim=row.head_dim, use_half=True)
    told = plain.compile(target, 5, architecture).interface["configuration"]
    assert told["row"] == OF_ROW[architecture] and told["head_dim"] == row.head_dim
    blocks = told["block_q"], told["block_kv"], told["head_dim"]
    if architecture in NEAREST:
        assert blocks == NEAREST[architecture]
        assert re.search(r"nearest to the row .* needs 131072 bytes of 101376", told["reason"])
    else:
        assert blocks == dataclasses.astuple(row)[:3] and told["reason"] == f"the row {told['row']}"
    # Without an architecture, and in float32, it is the engine's choice.
    assert "configuration" not in plain.compile(target, 5).interface
    wide = kernels.get("flash_attention", hidden_dim=128)
    assert wide.compile(target, 5, architecture).code == wide.compile(target, 5).code


def test_what_is_refused():
    with pytest.raises(errors.InvalidArgumentError, match='architecture is "sm_99", expected one of "any", "sm_75"'):
        kernel(ROWS["ampere"]).compile("cuda", 1, "sm_99")
    with pytest.raises(errors.InvalidArgumentError, match='"rdna3", expected one of .* for the target msl'):
        kernel(ROWS["rdna3"]).compile("msl", 1, "rdna3")
    with pytest.raises(errors.InvalidTypeError, match="architecture is of type int"):
        kernel(ROWS["rdna3"]).compile("msl", 1, 80)
    with pytest.raises(kernels.SharedMemoryError, match="limit is 16384; 128 x 64 fits") as caught:
        kernel(ROWS["ampere"]).compile("wgsl", 1, "any")
    assert caught.value.nearest == dataclasses.replace(ROWS["ampere"], block_kv=64)


def test_more_than_static_memory_is_one_dynamic_array():
    for name, dynamic in (("ampere", None), ("hopper", 131_072)):
        compiled = kernel(ROWS[name]).compile("cuda", 5, "sm_90")
        (text,), (row,) = compiled.code.values(), compiled.interface["dispatches"]
        assert row.get("dynamic_memory") == dynamic
        assert (b"extern __shared__ uint4 dynamic_memory[];" in text) == (dynamic is not None)
        assert text.count(b"__shared__") == (1 if dynamic else 2)
        ptx = kernels.ptx(text.decode()).decode()
        own = sum(int(size) for size in re.findall(r"\.shared .*\[(\d+)\];", ptx))
        assert own == (0 if dynamic else kernels.required_shared_memory(ROWS[name]))
        assert (".extern .shared" in ptx) == (dynamic is not None)


def judged(config, causal, run, target, architecture=None, tokens=150):
    """What is wrong with a row's numbers on one text, weights in float32."""
    compiled = kernel(config, causal=causal).compile(target, tokens, architecture)
    assert list(compiled.code) == ["attention-registers"]
    given = flash_on_cuda.operands(compiled.interface)
    (found,) = run(compiled, given)
    return flash_on_cuda.fault(compiled.interface, given, found, causal)


@pytest.mark.parametrize(
    "name, target, causal",
    [("ampere", "cuda", True), ("hopper", "cuda", False), ("apple", "msl", True)],
)
def test_cuda_and_msl_compute_a_row_on_a_cpu(name, target, causal, tmp_path):
    config, tokens = ROWS[name], 150 if name == "apple" else 270
    problem = judged(config, causal, lambda c, o: native.run(c, o, tmp_path), target, tokens=tokens)
    assert problem is None, problem


@pytest.mark.vulkan
@pytest.mark.parametrize("causal", [False, True])
def test_wgsl_computes_a_row(causal):
    need_vulkan()
    code = lambda compiled: {name: text.decode() for name, text in compiled.code.items()}  # noqa: E731
    run = lambda compiled, given: launch_webgpu.run(compiled.interface, code(compiled), given)  # noqa: E731
    problem = judged(ROWS["apple"], causal, run, "wgsl", "any")
    assert problem is None, problem


@pytest.mark.parametrize("target", ["cuda", "msl"])
def test_the_comparison_fails_for_a_kernel_that_is_wrong(target, tmp_path):
    def run(compiled, given):
        code = {name: text.replace(b"0.69335", b"0.7") for name, text in compiled.code.items()}
        assert code != compiled.code
        return native.run(kernels.Compiled(code, compiled.interface), given, tmp_path)

    assert judged(ROWS["apple"], False, run, target) is not None


#: Attributes of attention that a call with blocks may have, and lengths of its texts.
MASKED = {
    "causal": ({"causal": True}, (40, 0, 1, 89)),
    "window": ({"window": 9, "global_tokens": 2}, (130,)),
    "end": ({"causal": True, "align_end": True}, (33, 65)),
    "bias": ({"bias": True}, (17, 64)),
    "soft_cap": ({"soft_cap": 3.0, "causal": True}, (70,)),
}


@pytest.mark.vulkan
@pytest.mark.parametrize("name", MASKED)
def test_blocks_in_half_precision_compute_every_mask(vulkan, name):
    """On a device, in blocks of 32 x 48, whatever kernel they take."""
    masks, lengths = MASKED[name]
    rng = np.random.default_rng(7)
    offsets = np.r_[0, np.cumsum(lengths)].astype(np.int32)
    given = [rng.standard_normal((offsets[-1], width * 32)).astype(np.float16) for width in (4, 2, 2)]
    given += [offsets, offsets] + ([rng.standard_normal((4, 11)).astype(np.float32)] if "bias" in masks else [])
    attributes = {"heads": 4, "kv_heads": 2, "head_dim": 32, "scale": 0.2, "blocks": [32, 48]} | masks
    engine = _core.engine("vulkan")
    found = engine.call("attention", [engine.upload(value) for value in given], attributes).numpy()
    expected = evaluate("attention", given, attributes)
    allowed = bound("attention", given, attributes, expected, True)
    assert agrees(found, expected, np.broadcast_to(allowed, expected.shape)) is None


@pytest.mark.vulkan
def test_hidden_numbers_that_are_not_finite_have_no_effect(vulkan):
    x = np.random.default_rng(1).standard_normal((90, 32)).astype(np.float16)
    offsets = np.array([0, 60, 90], np.int32)
    wild = x.copy()
    wild[50] = np.nan
    engine = _core.engine("vulkan")

    def call(values):
        given = [engine.upload(value) for value in (x, values, values, offsets, offsets)]
        attributes = {"heads": 1, "kv_heads": 1, "head_dim": 32, "scale": 0.2, "causal": True, "blocks": [32, 16]}
        return engine.call("attention", given, attributes).numpy()

    clean, found = call(x), call(wild)
    assert np.isnan(found[50:60]).all()
    assert np.delete(found, range(50, 60), 0).tobytes() == np.delete(clean, range(50, 60), 0).tobytes()


def test_the_page_is_current():
    assert flash_page.PAGE.read_text(encoding="utf-8") == flash_page.page(), flash_page.REMEDY


def test_tuned_rows_on_an_nvidia_gpu(tmp_path):
    """Ampere and Hopper with their own shared memory."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        need("cuda", False, "no driver of NVIDIA's")
    for name, compiled in flash_on_cuda.compiled():
        compiled.write(tmp_path / f"{name}.ptx")
    assert flash_on_cuda.main(tmp_path) == 0


def test_files_have_what_a_launch_needs(tmp_path):
    compiled = kernel(ROWS["hopper"]).compile("cuda")
    _, beside = compiled.write(tmp_path / "hopper.cu")
    interface = json.loads(beside.read_text())
    assert interface["dispatches"][0]["dynamic_memory"] == interface["configuration"]["shared_memory"]
