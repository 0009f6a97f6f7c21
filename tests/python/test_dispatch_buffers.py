"""What a user's shader reads: lengths of arrays, kinds of numbers, limits of constants, one buffer a binding."""

import numpy as np
import pytest

from grilly import ShaderCompiler, ShaderCompilerConfig
from grilly.compiler import dispatch
from grilly.errors import CompilationFailed, InvalidTypeError, PipelineCreationFailed

HEAD = "#version 460\n"


@pytest.fixture
def function(vulkan, tmp_path):
    def compiled(text):
        (tmp_path / "f.glsl").write_text(HEAD + text)
        return ShaderCompiler(ShaderCompilerConfig(tmp_path, enable_caching=False)).get_compute_function("f")

    return compiled


@pytest.mark.parametrize("kind", ["float", "uint"])
@pytest.mark.parametrize("elements", [*range(9), 255, 256, 257])
def test_the_length_of_an_array_is_exact(function, kind, elements):
    f = function(f"""
        layout(local_size_x = 1) in;
        layout(std430, binding = 0) readonly buffer X {{ {kind} x[]; }};
        layout(std430, binding = 1) buffer Y {{ uint y[]; }};
        void main() {{ y[0] = x.length(); y[1] = y.length(); }}""")
    x = np.ones(elements, np.float32 if kind == "float" else np.uint32)
    assert dispatch(f, 1, {"x": x, "y": np.zeros(3, np.uint32)})["y"].tolist() == [elements, 3, 0]


READS = """
    layout(local_size_x = 1) in;
    layout(std430, binding = 0) readonly buffer X { KIND x[]; };
    layout(std430, binding = 1) buffer Y { float y[]; };
    void main() { y[0] = float(x[0]DOT); }"""


@pytest.mark.parametrize(("kind", "dtype", "fits"), [
    ("float", np.float32, True), ("float", np.float64, True), ("float", np.int64, False), ("float", np.int32, False),
    ("float", np.bool_, False), ("float", np.float16, False), ("float", np.uint8, False), ("vec4", np.int32, False),
    ("vec4", np.float32, True), ("int", np.int32, True), ("uint", np.int32, True), ("int", np.bool_, True),
    ("uint", np.uint8, True), ("uint", np.float16, True), ("int", np.float32, False), ("uvec2", np.float64, False),
])  # fmt: skip
def test_another_kind_of_number_is_refused(function, kind, dtype, fits):
    f = function(READS.replace("KIND", kind).replace("DOT", ".x" if "vec" in kind else ""))
    given = {"x": np.ones(16, dtype), "y": np.zeros(1, np.float32)}
    if fits:
        (found,) = dispatch(f, 1, given)["y"].tolist()
        assert found == 1 or dtype in (np.uint8, np.float16)
    else:
        with pytest.raises(InvalidTypeError, match=r"f: x is \w+, and the shader reads"):
            dispatch(f, 1, given)


@pytest.mark.parametrize(("value", "problem"), [
    (1_000_000, "needs 4000000 bytes of shared memory"), (2**30, "4 GiB|bytes of shared memory"),
    (0, "no elements"), (4, None),
])  # fmt: skip
def test_shared_memory_by_a_constant_keeps_to_the_device(function, value, problem):
    f = function("""
        layout(local_size_x = 1) in;
        layout(constant_id = 0) const uint N = 4;
        shared float held[N];
        layout(std430, binding = 0) buffer Y { float y[]; };
        void main() { held[N - 1] = 3.0; y[0] = held[N - 1]; }""")
    if problem is None:
        assert dispatch(f, 1, {"y": [0.0]}, constants={"n": value})["y"].tolist() == [3.0]
        return
    with pytest.raises(PipelineCreationFailed, match=problem):
        dispatch(f, 1, {"y": [0.0]}, constants={"n": value})


@pytest.mark.parametrize("invocations", [0, 65536, 2**31, 2**32 - 1, 64])
def test_invocations_by_a_constant_keep_to_the_device(function, invocations):
    f = function("""
        layout(local_size_x_id = 0) in;
        layout(std430, binding = 0) buffer Y { float y[]; };
        void main() { y[0] = float(gl_WorkGroupSize.x); }""")
    (name,) = [name for _, name, _ in f.constants]
    if invocations == 64:
        assert dispatch(f, 1, {"y": [0.0]}, constants={name: 64})["y"].tolist() == [64.0]
        return
    with pytest.raises(PipelineCreationFailed, match="invocations|workgroup"):
        dispatch(f, 1, {"y": [0.0]}, constants={name: invocations})


@pytest.mark.parametrize("size", ["4", "", "1000000"])
def test_an_array_of_buffers_is_refused(function, size):
    with pytest.raises(CompilationFailed, match="array of buffers"):
        function(f"""
            #extension GL_EXT_nonuniform_qualifier : enable
            layout(local_size_x = 1) in;
            layout(std430, binding = 0) buffer X {{ float x[]; }};
            layout(std430, binding = 1) buffer Y {{ float y[]; }} ys[{size}];
            void main() {{ x[0] = ys[2].y[0]; }}""")
