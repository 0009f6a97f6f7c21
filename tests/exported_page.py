"""Writes docs/reference/exported-kernels.md: every kernel and operation with its interface, languages and figures.

`.venv/bin/python tests/exported_page.py` writes it; tests/ops/test_exported_page.py finds whether it is current. It is
made from the tables of kernels and of operations, and from the result file of benchmarks/exported_cuda.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "examples")]

from exported import compiled_for, rows  # noqa: E402

from grilly import _core, errors, kernels  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "exported-kernels.md"
TARGETS = ("spirv", "wgsl", "msl", "hlsl", "cuda", "ptx")
#: The operations of kernels with names of their own.
OPS = {"flash_attention": "attention", "swiglu": "gated_linear", "geglu": "gated_linear"}
#: Attributes by which a timed row is that of a kernel.
KINDS = {"swiglu": "silu", "geglu": "gelu_tanh"}

Compile = Callable[[str], kernels.Compiled]


def languages(compile_for: Compile) -> str:
    """The targets in which a kernel can be had, and what stops it in others."""
    found, stopped = [], []
    for target in TARGETS:
        try:
            compile_for(target)
            found.append(target)
        except errors.UnsupportedError as error:
            stopped.append(f"not {target}: {error}")
    return "; ".join([", ".join(found), *stopped])


def interface(compiled: kernels.Compiled) -> str:
    """Buffers by name, those that are written in bold, with the workgroup, of each dispatch."""
    parts = []
    for row in compiled.interface["dispatches"]:
        names = [f"**{one['name']}**" if one["access"] != "read" else one["name"] for one in row["bindings"]]
        size = " x ".join(str(extent) for extent in row["workgroup_size"] if extent > 1) or "1"
        memory = f", {row['workgroup_memory']:,} bytes" if row["workgroup_memory"] else ""
        parts.append(f"`{row['shader']}`: {', '.join(names)} ({size}{memory})")
    return "<br>".join(parts)


def read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8"))


def date(file: Path) -> str:
    return file.stem[-10:]


def case_of(row: dict[str, Any]) -> str:
    """What a row of times measures."""
    return json.dumps([row["operation"], row["shapes"], row["attributes"]])


def result() -> dict[str, Any]:
    """The newest whole result of benchmarks/exported_cuda.py, with the rows of newer ones of single operations."""
    folder = ROOT / "benchmarks" / "results"
    whole = max(folder.glob("exported-cuda-nvidia-*.json"), key=date)
    taken = read(whole)
    for file in sorted(folder.glob("exported-cuda-*.json"), key=date):
        if date(file) > date(whole):
            newer = {case_of(row): row for row in read(file)["rows"]}
            taken["rows"] = [newer.get(case_of(row), row) for row in taken["rows"]]
    return taken


def figures(op: str, timed: list[dict[str, Any]], kind: str | None = None) -> str:
    """Sizes and times of the timed rows of an operation."""
    own = [row for row in timed if row["operation"] == op and kind in (None, row["attributes"].get("kind"))]
    each = ("{} {:.0f} / {:.0f}".format(" x ".join(map(str, row["shapes"][0])), row["cuda_seconds"] * 1e6,
                                        row["vulkan_seconds"] * 1e6) for row in own)  # fmt: skip
    return "<br>".join(each)


def of_kernels(timed: list[dict[str, Any]], languages: Callable[[str, Compile], str]) -> list[str]:
    lines = []
    for name, formula, _ in _core.kernel_rows():
        told = []
        for option in (None, "use_half", "use_bfloat16"):
            kernel = kernels.get(name, **({} if option is None else {option: True}))
            told.append(languages(f"{name} {option}", lambda target, kernel=kernel: kernel.compile(target, 5)))
        shown = interface(kernels.get(name).compile("spirv", 5))
        times = figures(OPS.get(name, name), timed, KINDS.get(name))
        lines.append(f"| `{name}` | `{formula}` | {shown} | {' | '.join(told)} | {times} |")
    return lines


def of_operations(timed: list[dict[str, Any]], languages: Callable[[str, Compile], str]) -> list[str]:
    first: dict[str, Any] = {}
    for case in rows(every=True):
        first.setdefault(case.op, case)
    lines = []
    for op, case in sorted(first.items()):
        shown = interface(compiled_for(case, "spirv"))
        told = languages(op, lambda target, case=case: compiled_for(case, target))
        lines.append(f"| [`{op}`](operations.md#{op}) | {shown} | {told} | {figures(op, timed)} |")
    return lines


def page(languages: Callable[[str, Compile], str]) -> str:
    """The page; `languages` gives the cell of a kernel by its name and how it is compiled."""
    taken = result()
    timed, judged = taken["rows"], taken["against_float64"]
    right, wrong = judged["right"], len(judged["wrong"])
    head = f"""# Exported kernels

What `compile` and `compile_op` give ([kernels in other languages](../guides/kernels.md#in-other-languages)). This page
is generated by `tests/exported_page.py`.

An interface names the shader of each dispatch, its buffers in the order of their bindings, those that it writes in
bold, and in parentheses the invocations and the shared memory of a workgroup; parameters follow the last buffer. Times
are microseconds of exported CUDA and of the Vulkan original, both in float32 and without matrix cores, one after the
other on one {taken["device"]} ({taken["machine"]["date"]} and later, `benchmarks/exported_cuda.py`), at the shape of
the first operand. There {right} rows of the case table were within their bounds of float64, and {wrong} were not.

## Kernels

| kernel | computes | interface in float32 | float32 in | float16 in | bfloat16 in | CUDA / Vulkan, µs |
|---|---|---|---|---|---|---|
"""
    middle = """
## Operations

Formulas and operands are those of [operations](operations.md); the interface is that of one row of float32 operands in
the case table. Sizes, types and attributes may select other builds.

| operation | interface | float32 in | CUDA / Vulkan, µs |
|---|---|---|---|
"""
    lines = [head + "\n".join(of_kernels(timed, languages)), middle + "\n".join(of_operations(timed, languages))]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(lambda name, compile_for: languages(compile_for)), encoding="utf-8")
    print(PAGE)
