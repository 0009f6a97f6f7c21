"""Steps of training on a GPU: grilly on Vulkan beside PyTorch on CUDA.

`python benchmarks/training.py [--sizes tiny medium] [--batch 32] [--rounds 5] [--compile]`

grilly in float32 and in bfloat16; PyTorch in float32, tf32 and bfloat16 by autocast, eagerly, as a CUDA graph and
with `--compile` by torch.compile, with the fused AdamW. The same initial parameters and batches; the losses of the
first steps are compared before anything is timed. Memory is that of a process of its own, with and without gradient
checkpointing: what it takes from the card, and PyTorch's peak of what it allocated. Needs a Vulkan driver and torch
with CUDA, and no network.
"""

import argparse
import functools
import statistics
import subprocess
import sys
import time
from pathlib import Path

import measure
import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from grilly.train import Trainer, TransformerConfig

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from train.torch_model import Model  # noqa: E402

STEPS = 5
#: Of the losses of the first steps, from those of PyTorch in float32.
LARGEST_DIFFERENCE = {"float32": 1e-3, "bfloat16": 5e-2}
RATE = 3e-4
#: Precision of float32 products, autocast to bfloat16, and how a step runs.
RIVALS = {
    "fp32": ("highest", False, "eager"),
    "tf32": ("high", False, "eager"),
    "bf16": ("highest", True, "eager"),
    "fp32 graph": ("highest", False, "graph"),
    "bf16 graph": ("highest", True, "graph"),
    "bf16 compiled": ("highest", True, "compiled"),
}


def batches(config: TransformerConfig, batch: int) -> np.ndarray:
    windows = np.random.default_rng(0).integers(0, 256, (8, batch, config.max_seq_len + 1))
    windows[:, :, 1::2] = windows[:, :, :-1:2]  # something to learn
    return windows


class Torch:
    def __init__(
        self, config: TransformerConfig, tensors: dict[str, np.ndarray], kind: str, checkpointing: bool = False
    ):
        self.precision, self.narrow, self.way = RIVALS[kind]
        self.model = Model(config, tensors).cuda()
        for layer in self.model.layers if checkpointing else ():
            layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)
        self.loss_of = torch.compile(self.model.loss) if self.way == "compiled" else self.model.loss
        given = {"capturable": True} if self.way == "graph" else {}
        self.optimiser = torch.optim.AdamW(self.model.parameters(), RATE, weight_decay=0.0, fused=True, **given)
        self.graph = None

    def step(self, windows: np.ndarray) -> torch.Tensor:
        torch.set_float32_matmul_precision(self.precision)
        if self.way != "graph":
            return self.run(torch.as_tensor(windows, device="cuda"))
        if self.graph is None:
            self.capture(windows)
        self.windows.copy_(torch.as_tensor(windows))
        self.graph.replay()
        return self.loss

    def run(self, windows: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16, enabled=self.narrow):
            loss = self.loss_of(windows)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        return loss

    def capture(self, windows: np.ndarray) -> None:
        self.windows = torch.as_tensor(windows, device="cuda")
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.run(self.windows)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.run(self.windows)


def own(config: TransformerConfig, batch: int, dtype: str, checkpointing: bool = False) -> Trainer:
    options = {"batch_size": batch, "learning_rate": RATE, "dtype": dtype, "gradient_checkpointing": checkpointing}
    return Trainer(config, device="vulkan", **options)


def memory(name: str, batch: int, kind: str) -> int:
    """Bytes of a step: those that grilly takes from the card, or PyTorch's peak."""
    config = TransformerConfig.named(name)
    windows = batches(config, batch)
    kind, _, checkpointing = kind.partition("+")
    if kind in RIVALS:
        rival = Torch(config, own(config, batch, "float32").tensors(), kind, bool(checkpointing))
        torch.cuda.reset_peak_memory_stats()
        for tokens in windows[:3]:
            rival.step(tokens)
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated()
    torch.zeros(1, device="cuda")
    free = torch.cuda.mem_get_info()[0]
    trainer = own(config, batch, kind, bool(checkpointing))
    for tokens in windows[:3]:
        trainer.step(tokens)
    return free - torch.cuda.mem_get_info()[0]


