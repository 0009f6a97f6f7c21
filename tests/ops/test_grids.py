"""More workgroups than 65,535 along an axis: rows, products, columns and texts, computed and in other languages."""

import math
from itertools import product

import numpy as np
import pytest
from cases import CASES
from cases.reference import REFERENCES
from conftest import LONG

import grilly
from grilly import errors, functional, kernels
from grilly.program import Graph

#: Rows of a lookup and of a product that need 65,536 workgroups of 4 and of 16.
IDS, ROWS, TEXTS = 4 * 65_535 + 1, 16 * 65_535 + 1, 65_536 + 100
#: Sizes beyond the limit with one row a workgroup, with tiles of 16 to 128 rows, and with eight of those.
SIZES = (70_000, 1_100_000, 9_000_000, 67_200_000)
#: What docs/guides/devices.md says is refused.
REFUSED = {"attention_output", "expert_linear", "max_sim", "max_sum", "pool", "pool_backward", "token_convolution"}
slow = pytest.mark.skipif(not LONG, reason="minutes on a software driver")


def numbers(*shape):
    """Small whole numbers, whose sums of products are exact."""
    return np.random.default_rng(sum(shape)).integers(-8, 9, shape).astype(np.float32)


def test_lookups(vulkan):
    table, ids = numbers(7, 3), np.arange(IDS, dtype=np.int32) % 7
    found = functional.embedding_lookup(grilly.to_vulkan(table), grilly.to_vulkan(ids))
    assert (np.asarray(found) == table[ids]).all()


def test_products_of_many_rows(vulkan):
    x, weight, bias = numbers(ROWS, 1), numbers(2, 1), numbers(2)
    assert (np.asarray(functional.linear(grilly.to_vulkan(x), weight, bias)) == x @ weight.T + bias).all()


def test_one_vector_of_many_texts(vulkan):
    x, offsets = numbers(TEXTS, 3), np.arange(TEXTS + 1, dtype=np.int32)
    graph = Graph()
    operands = [
        graph.input(*given) for given in (("x", ("T", 3)), ("offsets", ("B+1",), "int32"), ("first", ("B",), "int32"))
    ]
    program = graph.program([graph.call("pool", *operands, modes=["mean"])], "vulkan", {"T": TEXTS, "B": TEXTS})
    assert (program.run(x, offsets, np.zeros(TEXTS, np.int32))[0].numpy() == x).all()


@slow
def test_products_of_many_columns(vulkan):
    """A weight is then cut into slices."""
    left, weight = numbers(2, 1), numbers(65_535 * 256 + 5, 1)
    assert (np.asarray(functional.linear(grilly.to_vulkan(left), weight)) == left @ weight.T).all()


@slow
@pytest.mark.parametrize("shapes", [((64 * 65_535 + 7, 1), (1, 2)), ((2, 1), (1, 64 * 65_535 + 7))])
def test_products_of_two_matrices(vulkan, shapes):
    """A workgroup then has several tiles."""
    left, right = (numbers(*shape) for shape in shapes)
    assert (np.asarray(functional.matmul(grilly.to_vulkan(left), right)) == left @ right).all()


def test_attention_of_many_texts(vulkan):
    """In tiles of 16 queries, one of each text; the mean of the values up to each."""
    texts = 65_535 + 40
    tokens, offsets = 16 * texts, 16 * np.arange(texts + 1, dtype=np.int32)
    graph = Graph()
    q, k, v = (graph.input(name, ("T", 4)) for name in "qkv")
    bounds = graph.input("offsets", ("B+1",), "int32")
    sizes = {"heads": 1, "kv_heads": 1, "head_dim": 4, "scale": 0.5, "blocks": [16, 16]}
    y = graph.call("attention", q, k, v, bounds, bounds, causal=True, **sizes)
    program = graph.program([y], "vulkan", {"T": tokens, "B": texts})
    zeros, values = np.zeros((tokens, 4), np.float32), numbers(tokens, 4)
    found = program.run(zeros, zeros, values, offsets)[0].numpy()
    means = np.cumsum(values.reshape(texts, 16, 4), axis=1, dtype=np.float64) / np.arange(1, 17)[:, None]
    np.testing.assert_allclose(found.reshape(means.shape), means, rtol=0, atol=2e-6)


@slow
def test_sums_of_values_of_many_texts(vulkan):
    """The last step of attention with a mask, which has an axis of texts and is cut into slices."""
    weights, v = np.ones((TEXTS, 1, 1, 1), np.float32), numbers(TEXTS, 1, 1, 4)
    assert (np.asarray(functional.attention_output(grilly.to_vulkan(weights), v)) == v).all()


def enlarged(case):
    """Types and shapes of a row's operands, with each size in turn enlarged: wherever it occurs, and in one place."""
    operands = case.operands()
    types = ["int32" if x.dtype == np.uint32 else x.dtype.name for x in operands]
    shapes = [x.shape for x in operands]
    for size, (number, axis) in product(
        SIZES, [(n, axis) for n, shape in enumerate(shapes) for axis in range(len(shape))]
    ):
        alone = [list(shape) for shape in shapes]
        alone[number][axis] = size
        own = shapes[number][axis]
        for changed in (alone, [[size if n == own else n for n in shape] for shape in shapes]):
            if all(math.prod(shape) < 2**31 for shape in changed):
                yield list(zip(types, map(tuple, changed), strict=True))


def test_no_grid_of_any_operation_is_longer():
    """Of two rows of each, as a device with the least limits runs it and as every language has it."""
    long, refused = set(), set()
    for op in REFERENCES:
        own = [case for case in CASES if case.op == op and case.dtype == "float32" and "finite" not in case.name]
        own = sorted((case for case in own if all(x.size for x in case.operands())), key=lambda case: case.id)
        for row, operands in [(case, given) for case in (own[0], own[len(own) // 2]) for given in enlarged(case)]:
            try:
                interface = kernels.compile_op(op, operands, "spirv", **row.attributes).interface
            except errors.GrillyError as error:
                if "workgroups along axis" in str(error):
                    refused.add(op)
                continue
            grids = [dispatch["grid"] for dispatch in interface["dispatches"]]
            assert max(max(grid) for grid in grids) <= 65_535, (op, operands)
            if max(max(grid) for grid in grids) > 60_000:
                long.add(op)
    assert len(long) > 30 and refused <= REFUSED, (long, refused)


@pytest.mark.parametrize("language", ["wgsl", "msl", "hlsl", "cuda"])
@pytest.mark.parametrize(
    "name, operands",
    [
        ("embedding_sum", [("int32", (5_000_000,)), ("float32", (10, 4))]),
        ("linear", [("float32", (9_000_000, 4)), ("float32", (16, 4))]),
        ("matmul", [("float32", (9_000_000, 4)), ("float32", (4, 16))]),
        ("softmax", [("float32", (2_000_000, 8))]),
    ],
)
def test_exported_grids_are_within_the_limits(name, operands, language):
    compiled = kernels.compile_op(name, operands, language)
    grids = [dispatch["grid"] for dispatch in compiled.interface["dispatches"]]
    assert all(1 <= groups <= 65_535 for grid in grids for groups in grid), grids
    assert any(groups > 30_000 for grid in grids for groups in grid), grids
