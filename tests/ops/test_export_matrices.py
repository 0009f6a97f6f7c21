"""Exported kernels on matrix cores against float64, run on the CPU; their interface; what is refused."""

import json
import subprocess
import sys

import native
import pytest
from conftest import LONG, need
from exported import compiled_matrices, every_on_matrices, matrix_fault, matrix_operands, of

from grilly import errors, kernels

#: Rows of each form of product and of attention, with edges of tiles and of texts; `make test-long` runs all.
ROWS = (
    "linear-half-65x40x16", "linear-half-7x64x80", "gated_linear-silu-half-65x40x16", "layer_norm_linear-half-65x40x16",
    "expert_linear-half-bias-65x2x8x40x16", "matmul-half-TT", "attention-half-5x1x7-4x1x64",
    "attention-hidden-half-all",
)  # fmt: skip

#: Those that do not depend on which lane of Metal's has which element.
METAL = (*ROWS[1:6], "attention-half-5x1x7-16")


@pytest.mark.parametrize("name", every_on_matrices("cuda") if LONG else ROWS)
def test_cuda_computes_the_operation_on_matrix_cores(name, tmp_path):
    case = of(name)
    compiled = compiled_matrices(case)
    assert any("-matrix" in shader for shader in compiled.code)
    problem = matrix_fault(case, native.run(compiled, matrix_operands(case), tmp_path))
    assert problem is None, problem


@pytest.mark.parametrize("name", every_on_matrices("msl") if LONG else METAL)
def test_msl_computes_the_operation_on_matrix_cores(name, tmp_path):
    case = of(name)
    compiled = compiled_matrices(case, "msl")
    (code,) = (code for shader, code in compiled.code.items() if "-matrix" in shader)
    assert b"simdgroup_multiply_accumulate(d" in code
    problem = matrix_fault(case, native.run(compiled, matrix_operands(case), tmp_path))
    assert problem is None, problem


@pytest.mark.parametrize(
    "name, text, other",
    [
        ("linear-half-7x64x80", "LOAD(right_columns, false, false", "LOAD(right_columns, false, true"),
        ("attention-half-5x1x7-16", "LOAD(right_rows, true, true", "LOAD(right_rows, true, false"),
        ("linear-half-7x64x80", "column_of_element(uint e) { return ", "column_of_element(uint e) { return 1u ^ "),
    ],
)
def test_the_comparison_fails_for_matrices_that_are_wrong(name, text, other, tmp_path):
    case = of(name)
    compiled = compiled_matrices(case)
    code = {shader: own.decode().replace(text, other).encode() for shader, own in compiled.code.items()}
    assert code != compiled.code
    changed = kernels.Compiled(code, compiled.interface)
    assert matrix_fault(case, native.run(changed, matrix_operands(case), tmp_path)) is not None


