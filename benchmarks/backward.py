"""The products and the attention of a training step's backward pass on a GPU, beside PyTorch in the same run.

`python benchmarks/backward.py [--rounds N]`

Of each product the forward pass, y = x w^T, and its gradients, dX = g w and dW = g^T x, in TFLOP/s: float32, and
float16 with dW in float32. Then the gradients of attention in float16, of queries, keys and values in columns of one
tensor, beside those of SDPA. Outputs are compared with float64 first. Times are wall times over many recorded
repetitions with one wait at the end, ours and torch's in turn.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import Any

import measure as machine
import numpy as np

from ops import alternating

#: Rows, columns of the result, terms: of Medium and Tiny at a batch of 32.
PRODUCTS = ((16384, 3072, 768), (16384, 768, 3072), (16384, 768, 768), (4096, 1024, 256), (8192, 2048, 512))
#: Texts, heads, tokens of a text, columns of a head, whether a query sees only what is before it.
ATTENTION = (
    (256, 12, 128, 32, False),
    (256, 12, 256, 64, False),
    (256, 12, 256, 64, True),
    (64, 16, 512, 64, False),
    (64, 16, 512, 64, True),
    (4, 16, 8192, 128, False),
    (4, 16, 8192, 128, True),
)
GATE = 0.25  # times SDPA's backward
#: Of norms of differences from float64, in units of the type.
LARGEST = {"float32": 16 * 2.0**-24, "float16": 2.0**-11}


def off(found: np.ndarray, exact: Any, torch: Any) -> float:
    return float((torch.from_numpy(found).cuda().double() - exact).norm() / exact.norm())


def measure_product(shape: tuple[int, int, int], engine: Any, torch: Any, rounds: int) -> dict[str, Any]:
    m, n, k = shape
    rng = np.random.default_rng(0)
    x, g, w = (rng.standard_normal(axes, np.float32) for axes in ((m, k), (m, n), (n, k)))
    w /= np.float32(np.sqrt(k))
    forms = {
        "forward": ("linear", x, w, {}, lambda x, w: x @ w.T),
        "dX": ("matmul", g, w, {}, lambda g, w: g @ w),
        "dW": ("matmul", g, x, {"transpose_a": True, "wide": True}, lambda g, x: g.T @ x),
    }
    row: dict[str, Any] = {"shape": shape, "teraflops": {}, "differences": {}}
    for name, (op, one, two, attributes, product) in forms.items():
        rivals: dict[str, Any] = {}
        for kind in ("float32", "float16"):
            operands = [array.astype(kind) for array in (one, two)]
            ours, theirs = [engine.upload(a) for a in operands], [torch.from_numpy(a).cuda() for a in operands]
            y = engine.call(op, ours, attributes).numpy()
            difference = off(y, product(*(a.double() for a in theirs)), torch)
            if not difference <= LARGEST[kind]:
                raise SystemExit(f"{shape} {name} {kind}: {difference:.2e} from float64; nothing is measured")
            row["differences"][f"{name} {kind}"] = difference
            run = lambda op=op, ours=ours, attributes=attributes: engine.call(op, ours, attributes)  # noqa: E731
            rivals[f"grilly {kind}"] = (run, engine.synchronize)
            kinds = {
                "float32": {"torch float32": theirs},
                "float16": {"torch bfloat16": [a.bfloat16() for a in theirs]},
            }
            for rival, given in kinds[kind].items():
                own = lambda product=product, given=given: product(*given)  # noqa: E731
                rivals[rival] = (own, torch.cuda.synchronize)
        times = alternating(rivals, rounds, span=0.05, least=5)
        row["teraflops"][name] = {of: 2e-12 * m * n * k / statistics.median(spent) for of, spent in times.items()}
        rates = ", ".join(f"{of} {rate:.0f}" for of, rate in row["teraflops"][name].items())
        print(f"{m} x {n} x {k} {name}: {rates} TFLOP/s", flush=True)
    return row


def measure_attention(shape: tuple[int, int, int, int, bool], engine: Any, torch: Any, rounds: int) -> dict[str, Any]:
    texts, heads, length, width, causal = shape
    columns = heads * width
    rng = np.random.default_rng(0)
    x = rng.standard_normal((texts * length, 3 * columns), np.float32).astype(np.float16)
    g = rng.standard_normal((texts * length, columns), np.float32).astype(np.float16)
    offsets = engine.upload((np.arange(texts + 1) * length).astype(np.int32))
    packed = engine.upload(x)
    attributes = {
        "heads": heads, "kv_heads": heads, "head_dim": width, "scale": width**-0.5,
        "k_column": columns, "v_column": 2 * columns, "causal": causal,
    }  # fmt: skip
    read = [packed, packed, packed, offsets, offsets]
    ours = [engine.upload(g), engine.call("attention", read, attributes), *read]
    attributes = {**attributes, "packed": True}
    found = engine.call("attention_backward", ours, attributes).numpy()
    if engine.call("attention_backward", ours, attributes).numpy().tobytes() != found.tobytes():
        raise SystemExit(f"{shape}: a second call gave other bits")
    split = torch.from_numpy(x).cuda().reshape(texts, length, 3, heads, width).permute(2, 0, 3, 1, 4)
    leaves = [part.contiguous().requires_grad_() for part in split]
    gradient = torch.from_numpy(g).cuda().reshape(texts, length, heads, width).transpose(1, 2).contiguous()
    sdpa = torch.nn.functional.scaled_dot_product_attention
    first = [leaf.detach()[:1].double().requires_grad_() for leaf in leaves]
    exact = torch.autograd.grad(sdpa(*first, is_causal=causal), first, gradient[:1].double())
    exact = torch.stack([of[0].transpose(0, 1).reshape(length, columns) for of in exact], 1)
    difference = off(found[:length].reshape(length, 3, columns), exact, torch)
    if not difference <= LARGEST["float16"]:
        raise SystemExit(f"{shape}: {difference:.2e} from float64; nothing is measured")
    result = sdpa(*leaves, is_causal=causal)
    theirs = lambda: torch.autograd.grad(result, leaves, gradient, retain_graph=True)  # noqa: E731
    rivals = {
        "grilly": (lambda: engine.call("attention_backward", ours, attributes), engine.synchronize),
        "sdpa": (theirs, torch.cuda.synchronize),
    }
    times = alternating(rivals, rounds, span=0.05, least=5)
    pairs = zip(times["sdpa"], times["grilly"], strict=True)
    ratio = statistics.median(theirs / own for theirs, own in pairs)
    spent = {name: statistics.median(row) for name, row in times.items()}
    text = ", ".join(f"{name} {1e3 * time:.2f} ms" for name, time in spent.items())
    print(f"attention {shape}: {text}, {ratio:.2f} x sdpa (gate {GATE}), {difference:.1e} from float64", flush=True)
    return {"shape": shape, "seconds": spent, "times_sdpa": ratio, "difference": difference}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    import torch

    from grilly import _core

    engine = _core.engine("vulkan")
    print(f"{engine.device} ({engine.backend}); torch {torch.__version__} on {torch.cuda.get_device_name()}")
    products = [measure_product(shape, engine, torch, given.rounds) for shape in PRODUCTS]
    attention = [measure_attention(shape, engine, torch, given.rounds) for shape in ATTENTION]
    facts = {"device": engine.device, "machine": machine.machine(), "products": products, "attention": attention}
    print(machine.save("backward", engine.device, facts))
    missed = [row["shape"] for row in attention if row["times_sdpa"] < GATE]
    print("missed gates:", missed or "none")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
