"""Hashes of what the package computes, to compare two builds in bits.

`PYTHONPATH=OLD python tests/hashes.py old.json`, `PYTHONPATH=NEW python tests/hashes.py new.json`, each with
`--device vulkan` or `--device cpu`, and with `--float32-products plain` for a build that splits them on matrix cores
beside one that does not; then `python tests/hashes.py old.json new.json` names the rows that differ and
exits with 1 if there are any. `--only TEXT` writes the rows whose names contain it (`--only cast`, `--only trained`);
`--processes N` shares the rows out, for a software driver and many cores.

The rows are the case table, as calls on arrays, programs and functions; the fixtures' models of every class in every
type, with packed weights and their other results (tests/hashed_models.py); parameters after 20 steps of training; and
exported kernels and plans. A call that a build refuses, or whose names it lacks, has no row, so that this file runs
with every build. Any NaN counts as the one NaN. Beside a float32 row of the table that differs stand both errors: the
largest difference from the reference in float64, relative to the reference's largest number. `--changed FILE` writes
such rows.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).parent


def digest(found: Any) -> str:
    """Of an array, of bytes, or of what JSON holds."""
    if not isinstance(found, np.ndarray | np.generic | bytes):
        found = json.dumps(found, sort_keys=True).encode()
    if isinstance(found, bytes):
        return hashlib.sha256(found).hexdigest()[:16]
    values = np.asarray(found)
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    about = f"{values.dtype} {values.shape}"
    return hashlib.sha256(about.encode() + np.ascontiguousarray(values).tobytes()).hexdigest()[:16]


def error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest number, where both are finite."""
    finite = np.isfinite(found) & np.isfinite(expected)
    found, expected = found[finite], expected[finite]
    return float(np.abs(found - expected).max(initial=0.0) / (np.abs(expected).max(initial=0.0) or 1.0))


class Rows:
    """Hashes by name: of the names that contain `only`, those that fall to this part of so many."""

    def __init__(self, only: str, part: int, parts: int) -> None:
        self.only, self.part, self.parts = only, part, parts
        self.rows: dict[str, str] = {}
        self.errors: dict[str, float] = {}
        self.without: list[str] = []

    def add(self, name: str, call: Callable[..., Iterable[Any]], *given: Any, **options: Any) -> list[Any]:
        """Adds the row of a call's results, and returns them: none if it is not wanted or has no row."""
        from grilly.errors import GrillyError

        if self.only not in name or zlib.crc32(name.encode()) % self.parts != self.part:
            return []
        try:
            results = list(call(*given, **options))
        except (GrillyError, AttributeError, ImportError, TypeError):
            self.without.append(name)
            return []
        self.rows[name] = "".join(map(digest, results))
        return results


def case_rows(rows: Rows, device: str) -> None:
    """The case table: each row as a call on arrays, and unless an operand is empty as a program.

    No public call runs every operation on arrays, and a program takes neither counted axes without their counts nor
    float16 on the CPU: the calls are the core's.
    """
    from cases import CASES
    from cases.reference import evaluate

    from grilly import _core
    from grilly.program import Graph

    engine = _core.engine(device)
    # A build from before there were several results has no operation that has them.
    call = getattr(engine, "call_all", lambda *given: [engine.call(*given)])

    def arrays(case: Any, operands: list[np.ndarray]) -> Iterable[Any]:
        given = [engine.upload(np.asarray(value, order="C")) for value in operands]
        return (result.numpy() for result in call(case.op, given, case.attributes))

    def program(case: Any, operands: list[np.ndarray]) -> Iterable[Any]:
        graph = Graph()
        given = [graph.input(f"x{place}", value.shape, value.dtype.name) for place, value in enumerate(operands)]
        results = graph.call(case.op, *given, **case.attributes)
        outputs = list(results) if isinstance(results, tuple) else [results]
        return (result.numpy() for result in graph.program(outputs, device).run(*operands))

    known = _core.op_names()
    for case in (case for case in CASES if case.op in known):
        operands, name = case.operands(), f"{case.op}: {case.id}"
        results = rows.add(name, arrays, case, operands)
        if results and results[0].dtype == np.float32:
            expected = evaluate(case.op, operands, case.attributes)
            rows.errors[name] = error(results[0], expected[0] if isinstance(expected, tuple) else expected)
        if all(value.size for value in operands):
            rows.add(f"program: {case.id}", program, case, operands)


