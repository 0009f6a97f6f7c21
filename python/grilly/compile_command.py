"""`python -m grilly compile`: a folder of shaders to SPIR-V files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from grilly.compiler import ShaderCompiler, ShaderCompilerConfig
from grilly.errors import GrillyError

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Compiles a folder and returns the exit status.

    Example:
        >>> from grilly import compile_command
        >>> compile_command.main(["no/such/folder"])
        1
    """
    parser = argparse.ArgumentParser(prog="python -m grilly compile", description="Compiles GLSL shaders to SPIR-V.")
    parser.add_argument("folder", type=Path, help="where the shaders lie")
    parser.add_argument(
        "-o", "--output", type=Path, help="where to write NAME.spv or NAME.FUNCTION.spv; default nowhere"
    )
    parser.add_argument("-D", "--define", action="append", default=[], metavar="NAME=VALUE", help="a macro")
    parser.add_argument("-O", "--optimization-level", choices=("none", "size", "full"), default="full")
    parser.add_argument("--target-env", choices=("vulkan1.1", "vulkan1.2", "vulkan1.3"), default="vulkan1.3")
    parser.add_argument("--debug-info", action="store_true", help="keep names and lines")
    parser.add_argument("--no-fast-math", action="store_true", help="decorate float arithmetic NoContraction")
    given = parser.parse_args(arguments)
    if not given.folder.is_dir():
        print(f"{given.folder} is not a folder", file=sys.stderr)
        return 1
    config = ShaderCompilerConfig(
        shader_directory=given.folder,
        debug_info=given.debug_info,
        optimization_level=given.optimization_level,
        target_env=given.target_env,
        fast_math=not given.no_fast_math,
        defines=dict((pair.partition("=")[0], pair.partition("=")[2] or "1") for pair in given.define),
    )
    try:
        compiler = ShaderCompiler(config)
        shaders = compiler.compile_all_shaders(sources(compiler.list_shaders(), given.folder, given.output))
    except GrillyError as error:
        print(error, file=sys.stderr)
        return 1
    for shader, functions in shaders.items():
        for name, function in functions.items():
            facts = f"workgroup {function.local_size}, {function.shared_bytes} bytes shared"
            print(f"{shader}:{name}: {len(function.spirv)} bytes, {facts}")
            if given.output is not None:
                path = given.output / (f"{shader}.spv" if name == "main" else f"{shader}.{name}.spv")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(function.spirv)
    return 0


def sources(shaders: list[str], folder: Path, output: Path | None) -> list[str]:
    """The shaders of a folder, except those that an earlier run wrote to `output` inside it.

    Example:
        >>> from pathlib import Path
        >>> from grilly.compile_command import sources
        >>> sources(["twice", "spv/twice"], Path("shaders"), Path("shaders/spv"))
        ['twice']
    """
    if output is None or not output.resolve().is_relative_to(folder.resolve()):
        return shaders
    written = output.resolve()

    def is_source(shader: str) -> bool:
        return (folder / f"{shader}.glsl").exists() or not (folder / shader).resolve().is_relative_to(written)

    return [shader for shader in shaders if is_source(shader)]
