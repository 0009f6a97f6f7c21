"""Debug mode for shaders: chosen before first use, names kept, and what shaders print shown where it can be."""

import os

import pytest

PRINTING = """#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_debug_printf : require
layout(local_size_x = 64) in;
#include "attention-output-interface.glsl"
void main() {
    uint row = 64u * gl_WorkGroupID.x + gl_LocalInvocationIndex;
    if (row == 1u) {
        debugPrintfEXT("row %u of %u", row, push.q_len);
    }
    if (row < push.q_len) {
        uint to = ((gl_WorkGroupID.z * push.q_len + row) * push.heads + gl_WorkGroupID.y) * push.head_dim;
        for (uint column = 0u; column < push.head_dim; column++) {
            y[to + column] = 1.0;
        }
    }
}
"""


def validated(errors: str) -> bool:
    """Whether the process that wrote this had the validation layer; its absence fails where it is required."""
    if "no Vulkan validation" not in errors:
        return True
    if "validation" in os.environ.get("GRILLY_REQUIRE", ""):
        pytest.fail(errors)
    return False


def test_debug_mode_is_chosen_before_first_use(vulkan, run, tmp_path):
    (tmp_path / "print.glsl").write_text(PRINTING)
    code = """
        import sys
        import grilly
        from grilly import ShaderCompiler, ShaderCompilerConfig, _core, testing
        grilly.configure(validation=True)
        config = ShaderCompilerConfig(sys.argv[1], enable_caching=False)
        debug = ShaderCompiler(config).get_compute_function("print").spirv
        import numpy as np
        weights, values = np.ones((1, 1, 2, 1), np.float32), np.ones((1, 1, 1, 1), np.float32)
        found = testing.compare_shaders("print", weights=weights, values=values, rounds=1, repeats=1,
                                        compiler=ShaderCompiler(config))
        try:
            grilly.configure(validation=False)
        except RuntimeError as error:
            print("refused:", error)
        print("names:", b"gl_WorkGroupID" in debug, testing.validation_messages())
    """
    done = run(code, tmp_path)
    assert done.status == 0, done.errors
    assert "refused: configure: Vulkan is in use already" in done.output
    assert "names: True []" in done.output
    if validated(done.errors):
        assert "grilly INFO: shader: row 1 of 2" in done.errors
    # In release mode names are gone and nothing is printed.
    done = run(code.replace("validation=True", "validation=False"), tmp_path)
    assert "names: False []" in done.output and "shader:" not in done.errors


def test_what_is_printed_by_a_shader_compiled_later_is_shown_on_request(vulkan, run, tmp_path):
    (tmp_path / "print.glsl").write_text(PRINTING)
    code = """
        import sys
        import numpy as np
        from grilly import ShaderCompiler, ShaderCompilerConfig, functional, testing
        functional.relu(np.ones(3, np.float32))
        weights, values = np.ones((1, 1, 2, 1), np.float32), np.ones((1, 1, 1, 1), np.float32)
        compiler = ShaderCompiler(ShaderCompilerConfig(sys.argv[1], enable_caching=False))
        testing.compare_shaders("print", weights=weights, values=values, rounds=1, repeats=1, compiler=compiler)
        print(testing.validation_messages())
    """
    plain, asked = (run(code, tmp_path, GRILLY_DEBUG=mode) for mode in ("1", "printf"))
    for done in (plain, asked):
        assert done.status == 0 and done.output.strip() == "[]", done.errors
    if validated(plain.errors):
        assert "set GRILLY_DEBUG=printf" in plain.errors and "shader: row" not in plain.errors
        assert "set GRILLY_DEBUG=printf" not in asked.errors and "shader: row 1 of 2" in asked.errors
