"""Users' shaders at run time: GLSL to SPIR-V, with an on-disk cache.

A shader file has one function, `main`, unless lines of the form `// function: name` declare others. A function is the
file compiled with `-DENTRY_name`; its entry point is always `main`.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from grilly import _core
from grilly._core import ComputeFunction
from grilly.blocks import Block, packed
from grilly.closed import closed
from grilly.device_array import VulkanTensor, wrap
from grilly.errors import InvalidArgumentError, InvalidTypeError, ShaderNotFound
from grilly.inputs import need_type, path_text
from grilly.operands import as_floats, as_ids, host_array

__all__ = ["ComputeFunction", "ShaderCompiler", "ShaderCompilerConfig", "dispatch"]


@closed()
@dataclass(frozen=True)
class ShaderCompilerConfig:
    """How shaders are compiled.

    Args:
        shader_directory: Their folder, searched recursively; default the current folder.
        enable_caching: Whether modules are cached on disk, keyed by a hash of the text with its includes, the options
            and the compiler's version. Several processes may share a folder.
        cache_directory: Folder of the cache; default `grilly/shaders` in the user's cache folder.
        debug_info: Whether modules keep names and line numbers; default only in debug mode.
        optimization_level: `"none"`, `"size"` or `"full"`; default `"full"`, in debug mode `"none"`.
        target_env: `"vulkan1.1"`, `"vulkan1.2"` or `"vulkan1.3"`, the target of the compilation.
        fast_math: Whether the driver may contract `a * b + c` to one rounding; False decorates float arithmetic
            `NoContraction`.
        defines: Macros and their values.
        fallback_directories: Searched, in this order, for shaders that are not in `shader_directory`.

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


@closed()
class ShaderCompiler:
    """Compiles the shaders of a folder.

    Args:
        config: The configuration; default `ShaderCompilerConfig()`.

    Raises:
        InvalidArgumentError: An option has an invalid value.
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
        expected = "ShaderCompilerConfig; a folder of shaders is its shader_directory"
        need_type(given, ShaderCompilerConfig, "config", expected)
        need_type(given.defines, Mapping, "defines", "a dict")
        defines = {name: str(value) for name, value in given.defines.items()}
        self._compiler = _core.ShaderCompiler(**{**vars(given), "defines": defines})

    @property
    def compilations(self) -> int:
        """Number of times this object compiled GLSL because it was not in the cache."""
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
            CompilationFailed: With the errors of all shaders at once, each with file and line; the others are compiled
                and cached all the same.
            PipelineCreationFailed: One shader needs a feature that grilly enables on no device.
        """
        compiled: dict[str, dict[str, ComputeFunction]] = {}
        names = self.list_shaders() if shaders is None else list(shaders)
        for function in self._compiler.compile_all(names):
            compiled.setdefault(function.shader, {})[function.function] = function
        return compiled

    def get_compute_function(self, shader: str, function: str = "main") -> ComputeFunction:
        """One function of a shader; a `.spv` file is used if there is no GLSL, or if the ending is given.

        Raises:
            ShaderNotFound: There is no such file.
            FunctionNotFound: The file does not declare the function.
            CompilationFailed: It does not compile; the message names file and line.
            PipelineCreationFailed: It needs a feature that grilly enables on no device.
        """
        return self._compiler.compile(shader, function)

    def __repr__(self) -> str:
        return f"ShaderCompiler({os.fspath(self.config.shader_directory)!r})"


