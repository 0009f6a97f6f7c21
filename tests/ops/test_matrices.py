"""Where a device has matrix cores, each kernel for them runs, and is right beside float64."""

import numpy as np
import pytest
from cases import attending
from cases.bounds import bound
from cases.comparison import agrees
from cases.reference import evaluate
from conftest import need

import grilly
from grilly import _core

pytestmark = pytest.mark.vulkan
ROWS, DEPTH, COLUMNS = 72, 80, 88
#: Types of matrices, by the kernels' names.
TYPES = {"float32": "f16_f32", "float16": "f16_f32", "int8": "s8_s32"}


@pytest.fixture
def matrices(vulkan) -> dict[str, str]:
    """For types of matrices, what the names of kernels have of the shape that they take."""
    found = grilly.info()
    features = next(row["features"] for row in found["devices"] if row["name"] == found["choice"]["name"])
    shapes: dict[str, str] = {}
    for name in features:
        if name.startswith("coopmat_"):
            of, shape = name.removeprefix("coopmat_").rsplit("_", 1)
            shapes.setdefault(of, shape)
    need("matrices", bool(shapes), "the device multiplies no matrices (`make test-devices` has one that does)")
    usual = {"f16_f32": "16x16x16", "s8_s32": "16x16x32"}
    return {of: "" if usual[of] == shape else f"-{shape}" for of, shape in shapes.items() if of in usual}


def products(dtype: str) -> list[tuple[str, list[np.ndarray], dict]]:
    """Calls whose sums have more terms than a step, and rows and columns beyond whole tiles."""
    rng = np.random.default_rng(0)
    x, w, up, shift = (
        rng.standard_normal(shape) for shape in ((ROWS, DEPTH), (COLUMNS, DEPTH), (COLUMNS, DEPTH), DEPTH)
    )
    x, w, up, residual = (a.astype(dtype) for a in (x, w / 8, up / 8, rng.standard_normal((ROWS, COLUMNS))))
    gain, shift, bias = (rng.uniform(0.5, 1.5, n).astype(np.float32) for n in (DEPTH, DEPTH, COLUMNS))
    return [
        ("linear", [x, w, bias, residual], {"bias": True, "activation": "gelu_erf", "residual": "added"}),
        ("matmul", [x, w], {"transpose_b": True}),
        ("matmul", [x.T, w.T], {"transpose_a": True}),
        ("gated_linear", [x, w, up], {"kind": "silu"}),
        ("layer_norm_linear", [x, gain, shift, w, bias], {"bias": True}),
    ]


def call(op: str, operands: list[np.ndarray], attributes: dict) -> tuple[list[np.ndarray], set[str]]:
    """The results, and the kernels that ran; builds for one layout count as those for any."""
    engine = _core.engine("vulkan")
    given = [engine.upload(np.ascontiguousarray(value)) for value in operands]
    with grilly.profile() as taken:
        results = [result.numpy() for result in engine.call_all(op, given, attributes)]
    return results, {
        name.replace("split-rows-in-quads", "split").replace("in-quads", "in-lanes") for name in taken.by_kernel()
    }


def check(op: str, operands: list[np.ndarray], attributes: dict, kernels: set[str]) -> None:
    results, ran = call(op, operands, attributes)
    assert kernels <= ran, f"{op} ran {sorted(ran)}, not {sorted(kernels)}"
    expected = evaluate(op, operands, attributes)
    half = any(result.dtype == np.float16 for result in results)
    limits = bound(op, operands, attributes, expected, half)
    if not isinstance(expected, tuple):
        expected, limits = (expected,), (limits,)
    for found, wanted, limit in zip(results, expected, limits, strict=True):
        assert (problem := agrees(found, wanted, np.broadcast_to(limit, wanted.shape))) is None, f"{op}: {problem}"


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_products(matrices, dtype, number):
    op, operands, attributes = products(dtype)[number]
    shape = matrices[TYPES[dtype]]
    name = op.replace("_", "-")
    kernel = f"{name}-split{shape}" if dtype == "float32" else f"{name}-matrix{shape}-float16"
    check(op, operands, attributes, {kernel})


@pytest.mark.parametrize("levels", ["int8", "ternary", "binary"])
def test_products_of_integers(matrices, levels):
    rng = np.random.default_rng(1)
    per_byte = {"int8": 1, "ternary": 4, "binary": 8}[levels]
    q = rng.integers(-128, 128, (ROWS, DEPTH)).astype(np.int8)
    most = {"int8": 255, "ternary": 2, "binary": 1}[levels]
    codes = rng.integers(0, most + 1, (COLUMNS, DEPTH // per_byte, per_byte))
    weight = (codes << (8 // per_byte * np.arange(per_byte))).sum(-1).astype(np.uint8)
    weight = weight.view(np.int8) if levels == "int8" else weight
    scale, weight_scale, bias = (rng.uniform(1, 2, n).astype(np.float32) for n in (ROWS, COLUMNS, COLUMNS))
    shape = matrices["s8_s32"]
    check("integer_linear", [q, weight], {"levels": levels}, {f"integer-linear-matrix{shape}"})
    given = {"levels": levels, "scope": "row", "bias": True}
    check("quantized_linear", [q, scale, weight, weight_scale, bias], given, {f"quantized-linear-matrix{shape}"})


def attended(rng: np.random.Generator, dtype: str) -> tuple[list[np.ndarray], dict]:
    texts = attending.offsets(5, 40, 33)
    given = {"heads": 4, "kv_heads": 2, "head_dim": 16, "scale": 0.25}
    q, k, v = ((rng.random((78, columns)) - 0.5).astype(dtype) for columns in (64, 32, 32))
    return [q, k, v, texts, texts], given


@pytest.fixture
def rows_in_lanes(matrices) -> bool:
    """Whether it is known which lane holds what of a matrix, as a kernel that needs it tells; others hide no keys."""
    operands, given = attended(np.random.default_rng(2), "float16")
    ran = call("attention", operands, {**given, "causal": True})[1]
    found = any("rows-in-lanes" in name for name in ran)
    need("matrices", found, f"the layout of the device's matrices is unknown: {sorted(ran)}")
    return found


@pytest.mark.parametrize(("dtype", "causal"), [("float16", False), ("float16", True), ("float32", True)])
def test_attention(matrices, rows_in_lanes, dtype, causal):
    operands, given = attended(np.random.default_rng(2), dtype)
    shape = matrices[TYPES[dtype]]
    kernel = f"attention-split{shape}" if dtype == "float32" else f"attention-matrix-rows-in-lanes{shape}-float16"
    check("attention", operands, {**given, "causal": causal}, {kernel})


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_attention(matrices, rows_in_lanes, causal):
    rng = np.random.default_rng(3)
    operands, given = attended(rng, "float16")
    given |= {"causal": causal}
    y = evaluate("attention", operands, given)
    kernels = {f"attention-backward-matrix{of}{matrices['f16_f32']}-float16" for of in ("", "-keys")}
    gradient = (rng.random(y.shape) - 0.5).astype(np.float16)
    check("attention_backward", [gradient, y.astype(np.float16), *operands], given, kernels)
