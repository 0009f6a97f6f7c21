"""Exported kernels against float64, WGSL on wgpu-native, CUDA and MSL on the CPU; PTX; DXIL; what is refused."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import dxc as dxc_library
import launch_webgpu
import native
import numpy as np
import pytest
import web_limits
from conftest import LONG, need, need_vulkan
from exported import CHOSEN, NARROW, compiled_for, fault, fault_in_bfloat16, of, of_every_op, rows

from grilly import errors, kernels

ROOT = Path(__file__).parent.parent.parent


def run(compiled: kernels.Compiled, operands, changes: tuple[str, str] = ("", "")) -> list[np.ndarray]:
    """Results of WGSL, in which one text may be replaced by another."""
    need_vulkan()
    code = {name: text.decode().replace(*changes) for name, text in compiled.code.items()}
    return launch_webgpu.run(compiled.interface, code, operands)


@pytest.mark.vulkan
@pytest.mark.parametrize("case", of_every_op(2 if LONG else 1), ids=lambda case: case.id)
def test_wgsl_computes_the_operation(case):
    compiled = compiled_for(case, "wgsl")
    web_limits.check(case.op, compiled)
    problem = fault(case, run(compiled, case.operands()))
    assert problem is None, problem


@pytest.mark.vulkan
@pytest.mark.parametrize(
    "name, text, other",
    [
        ("layer_norm-3x1025", "workgroupBarrier();", ""),
        ("softmax-3x65", "0.6933594", "0.7"),
        ("activation-gelu_tanh-257", "0.6933594", "0.7"),
    ],
)
def test_the_comparison_fails_for_a_kernel_that_is_wrong(name, text, other):
    case = of(name)
    compiled = compiled_for(case, "wgsl")
    assert all(text.encode() in code for code in compiled.code.values())
    assert fault(case, run(compiled, case.operands(), (text, other))) is not None


#: Rows that run on the CPU as CUDA and MSL; `make test-long` runs the others of CHOSEN, too.
NATIVE = ("layer_norm-3x65", "softmax-3x65", "linear-33x63x64", "dropout-0.1-3x65")


@pytest.mark.parametrize("target", ["cuda", "msl"])
@pytest.mark.parametrize("name", CHOSEN if LONG else NATIVE)
def test_cuda_and_msl_compute_the_operation_on_a_cpu(name, target, tmp_path):
    case = of(name)
    problem = fault(case, native.run(compiled_for(case, target), case.operands(), tmp_path))
    assert problem is None, problem


def test_a_kernel_of_metal_has_the_name_of_its_shader():
    compiled = kernels.get("layer_norm_linear", hidden_dim=64).compile("msl", 3)
    found = {name: re.findall(r"kernel void (\w+)\(", code.decode()) for name, code in compiled.code.items()}
    assert found == {"layer-norm-moments": ["layer_norm_moments"], "layer-norm-linear": ["layer_norm_linear"]}
    points = [row["entry_point"] for row in compiled.interface["dispatches"]]
    assert points == ["layer_norm_moments", "layer_norm_linear"] and compiled.interface["entry_point"] == points[0]
    for target, name in (("spirv", "main"), ("wgsl", "main"), ("hlsl", "main"), ("cuda", "main0")):
        interface = kernels.get("bias_gelu").compile(target).interface
        assert {interface["entry_point"], *(row["entry_point"] for row in interface["dispatches"])} == {name}


@pytest.mark.parametrize("target", ["cuda", "msl"])
def test_the_comparison_fails_without_barriers(target, tmp_path):
    case = of("layer_norm-3x65")
    compiled = compiled_for(case, target)
    # With one barrier left an invocation would wait for others that have ended.
    code = compiled.code["layer-norm"].replace(b"threadgroup_barrier(mem_flags::mem_threadgroup);", b"")
    assert code != compiled.code["layer-norm"]
    without = kernels.Compiled({"layer-norm": code}, compiled.interface)
    assert fault(case, native.run(without, case.operands(), tmp_path)) is not None


@pytest.mark.vulkan
@pytest.mark.parametrize("name", NARROW)
def test_wgsl_computes_fused_operations_in_bfloat16(name):
    problem = fault_in_bfloat16(of(name), "wgsl", run)
    assert problem is None, problem


@pytest.mark.parametrize("name", NARROW if LONG else NARROW[4:6])
def test_cuda_computes_fused_operations_in_bfloat16_on_a_cpu(name, tmp_path):
    problem = fault_in_bfloat16(of(name), "cuda", lambda compiled, operands: native.run(compiled, operands, tmp_path))
    assert problem is None, problem


def test_the_comparison_fails_for_bfloat16_that_is_truncated(tmp_path):
    def truncated(compiled, operands):
        return native.run(compiled, [operands[0] & 0xFFF8, *operands[1:]], tmp_path)

    assert fault_in_bfloat16(of("residual_layer_norm-half"), "cuda", truncated) is not None


@pytest.mark.parametrize("case", rows(LONG), ids=lambda case: case.id)
def test_nvrtc_compiles_cuda(case):
    compiled = compiled_for(case, "ptx")
    assert all(b".entry main0(" in code for code in compiled.code.values())
    (kind,) = {row["parameters"]["kind"] for row in compiled.interface["dispatches"]}
    assert (compiled.interface["entry_point"], kind) == ("main0", "argument")


def test_nvrtc_refuses_what_is_wrong():
    text = compiled_for(of("layer_norm-3x65"), "cuda").code["layer-norm"].decode()
    assert b"bar.sync" in kernels.ptx(text)
    with pytest.raises(errors.CompilationFailed, match="own_parameters"):
        kernels.ptx(text.replace("own_parameters", "other", 1))
    with pytest.raises(errors.InvalidTypeError, match="ptx: cuda"):
        kernels.ptx(text.encode())


def test_without_nvrtc_the_package_is_named(tmp_path):
    # No packages but grilly and NumPy, and no library of the system.
    code = (
        "import importlib.util as u; find = u.find_spec; u.find_spec = lambda n: None if n == 'nvidia' else find(n)\n"
        "from grilly import kernels; kernels.get('bias_gelu').compile('ptx')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode == 0:
        pytest.skip("the system has NVRTC")
    assert "UnsupportedError" in done.stderr and "pip install nvidia-cuda-nvrtc-cu12" in done.stderr


@pytest.fixture(scope="module")
def dxc():
    """Microsoft's compiler."""
    need("dxc", dxc_library.LIBRARY.exists(), f"make {dxc_library.LIBRARY.relative_to(ROOT)}")
    return dxc_library.dxil


