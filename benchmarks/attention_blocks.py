"""Blocks of flash attention on a GPU: every configuration that the device can have beside what the engine takes.

`python benchmarks/attention_blocks.py [--rounds N] [--dtype float16|float32]...`

Each configuration's result is compared with float64 first; times are wall times in turns with the engine's choice.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from itertools import product
from typing import Any

import measure as machine
import numpy as np
from cliff_heads import exact

from ops import alternating

#: Texts, heads, tokens of a text, columns of a head.
SHAPES = ((656, 12, 25, 32), (256, 12, 128, 32), (64, 16, 512, 64), (32, 16, 1024, 128))
QUERIES, KEYS = (32, 64, 128), (16, 32, 64, 128)


def measure(shape: tuple[int, int, int, int], dtype: str, engine: Any, rounds: int) -> list[dict[str, Any]]:
    from grilly import kernels
    from grilly.errors import InvalidArgumentError

    texts, heads, length, width = shape
    columns = heads * width
    x = np.random.default_rng(0).standard_normal((texts * length, 3 * columns), np.float32).astype(np.float16)
    expected = exact(x, width, length)
    offsets = engine.upload((np.arange(texts + 1) * length).astype(np.int32))
    packed = engine.upload(x.astype(dtype))
    attributes = {
        "heads": heads, "kv_heads": heads, "head_dim": width, "scale": width**-0.5,
        "k_column": columns, "v_column": 2 * columns,
    }  # fmt: skip

    def call(blocks: list[int] | None) -> Any:
        given = attributes if blocks is None else attributes | {"blocks": blocks}
        return engine.call("attention", [packed, packed, packed, offsets, offsets], given)

    tried: dict[str, list[int] | None] = {"engine": None}
    tried |= {f"{queries} x {keys}": [queries, keys] for queries, keys in product(QUERIES, KEYS)}
    rivals, refused = {}, []
    for name, blocks in tried.items():
        try:
            found = call(blocks).numpy()
        except InvalidArgumentError:
            refused.append(name)
            continue
        off = float(np.abs(found[:length, :width] - expected).max())
        if not off <= (5 * 2.0**-10 if dtype == "float16" else 1e-5):
            raise SystemExit(f"{shape}, {name} in {dtype}: {off:.2e} from float64; nothing is measured")
        rivals[name] = (lambda blocks=blocks: call(blocks), engine.synchronize)
    times = alternating(rivals, rounds, span=0.03, least=3)
    own = statistics.median(times["engine"])
    selected = kernels.select_config(head_dim=width)
    rows = []
    for name, row in times.items():
        seconds = statistics.median(row)
        rows.append(
            {"shape": shape, "dtype": dtype, "blocks": name, "microseconds": 1e6 * seconds, "times": own / seconds}
        )
    print(f"\n{texts} texts of {length}, {heads} heads of {width}, {dtype}: the engine takes {1e6 * own:.0f} us")
    for row in sorted(rows[1:], key=lambda row: -row["times"]):
        chosen = row["blocks"] == f"{selected.block_q} x {selected.block_kv}" and selected.half_precision == (
            dtype == "float16"
        )
        print(f"  {row['blocks']:<10}{row['times']:.2f} x{', select_config' * chosen}")
    print(f"  refused: {', '.join(refused) or 'none'}")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", action="append", choices=("float16", "float32"), default=[])
    given = parser.parse_args()
    from grilly import _core

    engine = _core.engine("vulkan")
    print(f"{engine.device} ({engine.backend})")
    rows = []
    for dtype in given.dtype or ("float16", "float32"):
        for shape in SHAPES:
            rows += measure(shape, dtype, engine, given.rounds)
    print(machine.save("attention blocks", engine.device, {"machine": machine.machine(), "rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
