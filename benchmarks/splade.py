"""SPLADE embeddings on a GPU: grilly on Vulkan in float16 beside sentence-transformers on CUDA.

`python benchmarks/splade.py [--repeats N]`

A model of MiniLM's size with random weights, whose head has a bias that leaves some hundreds of a text's 30,522
words. Rows are compared before times are taken. Needs a Vulkan driver, torch with CUDA, transformers and
sentence-transformers, and no network. The ratio is to the fastest of float16, bfloat16 and float32 with tf32.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import measure
import numpy as np
import random_model
import torch
import workloads

#: Added to each logit.
BIAS = -1.3
#: The largest difference of our rows from float32 beside that of the rival in float16.
MOST = 1.25
WORK = {"short": 1024, "long": 256}
BATCHES = (32, 128, 512)
RIVALS = {"fp16": ("float16", "highest"), "bf16": ("bfloat16", "highest"), "tf32": ("float32", "high")}


def write(folder: Path) -> Path:
    """The checkpoint of a masked language model with the tokenizer of the others."""
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder.models import MLMTransformer, SpladePooling
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

    torch.manual_seed(3)
    sizes = random_model.SHAPES["minilm"] | {"vocab_size": random_model.VOCABULARY}
    model = BertForMaskedLM(BertConfig(**sizes))
    with torch.no_grad():
        model.cls.predictions.bias.fill_(BIAS)
    base = random_model.write("minilm", folder / "tokens")
    model.save_pretrained(folder / "base")
    AutoTokenizer.from_pretrained(base).save_pretrained(folder / "base")
    modules = [MLMTransformer(str(folder / "base"), max_seq_length=random_model.LIMIT), SpladePooling()]
    SparseEncoder(modules=modules).save(str(folder / "splade"))
    return folder / "splade"


def ours(folder: Path) -> Callable[[list[str], int], Any]:
    from grilly import SparseEncoder

    model = SparseEncoder(str(folder), device="vulkan", dtype="float16")
    return lambda texts, batch: model.encode(texts, batch_size=batch)


def theirs(folder: Path, rival: str) -> Callable[[list[str], int], Any]:
    from sentence_transformers import SparseEncoder

    dtype, precision = RIVALS.get(rival, ("float32", "highest"))
    model = SparseEncoder(str(folder), device="cuda", model_kwargs={"dtype": getattr(torch, dtype)})

    def encode(texts: list[str], batch: int) -> Any:
        torch.set_float32_matmul_precision(precision)
        return model.encode(texts, batch_size=batch, save_to_cpu=True, show_progress_bar=False)

    return encode


def dense(rows: Any) -> np.ndarray:
    if isinstance(rows, torch.Tensor):
        return rows.to_dense().float().cpu().numpy()
    return np.asarray(rows.to_dense(), np.float32)


def timed(kind: str, texts: list[str], engines: dict[str, Any], repeats: int) -> dict[str, Any]:
    """Rates of all at their best batches, in turns, and the ratio to the fastest rival."""
    best = {name: measure.best_batch(partial(encode, texts), list(BATCHES)) for name, encode in engines.items()}
    taken = measure.rounds({name: partial(encode, texts, best[name]) for name, encode in engines.items()}, repeats)
    times = {name: statistics.median(row) for name, row in taken.items()}
    rival = min(RIVALS, key=times.__getitem__)
    ratio = times[rival] / times["grilly"]
    rates = {name: len(texts) / seconds for name, seconds in times.items()}
    told = ", ".join(f"{name} {rate:,.0f} (batches of {best[name]})" for name, rate in rates.items())
    print(f"{kind}: {told} texts/s; {ratio:.2f} x {rival}", flush=True)
    return {"texts_per_second": rates, "batches": best, "ratio": ratio}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    result: dict[str, Any] = {"machine": measure.machine(), "torch": torch.__version__, "rows": {}}
    with tempfile.TemporaryDirectory() as scratch:
        folder = write(Path(scratch))
        engines = {"grilly": ours(folder)} | {name: theirs(folder, name) for name in RIVALS}
        few = workloads.short(24) + workloads.long(8)
        exact = dense(theirs(folder, "exact")(few, 8))
        for name, encode in engines.items():
            off = float(np.abs(dense(encode(few, 16)) - exact).max() / exact.max())
            result["rows"][f"{name}: difference"] = off
            words = np.count_nonzero(exact) / len(exact)
            print(f"{name}: {off:.1e} of the largest from float32, {words:.0f} words a text", flush=True)
        if not result["rows"]["grilly: difference"] <= MOST * result["rows"]["fp16: difference"]:
            raise SystemExit("grilly differs; nothing is measured")
        for kind, count in WORK.items():
            result["rows"][kind] = timed(kind, getattr(workloads, kind)(count), engines, given.repeats)
    print(measure.save("splade float16", torch.cuda.get_device_name(), result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
