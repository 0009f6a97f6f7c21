"""Layers with upstream's signatures, on `grilly.functional`: NumPy in and out, or arrays on a device in and out."""

from __future__ import annotations

from grilly.names import left_out
from grilly.nn.activations import GCU, GELU, ReLU, SiLU, Softmax, Softplus
from grilly.nn.attention import FlashAttention2, MultiheadAttention, RoPE
from grilly.nn.bitlinear import BitLinear
from grilly.nn.containers import Residual, Sequential
from grilly.nn.gates import RoSwish, SwiGLU
from grilly.nn.layers import Dropout, Embedding, Linear
from grilly.nn.losses import BCELoss, CrossEntropyLoss, MSELoss
from grilly.nn.module import Module
from grilly.nn.norms import LayerNorm, RMSNorm
from grilly.nn.parameter import Parameter
from grilly.nn.transformer import TransformerDecoderLayer, TransformerEncoderLayer

__all__ = [
    "BCELoss",
    "BitLinear",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "FlashAttention2",
    "GCU",
    "GELU",
    "LayerNorm",
    "Linear",
    "MSELoss",
    "Module",
    "MultiheadAttention",
    "Parameter",
    "RMSNorm",
    "ReLU",
    "Residual",
    "RoPE",
    "RoSwish",
    "Sequential",
    "SiLU",
    "Softmax",
    "Softplus",
    "SwiGLU",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
]


__getattr__ = left_out("grilly.nn")
