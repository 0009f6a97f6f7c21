"""What one process of a report does: a part of it from a row on, each result a line of JSON on standard output."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import grilly
from grilly import _core
from grilly.errors import UnsupportedError
from grilly.everywhere import EVERYWHERE
from grilly.program import Graph
from grilly.report import timings
from grilly.report.judgement import judged
from grilly.report.machine import clean
from grilly.report.references import Array
from grilly.report.row import Row
from grilly.report.rows import ROWS

__all__ = ["PARTS", "main", "row_of"]

Facts = dict[str, Any]
Task = Callable[[str], Facts]


def info(device: str) -> Facts:
    found = grilly.info()
    del found["environment"]
    found["choice"]["reason"] = clean(found["choice"]["reason"])
    for row in found["devices"]:
        row["unusable"] = row["unusable"] and clean(row["unusable"])
    return found


def opened(device: str) -> Facts:
    engine = _core.engine(device)
    return {"backend": engine.backend, "name": engine.device, "reason": clean(engine.reason)}


def probes(device: str) -> Facts:
    """What is known of an open device alone, as the kernels that it chooses tell it; None where nothing asks.

    Kernels state the features that they need. The last constant of a conversion is the answer of the other probe.
    """
    engine = _core.engine(device)
    if engine.backend == "cpu":
        return {}
    x, bounds = engine.upload(np.zeros((64, 64), np.float16)), engine.upload(np.array([0, 64], np.int32))
    given = {"heads": 1, "kv_heads": 1, "head_dim": 64, "scale": 0.125, "causal": True}
    engine.call("attention", [x, x, x, bounds, bounds], given).numpy()
    engine.call("cast", [engine.upload(np.zeros((4, 4), np.float32))], {"to": "float16"}).numpy()
    ran = {name: constants for name, constants, _ in _core.dispatched()}
    features = next(row["features"] for row in grilly.info()["devices"] if row["name"] == engine.device)
    used = {need for name, needs, _ in _core.built_variants() if name in ran for need in needs}
    in_lanes = "matrix_rows_in_lanes" in used if any(name.startswith("coopmat_f16") for name in features) else None
    return {"matrix_rows_in_lanes": in_lanes, "packs_to_nearest": bool(ran["cast"][-1]) if "cast" in ran else None}


def _called(device: str, row: Row, numerics: str | None = None) -> list[Array]:
    """All results of a row."""
    given = [np.asarray(operand, order="C") for operand in row.operands()]
    if row.dtype == "bfloat16":
        graph = Graph()
        inputs = [graph.input(f"x{place}", value.shape) for place, value in enumerate(given)]
        narrow = [graph.call("cast", value, to="bfloat16") for value in inputs]
        y = graph.call("cast", graph.call(row.operation, *narrow, **row.attributes), to="float32")
        return [result.numpy() for result in graph.program([y], device).run(*given)]
    engine = _core.engine(device)
    operands = [engine.upload(value) for value in given]
    return [y.numpy() for y in engine.call_all(row.operation, operands, row.attributes, None, numerics)]


def check(row: Row, device: str) -> Facts:
    """A row on the device beside float64: what ran it, with which kernels, and how far it is off."""
    _core.engine(device)  # opened before anything is counted: a device is probed by dispatches
    before, counted = _counts(), _core.stats()
    found = _called(device, row)
    kernels = [name for name, count in _counts().items() if count > before.get(name, 0)]
    ran = [("vulkan", "dispatches"), ("cpu", "ops_cpu")]
    ran_on = [place for place, name in ran if _core.stats()[name] > counted[name]]
    expected = row.expected()
    return {"ran_on": " and ".join(ran_on), "kernels": kernels} | judged(found, expected, row.allowed(expected))


def _counts() -> dict[str, int]:
    found: dict[str, int] = {}
    for name, _, count in _core.dispatched():
        found[name] = found.get(name, 0) + count
    return found


def same_bits(row: Row, device: str) -> Facts:
    """The SHA-256 of a row's results where numbers are the same everywhere, here and on the CPU."""
    here, cpu = (_hash(_called(place, row, EVERYWHERE)) for place in (device, "cpu"))
    return {"verdict": "right" if here == cpu else "wrong", "sha256": here, "sha256_cpu": cpu}


def _hash(results: list[Array]) -> str:
    found = hashlib.sha256()
    for result in results:
        found.update(np.ascontiguousarray(result).tobytes())
    return found.hexdigest()


#: Rows whose bits are compared.
SAME_BITS = (
    "linear-residual-127x129x129", "matmul-NN-65x127x128", "attention-causal-31x32x33-4x1x64", "attention-hidden-bias",
    "softmax-3x1025", "layer_norm-3x1025", "rms_norm-3x1025", "activation-gelu_erf-257", "reduce-mean-7x129x65-1",
    "pool-all", "rope-1x33x2x64-shared", "quantize_rows-3x257", "quantized_linear-ternary-tensor-17x80x36",
)  # fmt: skip

#: By part, in their order: the rows by name, each a task that a device is given.
PARTS: dict[str, dict[str, Task]] = {
    "device": {"info": info, "opened": opened, "probes": probes},
    "timings": {name: partial(timings.measured, task) for name, task in timings.TASKS.items()},
    "same_bits": {row.label: partial(same_bits, row) for row in ROWS if row.label in SAME_BITS},
    "checks": {row.label: partial(check, row) for row in ROWS},
}


def row_of(task: Task, device: str) -> Facts:
    """What a task finds, or why it fails, as `failed`; what is refused by name, as `refused`.

    Example:
        >>> from grilly.report.parts import PARTS, row_of
        >>> row_of(PARTS["checks"]["softmax-3x1025"], "cpu")["verdict"]
        'right'
        >>> row_of(PARTS["checks"]["softmax-3x1025"], "cpu:7")["failed"].split(":")[0]
        'InvalidArgumentError'
    """
    try:
        return task(device)
    except UnsupportedError as error:
        return {"refused": clean(str(error))}
    except Exception as error:
        return {"failed": clean(f"{type(error).__name__}: {error}")}


def main() -> None:
    """Writes the rows of a part, its name, the device and the first row's place being the arguments."""
    part, device, start = sys.argv[1:]
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as lines:
        os.dup2(2, 1)  # what a driver prints is no row
        for task in list(PARTS[part].values())[int(start) :]:
            print(json.dumps(row_of(task, device)), file=lines, flush=True)


if __name__ == "__main__":
    main()