def dispatch(
    function: ComputeFunction,
    groups: int | Sequence[int],
    buffers: Mapping[Any, Any],
    push: Mapping[str, float] | None = None,
    constants: Mapping[str, float] | None = None,
    device: str = "vulkan",
) -> dict[Any, Any]:
    """Dispatches a compiled function on buffers of your own.

    Args:
        function: Returned by `ShaderCompiler.get_compute_function`.
        groups: Workgroups along x, y and z; omitted ones are 1.
        buffers: What each storage buffer and uniform block holds, by its name in `function.bindings`, by its binding
            in set 0, or by the tuple of set and binding. An array is its memory: a `VulkanTensor` of the device, or
            anything convertible by NumPy. float16, int8, uint8, int32 and uint32 are kept, bool becomes int32, other
            floats float32. A buffer of floats takes floats of its width, one of integers also narrower numbers, packed.
            A dict has the members of the block, each laid out as the shader declares it: a number or an array, for a
            vector of shape (n,), for a matrix (rows, columns), with the axes of arrays before these; a dict for a
            struct, and for an array of structs one whose members have the axis of the array first. Integers must fit
            the type of the member, floats are rounded to it; bool is uint32 in memory. The shader's `.length()` is that
            of the array, but 1 for a buffer of bytes without elements. Arrays are immutable: the function writes to a
            copy.
        push: A number for each member of the push block, by name.
        constants: Values of specialization constants, by lowercase name; default those of the shader.
        device: `"vulkan"` or `"vulkan:N"`; default `"vulkan"`.

    Returns:
        The buffers that the shader does not declare `readonly`, after the dispatch, by the names given: for an array
        one of its shape and type, for a dict a mapping of the members, which are read from the device when one is
        looked up and stay there if the mapping is given to the next dispatch.

    Raises:
        InvalidArgumentError: An unknown or missing name; a number out of range of its type; a member of another shape;
            an array smaller than its block; a group count that is negative or exceeds 32 bits.
        InvalidTypeError: Not a function, a mapping, numbers or an array of a supported type; an array of another
            kind of number than the shader reads.
        UnsupportedError: More workgroups than the device supports, or the device is the CPU.
        PipelineCreationFailed: The device lacks what the shader needs, with these constants.

    Source: Vulkan's vkCmdDispatch.

    Example:
        >>> import pathlib, tempfile, numpy as np
        >>> from grilly.compiler import ShaderCompiler, ShaderCompilerConfig, dispatch
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "add.glsl").write_text('''#version 460
        ... layout(local_size_x = 64) in;
        ... layout(std430, binding = 0) readonly buffer X { float x[]; };
        ... layout(std430, binding = 1) buffer Y { float y[]; };
        ... layout(push_constant) uniform Push { float factor; uint count; } push;
        ... void main() {
        ...     uint i = gl_GlobalInvocationID.x;
        ...     if (i < push.count) { y[i] += push.factor * x[i]; }
        ... }
        ... ''')
        >>> compiler = ShaderCompiler(ShaderCompilerConfig(shader_directory=folder, enable_caching=False))
        >>> add = compiler.get_compute_function("add")
        >>> dispatch(add, 1, {"x": [1.0, 2.0], "y": np.ones(2)}, {"factor": 3, "count": 2})["y"].tolist()
        [4.0, 7.0]
    """
    need_type(function, ComputeFunction, "dispatch: function", "ComputeFunction")
    axes = tuple(groups) if isinstance(groups, Sequence) else (groups,)
    try:
        counts = [int(axis.__index__()) for axis in axes] + [1] * (3 - len(axes))
    except (AttributeError, TypeError):
        raise InvalidTypeError(f"dispatch: groups is {groups!r}, expected one to three integers") from None
    if len(counts) != 3 or not axes or not all(0 <= count < 2**32 for count in counts):
        raise InvalidArgumentError(f"dispatch: groups is {groups!r}, expected one to three counts of 32 bits")
    engine = _core.engine(device)
    need_type(buffers, Mapping, "dispatch: buffers", "a dict")
    members, sizes = [_numbers(what, given) for what, given in (("push", push), ("constants", constants))]
    layouts = {key: function.block(_key(key), sizes) for key, values in buffers.items() if isinstance(values, Mapping)}
    given = []
    for key, values in buffers.items():
        if key in layouts:
            given.append((key, packed(engine, layouts[key], values, f"dispatch: {key}"), True))
        else:
            given.append((_key(key), _array(engine, str(key), values), False))
    written = function.dispatch(counts, given, members, sizes)
    keys = list(buffers)
    return {
        keys[place]: Block(layouts[keys[place]], array) if keys[place] in layouts else wrap(array)
        for place, array in written
    }


def _key(key: Any) -> Any:
    """The name, the binding, or the set and the binding of a buffer."""
    numbers = key if isinstance(key, tuple) and len(key) == 2 else (key,)
    if isinstance(key, str) or all(isinstance(number, int) and 0 <= number < 2**32 for number in numbers):
        return key
    raise InvalidTypeError(f"dispatch: buffers has the key {key!r}, expected a name, a binding, or set and binding")


def _numbers(name: str, given: Any) -> dict[str, float]:
    numbers = {}
    need_type(given, Mapping | None, f"dispatch: {name}", "a dict")
    for key, value in (given or {}).items():
        try:
            if isinstance(value, str | bytes | bytearray):
                raise TypeError  # which float() takes if they are of digits
            numbers[key] = float(value)
        except (TypeError, ValueError):
            kind = type(value).__name__
            raise InvalidTypeError(f"dispatch: {name} {key!r} is of type {kind}, expected a number") from None
        except OverflowError:
            raise InvalidArgumentError(f"dispatch: {name} {key!r} is {value}, which no type of 32 bits holds") from None
    return numbers


def _array(engine: _core.Engine, name: str, values: Any) -> _core.Array:
    if isinstance(values, VulkanTensor) and values._array.engine == engine:
        return values._array
    host = host_array(values, name)
    if host.dtype.kind == "b" or (host.dtype.kind in "iu" and host.dtype.itemsize > 4):
        host = as_ids(host.astype(np.int32) if host.dtype.kind == "b" else host, name)
    if host.dtype.kind == "f":
        host = as_floats(host, name)
    return engine.upload(np.require(host, requirements=["C", "A"]))


# Absolute once set; until then the current folder at the time of the call.
_default_folder = "."


def set_default_folder(folder: str | os.PathLike[str]) -> None:
    """Sets the folder searched for shaders that are registered without a compiler.

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


def own_compiler(given: ShaderCompiler | None) -> _core.ShaderCompiler:
    """The engine's compiler behind `given`, or behind the one for registrations without a compiler.

    That one searches the folder set last, else the current one; then `shaders` and `shaders/spv` of the current one. In
    each, GLSL takes precedence over SPIR-V.
    """
    if given is None:
        others = ("shaders", os.path.join("shaders", "spv"))
        given = ShaderCompiler(ShaderCompilerConfig(shader_directory=_default_folder, fallback_directories=others))
    return given._compiler
