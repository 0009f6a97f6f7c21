"""Primitive operations on a GPU: bytes moved a second beside a copy of equal size and PyTorch in the same run.

`python benchmarks/ops.py [--op NAME]... [--device vulkan] [--rounds N] [--quick]`

Each row of `ROWS` is timed by wall time over many recorded repetitions with one wait at the end, alternating with a
copy on the device of as many bytes and with PyTorch on CUDA, after their results agree. The copy is the faster of ours
(`activation` of kind `identity`, which reads and writes every element once) and torch's. Without torch and CUDA only
the share of our copy is told. Goals for the rows that memory bounds: 85% of the copy's bytes a second, and 1.0 x
PyTorch. The shader of an architecture alternates with the generic one, whose bits
it has. A fused operation, in float32 and in float16, also alternates with its definition, step by step, in five rounds
at least: the goal where memory bounds it is 1.3 x, and the exit status is 1 where one is below 0.97 x.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

LARGE, SMALL = (65536, 1024), (4096, 384)
#: The kernel library's example: 8192 places of 4096 columns.
LIBRARY = (8192, 4096)
GOAL_COPY, GOAL_TORCH, GOAL_APART = 0.85, 1.0, 1.3
#: A fused operation is never slower than this beside its definition.
LEAST_APART, LEAST_ROUNDS = 0.97, 5
Operands = list[np.ndarray]
#: What is repeated, and what waits for it.
Rival = tuple[Callable[[], object], Callable[[], object]]


@dataclass(frozen=True)
class Row:
    """One operation at one size."""

    op: str
    name: str
    #: Makes the operands from a generator and the shape.
    make: Callable[[np.random.Generator, tuple[int, int]], Operands]
    attributes: dict[str, Any] = field(default_factory=dict)
    shapes: tuple[tuple[int, int], ...] = (LARGE, SMALL)
    #: What memory has to move: bytes of the operands and the result, unless a row says otherwise.
    moved: Callable[[Operands, np.ndarray], int] | None = None
    #: The same in torch, from torch tensors.
    torch: Callable[..., Any] | None = None
    #: Whether memory, not arithmetic, bounds it, and the goals hold.
    memory_bound: bool = True
    tolerance: float = 1e-4
    #: Whether it stands for several operations, which run beside it one by one.
    fused: bool = False
    #: Attributes with which the generic shader computes the same; for a row of an architecture's own shader.
    generic: dict[str, Any] | None = None
    #: Places of the operands that a row in float16 has so; vectors and tables stay float32.
    narrow: tuple[int, ...] = ()
    half: bool = False


def draw(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, np.float32)


def one(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    return [draw(rng, *shape)]


def two(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    return [draw(rng, *shape), draw(rng, *shape)]


def probabilities(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    return [rng.random(shape, np.float32), rng.random(shape, np.float32)]


def norm_operands(count: int, gradient: bool = False) -> Callable[[np.random.Generator, tuple[int, int]], Operands]:
    def make(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
        return [draw(rng, *shape) for _ in range(1 + gradient)] + [draw(rng, shape[1]) for _ in range(count)]

    return make


def halves(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    return [draw(rng, shape[0], 2 * shape[1])]


def halves_backward(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    return [draw(rng, *shape), draw(rng, shape[0], 2 * shape[1])]


def lookup(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    return [rng.integers(0, 30522, shape[0]).astype(np.int32), draw(rng, 30522, shape[1])]


def scatter(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    ids = rng.integers(0, 30522, shape[0])
    order = np.argsort(ids, kind="stable")
    starts = np.searchsorted(ids[order], np.arange(30523))
    return [draw(rng, *shape), order.astype(np.int32), starts.astype(np.int32)]


def texts(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    """Rows as texts of 128 tokens, of which a quarter is padding."""
    batch = shape[0] // 128
    mask = np.ones((batch, 128), np.float32)
    mask[:, 96:] = 0
    return [draw(rng, batch, 128, shape[1]), mask]


def packed(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    offsets = np.arange(0, shape[0] + 1, 128, dtype=np.int32)
    return [draw(rng, *shape), offsets, np.zeros(len(offsets) - 1, np.int32)]


def classes(gradient: bool) -> Callable[[np.random.Generator, tuple[int, int]], Operands]:
    def make(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
        first = [draw(rng, shape[0])] if gradient else []
        return [*first, draw(rng, *shape), rng.integers(0, shape[1], shape[0]).astype(np.int32)]

    return make


def layer(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    return [draw(rng, *shape), draw(rng, shape[1], shape[1]) / 32, draw(rng, shape[1])]


def matrices(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    return [draw(rng, *shape), draw(rng, shape[1], shape[1]) / 32]


def heads(parts: int) -> Callable[[np.random.Generator, tuple[int, int]], Operands]:
    """Texts of 512 places and heads of 64 columns."""

    def make(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
        axes = (shape[0] // 512, 512, shape[1] // 64, 64)
        return [draw(rng, *axes) for _ in range(parts)]

    return make


def scores(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    """As many scores as the shape has elements, 16 heads of 256 places."""
    batch = max(1, shape[0] * shape[1] // (16 * 256 * 256))
    return [draw(rng, batch, 16, 256, 256)]


def weighted(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    return [
        np.abs(scores(rng, shape)[0]) / 256,
        draw(rng, max(1, shape[0] * shape[1] // (16 * 256 * 256)), 256, 16, 64),
    ]


def causal(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    weights, values = weighted(rng, shape)
    return [np.tril(weights), values]


def grouped(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    """Four query heads to a head of values."""
    weights, values = weighted(rng, shape)
    return [weights, values[:, :, :4]]


def rotary(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    angles = rng.random((512, 32), np.float32)
    return [*heads(1)(rng, shape), np.cos(angles), np.sin(angles)]


def attended(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    offsets = np.arange(0, shape[0] + 1, 512, dtype=np.int32)
    return [draw(rng, *shape), draw(rng, *shape), draw(rng, *shape), offsets, offsets]


def attended_backward(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    return [*two(rng, shape), *attended(rng, shape)]


def residual(weights: int) -> Callable[[np.random.Generator, tuple[int, int]], Operands]:
    return lambda rng, shape: [*two(rng, shape), *(draw(rng, shape[1]) for _ in range(weights))]


def normal_rotary(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    x, cos, sin = rotary(rng, shape)
    return [x, draw(rng, shape[1]), cos, sin]


def wide(rng: np.random.Generator, columns: int) -> np.ndarray:
    """The matrix of a layer four times as wide as its input."""
    return draw(rng, 4 * columns, columns) / np.sqrt(np.float32(columns))


def gates(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    return [draw(rng, *shape), wide(rng, shape[1]), wide(rng, shape[1])]


def normal_layer(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    x, *norm = norm_operands(2)(rng, shape)
    return [x, *norm, wide(rng, shape[1]), draw(rng, 4 * shape[1])]


def functions() -> Any:
    import torch.nn.functional as F

    return F


FUSED = (
    Row("residual_layer_norm", "last axis", residual(2), narrow=(0, 1),
        fused=True, torch=lambda x, r, w, b: functions().layer_norm(x + r, w.shape, w, b)),
    Row("residual_rms_norm", "last axis", residual(1), narrow=(0, 1),
        fused=True, torch=lambda x, r, w: functions().rms_norm(x + r, w.shape, w, 1e-6)),
    Row("rms_norm_rope", "heads of 64", normal_rotary, fused=True, narrow=(0,)),
    Row("bias_gelu", "tanh", norm_operands(1), fused=True, narrow=(0,),
        torch=lambda x, b: functions().gelu(x + b, approximate="tanh")),
    Row("softmax_dropout", "p=0.1", one, {"p": 0.1, "seed": 1}, fused=True, narrow=(0,)),
    Row("gated_linear", "silu", gates, {"kind": "silu"}, fused=True, memory_bound=False, tolerance=1e-3,
        narrow=(0, 1, 2), torch=lambda x, g, u: functions().silu(x @ g.T) * (x @ u.T)),
    Row("gated_linear", "gelu", gates, {"kind": "gelu_tanh"}, fused=True, memory_bound=False, tolerance=1e-3,
        narrow=(0, 1, 2), torch=lambda x, g, u: functions().gelu(x @ g.T, approximate="tanh") * (x @ u.T)),
    Row("layer_norm_linear", "bias", normal_layer, {"bias": True}, fused=True, memory_bound=False, tolerance=1e-3,
        narrow=(0, 3),
        torch=lambda x, n, m, w, b: functions().linear(functions().layer_norm(x, n.shape, n, m), w, b)),
)  # fmt: skip


def adam(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    parameter, m, g = (rng.standard_normal(shape, np.float32) for _ in range(3))
    return [parameter, m, m * m, g, np.float32([1e-3, 0.1, 0.001])]


def half_of_a_table(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    rows = np.arange(0, shape[0], 2, dtype=np.int32)
    return [rng.standard_normal(size, np.float32) for size in (shape, (len(rows), shape[1]))] + [rows]


def bytes_and_matrix(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    return [rng.integers(-128, 128, size).astype(np.int8) for size in ((shape[0] // 16, shape[1]), (256, shape[1]))]


def bytes_and_scales(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    return [rng.integers(-128, 128, shape).astype(np.int8), rng.random(shape[0], np.float32) + 1]


def quantized_layer(rng: np.random.Generator, shape: tuple[int, int]) -> Operands:
    q, weight = bytes_and_matrix(rng, shape)
    return [q, rng.random(len(q), np.float32) + 1, weight, rng.random(len(weight), np.float32) + 1]


HEADS = {"heads": 6, "kv_heads": 6, "head_dim": 64, "scale": 0.125}
#: What runs on matrix cores.
MATRICES = (
    Row("linear", "square", layer, {"bias": True}, narrow=(0, 1),
        torch=lambda x, w, b: functions().linear(x, w, b), memory_bound=False),
    Row("matmul", "square", matrices, torch=lambda a, b: a @ b, memory_bound=False, narrow=(0, 1)),
    *(
        Row("attention", f"texts of 512{name}", attended, HEADS | given, memory_bound=False, narrow=(0, 1, 2),
            shapes=((4096, 384),))
        for name, given in (("", {}), (", causal", {"causal": True}))
    ),
)  # fmt: skip
ROWS = (
    Row("activation", "gelu", one, {"kind": "gelu_tanh"}, torch=lambda x: functions().gelu(x, approximate="tanh")),
    Row("activation", "gelu_erf", one, {"kind": "gelu_erf"}, torch=lambda x: functions().gelu(x)),
    Row("activation_backward", "gelu", two, {"kind": "gelu_tanh"}),
    Row("gated", "silu", halves, {"kind": "silu"},
        torch=lambda x: x.chunk(2, -1)[0] * functions().silu(x.chunk(2, -1)[1])),
    Row("gated_backward", "silu", halves_backward, {"kind": "silu"}),
    Row("binary", "add", two, {"kind": "add"}, torch=lambda a, b: a + b),
    Row("softmax", "last axis", one, torch=lambda x: functions().softmax(x, -1)),
    Row("softmax_backward", "last axis", two),
    Row("layer_norm", "last axis", norm_operands(2), torch=lambda x, w, b: functions().layer_norm(x, w.shape, w, b)),
    Row("layer_norm_backward", "input", norm_operands(1, gradient=True)),
    Row("rms_norm", "last axis", norm_operands(1), torch=lambda x, w: functions().rms_norm(x, w.shape, w, 1e-6)),
    Row("rms_norm_backward", "input", norm_operands(1, gradient=True)),
    Row("normalize", "last axis", one, {"eps": 1e-12}, torch=lambda x: functions().normalize(x, dim=-1)),
    Row("embedding_sum", "one table", lookup, torch=lambda ids, table: functions().embedding(ids, table),
        moved=lambda operands, y: operands[0].nbytes + 2 * y.nbytes),
    Row("embedding_backward", "one table", scatter),
    Row("reduce", "mean_pool", texts, {"axis": 1, "kind": "mean"},
        torch=lambda x, m: (x * m[..., None]).sum(1) / m.sum(1, keepdim=True)),
    Row("reduce", "sum of rows", one, {"axis": 1, "kind": "sum"}, torch=lambda x: x.sum(1), tolerance=1e-3),
    Row("pool", "mean", packed, {"modes": ["mean"]}),
    Row("dropout", "p=0.1", one, {"p": 0.1, "seed": 1}),
    Row("cast", "to float16", one, {"to": "float16"}, torch=lambda x: x.half()),
    Row("cross_entropy", "rows", classes(False), torch=lambda x, t: functions().cross_entropy(x, t, reduction="none")),
    Row("cross_entropy_backward", "rows", classes(True)),
    Row("binary_cross_entropy", "elements", probabilities,
        torch=lambda p, t: functions().binary_cross_entropy(p, t, reduction="none")),
    Row("attention_mask", "causal", scores),
    Row("adam", "one tensor", adam, moved=lambda operands, y: 7 * y.nbytes),
    Row("set_rows", "every other row", half_of_a_table, moved=lambda operands, y: 2 * operands[1].nbytes),
    Row("quantize_rows", "int8", one),
    Row("integer_linear", "int8", bytes_and_matrix, memory_bound=False),
    Row("quantized_linear", "int8", quantized_layer, memory_bound=False),
    Row("dequantize_rows", "int8", bytes_and_scales),
    Row("rope", "halves", rotary),
    *(replace(row, shapes=(LARGE, LIBRARY, SMALL)) for row in FUSED),
    *(
        replace(row, shapes=(LARGE, LIBRARY, SMALL), name=f"{row.name} float16", half=True, tolerance=2.0**-7)
        for row in FUSED
    ),
    *MATRICES,
    *(replace(row, name=f"{row.name} float16", half=True, tolerance=2.0**-7) for row in MATRICES),
    *(
        Row("attention_backward", f"texts of 512{name} float16", attended_backward, HEADS | given, memory_bound=False,
            narrow=(0, 1, 2, 3, 4), half=True, shapes=((4096, 384),))
        for name, given in (("", {}), (", causal", {"causal": True}))
    ),
    Row("attention_scores", "heads of 64", heads(2), {"scale": 0.125}, memory_bound=False, tolerance=1e-3,
        torch=lambda q, k: 0.125 * q.transpose(1, 2) @ k.transpose(1, 2).transpose(-1, -2)),
    Row("attention_output", "heads of 64", weighted, memory_bound=False,
        torch=lambda w, v: (w @ v.transpose(1, 2)).transpose(1, 2)),
    Row("attention_output", "gpt", causal, {"architecture": "gpt"}, memory_bound=False, generic={}),
    Row("attention_output", "t5", weighted, {"architecture": "t5"}, memory_bound=False, generic={}),
    Row("attention_output", "llama", grouped, {"architecture": "llama"}, memory_bound=False, generic={}),
)  # fmt: skip


def seconds(run: Callable[[], object], wait: Callable[[], object], repeats: int) -> float:
    """Of one repetition, `repeats` of them recorded before one wait."""
    wait()
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    wait()
    return (time.perf_counter() - start) / repeats


def alternating(rivals: dict[str, Rival], rounds: int, span: float, least: int) -> dict[str, list[float]]:
    """Seconds of a repetition of each, in turn; as many repetitions as take `span` seconds, at `least` so many."""
    repeats = {}
    for name, (run, wait) in rivals.items():
        seconds(run, wait, least)  # pipelines, caches, clocks
        repeats[name] = max(least, min(400, int(span / max(seconds(run, wait, least), 1e-6))))
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for number in range(rounds):
        # Each second round runs backwards: what came before, a hot card or an idle one, is then shared fairly.
        for name in list(rivals)[:: 1 if number % 2 == 0 else -1]:
            times[name].append(seconds(*rivals[name], repeats[name]))
    return times


def measure(row: Row, shape: tuple[int, int], engine: Any, torch: Any, rounds: int) -> dict[str, Any]:
    """The medians of alternating rounds."""
    operands = row.make(np.random.default_rng(0), shape)
    for place in row.narrow if row.half else ():
        operands[place] = operands[place].astype(np.float16)
    ours = [engine.upload(np.ascontiguousarray(x)) for x in operands]
    result = engine.call(row.op, ours, row.attributes).numpy()
    moved = (row.moved or (lambda xs, y: sum(x.nbytes for x in xs) + y.nbytes))(operands, result)
    half = np.zeros(moved // 8, np.float32)  # read once and written once: as many bytes as the row moves
    copied = engine.upload(half)
    rivals: dict[str, Rival] = {
        "grilly": (lambda: engine.call(row.op, ours, row.attributes), engine.synchronize),
        "copy": (lambda: engine.call("activation", [copied], {"kind": "identity"}), engine.synchronize),
    }
    if row.fused:
        apart = engine.call_apart(row.op, ours, row.attributes).numpy()
        difference = np.abs(apart.astype(np.float32) - result.astype(np.float32)).max()
        if not difference <= row.tolerance * max(1.0, float(np.abs(result).max())):
            raise SystemExit(f"{row.op} {row.name} {shape}: differs from its definition by {difference:.2e}")
        rivals["apart"] = (lambda: engine.call_apart(row.op, ours, row.attributes), engine.synchronize)
    if row.generic is not None:
        generic = engine.call(row.op, ours, row.generic).numpy()
        if generic.tobytes() != result.tobytes():
            raise SystemExit(f"{row.op} {row.name} {shape}: has other bits than the generic shader")
        rivals["generic"] = (lambda: engine.call(row.op, ours, row.generic), engine.synchronize)
    if torch is not None and row.torch is not None:
        theirs = [torch.from_numpy(x).cuda() for x in operands]
        theirs = [x.long() if x.dtype == torch.int32 else x.half() if row.half else x for x in theirs]
        difference = np.abs(row.torch(*theirs).float().cpu().numpy() - result.astype(np.float32)).max()
        if not difference <= row.tolerance * max(1.0, float(np.abs(result).max())):
            raise SystemExit(
                f"{row.op} {row.name} {shape}: differs from torch by {difference:.2e}; nothing is measured"
            )
        rivals["torch"] = (lambda: row.torch(*theirs), torch.cuda.synchronize)
    if torch is not None:
        source, target = torch.from_numpy(half).cuda(), torch.empty(half.size, device="cuda")
        rivals["torch_copy"] = (lambda: target.copy_(source), torch.cuda.synchronize)
    times = alternating(rivals, rounds, span=0.02, least=3)
    copies = [times[name] for name in ("copy", "torch_copy") if name in times]
    copy = min(copies, key=statistics.median)
    found: dict[str, Any] = {
        "op": row.op, "name": row.name, "shape": shape, "memory_bound": row.memory_bound, "bytes": moved,
        "microseconds": statistics.median(times["grilly"]) * 1e6,
        "gigabytes_a_second": moved / statistics.median(times["grilly"]) / 1e9,
        "of_copy": statistics.median(c / g for c, g in zip(copy, times["grilly"], strict=True)),
    }  # fmt: skip
    for rival in ("torch", "apart", "generic"):
        if rival in times:
            pairs = zip(times[rival], times["grilly"], strict=True)
            found[f"times_{rival}"] = statistics.median(t / g for t, g in pairs)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--op", action="append", default=[], help="only this operation")
    parser.add_argument("--device", default="vulkan")
    parser.add_argument("--rounds", type=int, default=9, help=f"fused operations have {LEAST_ROUNDS} at least")
    parser.add_argument("--quick", action="store_true", help="two rounds at the small size: does it run?")
    given = parser.parse_args()
    import measure as machine

    from grilly import _core

    try:
        import torch

        torch = torch if torch.cuda.is_available() else None
    except ImportError:
        torch = None
    if torch is not None:
        torch.set_float32_matmul_precision("highest")
    engine = _core.engine(given.device)
    print(f"{engine.device} ({engine.backend}); torch: {torch.__version__ if torch is not None else 'none on CUDA'}")
    results, missed, failed = [], [], []
    for row in ROWS:
        if given.op and row.op not in given.op:
            continue
        for shape in row.shapes:
            if given.quick and shape == LARGE:
                continue
            rounds = max(given.rounds, LEAST_ROUNDS if row.fused else 1)
            found = measure(row, shape, engine, torch, 2 if given.quick else rounds)
            results.append(found)
            times = [key for key in found if key.startswith("times_")]
            rival = " ".join(f"{found[key]:5.2f} x {key.removeprefix('times_')}" for key in times)
            speed = f"{found['microseconds']:10.1f} us {found['gigabytes_a_second']:7.0f} GB/s"
            print(f"{row.op:20}{row.name:20}{shape!s:16}{speed} {found['of_copy']:7.1%} of copy {rival}", flush=True)
            goals = {"of_copy": GOAL_COPY, "times_torch": GOAL_TORCH, "times_apart": GOAL_APART}
            below = [goal for goal, least in goals.items() if row.memory_bound and found.get(goal, least) < least]
            if below:
                missed.append(f"{row.op} {row.name} {shape}: {', '.join(below)}")
            if found.get("times_apart", LEAST_APART) < LEAST_APART:
                failed.append(f"{row.op} {row.name} {shape}")
    facts = {"device": engine.device, "backend": engine.backend, "machine": machine.machine(), "rows": results}
    print(json.dumps({"goals missed": missed, f"below {LEAST_APART} of their definition": failed}, indent=1))
    print(machine.save("ops", engine.device, facts))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
