"""What AMD's compiler makes of the pipelines that models dispatch, without its hardware, beside the table in amd.csv.

`python tests/amd.py` compiles them for one family of each generation and fails where a pipeline spills vector registers
to memory that the table does not have, lost matrix or dot instructions, or is estimated to take 5% longer; `... write`
writes the table; `... long` also compiles what only tests dispatch, for every family. The compiler's estimate is
static: nothing runs.
"""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "tests" / "amd.csv"
#: One family of each generation: Polaris, Vega, RDNA 1, 2, 3 (with the driver's 64 lanes, and with 32), 3.5 and 4.
#: Mesa 25.0 has no matrices of the last.
FAMILIES = ("polaris10", "vega10", "navi10", "navi21", "navi31", "navi31-wave32", "gfx1150", "gfx1201")
OTHERS = (
    *("polaris11", "polaris12", "vegam", "vega12", "vega20", "raven", "raven2", "renoir"),
    *("navi12", "navi14", "navi22", "navi23", "navi24", "vangogh", "rembrandt", "raphael_mendocino"),
    *("navi32", "navi33", "phoenix", "phoenix2", "gfx1151", "gfx1152", "gfx1153", "gfx1200"),
)
#: How much longer the estimate may be.
MARGIN = 0.05


@dataclass(frozen=True)
class Row:
    """A pipeline on a family: the compiler's numbers, and how often its code has an instruction."""

    family: str
    #: The variant and its constants.
    pipeline: str
    subgroup: int
    sgprs: int
    vgprs: int
    spilled_sgprs: int
    spilled_vgprs: int
    #: Bytes of shared memory.
    shared: int
    #: Subgroups that a SIMD unit holds.
    occupancy: int
    #: Static cycles per 64 invocations, as throughput and occupancy allow.
    estimate: int
    wmma: int
    dot: int


Key = tuple[str, str]
Rows = dict[Key, Row]


def keyed(rows: list[Row]) -> Rows:
    return {(row.family, row.pipeline): row for row in rows}


def row_of(family: str, found: dict) -> Row:
    numbers = found["numbers"]
    return Row(
        family=family,
        pipeline=" ".join([found["name"], *map(str, found["constants"])]),
        subgroup=found["subgroup"],
        sgprs=int(numbers["SGPRs"]),
        vgprs=int(numbers["VGPRs"]),
        spilled_sgprs=int(numbers["Spilled SGPRs"]),
        spilled_vgprs=int(numbers["Spilled VGPRs"]),
        shared=int(numbers["LDS size"]),
        occupancy=int(numbers["Subgroups per SIMD"]),
        estimate=int(numbers["Inverse Throughput"]),
        wmma=found["wmma"],
        dot=found["dot"],
    )


def read(path: Path = TABLE) -> Rows:
    kinds = {field.name: field.type for field in fields(Row)}
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return keyed(
        [Row(**{name: text if kinds[name] is str else int(text) for name, text in row.items()}) for row in rows]
    )


def write(rows: Rows, path: Path = TABLE) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(rows[key]) for key in sorted(rows, key=lambda key: (key[1], FAMILIES.index(key[0]))))


def worse(now: Row, table: Row) -> list[str]:
    """What is worse than in the table, with both numbers."""
    found = []
    if now.spilled_vgprs > table.spilled_vgprs:
        found.append(f"spills {now.spilled_vgprs} vector registers, {table.spilled_vgprs} in the table")
    for name, instruction in (("wmma", "v_wmma"), ("dot", "v_dot4")):
        count, known = getattr(now, name), getattr(table, name)
        if count < known:
            found.append(f"has {count} {instruction} instructions, {known} in the table")
    if now.estimate > table.estimate * (1 + MARGIN):
        more = 100 * (now.estimate / table.estimate - 1)
        found.append(f"is estimated at {now.estimate} cycles, {table.estimate} in the table (+{more:.1f}%)")
    return [f"{now.pipeline} on {now.family} {fault}" for fault in found]


