"""A constructor for each kernel, and the generator of code, by the names that the Zig kernels have."""

from typing import Any

from grilly.errors import InvalidTypeError
from grilly.kernels.export import Compiled
from grilly.kernels.flash import FlashAttentionConfig
from grilly.kernels.kernel import Kernel, get

__all__ = [
    "create_flash_attention_kernel",
    "create_geglu_kernel",
    "create_layernorm_linear_kernel",
    "create_residual_layernorm_kernel",
    "create_rmsnorm_rope_kernel",
    "create_softmax_dropout_kernel",
    "create_swiglu_kernel",
    "generate",
]


def create_flash_attention_kernel(config: FlashAttentionConfig | None = None, **options: Any) -> Kernel:
    """`get("flash_attention", config=config, **options)`: attention in tiles, with an online softmax.

    Args:
        config: The blocks; default those that the engine selects.
        options: As of `get`: `head_dim`, `use_half`, `use_bfloat16`, `causal`, `max_seq_len`.

    Returns:
        The kernel.

    Raises:
        InvalidArgumentError: An unknown option, or an invalid value.

    Source: Dao et al., FlashAttention (2022).

    Example:
        >>> from grilly import kernels
        >>> kernels.create_flash_attention_kernel(kernels.TunedConfigs.fallback).name
        'flash_attention'
    """
    return get("flash_attention", **({} if config is None else {"config": config}), **options)


def create_layernorm_linear_kernel(**options: Any) -> Kernel:
    """`get("layer_norm_linear", **options)`: a layer norm and the product that reads it.

    Example:
        >>> from grilly import kernels
        >>> kernels.create_layernorm_linear_kernel(hidden_dim=8).definition
        ['layer_norm', 'linear']
    """
    return get("layer_norm_linear", **options)


def create_rmsnorm_rope_kernel(**options: Any) -> Kernel:
    """`get("rms_norm_rope", **options)`: an RMS norm before rotary positions.

    Example:
        >>> from grilly import kernels
        >>> kernels.create_rmsnorm_rope_kernel(hidden_dim=4096, head_dim=128, max_seq_len=8192).definition
        ['rms_norm', 'rope']
    """
    return get("rms_norm_rope", **options)


def create_swiglu_kernel(**options: Any) -> Kernel:
    """`get("swiglu", **options)`: `silu(x w_gate^T) (x w_up^T)`.

    Example:
        >>> from grilly import kernels
        >>> kernels.create_swiglu_kernel(hidden_dim=4096, use_half=True).name
        'swiglu'
    """
    return get("swiglu", **options)


def create_residual_layernorm_kernel(**options: Any) -> Kernel:
    """`get("residual_layer_norm", **options)`: the layer norm of a sum.

    Example:
        >>> from grilly import kernels
        >>> kernels.create_residual_layernorm_kernel(hidden_dim=8).definition
        ['binary', 'layer_norm']
    """
    return get("residual_layer_norm", **options)


def create_geglu_kernel(**options: Any) -> Kernel:
    """`get("geglu", **options)`: `gelu(x w_gate^T) (x w_up^T)`.

    Example:
        >>> from grilly import kernels
        >>> kernels.create_geglu_kernel(hidden_dim=8, approximate="none").name
        'geglu'
    """
    return get("geglu", **options)


def create_softmax_dropout_kernel(**options: Any) -> Kernel:
    """`get("softmax_dropout", **options)`: softmax with dropout of its weights.

    Example:
        >>> from grilly import kernels
        >>> kernels.create_softmax_dropout_kernel(p=0.5, seed=1).definition
        ['softmax', 'dropout']
    """
    return get("softmax_dropout", **options)


def generate(kernel: Kernel, target: str = "spirv", rows: int = 1, architecture: str | None = None) -> Compiled:
    """`kernel.compile(target, rows, architecture)`: its code in another language.

    Args:
        kernel: The kernel.
        target: `"spirv"`, `"wgsl"`, `"msl"`, `"hlsl"`, `"cuda"` or `"ptx"`; default `"spirv"`.
        rows: Tokens, positions of a text, or rows of scores; default 1. Only the interface depends on it.
        architecture: The GPU architecture whose shared memory is the limit, for example `"sm_80"`; default as of
            `Kernel.compile`.

    Returns:
        The code of its shaders and their interface.

    Raises:
        InvalidTypeError: No kernel.
        InvalidArgumentError: Unknown target or architecture, or `rows` is less than 1.
        SharedMemoryError: A configuration needs more shared memory than the architecture has.
        UnsupportedError: As `Kernel.compile`.

    Example:
        >>> from grilly import kernels
        >>> list(kernels.generate(kernels.create_swiglu_kernel(), "msl").code)
        ['gated-linear']
    """
    if not isinstance(kernel, Kernel):
        raise InvalidTypeError(f"generate: kernel is of type {type(kernel).__name__}, expected a Kernel")
    return kernel.compile(target, rows, architecture)