def test_the_interface_has_what_a_launch_needs():
    operands = [("float16", (8192, 8192)), ("float16", (8192, 8192))]
    interface = kernels.compile_op("linear", operands, "cuda", matrix_cores=True).interface
    assert (interface["entry_point"], interface["compute_capability"]) == ("main0", [8, 0])
    (row,) = interface["dispatches"]
    assert (row["shader"], row["workgroup_size"]) == ("linear-matrix-float16", [256, 1, 1])
    # Tiles of 192 x 128 in groups of eight along the rows.
    assert row["grid"] == [8 * 64, -(-8192 // (8 * 192)), 1]
    assert 32 << 10 < row["workgroup_memory"] <= 48 << 10
    assert kernels.compile_op("linear", operands, "cuda").interface["compute_capability"] == [7, 5]


@pytest.mark.parametrize("name", ["linear-33x63x64", "attention-causal-31x32x33-4x2x33", "layer_norm-3x65"])
def test_float32_is_what_it_is_without(name):
    case = of(name)
    assert compiled_matrices(case) == compiled_matrices(case, matrix_cores=False)


def test_kernels_run_on_matrix_cores_in_both_types_of_16_bits():
    for option, ending in (("use_half", "float16"), ("use_bfloat16", "bfloat16")):
        kernel = kernels.get("swiglu", hidden_dim=64, **{option: True})
        code = kernel.compile("cuda", 4, matrix_cores=True).code
        assert list(code) == [f"gated-linear-matrix-{ending}"]
        assert list(kernel.compile("cuda", 4).code) == [f"gated-linear-{ending}"]


@pytest.mark.parametrize("name", ["linear-half-7x64x80", "attention-hidden-half-all"])
def test_nvrtc_compiles_matrices_for_the_first_gpus_that_have_them(name):
    try:
        (code,) = compiled_matrices(of(name), "ptx").code.values()
    except errors.UnsupportedError as error:
        need("nvrtc", False, str(error))
    assert b".target sm_80" in code and b"mma.sync.aligned.m16n8k16" in code and b"ldmatrix" in code


def test_the_command_has_the_option(tmp_path):
    out = tmp_path / "linear.cu"
    arguments = ["linear", "--target", "cuda", "--matrix-cores", "--out", str(out)]
    for shape in ("16x32", "8x32"):
        arguments += ["--operand", f"float16:{shape}"]
    done = subprocess.run([sys.executable, "-m", "grilly", "export", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "mma.sync" in out.read_text()
    assert json.loads(out.with_suffix(".json").read_text())["compute_capability"] == [8, 0]


def test_blocks_in_16_bits_take_matrix_cores_where_asked():
    kernel = kernels.get("flash_attention", hidden_dim=512, config=kernels.FlashAttentionConfig(64, 32, 64, True))
    (plain,) = kernel.compile("cuda", 64).code.values()
    assert b"mma.sync" not in plain
    compiled = kernel.compile("cuda", 64, matrix_cores=True)
    (row,) = compiled.interface["dispatches"]
    constants = {one["name"]: one["value"] for one in row["constants"]}
    assert (constants["keys"], constants["subgroups"], row["workgroup_size"]) == (32, 4, [128, 1, 1])
    assert b"__launch_bounds__(128, 5)" in compiled.code[row["shader"]]


def test_blocks_beyond_static_memory_have_dynamic_memory():
    """The row of hopper with a flag beside its tile, in a struct of whole vectors."""
    kernel = kernels.get("flash_attention", hidden_dim=512, config=kernels.TunedConfigs.hopper)
    compiled = kernel.compile("cuda", 64, matrix_cores=True)
    (row,), (text,) = compiled.interface["dispatches"], compiled.code.values()
    assert (row["workgroup_memory"], row["dynamic_memory"]) == (139_268, 139_280)
    assert compiled.interface["configuration"]["shared_memory"] == 139_268
    assert b"sizeof(Arrays) <= 139280" in text and b".extern .shared" in kernels.ptx(text.decode())


@pytest.mark.parametrize("width, blocks", [(64, [64, 64]), (128, [128, 64])])
def test_attention_of_narrow_heads_has_wide_blocks(width, blocks):
    given = {"heads": 2, "kv_heads": 2, "head_dim": width, "scale": 0.125}
    tokens = ("float16", (100, 2 * width))
    operands = [*[tokens] * 3, *[("int32", (3,))] * 2]
    compiled = kernels.compile_op("attention", operands, "cuda", matrix_cores=True, **given)
    (row,) = compiled.interface["dispatches"]
    constants = {one["name"]: one["value"] for one in row["constants"]}
    assert [16 * constants["subgroups"], constants["keys"]] == blocks


def test_what_is_refused():
    kernel = kernels.get("swiglu", hidden_dim=64, use_half=True)
    for target in ("spirv", "wgsl", "hlsl"):
        with pytest.raises(errors.UnsupportedError, match=f'matrix cores in {target}: .* "cuda", "ptx" and "msl"'):
            kernel.compile(target, matrix_cores=True)
    with pytest.raises(errors.InvalidTypeError, match="swiglu: matrix_cores"):
        kernel.compile("cuda", matrix_cores=1)
    with pytest.raises(errors.InvalidTypeError, match="compile_op: matrix_cores"):
        kernels.compile_op("softmax", [("float16", (3, 8))], "cuda", matrix_cores="yes")
