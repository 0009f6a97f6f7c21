"""MaxSim and `grilly.Index` beside torch, or on the CPU beside FAISS, in turns after their outputs are compared.

`python benchmarks/search.py maxsim [--documents 100000] [--queries 1 32]`: queries of 32 vectors of 128 columns against
documents of 128, in float16, all of it on the device; torch multiplies blocks of documents, of the size that is
fastest. A device copy of the documents shows what memory allows.

`python benchmarks/search.py index [--rows 1000000] [--queries 1 1000] [--device cpu]`: the ten nearest of rows of 384
columns, from queries in NumPy to results in NumPy; on a GPU in float16 beside `torch.topk(queries @ rows.T)`, on the
CPU in float32 beside `faiss.IndexFlatIP`.

Ratios are those of medians; above 1 this package is faster.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from measure import medians, turns

from grilly import Index, _core

ROUNDS = 9
#: Vectors of a query, and of a document, and their columns.
ASKED, TOKENS, COLUMNS = 32, 128, 128
WIDTH = 384


def maxsim(given: argparse.Namespace) -> None:
    import torch

    engine = _core.engine("vulkan")
    torch.manual_seed(1)

    def drawn(rows: int) -> Any:
        return torch.nn.functional.normalize(torch.randn(rows, COLUMNS, device="cuda"), dim=1).half()

    def of_torch(queries: Any, block: int) -> Any:
        parts = []
        for first in range(0, given.documents, block):
            part = documents[first * TOKENS : (first + block) * TOKENS]
            products = (queries @ part.T).view(len(queries) // ASKED, ASKED, -1, TOKENS)
            parts.append(products.amax(dim=3).sum(dim=1, dtype=torch.float32))
        found = torch.cat(parts, dim=1)
        torch.cuda.synchronize()
        return found

    def ours(operands: list[_core.Array]) -> _core.Array:
        found = engine.call("max_sim", operands, {})
        engine.synchronize()
        return found

    def copy() -> None:
        target.copy_(documents)
        torch.cuda.synchronize()

    documents = drawn(given.documents * TOKENS)
    target = torch.empty_like(documents)
    rows = engine.upload(documents.cpu().numpy())
    starts = engine.upload(np.arange(given.documents + 1, dtype=np.int32) * TOKENS)
    for count in given.queries or [1, 32]:
        queries = drawn(count * ASKED)
        own = [engine.upload(queries.cpu().numpy()), rows]
        own += [engine.upload(np.arange(count + 1, dtype=np.int32) * ASKED), starts]
        difference = np.abs(ours(own).numpy() - of_torch(queries, 5000).cpu().numpy()).max()
        assert difference < 2e-2, difference  # torch rounds products to float16
        blocks = [n for n in (1000, 5000, 20_000) if n * TOKENS * 64 * count < 30e9]
        rivals = {f"torch, blocks of {n}": partial(of_torch, queries, n) for n in blocks}
        seconds = medians(turns({"ours": partial(ours, own), "copy": copy, **rivals}, ROUNDS))
        rival, taken = min(seconds[name] for name in rivals), seconds["ours"]
        print(
            f"{engine.device}: maxsim, {count} queries, {given.documents} documents: ours {1e3 * taken:.3f} ms "
            f"({2 * count * ASKED * documents.numel() / taken / 1e12:.0f} TFLOP/s, "
            f"{documents.nbytes / taken / 1e12:.2f} TB/s read; "
            f"a copy {2 * documents.nbytes / seconds['copy'] / 1e12:.2f} TB/s), "
            f"torch {1e3 * rival:.3f} ms, ratio {rival / taken:.2f}"
        )


def on_cpu(rows: np.ndarray) -> tuple[str, Callable[[np.ndarray], Any]]:
    import faiss

    flat = faiss.IndexFlatIP(WIDTH)
    flat.add(rows)
    return "FAISS flat", lambda queries: flat.search(queries, 10)


def on_gpu(rows: np.ndarray) -> tuple[str, Callable[[np.ndarray], Any]]:
    import torch

    held = torch.from_numpy(rows).cuda().half()

    def search(queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = torch.topk(torch.from_numpy(queries).cuda().half() @ held.T, 10)
        return found.values.cpu().numpy(), found.indices.cpu().numpy()

    return "torch.topk", search


def index(given: argparse.Namespace) -> None:
    rng = np.random.default_rng(1)
    block = rng.standard_normal((1 << 16, WIDTH), np.float32)
    rows = np.resize(block, (given.rows, WIDTH)) * rng.uniform(0.9, 1.1, (given.rows, 1)).astype(np.float32)
    cpu = given.device == "cpu"
    ours = Index(WIDTH, "dot", "float32" if cpu else "float16", device=given.device)
    ours.add(rows)
    name, rival = on_cpu(rows) if cpu else on_gpu(rows)
    for count in given.queries or [1, 1000]:
        queries = rng.standard_normal((count, WIDTH), np.float32)
        difference = np.abs(ours.search(queries, 10).scores - rival(queries)[0]).max()
        assert difference < (1e-3 if cpu else 0.3), difference  # torch rounds scores to float16
        seconds = medians(turns({"ours": partial(ours.search, queries, 10), "rival": partial(rival, queries)}, ROUNDS))
        print(
            f"{ours.device}: {count} queries, {given.rows} rows of {WIDTH}, top 10: ours {1e3 * seconds['ours']:.3f} "
            f"ms, {name} {1e3 * seconds['rival']:.3f} ms, ratio {seconds['rival'] / seconds['ours']:.2f}, "
            f"differing at most {difference:.1e}"
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("part", choices=("maxsim", "index"))
    options.add_argument("--documents", type=int, default=100_000)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--queries", type=int, nargs="+")
    options.add_argument("--device", default="vulkan")
    given = options.parse_args()
    {"maxsim": maxsim, "index": index}[given.part](given)


if __name__ == "__main__":
    main()
