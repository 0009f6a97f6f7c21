"""Configurations of flash attention: tuned rows, their shared memory, and selection for a device."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from typing import Any

from grilly import _core
from grilly.closed import closed
from grilly.errors import SharedMemoryError
from grilly.functional.checks import whole

__all__ = [
    "FlashAttentionConfig",
    "TunedConfigs",
    "default_config",
    "detect_vendor",
    "required_shared_memory",
    "select_config",
    "validate_config",
]


@closed()
@dataclass(frozen=True)
class FlashAttentionConfig:
    """Blocks of flash attention.

    Args:
        block_q: Queries per workgroup.
        block_kv: Keys processed together.
        head_dim: Columns of a head.
        half_precision: Whether operands are float16, on matrix cores where the device has them.

    Example:
        >>> from grilly import kernels
        >>> kernels.FlashAttentionConfig(block_q=64, block_kv=64, head_dim=64) == kernels.default_config
        True
    """

    block_q: int = 64
    block_kv: int = 64
    head_dim: int = 64
    half_precision: bool = False


def _blocks(config: FlashAttentionConfig) -> tuple[int, int, int, bool]:
    q, kv, head, half = astuple(config)
    named = (("block_q", q), ("block_kv", kv), ("head_dim", head))
    # Clamped to fit the core's integers; the core rejects anything that large.
    q, kv, head = (min(whole("flash attention", name, size), 2**31) for name, size in named)
    return q, kv, head, bool(half)


_ROWS = {name: FlashAttentionConfig(*blocks) for name, blocks in _core.flash_rows()}

#: The configuration that every device can run.
default_config = _ROWS["default"]


@closed()
class TunedConfigs:
    """One row per architecture: block of queries, block of keys, head, and whether operands are float16.

    Example:
        >>> from grilly.kernels import TunedConfigs
        >>> TunedConfigs.ampere
        FlashAttentionConfig(block_q=128, block_kv=128, head_dim=64, half_precision=True)
    """

    ampere = _ROWS["ampere"]
    hopper = _ROWS["hopper"]
    blackwell = _ROWS["blackwell"]
    rdna3 = _ROWS["rdna3"]
    rdna4 = _ROWS["rdna4"]
    intel_xe = _ROWS["intel_xe"]
    apple = _ROWS["apple"]
    fallback = _ROWS["fallback"]


def required_shared_memory(config: FlashAttentionConfig) -> int:
    """Shared memory of a workgroup in bytes, as the kernel declares it, whether or not a device has that much.

    With q queries, k keys and a head of d columns, in float16 `4 k d`, in float32
    `16 (max(9 (q + k), q (k / 4 + 1)) + 8 k + q) + 4 q`. In float16 this is the layout of the kernel that every device
    can run and that is exported: shared memory has the keys and the values of a block, registers have queries, scores
    and results. Matrix cores need `16 max(2 k, q) (d / 8 + 1) + 4` or, where the device's layout of matrices is
    unknown, `16 max(2 k, q) (d / 8 + 1) + 16 q (k / 4 + 1) + 4 q`; where that is too much, the first kernel runs.

    Args:
        config: The blocks.

    Returns:
        Bytes.

    Raises:
        InvalidArgumentError: A block is less than 1.

    Source: the arrays of `shaders/attention/attention-registers.glsl` and `attention.glsl`.

    Example:
        >>> from grilly import kernels
        >>> kernels.required_shared_memory(kernels.TunedConfigs.rdna3)
        16384
    """
    return _core.flash_shared_memory(_blocks(config))[0]


def validate_config(config: FlashAttentionConfig, max_shared_memory: int) -> None:
    """Rejects a configuration that needs more shared memory than available.

    Args:
        config: The blocks.
        max_shared_memory: Bytes that a workgroup may have: `limits["shared_memory"]` of a device in `grilly.info()`.

    Raises:
        SharedMemoryError: It needs more. Attributes: `need`, `limit` and `nearest`, the nearest configuration that fits
            (`block_kv` halved, then `block_q`; None if none does).
        InvalidArgumentError: A block is not a multiple of 16 or, in float32, not a power of two.

    Source: `requiredSharedMemory` and `validateConfig` of the Zig kernels.

    Example:
        >>> from grilly import kernels
        >>> try:
        ...     kernels.validate_config(kernels.TunedConfigs.hopper, 49152)
        ... except kernels.SharedMemoryError as error:
        ...     print(error.need, error.limit, error.nearest)
        131072 49152 FlashAttentionConfig(block_q=128, block_kv=64, head_dim=128, half_precision=True)
    """
    blocks, limit = _blocks(config), whole("validate_config", "max_shared_memory", max_shared_memory, least=0)
    with naming_nearest(config):
        _core.flash_validate(blocks, limit)


@contextmanager
def naming_nearest(config: FlashAttentionConfig | None) -> Iterator[None]:
    """Converts the nearest blocks in a shared-memory error to a configuration; only a configuration raises it."""
    try:
        yield
    except SharedMemoryError as error:
        if config is not None and isinstance(error.nearest, Sequence):
            q, kv = error.nearest
            error.nearest = replace(config, block_q=q, block_kv=kv)
        raise


def detect_vendor() -> str:
    """Vendor of the device that `"vulkan"` means.

    Returns:
        `"nvidia"`, `"amd"`, `"intel"`, `"apple"` or `"unknown"`.

    Source: vendor detection of the Zig kernels; PCI vendor ids.

    Example:
        >>> from grilly import kernels
        >>> kernels.detect_vendor() in ("nvidia", "amd", "intel", "apple", "unknown")
        True
    """
    return _core.flash_select(None, 64)[0]


def select_config(device: Mapping[str, Any] | None = None, head_dim: int = 64) -> FlashAttentionConfig:
    """The tuned row of a device's architecture, or the nearest that the device can run.

    Float16 only on matrix cores; at most the queries that its subgroups have rows for; at most its shared memory. What
    differs from the row, and why, is in the log `grilly`, at the level INFO.

    Args:
        device: One of `grilly.info()["devices"]`; default the one that `"vulkan"` means.
        head_dim: Columns of a head; default 64.

    Returns:
        The configuration; `TunedConfigs.fallback` with the given head for a device without a row.

    Raises:
        IndexOutOfRangeError: There is no such device.

    Source: `TunedConfigs` of the Zig kernels.

    Example:
        >>> from grilly import kernels
        >>> kernels.select_config(head_dim=32).head_dim
        32
    """
    index = None if device is None else whole("select_config", "device index", device["index"], least=0)
    return FlashAttentionConfig(
        *_core.flash_select(index, whole("select_config", "head_dim", head_dim, most=2**32 - 1))[2]
    )
