"""Kernels as code for other engines."""

import ctypes
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from grilly import _core
from grilly.closed import closed
from grilly.errors import InvalidArgumentError
from grilly.inputs import need_type

__all__ = ["Compiled", "compile_op", "ptx"]


@closed()
@dataclass(frozen=True)
class Compiled:
    """A kernel in one language.

    Attributes:
        code: The code of each shader by its name, in the order of their first dispatch: SPIR-V, or text in UTF-8.
        interface: What a launch needs, as plain data: `target`; the `entry_point` of the first shader; `buffers` and
            `dispatches`; of WGSL `limits`, what a device must allow beyond WebGPU's defaults (`name`, `needed`,
            `default`, `reason`); of flash attention with a configuration its `configuration`: blocks, `shared_memory`,
            `limit`, `architecture`, and of chosen blocks `row` and `reason`. A buffer has `name`, `kind` (`"operand"`,
            `"result"`, `"scratch"`, or `"counts"` with its `words`) and `bytes`, an operand or a result also `place`,
            `dtype` and `shape`. The dispatches run one after the other; each has `shader`, its `entry_point` (in MSL
            the shader's name in snake case, else the same for all), `workgroup_size`, `workgroup_memory` in bytes, of
            CUDA as `dynamic_memory`, too, if it is more than 48 KiB and a launch gives it, `grid` in workgroups,
            `bindings` (`binding`, `name`, `access`, the index of its `buffer`, `offset`, `bytes`), `parameters` (push
            constants, a uniform block with its `binding`, or the last argument of a CUDA kernel; `bytes`, and `members`
            with `offset`, `name`, `type` and `value`) and `constants`, which texts have baked in.

    Example:
        >>> from grilly import kernels
        >>> compiled = kernels.get("bias_gelu", hidden_dim=8).compile("spirv", rows=3)
        >>> list(compiled.code), compiled.interface["dispatches"][0]["grid"]
        (['bias-gelu'], [1, 1, 1])
    """

    code: dict[str, bytes]
    interface: dict[str, Any]

    def write(self, path: str | Path, overwrite: bool = False) -> list[Path]:
        """Writes the code, and the interface beside it, each whole; a link of such a name is replaced itself.

        Args:
            path: The file of the code; several shaders are written to NAME.SHADER.ENDING. The interface, in which each
                dispatch names its `file`, is written to NAME.json.
            overwrite: Whether files of these names may be replaced; default False.

        Returns:
            The files.

        Raises:
            InvalidArgumentError: A file is there already or cannot be written, or would be NAME.json itself.

        Example:
            >>> import tempfile
            >>> from grilly import kernels
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     files = kernels.get("bias_gelu").compile("spirv").write(f"{folder}/gelu.spv")
            >>> [file.name for file in files]
            ['gelu.spv', 'gelu.json']
        """
        path = Path(path)
        if path.suffix == ".json":
            raise InvalidArgumentError(f"{path}: the interface has this ending, expected another one for the code")
        alone = len(self.code) == 1
        paths = {name: path if alone else path.with_name(f"{path.stem}.{name}{path.suffix}") for name in self.code}
        rows = [row | {"file": paths[row["shader"]].name} for row in self.interface["dispatches"]]
        beside = path.with_suffix(".json")
        text = json.dumps(self.interface | {"dispatches": rows}, indent=2) + "\n"
        files = [(paths[name], code) for name, code in self.code.items()] + [(beside, text.encode())]
        _core.write_files(path.parent, [(file.name, content) for file, content in files], overwrite)
        return [file for file, _ in files]


def compiled_from(parts: tuple[list[tuple[str, bytes]], str]) -> Compiled:
    """What the core gives, as an object."""
    code, interface = parts
    return Compiled(dict(code), json.loads(interface))


@cache
def _load_nvrtc() -> None:
    """Loads the NVRTC of NVIDIA's package, if there is one: the core then finds it by its name, else the system's."""
    package = importlib.util.find_spec("nvidia")
    folders = list(package.submodule_search_locations or []) if package else []
    found = sorted(file for folder in folders for file in Path(folder).glob("*/lib/libnvrtc.so.*"))
    if found:
        ctypes.CDLL(str(found[-1]))


def prepare(target: str) -> None:
    """Loads what a target needs."""
    if target == "ptx":
        _load_nvrtc()


def ptx(cuda: str) -> bytes:
    """The PTX of CUDA C++ by NVRTC, for GPUs of compute capability 7.5 (Turing) and later, on matrix cores 8.0.

    Args:
        cuda: The text, for example an exported kernel that was changed.

    Returns:
        The PTX, as text in UTF-8, which a driver of the version of NVRTC or later loads.

    Raises:
        UnsupportedError: NVRTC is not installed; the message names the package.
        CompilationFailed: The text does not compile; the message has those of NVRTC.

    Example:
        >>> from grilly import kernels
        >>> text = kernels.get("bias_gelu").compile("cuda").code["bias-gelu"].decode()
        >>> ".entry main0" in kernels.ptx(text).decode()
        True
    """
    need_type(cuda, str, "ptx: cuda", "str")
    prepare("ptx")
    return _core.ptx(cuda)


def compile_op(
    op: str,
    operands: Sequence[tuple[str, Sequence[int]]],
    target: str = "spirv",
    *,
    matrix_cores: bool = False,
    **attributes: Any,
) -> Compiled:
    """The code of any operation, which models run as well, in another language.

    Args:
        op: Its name in `src/ops`.
        operands: Type and shape of each operand.
        target: `"spirv"`, `"wgsl"`, `"msl"`, `"hlsl"`, `"cuda"` or `"ptx"`; default `"spirv"`.
        matrix_cores: As of `Kernel.compile`; default False.
        attributes: Its attributes.

    Returns:
        The code, and what a launch needs for these operands.

    Raises:
        InvalidArgumentError: Unknown operation, attribute or target, or operands that do not fit.
        InvalidTypeError: An operand of a type that the operation does not read.
        UnsupportedError: The language lacks a feature that the kernel needs, which the message names, or for PTX NVRTC
            is not installed.

    Example:
        >>> from grilly import kernels
        >>> compiled = kernels.compile_op("normalize", [("float32", (3, 5))], "wgsl")
        >>> "@compute @workgroup_size(256, 1, 1)" in compiled.code["normalize"].decode()
        True
    """
    need_type(op, str, "compile_op: op", "str")
    need_type(target, str, "compile_op: target", "str")
    need_type(matrix_cores, bool, "compile_op: matrix_cores", "bool")
    prepare(target)
    shapes = [(dtype, list(shape)) for dtype, shape in operands]
    return compiled_from(_core.compile_op(op, shapes, attributes, target, matrix_cores))
