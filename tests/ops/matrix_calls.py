"""Calls whose kernels multiply matrices, of every type of elements and form, with the kernels that must run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from cases import attending
from cases.reference import evaluate
from export_cases import rounded_to_bfloat16

import grilly
from grilly import _core
from grilly.profiling import Profile
from grilly.program import Graph

#: Rows, terms and columns: more terms than a step has, and rows and columns beyond whole tiles.
ROWS, DEPTH, COLUMNS = 72, 80, 88
#: Whether to make all calls. A software driver takes seconds to compile a kernel, minutes for the widest heads: `make
#: test-devices` runs each kernel, and such calls as differ most from the first.
LONG = "GRILLY_TEST_LONG" in os.environ
#: The same for 16 bits where the last step is not whole, and where rows start at multiples of 8, 4 or 2 elements or 1:
#: the first ones of all products.
WIDTHS = ((72, 1002, 34), (9, 1000, 7), (72, 34, 1001))
WIDTHS += ((65, 20, 12), (9, 312, 1000), (9, 384, 1018), (9, 18, 1)) if LONG else ()
OF_ALL = 4 if LONG else 1
#: Columns of heads.
HEADS = (25, 26, 72, *((40, 200, 224) if LONG else ()))
#: What else attention with terms by distance has, by the columns of its heads.
DISTANCES: dict[int, dict[str, Any]] = {24: {"distances": [24, 0], "causal": True}}
if LONG:
    DISTANCES |= {16: {"distances": [0, 16]}, 32: {"distances": [32, None], "scale": -0.25}}
    DISTANCES |= {28: {"distances": [None, 0], "scale": -0.25, "soft_cap": 1.5}}
#: Types of matrices, by the elements, and the shapes that kernels' names do not have.
TYPES = {"float32": "f16_f32", "float16": "f16_f32", "bfloat16": "bf16_f32", "int8": "s8_s32"}
USUAL = {"f16_f32": "16x16x16", "bf16_f32": "16x16x16", "s8_s32": "16x16x32"}
FLOATS = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class Call:
    """An operation, whose operands of float16 are bfloat16 where `dtype` says so."""

    name: str
    op: str
    operands: list[np.ndarray]
    attributes: dict[str, Any]
    dtype: str
    #: The kernels' names, with {} for the shape of their matrices.
    kernels: tuple[str, ...]
    #: What must be known of the matrices, for attention: which lane holds what, or that it is unknown.
    rows: str = ""

    @property
    def narrow(self) -> list[bool]:
        """Which operands are bfloat16."""
        return [self.dtype == "bfloat16" and value.dtype == np.float16 for value in self.operands]

    def rounded(self) -> list[np.ndarray]:
        """The operands, those of bfloat16, which NumPy has not, in float32."""
        pairs = zip(self.operands, self.narrow, strict=True)
        return [rounded_to_bfloat16(value.astype(np.float32)) if own else value for value, own in pairs]

    def run(self) -> tuple[list[np.ndarray], set[str]]:
        """The results, and the kernels that ran."""
        engine, given = _core.engine("vulkan"), [np.ascontiguousarray(value) for value in self.rounded()]
        if not any(self.narrow):
            uploaded = [engine.upload(value) for value in given]
            with grilly.profile() as taken:
                results = [result.numpy() for result in engine.call_all(self.op, uploaded, self.attributes)]
            return results, kernels(taken)
        counts, axes = self.counted(given)
        graph = Graph()
        inputs = [graph.input(f"x{i}", own, str(value.dtype)) for i, (own, value) in enumerate(zip(axes, given))]
        pairs = zip(inputs, self.narrow, strict=True)
        values = [graph.call("cast", value, to="bfloat16") if own else value for value, own in pairs]
        found = graph.call(self.op, *values, **self.attributes)
        wide = [graph.call("cast", y, to="float32") for y in (found if isinstance(found, tuple) else (found,))]
        program = graph.program(wide, "vulkan", counts)
        with grilly.profile() as taken:
            results = [result.numpy() for result in program.run(*given)]
        return results, kernels(taken)

    def counted(self, given: list[np.ndarray]) -> tuple[dict[str, int], list[tuple[int | str, ...]]]:
        """The axes of the operands, those of packed texts as what a batch counts, and their sizes."""
        if not self.op.startswith("attention"):
            return {}, [value.shape for value in given]
        rows, boundaries = len(given[0]), len(next(value for value in given if value.dtype.kind in "iu"))
        names = {rows: "T", boundaries: "B+1"}
        axes = [(names.get(len(value), len(value)), *value.shape[1:]) for value in given]
        return {"T": rows, "B": boundaries - 1}, axes


def kernels(taken: Profile) -> set[str]:
    """Their names; builds for the layout of one maker count as those for any."""
    split = ("attention-split", "attention-split-prepared")
    names = {f"{name}-rows-in-quads": name for name in split}
    return {names.get(name, name.replace("rows-in-quads", "rows-in-lanes")) for name in taken.by_kernel()}


def shapes() -> dict[str, str]:
    """For the types of matrices that the device multiplies, what the names of kernels have of the shape."""
    found = grilly.info()
    features = next(row["features"] for row in found["devices"] if row["name"] == found["choice"]["name"])
    first: dict[str, str] = {}
    for name in features:
        if name.startswith("coopmat_"):
            of, shape = name.removeprefix("coopmat_").rsplit("_", 1)
            first.setdefault(of, shape)
    return {of: "" if USUAL[of] == shape else f"-{shape}" for of, shape in first.items()}


def products() -> Iterator[Call]:
    for dtype in FLOATS:
        own, rng = "float16" if dtype == "bfloat16" else dtype, np.random.default_rng(0)
        x, w, up, residual, experts = (
            rng.standard_normal(shape).astype(own)
            for shape in ((ROWS, DEPTH), (COLUMNS, DEPTH), (COLUMNS, DEPTH), (ROWS, COLUMNS), (4, COLUMNS, DEPTH))
        )
        # A power of two: the quotients are exact.
        w, up, experts = (value / np.dtype(own).type(8) for value in (w, up, experts))
        gain, shift, bias = (rng.uniform(0.5, 1.5, n).astype(np.float32) for n in (DEPTH, DEPTH, COLUMNS))
        # Two of three experts for each row: the last has no rows.
        order = np.argsort(flat := np.argsort(rng.random((ROWS, 3)), axis=1)[:, :2].reshape(-1), kind="stable")
        starts = np.searchsorted(flat[order], np.arange(5)).astype(np.int32)
        biases = rng.standard_normal((4, COLUMNS)).astype(np.float32)
        placed = order.reshape(ROWS, 2).astype(np.int32)
        for name, op, operands, attributes in (
            ("", "linear", [x, w, bias, residual], {"bias": True, "activation": "gelu_erf", "residual": "added"}),
            ("", "matmul", [x, w], {"transpose_b": True}),
            ("-transposed", "matmul", [x.T, w.T], {"transpose_a": True}),
            ("", "gated_linear", [x, w, up], {"kind": "silu"}),
            ("", "layer_norm_linear", [x, gain, shift, w, bias], {"bias": True}),
            ("", "expert_linear", [x, experts, placed, starts, biases], {"bias": True, "activation": "gelu_erf"}),
        ):
            of = op.replace("_", "-")
            kernel = f"{of}-split{{}}" if dtype == "float32" else f"{of}-matrix{{}}-{dtype}"
            yield Call(f"{dtype}-{of}{name}", op, operands, attributes, dtype, (kernel,))


def widths() -> Iterator[Call]:
    """Some rows of both operands are NaN: what is beside a row in memory must not reach its sums."""
    for dtype, (place, (rows, depth, columns)) in product(FLOATS[1:], enumerate(WIDTHS)):
        rng = np.random.default_rng(4)

        def halves(*shape: int, rng: np.random.Generator = rng) -> np.ndarray:
            return rng.standard_normal(shape).astype(np.float16)

        x, w, up, residual = (halves(*shape) for shape in ((rows, depth), *[(columns, depth)] * 2, (rows, columns)))
        experts, gain, shift = halves(3, columns, depth), *(rng.uniform(0.5, 1.5, depth) for _ in range(2))
        w, up, experts = (value / np.float16(8) for value in (w, up, experts))
        x[1::3] = w[2::5] = up[3::5] = experts[:, 2::5] = np.nan
        gain, shift, bias = (value.astype(np.float32) for value in (gain, shift, rng.standard_normal(columns)))
        flat = np.argsort(rng.random((rows, 3)), axis=1)[:, :2].reshape(-1)
        order, starts = np.argsort(flat, kind="stable"), np.searchsorted(np.sort(flat), np.arange(4)).astype(np.int32)
        placed = order.reshape(rows, 2).astype(np.int32)
        calls = [
            ("", "linear", [x, w, bias, residual], {"bias": True, "activation": "gelu_erf", "residual": "added"}),
            ("-rows", "matmul", [x, np.ascontiguousarray(w.T)], {}),
            ("-transposed", "matmul", [x.T, w.T], {"transpose_a": True}),
            ("-batches", "matmul", [np.stack([x, 2 * x]), np.stack([w, 2 * w])], {"transpose_b": True}),
            ("-wide", "matmul", [x, w], {"transpose_b": True, "wide": True}),
            ("", "gated_linear", [x, w, up], {"kind": "silu"}),
            ("", "expert_linear", [x, experts, placed, starts], {"activation": "gelu_erf"}),
            ("", "layer_norm_linear", [x, gain, shift, w, bias], {"bias": True}),
        ]
        # A norm's sums are of four terms at a time.
        all_of = calls if depth % 4 == 0 else calls[:-1]
        for name, op, operands, attributes in all_of if place < OF_ALL else calls[:1]:
            of = op.replace("_", "-")
            name = f"{dtype}-{of}{name}-{rows}x{columns}x{depth}"
            yield Call(name, op, operands, attributes, dtype, (f"{of}-matrix{{}}-{dtype}",))


def integers() -> Iterator[Call]:
    for levels, per_byte, most in (("int8", 1, 255), ("ternary", 4, 2), ("binary", 8, 1)):
        rng = np.random.default_rng(1)
        q = rng.integers(-128, 128, (ROWS, DEPTH)).astype(np.int8)
        codes = rng.integers(0, most + 1, (COLUMNS, DEPTH // per_byte, per_byte))
        weight = (codes << (8 // per_byte * np.arange(per_byte))).sum(-1).astype(np.uint8)
        weight = weight.view(np.int8) if levels == "int8" else weight
        scale, weight_scale, bias = (rng.uniform(1, 2, n).astype(np.float32) for n in (ROWS, COLUMNS, COLUMNS))
        plain, given = {"levels": levels}, {"levels": levels, "scope": "row", "bias": True}
        yield Call(f"{levels}-sums", "integer_linear", [q, weight], plain, "int8", ("integer-linear-matrix{}",))
        operands = [q, scale, weight, weight_scale, bias]
        yield Call(f"{levels}-scaled", "quantized_linear", operands, given, "int8", ("quantized-linear-matrix{}",))
        for columns in (1, 34, 87) if LONG else (87,):
            some, own = weight[:columns], [q, scale, *(value[:columns] for value in operands[2:])]
            name = f"{levels}-{columns}"
            yield Call(f"{name}-sums", "integer_linear", [q, some], plain, "int8", ("integer-linear-matrix{}",))
            yield Call(f"{name}-scaled", "quantized_linear", own, given, "int8", ("quantized-linear-matrix{}",))


def attention() -> Iterator[Call]:
    texts = attending.offsets(5, 40, 33)
    for dtype in FLOATS:
        own = "float16" if dtype == "bfloat16" else dtype
        rng = np.random.default_rng(2)
        operands = [(rng.random((78, columns)) - 0.5).astype(own) for columns in (64, 32, 32)] + [texts, texts]
        for causal in (False, True):
            given = {"heads": 4, "kv_heads": 2, "head_dim": 16, "scale": 0.25, "causal": causal}
            name = f"{dtype}-causal" if causal else dtype
            form = "attention-split{}" if dtype == "float32" else f"attention-matrix-rows-in-lanes{{}}-{dtype}"
            yield Call(f"{name}-attention", "attention", operands, given, dtype, (form,), "rows-in-lanes")
            if dtype == "float16" and not causal:
                kernels = ("attention-matrix{}-float16",)
                yield Call(f"{name}-attention-shared", "attention", operands, given, dtype, kernels, "shared-rows")
            if dtype != "float32":
                y = evaluate("attention", operands, given)
                gradient = (rng.random(y.shape) - 0.5).astype(np.float16)
                both = [gradient, y.astype(np.float16), *operands]
                kernels = tuple(f"attention-backward-matrix{of}{{}}-{dtype}" for of in ("", "-keys"))
                yield Call(f"{name}-gradients", "attention_backward", both, given, dtype, kernels, "rows-in-lanes")


def heads() -> Iterator[Call]:
    """Heads that are no multiple of a matrix' columns, that start at any element, and that two subgroups share."""
    texts = attending.offsets(5, 40, 33)
    for dtype, width in product(FLOATS, HEADS):
        # Matrices of float32 have even heads; bfloat16 is cast in quads.
        if dtype == "float32" and width % 2 or dtype == "bfloat16" and width % 8:
            continue
        if not LONG and (width == 72) != (dtype == "float32"):
            continue
        own, rng = "float16" if dtype == "bfloat16" else dtype, np.random.default_rng(5)
        sizes = (2 * width, width, width)
        operands = [(rng.random((78, columns)) - 0.5).astype(own) for columns in sizes] + [texts, texts]
        given = {"heads": 2, "kv_heads": 1, "head_dim": width, "scale": width**-0.5, "causal": width % 4 == 0}
        forms = (f"attention-matrix-rows-in-lanes{{}}-{dtype}",)
        if dtype == "float32":
            forms = ("attention-split{}",) if width <= 64 else ("split-heads", "attention-split-prepared{}")
        yield Call(f"{dtype}-attention-heads-of-{width}", "attention", operands, given, dtype, forms, "rows-in-lanes")
        if dtype != "float32" and width % 8 == 0 and width <= 128:
            y = evaluate("attention", operands, given)
            both = [(rng.random(y.shape) - 0.5).astype(np.float16), y.astype(np.float16), *operands]
            forms = tuple(f"attention-backward-matrix{of}{{}}-{dtype}" for of in ("", "-keys"))
            name = f"{dtype}-gradients-of-{width}"
            yield Call(name, "attention_backward", both, given, dtype, forms, "rows-in-lanes")


