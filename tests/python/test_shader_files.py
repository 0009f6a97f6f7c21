"""`python -m grilly shaders`: what a shader includes, beside it."""

import shutil
import subprocess

import pytest

from grilly import ShaderCompiler, ShaderCompilerConfig, _core
from grilly.commands import shaders

SHADER = """#version 460
#extension GL_GOOGLE_include_directive : require
#include "{name}"
layout(local_size_x = 1) in;
void main() {{}}
"""


def test_files_lie_beside_a_shader_and_are_none(tmp_path, capsys):
    (tmp_path / "own.glsl").write_text(SHADER.format(name="numbers.glsl"))
    assert shaders.main(["--copy", str(tmp_path)]) == 0
    names = [name for name, _ in _core.shader_files()]
    assert "attention-output-interface.glsl" in names
    assert capsys.readouterr().out.split() == [str(tmp_path / name) for name in names]
    assert ShaderCompiler(ShaderCompilerConfig(str(tmp_path))).list_shaders() == ["own"]


def test_another_file_of_the_name_stays(tmp_path, capsys):
    other = tmp_path / "numbers.glsl"
    other.write_text("// mine")
    assert shaders.main(["--copy", str(tmp_path)]) == 1
    assert "has another text; --overwrite replaces it" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["numbers.glsl"] and other.read_text() == "// mine"
    assert shaders.main(["--copy", str(tmp_path), "--overwrite"]) == 0 and other.read_text() != "// mine"


@pytest.mark.skipif(shutil.which("glslc") is None, reason="glslc is not installed")
@pytest.mark.parametrize("name", [name for name, text in _core.shader_files() if "-interface" in name])
def test_another_compiler_finds_them(tmp_path, name):
    shader = tmp_path / "own.glsl"
    shader.write_text(SHADER.format(name=name))
    shaders.copy(tmp_path)
    made = tmp_path / "own.spv"
    command = ["glslc", "-fshader-stage=compute", "--target-env=vulkan1.3", str(shader), "-o", str(made)]
    subprocess.run(command, check=True, capture_output=True)
    assert made.read_bytes()[:4] == (0x07230203).to_bytes(4, "little")
