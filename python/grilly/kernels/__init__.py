"""The kernels that models run, as objects, and the fused ones as functions.

`get(name, **options)` creates a kernel and `names()` lists them.
"""

from grilly.errors import SharedMemoryError
from grilly.kernels.flash import (
    FlashAttentionConfig,
    TunedConfigs,
    default_config,
    detect_vendor,
    required_shared_memory,
    select_config,
    validate_config,
)
from grilly.kernels.fused import (
    bias_gelu,
    geglu,
    layer_norm_linear,
    residual_layer_norm,
    residual_rms_norm,
    rms_norm_rope,
    softmax_dropout,
    swiglu,
)
from grilly.kernels.kernel import Interface, Kernel, Work, get, names

__all__ = [
    "FlashAttentionConfig",
    "Interface",
    "Kernel",
    "SharedMemoryError",
    "TunedConfigs",
    "Work",
    "bias_gelu",
    "default_config",
    "detect_vendor",
    "geglu",
    "get",
    "layer_norm_linear",
    "names",
    "required_shared_memory",
    "residual_layer_norm",
    "residual_rms_norm",
    "rms_norm_rope",
    "select_config",
    "softmax_dropout",
    "swiglu",
    "validate_config",
]