def distances() -> Iterator[Call]:
    """Terms by distance: of queries and keys where keys are hidden, and of keys with a negative scale and a cap."""
    texts = attending.offsets(5, 40, 33)
    for dtype, (width, mask) in product(FLOATS[1:], DISTANCES.items()):
        rng = np.random.default_rng(6)
        sizes = (2 * width, width, width)
        operands = [(rng.random((78, columns)) - 0.5).astype(np.float16) for columns in sizes] + [texts, texts]
        operands += [(rng.random((61, 2 * width)) - 0.5).astype(np.float16)]
        given = {"heads": 2, "kv_heads": 1, "head_dim": width, "scale": 0.25, **mask}
        form = f"attention-matrix-distances-rows-in-lanes{{}}-{dtype}"
        yield Call(
            f"{dtype}-attention-distances-{width}", "attention", operands, given, dtype, (form,), "rows-in-lanes"
        )


def search() -> Iterator[Call]:
    rng = np.random.default_rng(3)
    queries, documents = attending.offsets(33, 5, 12), attending.offsets(3, 70, 16, 0, 65)
    operands = [(rng.random((starts[-1], 48)) - 0.5).astype(np.float16) for starts in (queries, documents)]
    yield Call("float16-max-sim", "max_sim", [*operands, queries, documents], {}, "float16", ("max-sim-matrix{}",))


CALLS = [*products(), *widths(), *integers(), *attention(), *heads(), *distances(), *search()]
