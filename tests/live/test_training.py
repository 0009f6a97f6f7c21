"""Training against torch in float64 and float32, from the same initial parameters and batches."""

import numpy as np
import pytest
import torch
from train.torch_model import Model

from grilly.train import Trainer, TransformerConfig

STEPS, ROWS, RATE = 20, 4, 1e-3


def losses(config, tensors, batches, dtype):
    model = Model(config, tensors).to(dtype)
    optimiser = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.0)
    found = []
    for batch in batches:
        loss = model.loss(torch.tensor(batch))
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
