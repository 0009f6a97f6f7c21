"""The operations as functions: NumPy in and out, or arrays on a device in and out; any rank and strides.

An operand on a device keeps the work and the result there. Without one the default device computes, and the result is a
NumPy array. float16 stays float16, computed in float32; other numbers become float32.
"""

from __future__ import annotations

from typing import Any

from grilly.functional.activation_gradients import (
    gcu_backward,
    gelu_backward,
    leaky_relu_backward,
    quick_gelu_backward,
    relu_backward,
    roswish_backward,
    sigmoid_backward,
    silu_backward,
    softplus_backward,
    tanh_backward,
)
from grilly.functional.activations import (
    gcu,
    gelu,
    leaky_relu,
    quick_gelu,
    relu,
    roswish,
    sigmoid,
    silu,
    softplus,
    tanh,
)
from grilly.functional.attention import attention, embedding_attention, flash_attention2
from grilly.functional.attention_parts import attention_concat_heads, attention_mask, attention_output, attention_scores
from grilly.functional.cross_entropy import cross_entropy, cross_entropy_backward
from grilly.functional.distance_biases import alibi_bias, relative_bias
from grilly.functional.dropout import dropout, dropout_backward
from grilly.functional.embedding import embedding_backward, embedding_lookup, embedding_normalize
from grilly.functional.gates import geglu, geglu_backward, swiglu, swiglu_backward
from grilly.functional.linear import embedding_ffn, linear, linear_backward, matmul, residual
from grilly.functional.losses import binary_cross_entropy, binary_cross_entropy_backward, mse_loss, mse_loss_backward
from grilly.functional.norms import (
    layer_norm,
    layer_norm_backward,
    rms_norm,
    rms_norm_backward,
    softmax,
    softmax_backward,
)
from grilly.functional.pooling import embedding_pool, mean_pool
from grilly.functional.rotary import apply_rope, embedding_position
from grilly.functional.whitening import whitening_apply, whitening_batch_stats, whitening_transform

__all__ = [
    "alibi_bias",
    "apply_rope",
    "attention",
    "attention_concat_heads",
    "attention_mask",
    "attention_output",
    "attention_scores",
    "binary_cross_entropy",
    "binary_cross_entropy_backward",
    "cross_entropy",
    "cross_entropy_backward",
    "dropout",
    "dropout_backward",
    "embedding_attention",
    "embedding_backward",
    "embedding_ffn",
    "embedding_lookup",
    "embedding_normalize",
    "embedding_pool",
    "embedding_position",
    "flash_attention2",
    "gcu",
    "gcu_backward",
    "geglu",
    "geglu_backward",
    "gelu",
    "gelu_backward",
    "layer_norm",
    "layer_norm_backward",
    "leaky_relu",
    "leaky_relu_backward",
    "linear",
    "linear_backward",
    "matmul",
    "mean_pool",
    "mse_loss",
    "mse_loss_backward",
    "quick_gelu",
    "quick_gelu_backward",
    "relative_bias",
    "relu",
    "relu_backward",
    "residual",
    "rms_norm",
    "rms_norm_backward",
    "roswish",
    "roswish_backward",
    "sigmoid",
    "sigmoid_backward",
    "silu",
    "silu_backward",
    "softmax",
    "softmax_backward",
    "softplus",
    "softplus_backward",
    "swiglu",
    "swiglu_backward",
    "tanh",
    "tanh_backward",
    "whitening_apply",
    "whitening_batch_stats",
    "whitening_transform",
]


def __getattr__(name: str) -> Any:
    from grilly.upstream import missing

    raise missing("grilly.functional", name)