def memory_apart(name: str, batch: int, kind: str) -> int:
    command = [sys.executable, __file__, "--sizes", name, "--batch", str(batch), "--memory", kind]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def measured(name: str, given: argparse.Namespace) -> dict:
    config = TransformerConfig.named(name)
    windows = batches(config, given.batch)
    bytes_of = {
        kind + part: memory_apart(name, given.batch, kind + part)
        for kind in ("float32", "fp32", "bfloat16", "bf16")
        for part in ("", "+checkpointing")
    }
    tensors = own(config, given.batch, "float32").tensors()
    kinds = [kind for kind, (_, _, way) in RIVALS.items() if way != "compiled" or given.compile]
    sides = {dtype: own(config, given.batch, dtype) for dtype in LARGEST_DIFFERENCE}
    sides |= {kind: Torch(config, tensors, kind) for kind in kinds}
    losses = {kind: [float(sides[kind].step(batch).loss) for batch in windows[:STEPS]] for kind in LARGEST_DIFFERENCE}
    expected = [sides["fp32"].step(batch).item() for batch in windows[:STEPS]]
    differences = {
        kind: max(abs(a - b) for a, b in zip(found, expected, strict=True)) for kind, found in losses.items()
    }
    for kind, difference in differences.items():
        if not difference <= LARGEST_DIFFERENCE[kind]:
            sys.exit(f"{name} in {kind}: the losses {losses[kind]} and {expected} differ")
    for kind in kinds:
        for tokens in windows[:3]:
            sides[kind].step(tokens).item()
    seconds: dict[str, list[float]] = {kind: [] for kind in sides}
    start = time.perf_counter()
    sides["float32"].step(windows[0])
    steps = max(2, min(50, round(0.5 / (time.perf_counter() - start))))
    for _ in range(given.rounds):
        for kind, spent in seconds.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for number in range(steps):
                loss = sides[kind].step(windows[number % len(windows)])
            _ = loss.loss if kind in LARGEST_DIFFERENCE else loss.item()
            torch.cuda.synchronize()
            spent.append((time.perf_counter() - start) / steps)
    tokens = given.batch * config.max_seq_len
    print(f"{name}, batch {given.batch}: largest difference of {STEPS} losses {differences}")
    ratios = {
        kind: {rival: measure.ratio(seconds[kind], seconds[rival]) for rival in kinds} for kind in LARGEST_DIFFERENCE
    }
    for kind, spent in seconds.items():
        median = statistics.median(spent)
        beside = f"  {bytes_of[kind] / 2**20:8,.0f} MiB" if kind in bytes_of else ""
        print(f"  {kind:<14} {1e3 * median:8.2f} ms a step {tokens / median:12,.0f} tokens/s{beside}", flush=True)
    for kind, by_rival in ratios.items():
        print(f"  {kind} is {', '.join(f'{ratio:.2f} x {rival}' for rival, ratio in by_rival.items())}")
    parts = [f"{kind} {size / 2**20:,.0f}" for kind, size in bytes_of.items() if "+" in kind]
    print(f"  MiB {', '.join(parts)}", flush=True)
    return {
        "size": name,
        "batch": given.batch,
        "seconds": seconds,
        "ratios": ratios,
        "bytes": bytes_of,
        "differences": differences,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["tiny", "small", "medium"])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compile", action="store_true", help="also torch.compile, which takes a minute a size")
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.memory:
        print(memory(given.sizes[0], given.batch, given.memory))
        return
    device = torch.cuda.get_device_name()
    about = {"machine": measure.machine(), "device": device, "rows": []}
    for name in given.sizes:
        about["rows"].append(measured(name, given))
        print(measure.save("training", device, about), flush=True)


if __name__ == "__main__":
    main()
