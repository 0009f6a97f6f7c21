"""Grids of sizes on a GPU, each cell beside something in the same run: which are slower than their neighbours.

`python benchmarks/cliffs.py --part rows [--rounds N] [--elements N]`, `--part types`, `products` or `heads`. Loads
are in loading.py (`--types`), and sizes of results, beside an older build, in array_memory.py.

A part is a module of its own (`cliff_PART.py`) that compares results with float64 before it measures, by the device's
clock, and gives tables of cells in the order of their sizes, each a multiple of what it names `BESIDE`.
Every cell worse than twice its better neighbour is named, and the cells that miss their gates. The exit status is 1
where a gate is missed.
"""

from __future__ import annotations

import argparse
import importlib
import sys

import measure as machine

PARTS = ("rows", "types", "products", "heads")
#: How many times its better neighbour's multiple makes a cell a cliff.
CLIFF = 2.0


def cliffs(table: dict[str, float]) -> list[str]:
    """The cells that are worse than `CLIFF` times the better of their neighbours."""
    names, ratios = list(table), list(table.values())
    found = []
    for place, ratio in enumerate(ratios):
        beside = ratios[max(0, place - 1) : place] + ratios[place + 1 : place + 2]
        if beside and ratio > CLIFF * min(beside):
            found.append(f"{names[place]}: {ratio:.2f}, beside {min(beside):.2f}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", required=True, choices=PARTS)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--elements", type=int, default=1 << 26, help="of each cell")
    given = parser.parse_args()

    from grilly import _core

    engine = _core.engine("vulkan")
    print(f"{engine.device} ({engine.backend})")
    part = importlib.import_module(f"cliff_{given.part}")
    tables, gates = part.measure(engine, given.rounds, given.elements)
    missed = 0
    for name, table in tables.items():
        for cliff in cliffs(table):
            print(f"cliff: {name} {cliff}")
        for cell, ratio in table.items():
            gate = gates[name].get(cell)
            if gate is not None and ratio > gate:
                missed += 1
                print(f"missed: {name} {cell}: {ratio:.2f} of {part.BESIDE}, gate {gate:.2f}")
    facts = {"device": engine.device, "machine": machine.machine(), "tables": tables, "gates": gates}
    print(machine.save(f"cliffs {given.part}", engine.device, facts))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
