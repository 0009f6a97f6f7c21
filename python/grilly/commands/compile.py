"""`python -m grilly compile`: a folder of shaders to SPIR-V files."""

import argparse
import sys
from pathlib import Path

from grilly import _core
from grilly.commands.table import command
from grilly.compiler import ShaderCompiler, ShaderCompilerConfig
from grilly.errors import GrillyError, ShaderNotFound

__all__ = ["main"]


@command("compile")
def main(given: argparse.Namespace) -> int:
    """Compiles a folder, prints the error of each shader that does not compile, and returns the exit status.

    Example:
        >>> from grilly.commands import compile
        >>> compile.main(["no/such/folder"])
        1
    """
    if not given.folder.is_dir():
        raise ShaderNotFound(f"{given.folder} is not a folder")
    same = {name: getattr(given, name) for name in ("debug_info", "optimization_level", "target_env")}
    defines = {name: value or "1" for name, _, value in (pair.partition("=") for pair in given.define)}
    config = ShaderCompilerConfig(given.folder, fast_math=not given.no_fast_math, defines=defines, **same)
    compiler = ShaderCompiler(config)
    status = 0
    for shader in sources(compiler.list_shaders(), given.folder, given.output):
        try:
            functions = compiler.compile_all_shaders([shader])
        except GrillyError as error:
            print(error, file=sys.stderr)
            status = 1
            continue
        for name, function in functions[shader].items():
            facts = f"workgroup {function.local_size}, {function.shared_bytes} bytes shared"
            print(f"{shader}:{name}: {len(function.spirv)} bytes, {facts}")
            if given.output is not None:
                file = f"{shader}.spv" if name == "main" else f"{shader}.{name}.spv"
                _core.write_files(given.output, [(file, function.spirv)], True)
    return status


def sources(shaders: list[str], folder: Path, output: Path | None) -> list[str]:
    """The shaders of a folder, except those that an earlier run wrote to `output` inside it.

    Example:
        >>> from pathlib import Path
        >>> from grilly.commands.compile import sources
        >>> sources(["twice", "spv/twice"], Path("shaders"), Path("shaders/spv"))
        ['twice']
    """
    if output is None or not output.resolve().is_relative_to(folder.resolve()):
        return shaders
    written = output.resolve()

    def is_source(shader: str) -> bool:
        return (folder / f"{shader}.glsl").exists() or not (folder / shader).resolve().is_relative_to(written)

    return [shader for shader in shaders if is_source(shader)]
