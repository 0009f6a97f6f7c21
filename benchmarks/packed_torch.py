"""Embeddings in float16 on a GPU beside a packed BERT in torch, written as text-embeddings-inference runs one.

`python benchmarks/packed_torch.py [minilm] [bert-base] [--repeats N]`

The rival packs tokens without padding, attends by the lengths of texts (`varlen_attn`, or flash attention's own call),
tokenizes ahead in a thread, copies from pinned memory and is compiled by `torch.compile`, as it is and without; the
faster is the rival. Rows are compared before times are taken, with random weights. Needs a Vulkan driver, torch with
CUDA, tokenizers and safetensors, and no network; `--device cpu` compares rows there, and times nothing.
"""

from __future__ import annotations

import argparse
import json
import queue
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import measure
import numpy as np
import random_model
import torch
import workloads
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch.nn import functional as F

#: Texts of a workload, and batch sizes of ours.
WORK = {"short": 16384, "long": 2048}
BATCHES = (256, 1024)
#: Of the rival: tokens of a batch, texts that are tokenized together, batches that wait.
TOKENS, TOGETHER, WAITING = 65536, 2048, 4
LEAST_COSINE = 0.9999


def attention(q: Any, k: Any, v: Any, offsets: Any, longest: int) -> Any:
    """Attention `[T, heads, columns]` within texts that follow each other."""
    if q.device.type == "cpu":
        ends = offsets.tolist()
        parts = [
            F.scaled_dot_product_attention(*(x[start:end].transpose(0, 1) for x in (q, k, v))).transpose(0, 1)
            for start, end in zip(ends, ends[1:], strict=False)
        ]
        return torch.cat(parts)
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        flash = torch.ops.aten._flash_attention_forward
        return flash(q, k, v, offsets, offsets, longest, longest, 0.0, False, False)[0]
    return varlen_attn(q, k, v, offsets, offsets, longest, longest)


