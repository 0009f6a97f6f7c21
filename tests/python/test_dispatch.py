"""A user's compiled function on buffers of the user's own."""

import numpy as np
import pytest

import grilly
from grilly import PipelineCreationFailed, ShaderCompiler, ShaderCompilerConfig, functional
from grilly.compiler import dispatch
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError

SHADERS = {
    # y = FACTOR x + push.shift, element by element; `count` bounds it.
    "shifted": """#version 460
layout(local_size_x = 64) in;
layout(constant_id = 0) const float FACTOR = 2.0;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) writeonly buffer Y { float y[]; };
layout(push_constant) uniform Push { float shift; uint count; } push;
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < push.count) {
        y[i] = FACTOR * x[i] + push.shift;
    }
}
""",
    "counted": """#version 460
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer N { uint n[]; };
void main() {
    atomicAdd(n[0], 1u + gl_WorkGroupID.x + 10u * gl_WorkGroupID.y + 100u * gl_WorkGroupID.z);
}
""",
}


@pytest.fixture
def function(vulkan, tmp_path):
    for name, text in SHADERS.items():
        (tmp_path / f"{name}.glsl").write_text(text)
    return ShaderCompiler(ShaderCompilerConfig(tmp_path, enable_caching=False)).get_compute_function


def test_values_in_the_shape_that_is_given(function):
    x = np.linspace(-3, 3, 130, dtype=np.float32).reshape(2, 65)
    found = dispatch(function("shifted"), 3, {"x": x, "y": np.zeros_like(x)}, {"shift": 0.5, "count": 130})
    assert list(found) == ["y"]
    assert (found["y"].numpy() == np.float32(2) * x + np.float32(0.5)).all()
    some = dispatch(
        function("shifted"), (1,), {"x": x, "y": np.full(130, 7.0)}, {"shift": 0, "count": 3}, {"factor": -1}
    )
    assert some["y"].tolist() == [*(-x.ravel()[:3]).tolist(), *[7.0] * 127]


def test_an_array_that_is_given_is_never_changed(function):
    given = grilly.to_vulkan(np.array([40], np.int32))
    first = dispatch(function("counted"), (2, 2, 2), {"n": given})["n"]
    # 8 groups: 8 + 4 + 40 + 400
    assert (given.tolist(), first.tolist()) == ([40], [40 + 452])
    second = dispatch(function("counted"), 1, {"n": first})["n"]
    assert (first.tolist(), second.tolist()) == ([492], [493])
    assert dispatch(function("counted"), 0, {"n": first})["n"].tolist() == [492]
    assert dispatch(function("counted"), 1, {"n": np.array([2**32 - 3], np.uint32)})["n"].tolist() == [2**32 - 2]


def test_what_it_writes_goes_on_into_other_operations(function):
    x = functional.relu(grilly.to_vulkan(np.array([-1.0, 3.0])))
    y = dispatch(function("shifted"), 1, {"x": x, "y": np.zeros(2)}, {"shift": -1, "count": 2})["y"]
    assert functional.relu(y).tolist() == [0.0, 5.0]


