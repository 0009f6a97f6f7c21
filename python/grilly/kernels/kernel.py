"""Kernels as objects: source, interface, memory, work, and calls on arrays."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from grilly import _core
from grilly.closed import closed
from grilly.device_array import VulkanTensor
from grilly.functional.checks import whole
from grilly.functional.dispatch import Operand, Prepared, Recorder, Result, evaluate, floats, mask_values
from grilly.functional.positions import angles
from grilly.inputs import need_type
from grilly.kernels.export import Compiled, compiled_from, prepare
from grilly.kernels.flash import FlashAttentionConfig, naming_nearest
from grilly.operands import as_ids

__all__ = ["Interface", "Kernel", "Work", "get", "names"]


@closed()
@dataclass(frozen=True)
class Interface:
    """Interface of a shader, reflected from its SPIR-V.

    Attributes:
        bindings: Index, name and `"readonly"`, `"writeonly"` or `"readwrite"` of each storage buffer.
        push_constants: Name and GLSL type of each member of the push block, 4 bytes each.
        constants: `constant_id`, name, GLSL type and value of each specialization constant.
        local_size: Invocations per workgroup along x, y and z.

    Example:
        >>> from grilly import kernels
        >>> kernels.get("bias_gelu").interface.bindings[-1]
        (3, 'y', 'writeonly')
    """

    bindings: list[tuple[int, str, str]]
    push_constants: list[tuple[str, str]]
    constants: list[tuple[int, str, str, int | float | bool]]
    local_size: tuple[int, int, int]


@closed()
@dataclass(frozen=True)
class Work:
    """Cost of a call: floating-point operations, and bytes of operands and result, each once, and of scratch memory.

    Example:
        >>> from grilly import kernels
        >>> kernels.get("bias_gelu", hidden_dim=4).work(2)
        Work(flops=16, bytes=80)
    """

    flops: int
    bytes: int


def _value(kind: str, bits: int) -> int | float | bool:
    if kind == "float":
        return float(np.uint32(bits).view(np.float32))
    return bool(bits) if kind == "bool" else bits


@closed()
class Kernel:
    """A kernel with its options, created by `get`. It is called with the operands that `operands` lists.

    Args:
        name: One of `names()`.
        options: Its options.

    Example:
        >>> from grilly import kernels
        >>> kernel = kernels.get("residual_rms_norm", hidden_dim=2)
        >>> kernel([[3.0, 4.0]], [[0.0, 0.0]], [1.0, 1.0]).round(3).tolist()
        [[0.8489999771118164, 1.13100004196167]]
        >>> kernel.definition
        ['binary', 'rms_norm']
    """

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.name = name
        self.options = dict(options)
        config = options.get("config")
        need_type(config, FlashAttentionConfig | None, f"{name}: config", "FlashAttentionConfig")
        told = {} if config is None else {"config": asdict(config)}
        self._kernel = _core.Kernel(name, self.options | told)

    @property
    def formula(self) -> str:
        """What it computes."""
        return next(formula for name, formula, _ in _core.kernel_rows() if name == self.name)

    @property
    def definition(self) -> list[str]:
        """The operations that it fuses, in order; the kernel itself if it is not fused."""
        return self._kernel.definition()

    @property
    def source(self) -> str:
        """The self-contained GLSL source, with includes and macros in place.

        For `layer_norm_linear` it is the shader of the product, as are `interface` and `shared_memory`; a preceding
        shader writes the mean and scale factor of each row, and in 16 bits another one writes two sums per column.
        """
        return str(self._shader()["source"])

    @property
    def interface(self) -> Interface:
        """Bindings, push constants and specialization constants with the values of these options."""
        shader = self._shader()
        constants = [(place, name, kind, _value(kind, bits)) for place, name, kind, bits in shader["constants"]]
        return Interface(shader["bindings"], shader["push_constants"], constants, tuple(shader["local_size"]))

    @property
    def shared_memory(self) -> int:
        """Shared memory per workgroup in bytes, reflected at the specialization constants of these options."""
        return int(self._shader()["shared_memory"])

    def operands(self, rows: int = 1) -> list[tuple[str, tuple[int, ...]]]:
        """Type and shape of each operand for a number of rows: tokens, positions of a text, or rows of scores."""
        return [(dtype, tuple(axes)) for dtype, axes in self._kernel.operands(rows)]

    def work(self, rows: int = 1) -> Work:
        """Floating-point operations and bytes of a call on a number of rows."""
        _, flops, moved = self._kernel.describe(rows)
        return Work(flops, moved)

    def compile(
        self, target: str = "spirv", rows: int = 1, architecture: str | None = None, *, matrix_cores: bool = False
    ) -> Compiled:
        """Its code in another language, with the values of its options, and what a launch on a number of rows needs.

        Args:
            target: `"spirv"`, `"wgsl"`, `"msl"`, `"hlsl"`, `"cuda"` or `"ptx"`; default `"spirv"`.
            rows: Tokens, positions of a text, or rows of scores; default 1. Only the interface depends on it,
                and with `matrix_cores` tiles.
            architecture: The GPU architecture whose shared memory is the limit, for example `"sm_80"` or `"rdna3"`; for
                it flash attention in float16 without a `config` has the tuned row, or the nearest that fits. Default
                the architecture of a `config` that is a tuned row, else what every driver in use has.
            matrix_cores: Whether products and attention in 16 bits run on matrix cores: in `"cuda"` and `"ptx"` of
                compute capability 8.0 and later, in `"msl"` as `simdgroup_matrix`; default False.

        Returns:
            The code of its shaders and their interface.

        Raises:
            InvalidArgumentError: Unknown target, an unknown architecture or one without the language, or `rows` is less
                than 1.
            SharedMemoryError: `config` needs more shared memory than the architecture has.
            UnsupportedError: The language lacks a feature that the kernel needs, which the message names, or for PTX
                NVRTC is not installed.
        """
        need_type(target, str, f"{self.name}: target", "str")
        need_type(architecture, str | None, f"{self.name}: architecture", "str")
        prepare(target)
        need_type(matrix_cores, bool, f"{self.name}: matrix_cores", "bool")
        rows = whole(self.name, "rows", rows)
        with naming_nearest(self.options.get("config")):
            return compiled_from(self._kernel.compile(target, rows, architecture, matrix_cores))

    def _shader(self) -> dict[str, Any]:
        shaders, _, _ = self._kernel.describe(1)
        return shaders[-1]

    def __call__(self, *operands: Operand) -> Result:
        """The result, on the device of the operands; `rms_norm_rope` computes its angles if they are omitted."""
        return self._run(operands, apart=False)

    def apart(self, *operands: Operand) -> Result:
        """The result of the unfused definition, computed step by step."""
        return self._run(operands, apart=True)

    def _run(self, operands: tuple[Operand, ...], *, apart: bool) -> Result:
        types = [dtype for dtype, _ in self.operands()]
        signature = [*self._kernel.signature(), *[("an operand too many", "rows")] * len(operands)]
        prepared = [_prepared(x, *known) for x, known in zip(operands, signature, strict=False)]

        def body(r: Recorder, *arrays: _core.Array) -> _core.Array:
            given = list(arrays)
            for place, dtype in enumerate(types[: len(given)]):
                # The kernel refuses bfloat16, which no array has.
                if given[place].dtype not in (dtype, "int32") and dtype != "bfloat16":
                    given[place] = r("cast", given[place], to=dtype)
            if self.name == "rms_norm_rope" and len(given) == 2 and len(given[0].shape) == 4:
                given += angles(r, given[0].shape[1], given[0].shape[3], 10000.0)
            with naming_nearest(self.options.get("config")):
                return self._kernel.call(given, apart)

        return evaluate(self.name, body, *prepared)

    def __repr__(self) -> str:
        return f"get({', '.join([repr(self.name), *(f'{name}={value!r}' for name, value in self.options.items())])})"


def _prepared(value: Operand, name: str, role: str) -> Prepared:
    if role == "mask":
        return mask_values(value, name)[0]
    if role in ("index", "offsets", "count"):
        return value if isinstance(value, VulkanTensor) else as_ids(value, name)
    return floats(value, name)


def names() -> list[str]:
    """The kernels' names, sorted.

    Returns:
        The names that `get` accepts.

    Example:
        >>> from grilly import kernels
        >>> kernels.names()[:3]
        ['bias_gelu', 'flash_attention', 'geglu']
    """
    return [name for name, _, _ in _core.kernel_rows()]


def get(name: str, **options: Any) -> Kernel:
    """The kernel called `name`.

    Args:
        name: One of `names()`; `python -m grilly kernels` prints what each computes and its options.
        options: The applicable ones of `hidden_dim` (columns of a row; default 1024), `intermediate_dim` (columns
            between two products; default `hidden_dim`), `head_dim` (default 64), `max_seq_len` (maximum positions of a
            text; default 512), `use_half` (float16 storage of activations and matrices, float32 inside; default False),
            `use_bfloat16` (bfloat16 in its place, to compile for other engines: arrays have none; default False), `eps`
            (default 1e-5 for layer norms, 1e-6 for RMS norms), `approximate` (of GELU, `"tanh"` or `"none"`; default
            `"tanh"`), `p` (dropout probability; default 0.1), `seed` and `offset` (of the random numbers; default 0),
            `causal` (default False) and `config` (a `FlashAttentionConfig` in place of `head_dim` and `use_half`;
            default the blocks that the engine selects; the CPU always uses its own).

    Returns:
        The kernel.

    Raises:
        InvalidArgumentError: Unknown kernel, unknown option, or invalid value. A call raises `SharedMemoryError` if the
            device does not support the blocks of `config`.

    Example:
        >>> from grilly import kernels
        >>> kernels.get("rms_norm_rope", hidden_dim=4096, head_dim=128, max_seq_len=8192).definition
        ['rms_norm', 'rope']
    """
    need_type(name, str, "get: name", "str")
    return Kernel(name, options)