def faults(now: Rows, table: Rows) -> list[str]:
    """What is worse, and rows of one alone: a table of other pipelines compares nothing."""
    found = [fault for key in sorted(now.keys() & table.keys()) for fault in worse(now[key], table[key])]
    for key in sorted(now.keys() - table.keys()):
        row = now[key]
        spills = f" and spills {row.spilled_vgprs} vector registers, 0 in the table" if row.spilled_vgprs else ""
        found.append(f"{row.pipeline} on {row.family} is not in the table{spills}")
    found += [f"{pipeline} on {family} is in the table alone" for family, pipeline in sorted(table.keys() - now.keys())]
    return found


def spills(now: Rows) -> list[str]:
    """Pipelines that spill, in the table or not."""
    return [
        f"{row.pipeline} on {row.family} spills {row.spilled_vgprs} vector registers"
        for row in now.values()
        if row.spilled_vgprs
    ]


def unit_tests() -> str:
    """That of the core's unit tests, which lower the plans, with the features that `make test-rust` builds."""
    command = "cargo test -q --workspace --exclude grilly-benches --release --locked --lib --no-run".split()
    finished = subprocess.run(
        [*command, "--message-format", "json"], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True
    )
    told = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{")]
    return next(line["executable"] for line in told if line.get("executable") and line["target"]["name"] == "grilly")


def compiled(binary: str, family: str, long: bool = False) -> tuple[Rows, list[str]]:
    """The rows of a family, and what its compiler refuses."""
    command = [str(ROOT / "scripts" / "amd-compiler.sh"), binary, "--exact", "--ignored", "--nocapture"]
    chip, _, lanes = family.partition("-wave")
    options = {"GRILLY_TEST_LONG": "1"} if long else {}
    options |= {"GRILLY_TEST_LANES": lanes} if lanes else {}
    environment = {**os.environ, "RADV_FORCE_FAMILY": chip, **options}
    finished = subprocess.run(
        [*command, "backend::vulkan::compiled::statistics_of_pipelines"],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    if finished.returncode != 0:
        sys.exit(f"{family}: exit {finished.returncode}\n{finished.stdout[-4000:]}\n{finished.stderr[-4000:]}")
    told = [line.partition("pipeline ")[2] for line in finished.stdout.splitlines() if line.startswith("pipeline ")]
    found = [json.loads(line) for line in told]
    refused = [f"{row['name']} {row['constants']} on {family}: {row['error']}" for row in found if "error" in row]
    return keyed([row_of(family, row) for row in found if "error" not in row]), refused


def summary(family: str, rows: Rows) -> str:
    every = rows.values()
    counts = {
        "spill vector registers": sum(row.spilled_vgprs > 0 for row in every),
        "have v_wmma": sum(row.wmma > 0 for row in every),
        "have v_dot4": sum(row.dot > 0 for row in every),
    }
    return f"{family}: {len(rows)} pipelines, {', '.join(f'{count} {what}' for what, count in counts.items())}"


def each(binary: str, families: tuple[str, ...], long: bool = False) -> Iterator[tuple[Rows, list[str]]]:
    """Those of every family, as many at once as there are cores; prints what each has."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for family, (found, refused) in zip(
            families, threads.map(lambda family: compiled(binary, family, long), families), strict=True
        ):
            print(summary(f"{family}, all" if long else family, found), flush=True)
            yield found, refused


def main(mode: str) -> None:
    binary, rows, wrong = unit_tests(), {}, []
    for found, refused in each(binary, FAMILIES):
        rows |= found
        wrong += refused
    if mode == "write":
        write(rows)
    else:
        wrong += faults(rows, read())
    if mode == "long":
        for found, refused in each(binary, (*FAMILIES, *OTHERS), long=True):
            wrong += refused + spills(found)
    if wrong:
        sys.exit(
            "\n".join([*wrong, "`python tests/amd.py write` writes the table, whose difference belongs to the change"])
        )


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else "compare")