@pytest.mark.parametrize(
    "changed, error, text",
    [
        ({"buffers": {"x": [1.0]}}, InvalidArgumentError, "the buffer .y. is missing"),
        ({"buffers": {"x": [1.0], "y": [1.0], "z": [1.0]}}, InvalidArgumentError, "no buffer is called .z."),
        ({"buffers": {}}, InvalidArgumentError, "no buffers"),
        ({"buffers": [1.0]}, InvalidTypeError, "buffers is of type list"),
        ({"buffers": {"x": ["a"], "y": [1.0]}}, InvalidTypeError, "x is|upload"),
        ({"push": {"shift": 1}}, InvalidArgumentError, "the push constant .count. is missing"),
        ({"push": {"shift": 1, "count": -1}}, InvalidArgumentError, "-1 is not a value of .*uint"),
        ({"push": {"shift": 1, "count": 0.5}}, InvalidArgumentError, "0.5 is not a value"),
        ({"push": {"shift": "a", "count": 1}}, InvalidTypeError, "'shift' is of type str"),
        ({"push": {"shift": "1", "count": 1}}, InvalidTypeError, "'shift' is of type str"),
        ({"constants": {"factor": b"1"}}, InvalidTypeError, "'factor' is of type bytes"),
        ({"constants": {"other": 1}}, InvalidArgumentError, "no specialization constant is called .other."),
        ({"groups": (1, 1, 1, 1)}, InvalidArgumentError, "groups"),
        ({"groups": -1}, InvalidArgumentError, "groups"),
        ({"groups": 1.5}, InvalidTypeError, "groups"),
        ({"groups": (2**31, 2**31, 1)}, UnsupportedError, "workgroups"),
        ({"device": "cpu"}, UnsupportedError, "Vulkan"),
        ({"function": "shifted"}, InvalidTypeError, "expected ComputeFunction"),
    ],
)
def test_what_it_refuses(function, changed, error, text):
    given = {
        "function": function("shifted"),
        "groups": 1,
        "buffers": {"x": [1.0], "y": [0.0]},
        "push": {"shift": 0, "count": 1},
    }
    with pytest.raises(error, match=text):
        dispatch(**(given | changed))


MATRICES = """#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
layout(local_size_x = LANES) in;
layout(std430, binding = 0) readonly buffer A { uint a[]; };
layout(std430, binding = 1) readonly buffer B { uint b[]; };
layout(std430, binding = 2) buffer Y { int y[]; };
void main() {
    coopmat<int8_t, gl_ScopeSubgroup, ROWS, TERMS, gl_MatrixUseA> left;
    coopmat<int8_t, gl_ScopeSubgroup, TERMS, ROWS, gl_MatrixUseB> right;
    coopMatLoad(left, a, 0, TERMS / 4, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(right, b, 0, TERMS / 4, gl_CooperativeMatrixLayoutColumnMajor);
    coopmat<int, gl_ScopeSubgroup, ROWS, ROWS, gl_MatrixUseAccumulator> sum =
        coopmat<int, gl_ScopeSubgroup, ROWS, ROWS, gl_MatrixUseAccumulator>(0);
    sum = coopMatMulAdd(left, right, sum);
    coopMatStore(sum, y, 0, ROWS, gl_CooperativeMatrixLayoutRowMajor);
}
"""


@pytest.mark.parametrize(("rows", "terms"), [(16, 32), (8, 8), (8, 32)])
def test_matrices_need_what_their_types_and_sizes_say(vulkan, tmp_path, rows, terms):
    sizes = {"LANES": "32" if rows == 16 else "8", "ROWS": str(rows), "TERMS": str(terms)}
    text = MATRICES
    for name, size in sizes.items():
        text = text.replace(name, size)
    (tmp_path / "matrices.glsl").write_text(text)
    compiler = ShaderCompiler(ShaderCompilerConfig(tmp_path, enable_caching=False))
    random = np.random.default_rng(terms)
    a, b = (random.integers(-128, 128, (rows, terms)).astype(np.int8) for _ in range(2))
    buffers = {"a": a.view(np.uint32), "b": b.view(np.uint32), "y": np.zeros((rows, rows), np.int32)}
    feature = f"coopmat_s8_s32_{rows}x{rows}x{terms}"
    info = grilly.info()
    if feature in next(row["features"] for row in info["devices"] if row["name"] == info["choice"]["name"]):
        y = dispatch(compiler.get_compute_function("matrices"), 1, buffers)["y"].numpy()
        assert np.array_equal(y, a.astype(np.int32) @ b.astype(np.int32).T)
    else:
        with pytest.raises(PipelineCreationFailed, match=feature):
            dispatch(compiler.get_compute_function("matrices"), 1, buffers)
