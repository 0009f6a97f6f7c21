"""Training against torch in float64 and float32, from the same initial parameters and batches."""

import numpy as np
import pytest
import torch
from torch import nn

from grilly.train import Trainer, TransformerConfig

STEPS, ROWS, RATE = 20, 4, 1e-3


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
    """The transformer of grilly.train with its names."""

    def __init__(self, config):
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.positions = nn.Embedding(config.max_seq_len, config.d_model)
        self.layers = nn.ModuleList([Block(config) for _ in range(config.num_layers)])
        self.final_norm = nn.LayerNorm(config.d_model)
        self.output = nn.Linear(config.d_model, config.vocab_size, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.output(self.final_norm(x))


def losses(config, tensors, batches, dtype):
    model = Model(config)
    state = {name: torch.tensor(np.array(x)) for name, x in tensors.items() if not name.startswith(("m.", "v."))}
    model.load_state_dict(state)
    model.to(dtype)
    optimiser = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.0)
    found = []
    for batch in batches:
        tokens = torch.tensor(batch)
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    return np.array(found)


@pytest.mark.parametrize("name", ["small sizes", "tiny"])
def test_losses_are_torchs(device, name):
    sizes = TransformerConfig(vocab_size=256, d_model=48, num_layers=3, num_heads=4, ffn_dim=96, max_seq_len=32)
    config = TransformerConfig.tiny() if name == "tiny" else sizes
    # The source of this test: a real text.
    text = np.frombuffer(open(__file__, "rb").read(), np.uint8)
    length = config.max_seq_len + 1
    starts = np.random.default_rng(0).integers(0, len(text) - length, (STEPS, ROWS))
    batches = [np.stack([text[start : start + length] for start in row]).astype(np.int64) for row in starts]
    trainer = Trainer(config, device=device, batch_size=ROWS, learning_rate=RATE)
    tensors = trainer.tensors()
    exact, single = (losses(config, tensors, batches, dtype) for dtype in (torch.float64, torch.float32))
    found = np.array([trainer.step(batch).loss for batch in batches])
    bound = np.maximum(1e-3, 3 * np.abs(single - exact))
    assert (np.abs(found - exact) <= bound).all(), np.abs(found - exact) / bound
    assert exact[-1] < exact[0] - 0.5
