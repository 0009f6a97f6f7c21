"""Steps of training on a GPU: grilly on Vulkan beside PyTorch on CUDA (float32, tf32, bfloat16 by autocast).

`python benchmarks/training.py [--sizes tiny medium] [--batch 32] [--rounds 5]`

The same initial parameters and batches; the losses of the first steps are compared before anything is timed. PyTorch
runs eagerly, with the fused AdamW. Needs a Vulkan driver and torch with CUDA, and no network.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import measure
import numpy as np
import torch

from grilly.train import Trainer, TransformerConfig

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from train.torch_model import Model  # noqa: E402

STEPS = 5
LARGEST_DIFFERENCE = 1e-3
RATE = 3e-4
KINDS = {"fp32": ("highest", False), "tf32": ("high", False), "bf16": ("highest", True)}


class Torch:
    def __init__(self, config, tensors, kind: str):
        self.precision, self.narrow = KINDS[kind]
        self.model = Model(config, tensors).cuda()
        self.optimiser = torch.optim.AdamW(self.model.parameters(), RATE, weight_decay=0.0, fused=True)

    def step(self, windows) -> torch.Tensor:
        torch.set_float32_matmul_precision(self.precision)
        with torch.autocast("cuda", torch.bfloat16, enabled=self.narrow):
            loss = self.model.loss(torch.as_tensor(windows, device="cuda"))
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        return loss


def peak_memory(config, tensors, kind: str, batches) -> int:
    """Bytes that PyTorch holds at most in a step."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    rival = Torch(config, tensors, kind)
    for windows in batches[:3]:
        rival.step(windows)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def measured(name: str, batch: int, rounds: int) -> dict:
    config = TransformerConfig.named(name)
    windows = np.random.default_rng(0).integers(0, 256, (8, batch, config.max_seq_len + 1))
    windows[:, :, 1::2] = windows[:, :, :-1:2]  # something to learn
    torch.zeros(1, device="cuda")
    free = torch.cuda.mem_get_info()[0]
    trainer = Trainer(config, device="vulkan", batch_size=batch, learning_rate=RATE)
    tensors = trainer.tensors()
    trainer.step(windows[0])
    own = free - torch.cuda.mem_get_info()[0]
    trainer = Trainer(config, device="vulkan", batch_size=batch, learning_rate=RATE)
    memory = {kind: peak_memory(config, tensors, kind, windows) for kind in KINDS}
    rivals = {kind: Torch(config, tensors, kind) for kind in KINDS}
    ours = [trainer.step(batch).loss for batch in windows[:STEPS]]
    theirs = [rivals["fp32"].step(batch).item() for batch in windows[:STEPS]]
    for kind in ("tf32", "bf16"):
        rivals[kind].step(windows[0]).item()
    difference = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    if not difference <= LARGEST_DIFFERENCE:
        sys.exit(f"{name}: the losses {ours} and {theirs} differ")
    seconds: dict[str, list[float]] = {kind: [] for kind in ("grilly", *rivals)}
    start = time.perf_counter()
    trainer.step(windows[0])
    steps = max(2, min(50, round(0.5 / (time.perf_counter() - start))))
    for _ in range(rounds):
        for kind, spent in seconds.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for number in range(steps):
                loss = (trainer if kind == "grilly" else rivals[kind]).step(windows[number % len(windows)])
            _ = loss.loss if kind == "grilly" else loss.item()
            torch.cuda.synchronize()
            spent.append((time.perf_counter() - start) / steps)
    medians = {kind: statistics.median(spent) for kind, spent in seconds.items()}
    ratios = {kind: measure.ratio(seconds["grilly"], seconds[kind]) for kind in rivals}
    tokens = batch * config.max_seq_len
    print(f"{name}, batch {batch}: largest difference of {STEPS} losses {difference:.1e}, memory {own / 2**20:.0f} MiB")
    for kind, spent in medians.items():
        beside = (
            f", grilly is {ratios[kind]:.2f} times as fast, peak {memory[kind] / 2**20:.0f} MiB"
            if kind in rivals
            else ""
        )
        print(f"  {kind:<7} {1e3 * spent:8.2f} ms a step {tokens / spent:12,.0f} tokens/s{beside}", flush=True)
    return {
        "size": name,
        "batch": batch,
        "seconds": seconds,
        "ratios": ratios,
        "bytes": own,
        "torch_peak_bytes": memory,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["tiny", "small", "medium"])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    rows = [measured(name, given.batch, given.rounds) for name in given.sizes]
    about = {"machine": measure.machine(), "device": torch.cuda.get_device_name(), "rows": rows}
    print(measure.save("training", torch.cuda.get_device_name(), about))


if __name__ == "__main__":
    main()