X, HEADS = "2x33x64", "2x4x33x16"
#: Functions of `grilly.functional` that are more than an operation: numbers, shapes, and `below:shape` of integers.
CALLS: tuple[tuple[Any, ...], ...] = (
    *((name, X) for name in ("gcu", "gelu", "roswish", "softplus", "swiglu", "geglu", "embedding_attention")),
    *(("softmax", X, {"dim": dim}) for dim in (0, 1)),
    *((name, X, X) for name in ("gcu_backward", "roswish_backward", "residual")),
    *(("mse_loss", X, X, {"reduction": kind}) for kind in ("none", "mean", "sum")), ("mse_loss_backward", "", X, X),
    *(("binary_cross_entropy", "5x7", "5x7", {"reduction": kind}) for kind in ("none", "mean")),
    ("softmax_backward", X, X, {"dim": 1}), ("swiglu_backward", "2x33x32", X), ("geglu_backward", "2x33x32", X),
    ("attention", HEADS, HEADS, HEADS, {"causal": True}), ("attention", HEADS, HEADS, HEADS, {"need_weights": False}),
    ("flash_attention2", HEADS, HEADS, HEADS, {"use_rope": True}),
    ("attention_scores", HEADS, HEADS), ("attention_mask", "2x4x33x33"),
    ("attention_concat_heads", HEADS), ("apply_rope", HEADS), ("apply_rope_backward", HEADS), ("alibi_bias", 4, 9),
    ("relative_bias", "32x4", 9), ("embedding_position", X), ("cross_entropy", "5x9", "9:5"),
    ("cross_entropy", "5x9", "9:5", "9", {"label_smoothing": 0.1}), ("cross_entropy_backward", "", "5x9", "9:5"),
    ("dropout", X, 0.3, True, 5), ("dropout_backward", X, 0.3, 5), ("embedding_lookup", "9x64", "9:2x33"),
    ("embedding_backward", X, "9:2x33", 9, 64), ("embedding_normalize", X), ("embedding_pool", X),
    *(("mean_pool", X, "2:2x33", {"mode": kind}) for kind in ("mean", "max", "sum")),
    ("embedding_ffn", X, "48x64", "48", "64x48", "64"), ("gemm_backward", "33x65", "64x65", 0),
    ("linear", X, "65x64", "65"), ("linear_backward", "2x33x65", X, "65x64", "65"), ("matmul", X, "64x65"),
    ("layer_norm", X, 64), ("layer_norm", X, 64, "64", "64"), ("layer_norm", X, (33, 64)),
    ("layer_norm_backward", X, X, "64"), ("rms_norm", X, 64, "64"), ("rms_norm_backward", X, X, "64"),
    ("whitening_batch_stats", "33x64"), ("whitening_transform", "33x64"), ("whitening_apply", "33x64", "64", "64"),
)  # fmt: skip


def function_rows(rows: Rows, device: str) -> None:
    import grilly
    from grilly import functional

    def operand(numbers: np.random.Generator, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        below, _, shape = value.rpartition(":")
        axes = [int(axis) for axis in shape.split("x") if axis]
        drawn = numbers.integers(0, int(below), axes) if below else numbers.random(axes, np.float32)
        return grilly.to_vulkan(drawn.astype(np.int32 if below else np.float32), device)

    def called(name: str, *given: Any) -> Iterable[Any]:
        options = given[-1] if isinstance(given[-1], dict) else {}
        numbers = np.random.default_rng(0)
        operands = [operand(numbers, value) for value in given if value is not options]
        found = getattr(functional, name)(*operands, **options)
        return (np.asarray(each) for each in (found if isinstance(found, tuple) else [found]) if each is not None)

    for name, *given in CALLS:
        rows.add(f"functional: {name} {given}", called, name, *given)


#: Sizes beside the small model's, and options of training, by name.
TRAINED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "adamw": ({}, {"weight_decay": 0.1}),
    "adam": ({"dropout": 0.1}, {"optimizer": "adam", "weight_decay": 0.1, "max_norm": 1.0}),
    "sgd": ({"positions": "rotary"}, {"optimizer": "sgd", "learning_rate": 0.1, "accumulate": 2}),
    "rotary-dropout": ({"positions": "rotary", "dropout": 0.1}, {"gradient_checkpointing": True}),
    "tied": ({"tied_output": True}, {"schedule": {"kind": "cosine", "warmup": 5}, "steps": 20}),
    "bitlinear": ({"bitlinear": True}, {}),
}


def training_rows(rows: Rows, device: str) -> None:
    """The losses of 20 steps and the parameters after them, in each type."""
    from grilly.train import Trainer, TransformerConfig

    def trained(sizes: dict[str, Any], options: dict[str, Any]) -> Iterable[Any]:
        config = TransformerConfig(61, **{"d_model": 32, "num_layers": 2, "num_heads": 2, "ffn_dim": 48} | sizes)
        trainer = Trainer(config, device=device, **{"batch_size": 3, "learning_rate": 0.01} | options)
        numbers, count = np.random.default_rng(0), 3 * options.get("accumulate", 1)
        losses = [trainer.step((61 * numbers.random((count, 13)) ** 3).astype(np.int64)).loss for _ in range(20)]
        tensors = trainer.tensors()
        return [np.array(losses), *(tensors[name] for name in sorted(tensors))]

    for name, (sizes, options) in TRAINED.items():
        for dtype in ("float32", "float16", "bfloat16"):
            sizes = {"max_seq_len": 12} | sizes
            rows.add(f"trained: {name} {dtype}", trained, sizes, options | {"dtype": dtype})


