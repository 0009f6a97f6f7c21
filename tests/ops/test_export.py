"""Exported kernels against float64, WGSL on wgpu-native, CUDA and MSL on the CPU; PTX; interfaces; what is refused."""

import json
import subprocess
import sys
from pathlib import Path

import launch_cuda
import launch_webgpu
import native
import numpy as np
import pytest
from conftest import LONG, need_vulkan
from exported import CHOSEN, compiled_for, fault, of, rows

from grilly import _core, errors, kernels

ROOT = Path(__file__).parent.parent.parent


def run(compiled: kernels.Compiled, case, changes: tuple[str, str] = ("", "")) -> list[np.ndarray]:
    """Results of WGSL, in which one text may be replaced by another."""
    need_vulkan()
    code = {name: text.decode().replace(*changes) for name, text in compiled.code.items()}
    return launch_webgpu.run(compiled.interface, code, case.operands())


@pytest.mark.vulkan
@pytest.mark.parametrize("case", rows(LONG), ids=lambda case: case.id)
def test_wgsl_computes_the_operation(case):
    problem = fault(case, run(compiled_for(case, "wgsl"), case))
    assert problem is None, problem


@pytest.mark.vulkan
@pytest.mark.parametrize(
    "name, text, other",
    [
        ("layer_norm-3x65", "workgroupBarrier();", ""),
        ("softmax-3x65", "0.6933594", "0.7"),
        ("activation-gelu_tanh-257", "0.6933594", "0.7"),
    ],
)
def test_the_comparison_fails_for_a_kernel_that_is_wrong(name, text, other):
    case = of(name)
    compiled = compiled_for(case, "wgsl")
    assert all(text.encode() in code for code in compiled.code.values())
    assert fault(case, run(compiled, case, (text, other))) is not None


#: Rows that run on the CPU as CUDA and MSL; `make test-long` runs the others of CHOSEN, too.
NATIVE = ("layer_norm-3x65", "softmax-3x65", "linear-33x63x64", "dropout-0.1-3x65")


@pytest.mark.parametrize("target", ["cuda", "msl"])
@pytest.mark.parametrize("name", CHOSEN if LONG else NATIVE)
def test_cuda_and_msl_compute_the_operation_on_a_cpu(name, target, tmp_path):
    case = of(name)
    problem = fault(case, native.run(compiled_for(case, target), case.operands(), tmp_path))
    assert problem is None, problem


@pytest.mark.parametrize("target", ["cuda", "msl"])
def test_the_comparison_fails_without_barriers(target, tmp_path):
    case = of("layer_norm-3x65")
    compiled = compiled_for(case, target)
    # With one barrier left an invocation would wait for others that have ended.
    code = compiled.code["layer-norm"].replace(b"threadgroup_barrier(mem_flags::mem_threadgroup);", b"")
    assert code != compiled.code["layer-norm"]
    without = kernels.Compiled({"layer-norm": code}, compiled.interface)
    assert fault(case, native.run(without, case.operands(), tmp_path)) is not None


@pytest.mark.parametrize("case", rows(LONG), ids=lambda case: case.id)
def test_nvrtc_compiles_cuda(case):
    compiled = compiled_for(case, "cuda")
    for code in compiled.code.values():
        made, messages = launch_cuda.ptx(code.decode())
        assert made is not None, messages
        # What is inlined twice has its barriers twice.
        assert (b"bar.sync" in made) == (b"threadgroup_barrier(mem" in code)
        assert b".entry main0(" in made


def test_nvrtc_refuses_what_is_wrong():
    text = compiled_for(of("layer_norm-3x65"), "cuda").code["layer-norm"].decode()
    made, messages = launch_cuda.ptx(text.replace("own_parameters", "other", 1))
    assert made is None and "own_parameters" in messages


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
        (["swiglu", "--target", "ptx"], 'target is "ptx", expected one of "spirv", "wgsl"'),
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


def test_what_is_refused():
    kernel = kernels.get("bias_gelu")
    with pytest.raises(errors.InvalidTypeError, match="bias_gelu: target"):
        kernel.compile(3)
    with pytest.raises(errors.InvalidArgumentError, match="rows is 0"):
        kernel.compile("wgsl", rows=0)
    with pytest.raises(errors.GrillyError, match="weight"):
        kernels.compile_op("layer_norm", [("float32", (3, 5))] * 3, "wgsl")


def languages(name: str, use_half: bool) -> str:
    """The targets in which a kernel can be had."""
    kernel, found = kernels.get(name, use_half=use_half), []
    for target in ("spirv", "wgsl", "msl", "hlsl", "cuda"):
        try:
            kernel.compile(target)
        except errors.UnsupportedError:
            continue
        found.append(target)
    return ", ".join(found)


def test_the_table_of_languages_is_on_the_page():
    page = (ROOT / "docs" / "guides" / "kernels.md").read_text(encoding="utf-8")
    for name, formula, _ in _core.kernel_rows():
        row = f"| `{name}` | `{formula}` | {languages(name, False)} | {languages(name, True)} |"
        assert row in page, row
