"""Loading of checkpoints of a gigabyte: seconds until a model is ready, and anonymous memory of the process meanwhile.

`python benchmarks/loading.py [--device vulkan] [--shapes bert-large,qwen3-0.6b] [--rounds N] [--threads N]`

Random weights in the shapes of `random_model.py`, each load in a process of its own, with the files and the compiled
pipelines cached by a first one. The tokenizer's share is the time of a StaticEmbedding of eight columns with the same
tokenizer, on the CPU, in the same process. Exits with 1 where a gate is missed. `--types` measures families by stored
and wanted types (`loading_types.py`).
"""

import argparse
import json
import math
import os
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import loading_types
import measure
import numpy as np
import random_model
from models import safetensors_file

#: Files of less are not measured against the gates of memory.
LEAST_FILE = 10**9
#: Seconds for a gigabyte of weights, without the tokenizer; the GPU's is a goal.
SECONDS = {"vulkan": 1.0, "cpu": 3.0}
#: Anonymous memory: of the file on a GPU; of the weights in float32 on the CPU, where AMX's products hold three parts.
OF_FILE, OF_WEIGHTS, OF_WEIGHTS_AMX = 0.2, 1.1, 1.6

ONE = """
import json, sys, threading, time
import numpy, grilly

def anonymous():
    return next(int(row.split()[1]) * 1024 for row in open("/proc/self/status") if row.startswith("RssAnon:"))

folder, static, device, dtype, threads = sys.argv[1:]
start = time.perf_counter()
grilly.SentenceTransformer(static, device="cpu").close()
tokenizer = time.perf_counter() - start
before = peak = anonymous()
done = threading.Event()

def watch():
    global peak
    while not done.is_set():
        peak = max(peak, anonymous())
        time.sleep(0.002)

thread = threading.Thread(target=watch)
thread.start()
start = time.perf_counter()
model = grilly.VulkanSentenceTransformer(folder, device=device, dtype=dtype, num_threads=int(threads))
seconds = time.perf_counter() - start
done.set()
thread.join()
assert model.backend == device.split(":")[0], model.backend
model.encode("a text that shows that it runs")
print(json.dumps({"tokenizer": tokenizer, "seconds": seconds, "anonymous": peak - before,
                  "device": model.device_name, "simd": grilly.info()["cpu"]["simd"]}))
"""


def static_folder(folder: Path, target: Path, rows: int) -> Path:
    """A StaticEmbedding with the tokenizer of `folder`."""
    target.mkdir()
    text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    (target / "tokenizer.json").write_text(text, encoding="utf-8")
    tensors = {"embedding.weight": np.zeros((rows, 8), np.float32)}
    safetensors_file.write(target / "model.safetensors", tensors, "F32")
    module = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.StaticEmbedding"}
    (target / "modules.json").write_text(json.dumps([module]))
    return target


def one(folder: Path, static: Path, device: str, dtype: str, threads: int) -> dict:
    command = [sys.executable, "-c", ONE, str(folder), str(static), device, dtype, str(threads)]
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode != 0:
        raise SystemExit(finished.stderr)
    return json.loads(finished.stdout.splitlines()[-1])


def gate(name: str, value: float, most: float) -> dict:
    return {"gate": name, "need": f"<= {most}", "ok": value <= most, "value": value}


def elements(file: Path) -> int:
    with open(file, "rb") as opened:
        header = json.loads(opened.read(struct.unpack("<Q", opened.read(8))[0]))
    return sum(math.prod(row["shape"]) for name, row in header.items() if name != "__metadata__")


def measure_shape(folder: Path, static: Path, given: argparse.Namespace) -> dict:
    size = (folder / "model.safetensors").stat().st_size
    runs = [one(folder, static, given.device, given.dtype, given.threads) for _ in range(1 + given.rounds)][1:]
    seconds = statistics.median(run["seconds"] - run["tokenizer"] for run in runs)
    anonymous = max(run["anonymous"] for run in runs)
    kind = given.device.split(":")[0]
    rows = [gate("seconds per GB of the file, without the tokenizer", seconds / (size / 1e9), SECONDS[kind])]
    if size >= LEAST_FILE and kind == "vulkan":
        rows.append(gate("anonymous memory of the file", anonymous / size, OF_FILE))
    if size >= LEAST_FILE and kind == "cpu":
        most = OF_WEIGHTS_AMX if "amx" in runs[0]["simd"] else OF_WEIGHTS
        weights = 4 * elements(folder / "model.safetensors")
        rows.append(gate("anonymous memory of the weights in float32", anonymous / weights, most))
    return {
        "file_bytes": size,
        "dtype": given.dtype,
        "seconds": seconds,
        "tokenizer_seconds": statistics.median(run["tokenizer"] for run in runs),
        "anonymous_bytes": anonymous,
        "runs": runs,
        "gates": rows,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="vulkan")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--shapes", default="bert-large,qwen3-0.6b")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--types", action="store_true", help="families by stored and wanted types")
    parser.add_argument("--families", help="of --types; default: all")
    parser.add_argument("--old", help="of --types: the folder of an older build")
    parser.add_argument("--new", help="of --types: the folder of this one; default: what is installed")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="of --types: no family begins that would end later"
    )
    given = parser.parse_args()
    if given.types:
        return loading_types.measure_types(given)
    result: dict = {"machine": measure.machine(), "threads": given.threads, "models": {}}
    missed = 0
    for shape in given.shapes.split(","):
        with tempfile.TemporaryDirectory() as scratch:
            folder = random_model.write(shape, Path(scratch) / shape)
            rows = random_model.SHAPES[shape].get("vocab_size", random_model.VOCABULARY)
            static = static_folder(folder, Path(scratch) / "static", rows)
            found = measure_shape(folder, static, given)
        result["models"][shape] = found
        device = found["runs"][0]["device"]
        print(f"{shape}, {found['file_bytes'] / 1e9:.2f} GB, {given.dtype} on {device}")
        print(f"ready in {found['seconds']:.2f} s beyond the tokenizer's {found['tokenizer_seconds']:.2f} s")
        for row in found["gates"]:
            print(f"{'ok' if row['ok'] else 'MISSED':<8}{row['gate']:<52}{row['value']:>8.3f}   {row['need']}")
            missed += not row["ok"]
    print("written to", measure.save(f"loading {given.device} {given.dtype}", device, result))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
