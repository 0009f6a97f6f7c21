"""Users' shaders at run time: GLSL to SPIR-V, with a cache on disk.

A shader file has one function, `main`, unless lines of its own declare others: `// function: name`. A function is the
file built with `-DENTRY_name`; its entry point is `main` in any case.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from grilly import _core
from grilly._core import ComputeFunction
from grilly.errors import InvalidTypeError, ShaderNotFound
from grilly.inputs import path_text

__all__ = ["ComputeFunction", "ShaderCompiler", "ShaderCompilerConfig"]


@dataclass(frozen=True)
class ShaderCompilerConfig:
    """How shaders are compiled.

    Args:
        shader_directory: Where they lie, in folders of any depth; default the current folder.
        enable_caching: Whether modules are kept on disk, by a hash of the text with its includes, the options and the
            compiler's version. Several processes may share a folder.
        cache_directory: Where; default `grilly/shaders` in the user's cache folder.
        debug_info: Whether modules keep names and lines; default in debug mode only.
        optimization_level: `"none"`, `"size"` or `"full"`; default `"full"`, in debug mode `"none"`.
        target_env: `"vulkan1.1"`, `"vulkan1.2"` or `"vulkan1.3"`, whose rules the shader is compiled by.
        fast_math: Whether the driver may round `a * b + c` once; False decorates float arithmetic `NoContraction`.
        defines: Macros and their values.
        fallback_directories: Where else, in this order, a shader is looked for that does not lie in `shader_directory`.

    Example:
        >>> from grilly import ShaderCompilerConfig
        >>> ShaderCompilerConfig(shader_directory="shaders", defines={"TILE": 32}).fast_math
        True
    """

    shader_directory: str | os.PathLike[str] = "."
    enable_caching: bool = True
    cache_directory: str | os.PathLike[str] | None = None
    debug_info: bool | None = None
    optimization_level: str | None = None
    target_env: str = "vulkan1.3"
    fast_math: bool = True
    defines: Mapping[str, object] = field(default_factory=dict)
    fallback_directories: Sequence[str | os.PathLike[str]] = ()


class ShaderCompiler:
    """Compiles the shaders of a folder.

    Args:
        config: How; default `ShaderCompilerConfig()`.

    Raises:
        InvalidArgumentError: An option has an impossible value.
        InvalidTypeError: Not a `ShaderCompilerConfig`, or macros that are no dict.

    Example:
        >>> import pathlib, tempfile
        >>> from grilly import ShaderCompiler, ShaderCompilerConfig
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "twice.glsl").write_text('''#version 460
        ... layout(local_size_x = 64) in;
        ... layout(std430, binding = 0) buffer X { float x[]; };
        ... void main() { x[gl_GlobalInvocationID.x] *= 2.0; }
        ... ''')
        >>> compiler = ShaderCompiler(ShaderCompilerConfig(shader_directory=folder, enable_caching=False))
        >>> compiler.get_compute_function("twice").bindings
        [(0, 'x', 'readwrite')]
    """

    def __init__(self, config: ShaderCompilerConfig | None = None) -> None:
        self.config = ShaderCompilerConfig() if config is None else config
        given = self.config
        if not isinstance(given, ShaderCompilerConfig):
            raise InvalidTypeError(
                f"config is of type {type(given).__name__}, expected ShaderCompilerConfig; a folder of shaders is its "
                "shader_directory"
            )
        if not isinstance(given.defines, Mapping):
            raise InvalidTypeError(f"defines is of type {type(given.defines).__name__}, expected a dict")
        self._compiler = _core.ShaderCompiler(
            given.shader_directory,
            given.enable_caching,
            given.cache_directory,
            given.debug_info,
            given.optimization_level,
            given.target_env,
            given.fast_math,
            {name: str(value) for name, value in given.defines.items()},
            given.fallback_directories,
        )

    @property
    def compilations(self) -> int:
        """How often GLSL was compiled by this object, and not found in the cache."""
        return self._compiler.compilations

    def list_shaders(self) -> list[str]:
        """Names of the shaders in the folder: paths without their endings, sorted.

        Raises:
            ShaderNotFound: The folder cannot be read.
        """
        return self._compiler.shaders()

    def list_functions(self, shader: str) -> list[str]:
        """Names of the functions of a shader, in the order of its file."""
        return self._compiler.functions(shader)

    def compile_all_shaders(self, shaders: Iterable[str] | None = None) -> dict[str, dict[str, ComputeFunction]]:
        """Every function of every shader, or of those named, by their names.

        Raises:
            ShaderNotFound: The folder cannot be read.
            CompilationFailed: With the faults of all shaders at once, each by file and line.
            PipelineCreationFailed: A shader needs what grilly asks no device for.
        """
        compiled: dict[str, dict[str, ComputeFunction]] = {}
        names = self.list_shaders() if shaders is None else list(shaders)
        for function in self._compiler.compile_all(names):
            compiled.setdefault(function.shader, {})[function.function] = function
        return compiled

    def get_compute_function(self, shader: str, function: str = "main") -> ComputeFunction:
        """One function of a shader; a `.spv` file is taken where there is no GLSL, or its ending is given.

        Raises:
            ShaderNotFound: There is no such file.
            FunctionNotFound: The file does not declare the function.
            CompilationFailed: It does not compile; the message names file and line.
            PipelineCreationFailed: It needs what grilly asks no device for.
        """
        return self._compiler.compile(shader, function)

    def __repr__(self) -> str:
        return f"ShaderCompiler({os.fspath(self.config.shader_directory)!r})"


# Absolute once it is chosen; the current folder of the call until then.
_default_folder = "."


def set_default_folder(folder: str | os.PathLike[str]) -> None:
    """Chooses where shaders are looked for that are registered without a compiler.

    Raises:
        ShaderNotFound: There is no such folder.
        InvalidTypeError: Not a path.

    Example:
        >>> from grilly.compiler import set_default_folder
        >>> set_default_folder(".")
    """
    global _default_folder
    path = path_text(folder, "shader_dir")
    if not os.path.isdir(path):
        raise ShaderNotFound(f"shader_dir: {path} is not a folder; name the one that holds your shaders")
    _default_folder = os.path.abspath(path)


def default_compiler() -> ShaderCompiler:
    """The compiler of registrations that name none.

    A shader is looked for in the folder chosen last, else in the current one; then in `shaders` and `shaders/spv` of
    the current one. In each, GLSL goes before SPIR-V.

    Example:
        >>> from grilly.compiler import default_compiler
        >>> default_compiler().config.enable_caching
        True
    """
    others = ("shaders", os.path.join("shaders", "spv"))
    return ShaderCompiler(ShaderCompilerConfig(shader_directory=_default_folder, fallback_directories=others))