class Packed:
    """BERT with the mean of each text's tokens, normalised."""

    def __init__(self, folder: Path, device: str, compiled: bool) -> None:
        config = json.loads((folder / "config.json").read_text())
        self.heads, self.layers, self.columns = (
            config[key] for key in ("num_attention_heads", "num_hidden_layers", "hidden_size")
        )
        self.eps, self.device = config["layer_norm_eps"], device
        dtype = torch.float16 if device == "cuda" else torch.float32
        found = load_file(folder / "model.safetensors")
        weights = self.weights = {name.removeprefix("bert."): own.to(device, dtype) for name, own in found.items()}
        for layer in range(self.layers):
            own = f"encoder.layer.{layer}.attention.self."
            for kind in ("weight", "bias"):
                weights[f"{own}all.{kind}"] = torch.cat(
                    [weights[f"{own}{n}.{kind}"] for n in ("query", "key", "value")]
                )
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(random_model.LIMIT)
        self.forward = torch.compile(self._forward, dynamic=True) if compiled else self._forward

    def _linear(self, x: Any, name: str) -> Any:
        return F.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _norm(self, x: Any, name: str) -> Any:
        return F.layer_norm(x, x.shape[-1:], self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], self.eps)

    def _forward(self, ids: Any, positions: Any, offsets: Any, texts: Any, longest: int, count: int) -> Any:
        tables = [self.weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")]
        x = self._norm(tables[0][ids] + tables[1][positions] + tables[2][0], "embeddings.LayerNorm")
        for layer in range(self.layers):
            own = f"encoder.layer.{layer}."
            q, k, v = self._linear(x, f"{own}attention.self.all").view(len(x), 3, self.heads, -1).unbind(1)
            attended = attention(q, k, v, offsets, longest).reshape(x.shape)
            x = self._norm(
                self._linear(attended, f"{own}attention.output.dense") + x, f"{own}attention.output.LayerNorm"
            )
            wide = F.gelu(self._linear(x, f"{own}intermediate.dense"))
            x = self._norm(self._linear(wide, f"{own}output.dense") + x, f"{own}output.LayerNorm")
        sums = torch.zeros(count, x.shape[1], device=x.device).index_add_(0, texts, x.float())
        return F.normalize(sums / (offsets[1:] - offsets[:-1])[:, None], dim=1)

    def _batches(self, texts: list[str]) -> Iterator[tuple[list[int], list[np.ndarray], int]]:
        """Places of texts, the longest first, with ids, positions, offsets and places in the batch of their tokens."""
        order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
        for start in range(0, len(order), TOGETHER):
            part = order[start : start + TOGETHER]
            rows = [found.ids for found in self.tokenizer.encode_batch([texts[place] for place in part])]
            begin = 0
            while begin < len(rows):
                end, tokens = begin, 0
                while end < len(rows) and (tokens := tokens + len(rows[end])) <= TOKENS:
                    end += 1
                lengths = np.array([len(row) for row in rows[begin:end]])
                offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
                positions = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
                arrays = [
                    np.concatenate(rows[begin:end]),
                    positions,
                    offsets,
                    np.repeat(np.arange(end - begin), lengths),
                ]
                yield part[begin:end], arrays, int(lengths.max())
                begin = end

    @torch.inference_mode()
    def encode(self, texts: list[str]) -> np.ndarray:
        found = np.empty((len(texts), self.columns), np.float32)
        waiting: queue.Queue[Any] = queue.Queue(WAITING)

        def ahead() -> None:
            for batch in self._batches(texts):
                waiting.put(batch)
            waiting.put(None)

        threading.Thread(target=ahead).start()
        started = []
        while (batch := waiting.get()) is not None:
            places, arrays, longest = batch
            given = [torch.from_numpy(own) for own in arrays]
            if self.device == "cuda":
                given = [own.pin_memory().to(self.device, non_blocking=True) for own in given]
            started.append((places, self.forward(*given, longest, len(places))))
        for places, rows in started:
            found[places] = rows.cpu().numpy()
        return found


def compared(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The least cosine of rows."""
    cosine = float((ours * theirs).sum(axis=1).min())
    if not cosine >= LEAST_COSINE:
        raise SystemExit(f"the least cosine is {cosine:.5f}; nothing is measured")
    return cosine


def encoded(model: Any, texts: list[str], batch: int) -> np.ndarray:
    return model.encode(texts, batch_size=batch, normalize_embeddings=True, show_progress_bar=False)


def timed(model: Any, rivals: dict[str, Packed], kind: str, repeats: int) -> dict[str, Any]:
    """Rates in turns, ours at its best batch, and the ratio to the faster rival."""
    texts = getattr(workloads, kind)(WORK[kind])
    cosine = min(compared(encoded(model, texts, BATCHES[0]), rival.encode(texts)) for rival in rivals.values())
    batch = measure.best_batch(partial(encoded, model, texts), list(BATCHES))
    ways = {"grilly": partial(encoded, model, texts, batch)}
    ways |= {name: partial(rival.encode, texts) for name, rival in rivals.items()}
    taken = measure.turns(ways, repeats)
    rates = {name: len(texts) / statistics.median(seconds) for name, seconds in taken.items()}
    rival = max(rivals, key=rates.__getitem__)
    ratio = measure.ratio(taken["grilly"], taken[rival])
    told = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
    print(f"{kind}: {told} texts/s; {ratio:.2f} x {rival}, least cosine {cosine:.5f}", flush=True)
    return {"texts_per_second": rates, "batch": batch, "ratio": ratio, "least_cosine": cosine}


def main() -> int:
    from grilly import SentenceTransformer

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", default=["minilm", "bert-base"])
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    result: dict[str, Any] = {"machine": measure.machine(), "torch": torch.__version__, "rows": {}}
    for shape in given.shapes:
        with tempfile.TemporaryDirectory() as scratch:
            folder = random_model.write(shape, Path(scratch) / "model")
            if given.device == "cpu":
                few = workloads.short(40) + workloads.long(8)
                with SentenceTransformer(str(folder), device="cpu") as model:
                    rows = encoded(model, few, 32)
                print(f"{shape}: least cosine {compared(rows, Packed(folder, 'cpu', False).encode(few)):.7f}")
                continue
            rivals = {name: Packed(folder, "cuda", name == "compiled") for name in ("compiled", "eager")}
            with SentenceTransformer(str(folder), device="vulkan", dtype="float16") as model:
                result["rows"][shape] = {kind: timed(model, rivals, kind, given.repeats) for kind in WORK}
    if given.device == "cuda":
        print(measure.save("packed-torch float16", torch.cuda.get_device_name(), result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
