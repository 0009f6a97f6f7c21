"""Edges that the families' own rows leave out: what registers do not hold, hostile values in any operand, blocks."""

from collections.abc import Callable

import numpy as np

from cases.attending import offsets
from cases.gathering import MODES, sorted_by_id
from cases.rows import weights
from cases.softmaxes import loss_operands, probabilities
from cases.table import OpCase, Values, shape_name


def cases() -> list[OpCase]:
    return long() + hostile() + elementwise() + products() + tables() + texts() + hidden_keys()


def long() -> list[OpCase]:
    """Rows that 256 invocations share, and rows that their registers do not hold."""
    found = []
    for width in (2048, 8200):
        name = f"2x{width}"

        def of(rows: int, vectors: int = 0, w: int = width) -> Callable[[Values], list[np.ndarray]]:
            return lambda v: [v.plain(2, w) for _ in range(rows)] + [v.plain(w) for _ in range(vectors)]

        found += [
            OpCase("softmax", name, of(1)),
            OpCase("softmax", f"keep-{name}", lambda v, w=width: [v.plain(2, w), v.bits(2, w)]),
            OpCase("softmax_backward", name, lambda v, w=width: [v.plain(2, w), probabilities(v, 2, w)]),
            OpCase("layer_norm", name, of(1, 2)),
            OpCase("layer_norm_backward", name, of(2, 1)),
            OpCase("rms_norm", name, of(1, 1)),
            OpCase("rms_norm_backward", name, of(2, 1)),
            OpCase("normalize", name, of(1)),
            OpCase("cross_entropy", name, lambda v, w=width: loss_operands(v, 2, w, True)),
            OpCase("cross_entropy_backward", name, lambda v, w=width: [v.plain(2), *loss_operands(v, 2, w, True)]),
        ]
    return found


def hostile() -> list[OpCase]:
    """Outliers, NaN and infinity in what is differentiated."""
    found = []
    for name, of in (("outliers", Values.outliers), ("not-finite", Values.not_finite)):
        norm = lambda v, of=of: [v.plain(5, 65), of(v, 5, 65), v.plain(65)]  # noqa: E731
        found += [
            OpCase("layer_norm_backward", name, norm),
            OpCase("rms_norm_backward", name, norm),
            OpCase("softmax_backward", name, lambda v, of=of: [v.plain(5, 65), of(v, 5, 65)]),
            OpCase("cross_entropy_backward", name, lambda v, of=of: [v.plain(5), of(v, 5, 33), v.ids(33, 5)]),
        ]
    for kind in ("sum", "mean", "max"):
        operands = lambda v: [v.not_finite(5, 65, 3), weights(v, 5, 65)]  # noqa: E731
        found.append(OpCase("reduce", f"weighted-{kind}-not-finite", operands, {"axis": 1, "kind": kind}))
    return found


def elementwise() -> list[OpCase]:
    """More elements than a workgroup takes."""
    found = []
    for shape in ((1, 4095), (2, 4097)):
        operands = lambda v, s=shape: [v.plain(*s)]  # noqa: E731
        found.append(OpCase("activation", f"silu-{shape_name(*shape)}", operands, {"kind": "silu"}))
    for a, b in (((1, 4097), (1, 4097)), ((205, 20), (20,))):
        name = f"add-{shape_name(*a)}-{shape_name(*b)}"
        found.append(OpCase("binary", name, lambda v, a=a, b=b: [v.plain(*a), v.plain(*b)], {"kind": "add"}))
    return found + [
        OpCase("dropout", "not-finite", lambda v: [v.not_finite(40, 104)], {"p": 0.3, "seed": 7, "offset": 5}),
        OpCase("dropout", "last-offset", lambda v: [v.plain(257)], {"p": 0.5, "seed": 7, "offset": 2**64 - 1}),
    ]


