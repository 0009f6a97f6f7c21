"""Training against torch in float64 and float32, from the same initial parameters and batches.

Torch's own error in float32 is the measure: of a loss three times that, of a gradient twice, unless that is tiny.
"""

import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import is_software
from train.torch_model import Model

from grilly.train import Trainer, TransformerConfig

# The default rate: at 1e-3 the loss jumps in the sixth step, and from then on every rounding grows, of torch too.
ROWS, RATE = 4, 3e-4
SIZES = {
    "small sizes": TransformerConfig(256, d_model=48, num_layers=3, num_heads=4, ffn_dim=96, max_seq_len=32),
    "tiny": TransformerConfig.tiny(),
}


def batches(config, steps):
    """Windows of a real text."""
    script = Path(__file__).parent.parent.parent / "scripts" / "text.sh"
    path = subprocess.run([script], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    text = np.frombuffer(Path(path).read_bytes(), np.uint8)
    length = config.max_seq_len + 1
    starts = np.random.default_rng(0).integers(0, len(text) - length, (steps, ROWS))
    return [np.stack([text[start : start + length] for start in row]).astype(np.int64) for row in starts]


def losses(config, tensors, windows, dtype):
    model = Model(config, tensors).to(dtype)
    optimiser = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.0)
    found = []
    for batch in windows:
        loss = model.loss(torch.tensor(batch))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    return np.array(found)


# 200 steps take a software driver half an hour, and it has the arithmetic of the CPU.
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name, steps", [("small sizes", 20), ("tiny", 200)])
def test_losses_are_torchs(device, name, steps):
    config, steps = SIZES[name], 20 if is_software(device) else steps
    windows = batches(config, steps)
    trainer = Trainer(config, device=device, batch_size=ROWS, learning_rate=RATE)
    tensors = trainer.tensors()
    exact, single = (losses(config, tensors, windows, dtype) for dtype in (torch.float64, torch.float32))
    found = np.array([trainer.step(batch).loss for batch in windows])
    bound = np.maximum(1e-3, 3 * np.abs(single - exact))
    worst = int(np.argmax(np.abs(found - exact) / bound))
    print(f"largest: {abs(found - exact)[worst]:.2e} in step {worst + 1}, torch {abs(single - exact)[worst]:.2e}")
    assert (np.abs(found - exact) <= bound).all(), np.abs(found - exact) / bound
    assert exact[-1] < exact[0] - 0.5


def gradients(config, tensors, windows, dtype):
    model = Model(config, tensors).to(dtype)
    model.loss(torch.tensor(windows)).backward()
    return {name: p.grad.double().numpy() for name, p in model.named_parameters()}


@pytest.mark.parametrize("name", SIZES)
def test_gradients_are_torchs(device, name):
    config = SIZES[name]
    (windows,) = batches(config, 1)
    # A mean that forgets everything is the gradient itself.
    trainer = Trainer(config, device=device, batch_size=ROWS, betas=(0.0, 0.999))
    tensors = trainer.tensors()
    trainer.step(windows)
    found = trainer.tensors()
    exact, single = (gradients(config, tensors, windows, dtype) for dtype in (torch.float64, torch.float32))
    assert set(exact) == {key[2:] for key in found if key.startswith("m.")}
    shares = {}
    for key, b in exact.items():
        bound = max(1e-5 * np.linalg.norm(b) + 1e-7, 2 * np.linalg.norm(single[key] - b))
        shares[key] = np.linalg.norm(found[f"m.{key}"] - b) / bound
    print(f"largest share of the bound: {max(shares.values()):.3f}, of {max(shares, key=shares.get)}")
    assert max(shares.values()) <= 1, {key: share for key, share in shares.items() if share > 1}
