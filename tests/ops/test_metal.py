"""The library for Metal, from the files that the command writes: every function against float64, on a CPU."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.bounds import bound, summed
from cases.comparison import agrees
from cases.quantized import packed
from cases.reference import evaluate
from metal_library import SHADERS, Library, arguments

from grilly import errors, metal

ROOT = Path(__file__).parents[2]
#: The functions of BitNet's specification.
NAMES = {
    "bitlinear": "bitlinear_forward bitlinear_backward_input binarize_weights quantize_activations",
    "quantization": "quantize_weights_1bit quantize_activations_8bit dequantize_weights_1bit "
    "dequantize_activations_8bit dynamic_quantize_activations quantize_gradients mixed_precision_matmul",
    "activation": "relu_forward relu_backward gelu_forward gelu_backward swish_forward swish_backward sigmoid_forward "
    "sigmoid_backward tanh_forward tanh_backward leaky_relu_forward leaky_relu_backward softmax_forward "
    "softmax_backward layer_norm_forward fused_relu_dropout",
}  # fmt: skip
FUNCTIONS = {function.name: function for function in metal.functions()}
LEVELS = {1: "binary", 2: "ternary", 8: "int8"}
#: Rows and columns: bytes and groups that end within a row, several pieces of a row, one element.
SIZES = ((5, 7), (3, 65), (2, 1031), (1, 1))


def command(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "grilly", "export", *arguments], capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the command writes."""
    folder = tmp_path_factory.mktemp("metal") / "library"
    done = command("--metal", str(folder))
    assert done.returncode == 0 and done.stdout.split()[0].endswith("bitlinear.metal"), done.stderr
    return folder


@pytest.fixture(scope="module")
def library(folder, tmp_path_factory):
    return Library(folder, tmp_path_factory.mktemp("built"))


def fault(
    library: Library, name: str, case: Callable[..., Any], size: tuple[int, int], groups: int, threads: int
) -> Any:
    """What is wrong with a function's results for a case: its operands, numbers, and results with their bounds."""
    operands, numbers, expected = case(np.random.default_rng(7), *size)
    function, results = FUNCTIONS[name], {}
    for place, (y, _) in expected.items():
        kind = {"float*": np.float32, "char*": np.int8, "uchar*": np.uint8, "int*": np.int32}[
            function.buffers[place][1]
        ]
        # What is not written shows.
        results[place] = np.full(y.shape, np.nan if kind is np.float32 else 77, kind)
    given = iter(operands)
    buffers = [results[place] if place in results else next(given) for place in range(len(function.buffers))]
    library.run(function, buffers, numbers, groups, threads)
    faults = [agrees(results[place], y, np.broadcast_to(allowed, y.shape)) for place, (y, allowed) in expected.items()]
    return next((problem for problem in faults if problem), None)


def of_op(op: str, operands: list[np.ndarray], attributes: dict[str, Any]) -> list[tuple[np.ndarray, Any]]:
    y = evaluate(op, operands, attributes)
    allowed = bound(op, operands, attributes, y, False)
    return list(zip(y, allowed)) if isinstance(y, tuple) else [(y, allowed)]


