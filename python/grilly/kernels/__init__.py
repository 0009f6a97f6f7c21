"""The kernels that models run, as objects, and the fused ones as functions.

`get(name, **options)` makes a kernel and `names()` lists them.
"""

from grilly.kernels.fused import (
    bias_gelu,
    geglu,
    residual_layer_norm,
    residual_rms_norm,
    rms_norm_rope,
    softmax_dropout,
    swiglu,
)
from grilly.kernels.kernel import Interface, Kernel, Work, get, names

__all__ = [
    "Interface",
    "Kernel",
    "Work",
    "bias_gelu",
    "geglu",
    "get",
    "names",
    "residual_layer_norm",
    "residual_rms_norm",
    "rms_norm_rope",
    "softmax_dropout",
    "swiglu",
]
