"""The page about users' shaders works as it stands: its files, its commands and its code, in order."""

import re
import shlex
import shutil
import sys
from pathlib import Path

from grilly.__main__ import main

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "shaders.md"


def blocks() -> list[tuple[str, str]]:
    return re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def write_files(folder: Path) -> None:
    """The page's files, each named by its first line."""
    for language, text in blocks():
        if language == "glsl":
            name, _, shader = text.partition("\n")
            path = folder / name.removeprefix("// ")
            path.parent.mkdir(exist_ok=True)
            path.write_text(shader)


def test_each_block_runs_in_a_process_of_its_own(tmp_path, run, vulkan, monkeypatch):
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["compile", "shaders", "--output", "compiled"]) == 0
    for block in (text for language, text in blocks() if language == "python"):
        done = run(block, XDG_CACHE_HOME=str(tmp_path / "cache"))
        assert done.status == 0, f"{block}\n{done.errors}"


def test_the_page(tmp_path, run, vulkan, monkeypatch):
    write_files(tmp_path)
    script = []
    for language, text in blocks():
        if language == "python":
            script.append(text)
        elif language == "" and text.startswith("python "):
            for line in text.splitlines():
                command = shlex.split(line)
                if command[0] == "python" or shutil.which(command[0]):
                    command = [sys.executable if word == "python" else word for word in command]
                    script.append(f"import subprocess; subprocess.run({command!r}, check=True)")
    assert len(script) > 8, "the page has lost its code"
    monkeypatch.chdir(tmp_path)
    done = run("\n".join(script), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.status == 0, done.errors
    assert "x the generic shader's speed" in done.output
    assert (tmp_path / "compiled" / "attention-output-grouped.spv").exists()
    assert (tmp_path / "shaders" / "attention-output-interface.glsl").exists()
    if shutil.which("glslc"):
        assert (tmp_path / "shaders" / "spv" / "attention-output-grouped.spv").exists()


def test_the_table_of_architectures_is_the_registrys():
    from grilly.backend.shader_registry import get_shader

    rows = re.findall(r"^\| (.*) \| `(attention-output[\w-]*)` \|", PAGE.read_text(), re.MULTILINE)
    named = [(name, file) for names, file in rows for name in re.findall(r"`(\w+)`", names)]
    assert len(named) > 15
    for name, file in named:
        assert get_shader("attention-output", name) == file, name


def test_the_table_of_names_is_the_registrys():
    from grilly.backend.shader_registry import get_registry

    table = PAGE.read_text().partition("## Names and what runs under them")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
    named = [name for cell in cells for name in re.findall(r"`([\w-]+)`", cell)]
    assert sorted(named) == get_registry().list_shaders()


def test_the_rust_of_the_page_names_what_there_is():
    source = (PAGE.parents[2] / "src" / "compiler" / "mod.rs").read_text()
    (rust,) = [text for language, text in blocks() if language == "rust"]
    for name in ("ShaderCompilerConfig", "ShaderCompiler", "register"):
        assert name in rust and re.search(rf"pub (use|struct).*\b{name}\b", source), name