@pytest.mark.parametrize("case", rows(LONG), ids=lambda case: case.id)
def test_dxc_compiles_hlsl(dxc, case):
    for code in compiled_for(case, "hlsl").code.values():
        made, messages = dxc(code.decode())
        assert made is not None and made.startswith(b"DXBC"), messages


@pytest.mark.parametrize("text, other", [("[numthreads", "[numthread"), ("main(", "mine("), ("cbuffer", "buffer")])
def test_dxc_refuses_what_is_wrong(dxc, text, other):
    code = compiled_for(of("layer_norm-3x65"), "hlsl").code["layer-norm"].decode()
    assert text in code
    made, messages = dxc(code.replace(text, other))
    assert made is None and "error" in messages


@pytest.mark.parametrize("name", kernels.names())
def test_every_kernel_in_every_language(name):
    kernel = kernels.get(name)
    metal = "threadgroup_barrier(mem_flags::mem_threadgroup)"
    barriers = {"wgsl": "workgroupBarrier()", "msl": metal, "hlsl": "GroupMemoryBarrierWithGroupSync()", "cuda": metal}
    counts = []
    for target, barrier in barriers.items():
        compiled = kernel.compile(target, 5)
        texts = [code.decode() for code in compiled.code.values()]
        counts.append([text.count(barrier) for text in texts])
        sizes = [row["workgroup_size"] for row in compiled.interface["dispatches"]]
        assert all(len(size) == 3 and np.prod(size) <= 256 for size in sizes)
        if target == "wgsl":
            assert all(f"@workgroup_size({size[0]}, {size[1]}, {size[2]})" in t for t, size in zip(texts, sizes))
    assert all(count == counts[0] for count in counts)
    spirv = kernel.compile("spirv", 5)
    assert all(np.frombuffer(code[:4], np.uint32)[0] == 0x07230203 for code in spirv.code.values())
    assert spirv.interface["buffers"][0]["kind"] == "counts"


def test_bfloat16_needs_nothing_of_a_language():
    compiled = kernels.compile_op("layer_norm", [("bfloat16", (3, 64)), ("float32", (64,)), ("float32", (64,))], "wgsl")
    assert "enable" not in compiled.code["layer-norm-bfloat16"].decode()


def command(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "grilly", "export", *arguments], capture_output=True, text=True)


def test_the_command_writes_code_and_interface(tmp_path):
    done = command("layer_norm_linear", "--target", "wgsl", "--out", str(tmp_path / "a" / "norm.wgsl"), "--option",
                   "hidden_dim=64", "--rows", "3")  # fmt: skip
    assert done.returncode == 0, done.stderr
    names = {"norm.layer-norm-moments.wgsl", "norm.layer-norm-linear.wgsl", "norm.json"}
    assert {path.name for path in (tmp_path / "a").iterdir()} == names
    interface = json.loads((tmp_path / "a" / "norm.json").read_text())
    assert {row["file"] for row in interface["dispatches"]} == names - {"norm.json"}
    done = command("linear", "--out", str(tmp_path / "l.spv"), "--operand", "float32:3x4", "--operand", "float32:5x4")
    assert done.returncode == 0, done.stderr