def products() -> list[OpCase]:
    """All that a product may end with at once; so many products that their tiles are the large ones."""
    given = {"bias": True, "activation": "gelu_erf", "residual": "added"}

    def operands(v: Values, x: np.ndarray, n: int) -> list[np.ndarray]:
        return [x, v.plain(n, x.shape[1]), v.plain(n), v.plain(x.shape[0], n)]

    return [
        OpCase("linear", "long", lambda v: operands(v, v.plain(5, 1536), 40), given),
        OpCase("linear", "all-outliers", lambda v: operands(v, v.outliers(33, 64), 65), given),
        OpCase("linear", "all-not-finite", lambda v: operands(v, v.not_finite(17, 64), 65), given),
        OpCase("linear", "half-outliers", lambda v: operands(v, v.outliers(33, 64), 68), given, "float16"),
        OpCase("linear", "half-not-finite", lambda v: operands(v, v.not_finite(17, 64), 68), given, "float16"),
        OpCase("matmul", "large-tiles", lambda v: [v.not_finite(128, 65, 5), v.plain(128, 5, 130)]),
    ]


def tables() -> list[OpCase]:
    """More tables than a dispatch adds; columns past a workgroup's."""

    def lookups(v: Values, count: int, width: int) -> list[np.ndarray]:
        return [x for rows in range(11, 11 + count) for x in (v.ids(rows, 9), v.plain(rows, width))]

    return [
        OpCase("embedding_sum", "seven", lambda v: lookups(v, 7, 65)),
        OpCase("embedding_sum", "half-quads", lambda v: lookups(v, 1, 64), dtype="float16"),
        OpCase("embedding_sum", "half-seven", lambda v: lookups(v, 7, 384), dtype="float16"),
        OpCase("embedding_backward", "40x4x1030", lambda v: [v.plain(40, 1030), *sorted_by_id(v.ids(4, 40), 4)]),
        OpCase("embedding_backward", "not-finite", lambda v: [v.not_finite(33, 64), *sorted_by_id(v.ids(7, 33), 7)]),
    ]


def texts() -> list[OpCase]:
    """Texts around a block of 32 tokens, of which some or all are skipped; columns around a workgroup's."""
    rest, given = [offsets(31, 32, 33, 1, 0, 70), np.int32([1, 32, 5, 0, 0, 40])], {"modes": list(MODES)}
    found = [OpCase("pool", f"blocks-{w}", lambda v, w=w: [v.plain(167, w), *rest], given) for w in (1, 63, 64, 384)]
    return found + [
        OpCase("pool", "outliers", lambda v: [v.outliers(167, 65), *rest], given),
        OpCase("pool", "not-finite", lambda v: [v.not_finite(167, 65), *rest], given),
        OpCase("pool", "half-quads", lambda v: [v.plain(167, 68), *rest], given, "float16"),
    ]


def hidden_keys() -> list[OpCase]:
    """Masks that hide all keys but one, or none; hostile values in queries and keys; columns that nothing reads."""
    found = []
    own, others = offsets(5, 200, 65, 0), offsets(5, 66, 200, 7)
    one = {"heads": 2, "kv_heads": 1, "head_dim": 16, "scale": 0.25}
    for name, mask, keys in (
        ("self", {"window": 1}, others),
        ("everything", {"window": 2**32 - 1, "global_tokens": 2**32 - 1}, others),
        ("shared", {"causal": True, "shared_by": 2}, offsets(130, 40)),
    ):
        operands = lambda v, k=keys: [v.plain(own[-1], 32), v.plain(k[-1], 16), v.plain(k[-1], 16), own, k]  # noqa: E731
        found.append(OpCase("attention", f"hidden-{name}", operands, {**one, **mask}))
        found.append(OpCase("attention", f"hidden-half-{name}", operands, {**one, **mask}, "float16"))
    whole = {**one, "kv_heads": 2, "k_column": 32, "v_column": 64}
    bounds = offsets(33, 1)
    for name, of in (("outliers", Values.outliers), ("not-finite", Values.not_finite)):
        for causal in (False, True):
            operands = lambda v, of=of: [of(v, 34, 96)] * 3 + [bounds, bounds]  # noqa: E731
            given = {**whole, "causal": causal}
            label = f"one-tensor-{name}{'-causal' if causal else ''}"
            found.append(OpCase("attention", label, operands, given))
            found.append(OpCase("attention", f"half-{label}", operands, given, "float16"))
    queries, keys = offsets(3, 70, 0, 5, 40), offsets(65, 9, 2, 0, 130)
    given = {"heads": 4, "kv_heads": 2, "head_dim": 20, "scale": 0.2, "k_column": 3}
    operands = lambda v: [v.plain(118, 80), v.plain(206, 43), v.plain(206, 40), queries, keys]  # noqa: E731
    return [*found, OpCase("attention", "cross-columns", operands, given)]
