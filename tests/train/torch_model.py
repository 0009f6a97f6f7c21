"""The transformer of grilly.train in torch, with the names of its parameters."""

import numpy as np
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        d, f = config.d_model, config.ffn_dim
        self.heads = config.num_heads
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attention = nn.ModuleDict({"query_key_value": nn.Linear(d, 3 * d), "output": nn.Linear(d, d)})
        self.feed_forward = nn.ModuleDict({"in": nn.Linear(d, f), "out": nn.Linear(f, d)})

    def forward(self, x):
        rows, length, d = x.shape
        qkv = self.attention["query_key_value"](self.attention_norm(x))
        q, k, v = (part.view(rows, length, self.heads, -1).transpose(1, 2) for part in qkv.split(d, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.attention["output"](y)
        wide = self.feed_forward["in"](self.feed_forward_norm(x))
        return x + self.feed_forward["out"](nn.functional.gelu(wide, approximate="tanh"))


class Model(nn.Module):
    """Of the sizes of a `grilly.train.TransformerConfig`, with the numbers of `Trainer.tensors()`."""

    def __init__(self, config, tensors: dict[str, np.ndarray]):
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.positions = nn.Embedding(config.max_seq_len, config.d_model)
        self.layers = nn.ModuleList([Block(config) for _ in range(config.num_layers)])
        self.final_norm = nn.LayerNorm(config.d_model)
        self.output = nn.Linear(config.d_model, config.vocab_size, bias=False)
        moments = ("m.", "v.")
        self.load_state_dict(
            {name: torch.tensor(np.array(x)) for name, x in tensors.items() if name[:2] not in moments}
        )

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        return self.output(self.final_norm(x))

    def loss(self, windows):
        """The mean cross entropy of windows whose last tokens are only predicted."""
        return nn.functional.cross_entropy(self(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
