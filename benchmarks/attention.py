"""Attention over packed texts on a GPU, float16 in and out: TFLOP/s beside PyTorch's SDPA in the same run.

`python benchmarks/attention.py [--rounds N]`

Queries, keys and values are columns of one tensor, as products leave them in the encoder; SDPA gets them contiguous by
head. Outputs are compared with float64 first. Times are wall times over many recorded repetitions with one wait at the
end, ours and torch's in turn. Where queries see only what is before them, half of the operations count. The last two
shapes are texts of MiniLM: 25 and 227 tokens.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import Any

import measure as machine
import numpy as np

from ops import alternating

#: Texts, heads, tokens of a text, columns of a head, whether a query sees only what is before it.
SHAPES = (
    (256, 12, 128, 32, False),
    (256, 12, 128, 32, True),
    (256, 12, 256, 64, False),
    (256, 12, 256, 64, True),
    (64, 16, 512, 64, False),
    (64, 16, 512, 64, True),
    (4, 16, 8192, 128, False),
    (4, 16, 8192, 128, True),
    (656, 12, 25, 32, False),
    (72, 12, 227, 32, False),
)
GOALS = {32: 0.6, 64: 0.4, 128: 0.3}  # times SDPA, by columns of a head


def measure(shape: tuple[int, int, int, int, bool], engine: Any, torch: Any, rounds: int) -> dict[str, Any]:
    texts, heads, length, width, causal = shape
    columns = heads * width
    x = np.random.default_rng(0).standard_normal((texts * length, 3 * columns), np.float32).astype(np.float16)
    offsets = engine.upload((np.arange(texts + 1) * length).astype(np.int32))
    packed = engine.upload(x)
    ours = [packed, packed, packed, offsets, offsets]
    attributes = {
        "heads": heads, "kv_heads": heads, "head_dim": width, "scale": width**-0.5,
        "k_column": columns, "v_column": 2 * columns, "causal": causal,
    }  # fmt: skip
    split = torch.from_numpy(x).cuda().reshape(texts, length, 3, heads, width).permute(2, 0, 3, 1, 4)
    q, k, v = (part.contiguous() for part in split)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    y = engine.call("attention", ours, attributes).numpy()
    first = [part[:1].double() for part in (q, k, v)]
    exact = sdpa(*first, is_causal=causal).transpose(1, 2).reshape(length, columns).cpu().numpy()
    off = float(np.abs(y[:length] - exact).max())
    # A weight, and a result, are rounded to float16; values are within about 5.
    if not off <= 5 * 2.0**-10 or y.dtype != np.float16:
        raise SystemExit(f"{shape}: {off:.2e} from float64; nothing is measured")
    if engine.call("attention", ours, attributes).numpy().tobytes() != y.tobytes():
        raise SystemExit(f"{shape}: a second call gave other bits")
    rivals = {
        "grilly": (lambda: engine.call("attention", ours, attributes), engine.synchronize),
        "sdpa": (lambda: sdpa(q, k, v, is_causal=causal), torch.cuda.synchronize),
    }
    times = alternating(rivals, rounds, span=0.05, least=5)
    operations = 4e-12 * texts * heads * length * length * width / (2 if causal else 1)
    pairs = zip(times["sdpa"], times["grilly"], strict=True)
    return {
        "shape": shape, "teraflops": {name: operations / statistics.median(row) for name, row in times.items()},
        "difference": off, "times_sdpa": statistics.median(t / g for t, g in pairs), "goal": GOALS[width],
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    import torch

    from grilly import _core

    engine = _core.engine("vulkan")
    print(f"{engine.device} ({engine.backend}); torch {torch.__version__} on {torch.cuda.get_device_name()}")
    found = [measure(shape, engine, torch, given.rounds) for shape in SHAPES]
    for row in found:
        rate = row["teraflops"]
        texts, heads, length, width, causal = row["shape"]
        print(
            f"{texts} texts of {length}, {heads} heads of {width}{', causal' * causal}: grilly {rate['grilly']:.0f},"
            f" SDPA {rate['sdpa']:.0f} TFLOP/s; {row['times_sdpa']:.2f} x, goal {row['goal']};"
            f" {row['difference']:.1e} from float64"
        )
    result = {"machine": machine.machine(), "torch": torch.__version__, "rows": found}
    print(machine.save("attention", engine.device, result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