def plain(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.uniform(-2, 2, shape).astype(np.float32)


def weight(rng: np.random.Generator, n: int, k: int, bits: int, scales: Any) -> tuple[Any, Any, dict[str, int], Any]:
    """A packed weight, its scales, the numbers that tell them, and the attributes of the reference."""
    choices = {1: [-1, 1], 2: [-1, 0, 1], 8: range(-128, 128)}[bits]
    values = packed(rng.choice(list(choices), (n, k)), LEVELS[bits])
    axes = (n, -(-k // scales)) if isinstance(scales, int) else {"tensor": (1,), "row": (n,)}.get(scales)
    scale = None if scales is None else rng.uniform(0.5, 2, axes).astype(np.float32)
    numbers = {"bits": bits, "scale_count": 0 if scale is None else scale.size}
    numbers["group_size"] = scales if isinstance(scales, int) else 0
    return values, scale, numbers, {"levels": LEVELS[bits], "scope": "tensor" if scales is None else scales}


def bitlinear(bits: int, scales: Any, biased: bool) -> Callable[..., Any]:
    def case(rng, m, k, n=37):
        x, bias = plain(rng, m, k), plain(rng, n) if biased else None
        x[-1] = np.nan if m == 5 else x[-1]
        w, scale, numbers, attributes = weight(rng, n, k, bits, scales)
        q, s = evaluate("quantize_rows", [x], {})
        given = [q.astype(np.int8), s, w, np.ones(1, np.float32) if scale is None else scale]
        given += [bias] if biased else []
        (expected,) = of_op("quantized_linear", given, attributes | {"bias": biased})
        sizes = {"input_size": k, "output_size": n, "batch_size": m, "has_bias": int(biased)}
        return [x, w, bias, scale], sizes | numbers, {3: expected}

    return case


def dense(scale: Any, w: np.ndarray, columns: int, attributes: dict[str, Any]) -> np.ndarray:
    named = {} if attributes["levels"] == "int8" else {"columns": columns}
    return evaluate("dequantize_rows", [w, np.ones(1) if scale is None else scale], attributes | named)


def backward_input(bits: int, scales: Any) -> Callable[..., Any]:
    def case(rng, m, k, n=37):
        g = plain(rng, m, n)
        w, scale, numbers, attributes = weight(rng, n, k, bits, scales)
        wide = dense(scale, w, k, attributes)
        expected = g.astype(np.float64) @ wide, summed(n, np.abs(g) @ np.abs(wide))
        return [g, w, scale], {"input_size": k, "output_size": n, "batch_size": m} | numbers, {2: expected}

    return case


def mixed(bits: int, scales: Any) -> Callable[..., Any]:
    def case(rng, m, k, n=37):
        x = plain(rng, m, k)
        w, scale, numbers, attributes = weight(rng, n, k, bits, scales)
        wide = dense(scale, w, k, attributes)
        expected = x.astype(np.float64) @ wide.T, summed(k, np.abs(x) @ np.abs(wide.T))
        return [x, w, scale], {"input_size": k, "output_size": n, "batch_size": m} | numbers, {2: expected}

    return case


def rounded(attributes: dict[str, Any], counted: bool = False, broken: bool = False, **more: int) -> Callable[..., Any]:
    """`quantize_rows`, of multiples of a power of two, of which sums are exact; `broken` with a NaN and an infinity."""

    def case(rng, m, k):
        x = (rng.integers(-640, 641, (m, k)) / 64).astype(np.float32)
        if broken:
            x[-1, k // 2], x[0, 0] = np.nan, np.inf
        results = of_op("quantize_rows", [x], attributes)
        sizes = {"count": x.size} if counted else {"rows": m, "columns": k}
        return [x], sizes | more, dict(enumerate(results, 1))

    return case


def gradients(seed: int) -> Callable[..., Any]:
    def case(rng, m, k):
        x = plain(rng, m, k)
        scale = np.float32(127) / np.float32(np.abs(x).max())
        scaled = (x * scale).astype(np.float64)
        # As dropout has them: an element is kept where u >= p, so that its u is found by the probabilities.
        u = uniform(seed, x.size).reshape(x.shape)
        q = np.floor(scaled) + (u < scaled - np.floor(scaled))
        numbers = {"count": x.size, "seed_low": seed & 0xFFFFFFFF, "seed_high": seed >> 32}
        return [x], numbers, {1: (np.clip(q, -128, 127), 0.0), 2: (np.array([scale], np.float64), 0.0)}

    return case


def uniform(seed: int, count: int) -> np.ndarray:
    """The random numbers of dropout, multiples of 2^-24."""
    from cases.elementwise import philox

    words = philox(seed, np.arange((count + 3) // 4, dtype=np.uint64), 0, 0).reshape(-1)[:count]
    return (words >> np.uint64(8)).astype(np.float64) * 2.0**-24


def dequantized_weights(group: int) -> Callable[..., Any]:
    def case(rng, m, k):
        w, scale, _, attributes = weight(rng, m, k, 1, group or "tensor")
        (expected,) = of_op("dequantize_rows", [w, scale], attributes | {"columns": k})
        return [w, scale], {"rows": m, "columns": k, "group_size": group}, {2: expected}

    return case


def dequantized_activations(shared: bool, zeros: bool) -> Callable[..., Any]:
    def case(rng, m, k):
        q, axes = rng.integers(-128, 128, (m, k)).astype(np.int8), (1,) if shared else (m,)
        scale, zero = rng.uniform(0.5, 2, axes).astype(np.float32), rng.integers(-128, 128, axes).astype(np.int32)
        attributes = {"scope": "tensor" if shared else "row", "zero": zeros}
        (expected,) = of_op("dequantize_rows", [q, scale, *[zero] * zeros], attributes)
        numbers = {"rows": m, "columns": k, "shared_scale": int(shared), "has_zero": int(zeros)}
        return [q, scale, zero if zeros else None], numbers, {2: expected}

    return case


def activation(kind: str, backward: bool = False, **numbers: float) -> Callable[..., Any]:
    def case(rng, m, k):
        x, g = 4 * plain(rng, m, k), plain(rng, m, k)
        x.reshape(-1)[:6] = np.resize([np.nan, 0, -30, 30, 100, -100], min(6, x.size))
        attributes = {"kind": kind} | ({"a": np.float32(numbers["negative_slope"])} if numbers else {})
        given, op = ([g, x], "activation_backward") if backward else ([x], "activation")
        (expected,) = of_op(op, given, attributes)
        return given, {"count": x.size} | numbers, {len(given): expected}

    return case


def by_rows(op: str, *vectors: int, **numbers: float) -> Callable[..., Any]:
    def case(rng, m, k):
        given = [plain(rng, m, k), *(plain(rng, k) for _ in vectors)]
        if op == "softmax_backward":
            given.append(evaluate("softmax", [plain(rng, m, k)], {}).astype(np.float32))
        elif m == 5:
            given[0][-1, 0] = np.nan
        (expected,) = of_op(op, given, {name: np.float32(number) for name, number in numbers.items()})
        return given, {"rows": m, "columns": k} | numbers, {len(given): expected}

    return case


def relu_dropout(p: float, seed: int) -> Callable[..., Any]:
    def case(rng, m, k):
        x = plain(rng, m, k)
        (expected,) = of_op("dropout", [np.maximum(x, 0)], {"p": float(np.float32(p)), "seed": seed})
        return [x], {"count": x.size, "p": p, "seed_low": seed & 0xFFFFFFFF, "seed_high": seed >> 32}, {1: expected}

    return case


SEED = 0x1234_5678_9ABC_DEF0
SLOPE = {"negative_slope": 0.125}
CASES: dict[str, list[Callable[..., Any]]] = {
    "bitlinear_forward": [
        bitlinear(1, None, False), bitlinear(1, 16, True), bitlinear(2, "tensor", True), bitlinear(8, "row", False),
    ],
    "bitlinear_backward_input": [
        backward_input(1, None), backward_input(1, 16), backward_input(2, "tensor"), backward_input(8, "row"),
    ],
    "binarize_weights": [rounded({"kind": "binary", "scope": "tensor"}, broken=broken) for broken in (False, True)],
    "quantize_activations": [rounded({}), rounded({}, broken=True)],
    "quantize_weights_1bit": [
        rounded({"kind": "binary", "scope": group}, broken=broken, group_size=group)
        for group, broken in ((16, False), (128, True))
    ],
    "quantize_activations_8bit": [rounded({"kind": "affine"}), rounded({"kind": "affine"}, broken=True)],
    "dequantize_weights_1bit": [dequantized_weights(16), dequantized_weights(0)],
    "dequantize_activations_8bit": [
        dequantized_activations(shared, zeros) for shared in (False, True) for zeros in (False, True)
    ],
    "dynamic_quantize_activations": [
        rounded({"kind": "affine", "scope": "tensor"}, counted=True, broken=broken) for broken in (False, True)
    ],
    "quantize_gradients": [gradients(SEED)],
    "mixed_precision_matmul": [mixed(1, None), mixed(1, 16), mixed(2, "tensor"), mixed(8, "row")],
    "softmax_forward": [by_rows("softmax")],
    "softmax_backward": [by_rows("softmax_backward")],
    "layer_norm_forward": [by_rows("layer_norm", 1, 1, eps=0.25)],
    "fused_relu_dropout": [relu_dropout(0.25, SEED), relu_dropout(1.0, SEED)],
}  # fmt: skip
for _name, _kind in (("relu", "relu"), ("gelu", "gelu_tanh"), ("swish", "silu"), ("sigmoid", "sigmoid"),
                     ("tanh", "tanh"), ("leaky_relu", "leaky_relu")):  # fmt: skip
    _numbers = SLOPE if _name == "leaky_relu" else {}
    CASES[f"{_name}_forward"] = [activation(_kind, **_numbers)]
    CASES[f"{_name}_backward"] = [activation(_kind, True, **_numbers)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_computes_what_its_name_says(library, name):
    for case in CASES[name]:
        for size in SIZES:
            # Fewer threads than elements and more, and a number of them that is no power of two.
            for groups, threads in ((2, 32), (1, 24)):
                problem = fault(library, name, case, size, groups, threads)
                assert problem is None, (size, groups, threads, problem)


def test_the_names_are_those_of_the_specification():
    assert {shader: " ".join(f.name for f in FUNCTIONS.values() if f.shader == shader) for shader in SHADERS} == NAMES
    assert len(FUNCTIONS) == 27 and CASES.keys() == FUNCTIONS.keys()


@pytest.mark.parametrize(
    "name, text, other",
    [
        ("quantize_activations", "int(rint(", "int(floor("),
        ("bitlinear_forward", "int(code & 1u) - 1", "int(code & 1u)"),
        ("softmax_forward", "parts[lane] += parts[lane + step];", "parts[lane] += 0.0f;"),
        ("quantize_gradients", "0x9e3779b9u", "0x9e3779b8u"),
    ],
)  # fmt: skip
def test_the_comparison_fails_for_a_function_that_is_wrong(folder, tmp_path, name, text, other):
    assert any(text in (folder / f"{shader}.metal").read_text() for shader in SHADERS)
    library = Library(folder, tmp_path, (text, other))
    assert any(fault(library, name, case, (3, 65), 2, 32) for case in CASES[name])


def test_the_comparison_fails_without_barriers(folder, tmp_path):
    barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);"
    library = Library(folder, tmp_path, (barrier, ""))
    (case,) = CASES["layer_norm_forward"]
    assert any(fault(library, "layer_norm_forward", case, (3, 1031), 1, 32) for _ in range(8))


@pytest.mark.parametrize("shader", SHADERS)
def test_the_head_of_a_file_is_its_interface(folder, shader):
    text = (folder / f"{shader}.metal").read_text()
    head, code = text.split("#include <metal_stdlib>")
    rows: dict[str, list[tuple[str, ...]]] = {}
    for line in head.splitlines():
        if found := re.fullmatch(r"// (\w+): (.+)", line):
            rows[found[1]] = []
        elif found := re.fullmatch(r"//   (\d)  (\w+)\?? +(const \w+\*|\w+\*?)(?:  +(.+))?", line):
            list(rows.values())[-1].append((found[1], found[2], found[3]))
    rows.pop("Dispatch", None)
    rows = {name: of for name, of in rows.items() if of}
    declared = {
        name: [
            (number, buffer, re.sub(r"\b(device|constant) |&", "", kind).strip())
            for kind, buffer, attribute, number in given
            if attribute == "buffer"
        ]
        for name, given in arguments(code).items()
    }
    assert rows == declared and " ".join(rows) == NAMES[shader]
    # The same indices as the functions have in Rust, and the parameters after them.
    table = (ROOT / "bitnet" / "src" / "functions.rs").read_text()
    for name, given in declared.items():
        (buffers,) = re.findall(rf'"{name}" "[\w-]+"\s+\(((?:\(\w+[?!]?\) ?)+)\)', table)
        assert re.findall(r"\w+", buffers) == [buffer for _, buffer, _ in given[:-1]], name
        assert given[-1][1:] == ("parameters", f"{name}_parameters")


def test_names_of_one_file_are_not_those_of_another(folder):
    declared = []
    for shader in SHADERS:
        text = (folder / f"{shader}.metal").read_text()
        declared += re.findall(r"^(?:struct|static inline \w+|#define|kernel void) (\w+)", text, re.MULTILINE)
    assert len(declared) == len(set(declared))


def test_every_pointer_has_an_address_space(folder):
    for shader in SHADERS:
        text = (folder / f"{shader}.metal").read_text().split("#include <metal_stdlib>")[1]
        text = re.sub(r"//.*", "", text)
        pointers = re.findall(r"([\w ]*?\b(?:float|uint|int|uchar|char|\w+_parameters)[*&] \w+)", text)
        assert pointers and all(re.search(r"\b(device|constant|threadgroup) \w+[*&]", one) for one in pointers), (
            pointers
        )


def test_the_swift_package_has_the_functions_of_the_specification(folder):
    sources = folder / "Sources" / "BitNetShaders"
    swift = "".join((sources / name).read_text() for name in ("BitNetShaders.swift", "Functions.swift"))
    names = set(re.findall(r"func (\w+)", swift)) | set(re.findall(r"(?:class|enum) (\w+)", swift))
    assert names >= {
        "initializeMetalContext", "createMetalDevice", "BitNetShaders", "BitNetShaderFunction", "getPipeline",
        "createComputeEncoderWithPipeline", "calculateDispatchParams", "dispatchCompute", "createShaderCompiler",
        "compileAllShaders", "getComputeFunction", "initializeGlobalShaders",
    }  # fmt: skip
    for name in FUNCTIONS:
        title = "".join(word[0].upper() + word[1:] for word in name.split("_"))
        assert {f"create{title}Encoder", f"dispatch{title}"} <= names
    # Of the buffers and numbers of a function, in the order of their indices.
    call = re.search(r"func dispatchBitlinearForward\(.*?\n\}", swift, re.DOTALL)[0]
    assert "[input, weights, bias ?? input, output, weightScale ?? input]" in call
    words = re.search(r"parameters: \[UInt32\] = \[(.*?),\n    \]", call, re.DOTALL)[1].split(",\n")
    assert [word.strip() for word in words] == [
        "inputSize", "outputSize", "batchSize", "bits", "groupSize", "weightScale == nil ? 0 : scaleCount",
        "bias == nil ? 0 : 1",
    ]  # fmt: skip
    for shader in SHADERS:
        assert f'.copy("{shader}.metal")' in (folder / "Package.swift").read_text()
    assert "Not compiled by Apple's compiler and not run on a GPU" in (folder / "README.md").read_text()


def test_what_the_command_refuses(folder, tmp_path):
    done = command("--metal", str(folder))
    assert done.returncode == 1 and "bitlinear.metal: is there already" in done.stderr and "--overwrite" in done.stderr
    assert command("--metal", str(folder), "--overwrite").returncode == 0
    for given in (["softmax", "--metal", str(tmp_path)], ["--metal", str(tmp_path), "--out", "a.metal"]):
        done = command(*given)
        assert done.returncode == 1 and "--metal writes whole files" in done.stderr
    for given in (["softmax"], ["--out", "a.spv"]):
        done = command(*given)
        assert done.returncode == 1 and "expected a kernel and --out FILE, or --metal FOLDER" in done.stderr
    with pytest.raises(errors.InvalidArgumentError, match="is there already"):
        metal.write(folder)