def exported_rows(rows: Rows, _device: str) -> None:
    """What is written for other engines, which no device takes part in: code and interface."""
    from exported import CHOSEN, compiled_for, of, of_every_op

    from grilly import kernels

    def written(compiled: Any) -> Iterable[Any]:
        return [compiled.interface, *(part for name in sorted(compiled.code) for part in (name, compiled.code[name]))]

    for case in of_every_op(2):
        rows.add(f"exported: {case.id} spirv", lambda case: written(compiled_for(case, "spirv")), case)
    for target in ("wgsl", "msl", "hlsl", "cuda"):
        for case in map(of, CHOSEN):
            rows.add(f"exported: {case.id} {target}", lambda *given: written(compiled_for(*given)), case, target)
    for name in kernels.names():
        for options in ({}, {"use_half": True}, {"use_bfloat16": True}):
            label = f"exported: kernel {name} {' '.join(options)}"
            rows.add(label, lambda name, options: written(kernels.get(name, **options).compile()), name, options)


def write(path: Path, device: str, only: str, part: int, parts: int) -> int:
    sys.path.insert(0, str(TESTS))
    from hashed_models import model_rows

    import grilly
    from grilly import _core

    found = _core.engine(device)
    if found.backend != device.split(":")[0]:
        sys.exit(f"{device} was asked for and {found.backend} answered")
    rows = Rows(only, part, parts)
    with tempfile.TemporaryDirectory() as folder:
        for add_rows in (
            case_rows,
            function_rows,
            training_rows,
            exported_rows,
            partial(model_rows, place=Path(folder)),
        ):
            try:
                add_rows(rows, device)
            except (AttributeError, ImportError) as lacking:
                rows.without.append(str(lacking))
    about = {"device": found.device, "simd": grilly.info()["cpu"]["simd"]}
    path.write_text(json.dumps({"about": about, "rows": rows.rows, "errors": rows.errors}, indent=1) + "\n")
    print("".join(f"no row: {name}\n" for name in rows.without), end="")
    print(f"{len(rows.rows)} rows on {about['device']} ({about['simd']}) written to {path}")
    return 0


def write_side_by_side(path: Path, arguments: list[str], processes: int) -> int:
    """As `write`, each part in a process of its own."""
    paths = [path.with_name(f"{path.name}.{part}") for part in range(processes)]
    parts = [
        subprocess.Popen([sys.executable, __file__, *arguments, str(of), "--part", str(part), str(processes)])
        for part, of in enumerate(paths)
    ]
    if any([process.wait() for process in parts]):
        return 1
    found = [json.loads(of.read_text()) for of in paths]
    together = {key: {name: row for one in found for name, row in one[key].items()} for key in ("rows", "errors")}
    path.write_text(json.dumps({"about": found[0]["about"]} | together, indent=1) + "\n")
    for of in paths:
        of.unlink()
    print(f"{len(together['rows'])} rows written to {path}")
    return 0


def compare(old: Path, new: Path, kept: Path | None) -> int:
    before, after = (json.loads(path.read_text()) for path in (old, new))
    if before["about"] != after["about"]:
        sys.exit(f"not of one machine: {before['about']} and {after['about']}")
    names = sorted(before["rows"] | after["rows"])
    gone = [name for name in names if name not in after["rows"]]
    added = [name for name in names if name not in before["rows"]]
    changed = [name for name in names if name not in gone + added and before["rows"][name] != after["rows"][name]]
    errors = [[build.get("errors", {}).get(name) for build in (before, after)] for name in changed]
    shown = [
        name if None in pair else f"{name} (error {pair[0]:.2e}, now {pair[1]:.2e})"
        for name, pair in zip(changed, errors, strict=True)
    ]
    for what, group in (("gone", gone), ("added", added), ("changed", shown)):
        print("".join(f"{what}: {name}\n" for name in group), end="")
    if kept:
        rows = {name: {"hash": after["rows"][name], "errors": pair} for name, pair in zip(changed, errors, strict=True)}
        kept.write_text(json.dumps({"about": after["about"], "rows": rows}, indent=1) + "\n")
    equal = len(names) - len(gone) - len(added) - len(changed)
    print(f"{equal} rows equal, {len(changed)} changed, {len(gone)} gone, {len(added)} added")
    return 1 if changed or gone or not equal else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="one to write, or two to compare")
    parser.add_argument("--device", default="cpu", help="cpu, vulkan or vulkan:N")
    parser.add_argument("--float32-products", choices=["split", "plain"], help="of a build that has the choice")
    parser.add_argument("--only", default="", metavar="TEXT", help="the rows whose names contain it")
    parser.add_argument(
        "--changed", type=Path, metavar="FILE", help="where to write what differs, with hash and errors"
    )
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="that share the rows")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.processes > 1:
        products = ["--float32-products", given.float32_products] if given.float32_products else []
        arguments = ["--device", given.device, "--only", given.only, *products]
        return write_side_by_side(given.files[0], arguments, given.processes)
    if given.float32_products:
        import grilly

        grilly.configure(float32_products=given.float32_products)
    if len(given.files) > 2:
        parser.error("one file to write, or two to compare")
    if len(given.files) == 2:
        return compare(*given.files, given.changed)
    return write(given.files[0], given.device, given.only, *given.part)


if __name__ == "__main__":
    sys.exit(main())