@pytest.mark.vulkan
def test_the_launcher_runs_exported_files(tmp_path):
    need_vulkan()
    options = ("--option", "p=0.0", "--option", "hidden_dim=64", "--rows", "4")
    done = command("softmax_dropout", "--target", "wgsl", *options, "--out", str(tmp_path / "softmax.wgsl"))
    assert done.returncode == 0, done.stderr
    launcher = ROOT / "examples" / "launch_webgpu.py"
    done = subprocess.run([sys.executable, launcher, tmp_path / "softmax.json"], capture_output=True, text=True)
    assert done.returncode == 0 and "float32 (4, 64)" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["swish"], "there is no kernel called"),
        (["swiglu", "--target", "cubin"], 'target is "cubin", expected one of "spirv", "wgsl"'),
        (["swiglu", "--option", "use_half=1"], "invalid type"),
        (["flash_attention", "--option", "use_half=true", "--option", "use_bfloat16=true"], "both given"),
        (["swiglu", "--option", "head_dim=3"], "swiglu has no option head_dim"),
        (["swiglu", "--option", "head_dim"], "expected NAME=VALUE"),
        (["swiglu", "--rows", "0"], "rows is 0"),
        (["linear", "--operand", "float32"], "expected a type and a shape"),
        (["linear", "--operand", "complex64:3x4"], "complex64"),
        (["linears", "--operand", "float32:3x4"], "linears"),
        (["swiglu", "--out", "/proc/none/swiglu.spv"], "/proc/none/swiglu.spv: cannot be written"),
        (["swiglu", "--out", "swiglu.json"], "expected another one"),
    ],
)
def test_what_the_command_refuses(tmp_path, arguments, words):
    out = [] if "--out" in arguments else ["--out", str(tmp_path / "code")]
    done = command(*arguments, *out)
    assert done.returncode == 1 and words in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_there_is_kept(tmp_path):
    out = tmp_path / "swiglu.spv"
    arguments = ["swiglu", "--out", str(out)]
    for present in (out.with_suffix(".json"), out):
        present.write_text("mine")
        done = command(*arguments)
        assert done.returncode == 1 and f"{present}: is there already" in done.stderr and "--overwrite" in done.stderr
        assert present.read_text() == "mine" and len(list(tmp_path.iterdir())) == 1
        done = command(*arguments, "--overwrite")
        assert done.returncode == 0 and out.read_bytes()[:4] == b"\x03\x02\x23\x07", done.stderr
        for file in tmp_path.iterdir():
            file.unlink()


def test_a_folder_that_is_a_file_or_read_only_is_named(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir(mode=0o500)
    for out in (tmp_path / "file" / "a.spv", tmp_path / "folder" / "a.spv"):
        if os.geteuid() == 0 and out.parent.name == "folder":
            continue  # root writes there
        done = command("swiglu", "--out", str(out))
        assert done.returncode == 1 and "cannot be written" in done.stderr, done.stderr
        assert "name a file in a folder" in done.stderr


def test_what_is_refused():
    kernel = kernels.get("bias_gelu")
    with pytest.raises(errors.InvalidTypeError, match="bias_gelu: target"):
        kernel.compile(3)
    with pytest.raises(errors.InvalidArgumentError, match="rows is 0"):
        kernel.compile("wgsl", rows=0)
    with pytest.raises(errors.UnsupportedError, match="arrays cannot be bfloat16: take use_half"):
        kernels.get("bias_gelu", hidden_dim=5, use_bfloat16=True)(np.zeros((3, 5)), np.zeros(5))
    with pytest.raises(errors.GrillyError, match="weight"):
        kernels.compile_op("layer_norm", [("float32", (3, 5))] * 3, "wgsl")


def test_the_names_of_the_zig_kernels_are_on_the_page():
    page = (ROOT / "docs" / "guides" / "kernels.md").read_text(encoding="utf-8")
    table = page[page.index("| in the Zig") :].split("\n\n")[0].splitlines()[2:]
    cells = [row.strip("| ").split(" | ") for row in table]
    rows = {zig: " ".join(here) for zig, *here in cells}
    for name in ("createFlashAttentionKernel", "createSwiGLUKernel", "createRMSNormRoPEKernel", "spirv.generate",
                 "cuda.generate", "requiredSharedMemory", "validateConfig"):  # fmt: skip
        assert name in " ".join(rows)
    here = " ".join(rows.values())
    assert set(re.findall(r'get\("(\w+)"', here)) <= set(kernels.names())
    assert all(hasattr(kernels, name) for name in re.findall(r"`(\w+)[(`.]", here))
    for target in re.findall(r'compile\("(\w+)"\)', here):
        assert kernels.get("bias_gelu").compile(target).interface["target"] == target
