"""Fused operations."""

import numpy as np

from cases.attending import circle
from cases.products import MATRIX_SIZES, SIZES
from cases.table import OpCase, Values, rows_and_widths, shape_name

#: Texts, places, heads and columns of a head: around groups of four columns, and rows that no registers hold.
HEADS = ((1, 1, 1, 2), (2, 5, 3, 4), (1, 33, 2, 64), (2, 65, 1, 66), (1, 7, 12, 32), (2, 3, 16, 24), (1, 2, 65, 128))


def cases() -> list[OpCase]:
    return residuals() + biases() + softmaxes() + rotary() + gates() + products()


def residuals() -> list[OpCase]:
    found = []
    for op, weights in (("residual_layer_norm", 2), ("residual_rms_norm", 1)):
        of = lambda make, n=weights: lambda v: weighted(v, make(v), n)  # noqa: E731
        for rows, width in [*rows_and_widths(), (2, 8192), (2, 9001)]:
            name = f"{rows}x{width}"
            found.append(OpCase(op, name, of(lambda v, r=rows, w=width: [v.plain(r, w), v.plain(r, w)])))
        found += [
            OpCase(op, "outliers", of(lambda v: [v.outliers(5, 257), v.plain(5, 257)])),
            OpCase(op, "not-finite", of(lambda v: [v.plain(5, 65), v.not_finite(5, 65)])),
            OpCase(op, "far-from-0", of(lambda v: [v.plain(3, 129) + 100, v.plain(3, 129)])),
            OpCase(op, "eps", of(lambda v: [v.plain(2, 2, 33), v.plain(2, 2, 33)]), {"eps": 0.5}),
            OpCase(op, "half", of(lambda v: [v.plain(4, 64), v.plain(4, 64)]), dtype="float16"),
            OpCase(op, "half-odd", of(lambda v: [v.plain(4, 65), v.plain(4, 65)]), dtype="float16"),
            OpCase(op, "half-long", of(lambda v: [v.plain(2, 9000), v.plain(2, 9000)]), dtype="float16"),
        ]
    return found


def weighted(v: Values, rows: list[np.ndarray], weights: int) -> list[np.ndarray]:
    return rows + [v.plain(rows[0].shape[-1]) for _ in range(weights)]


def biases() -> list[OpCase]:
    found = []
    for approximate in ("none", "tanh"):
        given = {"approximate": approximate}
        for rows, width in [*rows_and_widths(), (5, 1), (3, 0)]:
            name = f"{approximate}-{rows}x{width}"
            found.append(OpCase("bias_gelu", name, lambda v, r=rows, w=width: [v.plain(r, w), v.plain(w)], given))
        found += [
            OpCase("bias_gelu", f"{approximate}-outliers", lambda v: [v.outliers(5, 129), v.plain(129)], given),
            OpCase("bias_gelu", f"{approximate}-not-finite", lambda v: [v.not_finite(5, 64), v.plain(64)], given),
            OpCase("bias_gelu", f"{approximate}-half", lambda v: [v.plain(3, 64), v.plain(64)], given, "float16"),
            OpCase("bias_gelu", f"{approximate}-half-odd", lambda v: [v.plain(3, 65), v.plain(65)], given, "float16"),
        ]
    return found


def softmaxes() -> list[OpCase]:
    found, plain = [], {"p": 0.25, "seed": 7}
    for rows, width in [*rows_and_widths(), (2, 9001)]:
        name = f"{rows}x{width}"
        found += [
            OpCase("softmax_dropout", name, lambda v, r=rows, w=width: [v.plain(r, w)], plain),
            OpCase("softmax_dropout", f"keep-{name}", lambda v, r=rows, w=width: [v.plain(r, w), v.bits(r, w)], plain),
        ]
    for p in (0.0, 0.9, 1.0):
        found.append(OpCase("softmax_dropout", f"p-{p}", lambda v: [v.plain(5, 33)], {"p": p, "seed": 3}))
    masked = {**plain, "causal": True}
    return found + [
        OpCase("softmax_dropout", "causal", lambda v: [v.plain(2, 3, 9, 9)], masked),
        OpCase("softmax_dropout", "broadcast", lambda v: [v.plain(2, 3, 4, 65), v.bits(2, 1, 1, 65)], masked),
        OpCase("softmax_dropout", "no-key-left", lambda v: [v.plain(3, 65), np.zeros((3, 65), np.int32)], plain),
        OpCase("softmax_dropout", "not-finite", lambda v: [v.not_finite(5, 65)], plain),
        OpCase("softmax_dropout", "large-seed", lambda v: [v.plain(3, 65)], {"p": 0.3, "seed": 2**63 + 12345}),
        OpCase("softmax_dropout", "offset", lambda v: [v.plain(3, 64)], {"p": 0.3, "seed": 11, "offset": 2**32 - 3}),
        OpCase("softmax_dropout", "half", lambda v: [v.plain(4, 64)], plain, "float16"),
        OpCase("softmax_dropout", "half-odd", lambda v: [v.plain(4, 65)], plain, "float16"),
        OpCase("softmax_dropout", "half-keep", lambda v: [v.plain(4, 64), v.bits(4, 64)], plain, "float16"),
    ]


def gates() -> list[OpCase]:
    found = []
    for kind in ("silu", "gelu_tanh"):
        given = {"kind": kind}
        for m, n, k in SIZES:
            found.append(
                OpCase(
                    "gated_linear",
                    f"{kind}-{shape_name(m, n, k)}",
                    lambda v, m=m, n=n, k=k: [v.plain(m, k), v.plain(n, k) / 8, v.plain(n, k)],
                    given,
                )
            )
        for m, n, k in MATRIX_SIZES:
            operands = lambda v, m=m, n=n, k=k: [v.plain(m, k), v.plain(n, k) / 8, v.plain(n, k)]  # noqa: E731
            found.append(OpCase("gated_linear", f"{kind}-half-{shape_name(m, n, k)}", operands, given, "float16"))
        found += [
            OpCase("gated_linear", f"{kind}-vector", lambda v: [v.plain(65), v.plain(33, 65), v.plain(33, 65)], given),
            OpCase(
                "gated_linear", f"{kind}-axes", lambda v: [v.plain(2, 3, 64), v.plain(70, 64), v.plain(70, 64)], given
            ),
            OpCase(
                "gated_linear",
                f"{kind}-outliers",
                lambda v: [v.outliers(33, 129), v.plain(65, 129), v.plain(65, 129)],
                given,
            ),
            OpCase("gated_linear", f"{kind}-not-finite", lambda v: [v.not_finite(5, 33), *twice(v, 7, 33)], given),
            OpCase("gated_linear", f"{kind}-half", lambda v: [v.plain(33, 64), *twice(v, 68, 64)], given, "float16"),
            OpCase(
                "gated_linear", f"{kind}-half-odd", lambda v: [v.plain(33, 65), *twice(v, 31, 65)], given, "float16"
            ),
            OpCase(
                "gated_linear",
                f"{kind}-half-odd-result",
                lambda v: [v.plain(33, 64), *twice(v, 31, 64)],
                given,
                "float16",
            ),
        ]
    return found


def products() -> list[OpCase]:
    op, biased = "layer_norm_linear", {"bias": True}

    def operands(v: Values, x: np.ndarray, n: int, bias: bool = True) -> list[np.ndarray]:
        k = x.shape[-1]
        return [x, v.plain(k), v.plain(k), v.plain(n, k), *([v.plain(n)] if bias else [])]

    found = []
    for m, n, k in SIZES:
        name = shape_name(m, n, k)
        found += [
            OpCase(op, name, lambda v, m=m, n=n, k=k: operands(v, v.plain(m, k), n, bias=False)),
            OpCase(op, f"bias-{name}", lambda v, m=m, n=n, k=k: operands(v, v.plain(m, k), n), biased),
        ]
    for m, n, k in MATRIX_SIZES:
        of = lambda v, m=m, n=n, k=k: operands(v, v.plain(m, k), n)  # noqa: E731
        found.append(OpCase(op, f"half-{shape_name(m, n, k)}", of, biased, "float16"))
    for kind in ("identity", "gelu_erf", "gelu_tanh", "relu", "silu", "tanh", "sigmoid", "quick_gelu"):
        found.append(OpCase(op, kind, lambda v: operands(v, v.plain(33, 65), 63), {**biased, "activation": kind}))
    return found + [
        OpCase(op, "vector", lambda v: operands(v, v.plain(65), 33), biased),
        OpCase(op, "axes", lambda v: operands(v, v.plain(2, 3, 64), 70), biased),
        OpCase(op, "long", lambda v: operands(v, v.plain(2, 9001), 5), biased),
        OpCase(op, "many-rows", lambda v: operands(v, v.plain(259, 12), 3), biased),
        OpCase(op, "outliers", lambda v: operands(v, v.outliers(33, 129), 65), biased),
        OpCase(op, "not-finite", lambda v: operands(v, v.not_finite(5, 33), 7), biased),
        OpCase(op, "far-from-0", lambda v: operands(v, v.plain(3, 129) + 100, 17), biased),
        OpCase(op, "eps", lambda v: operands(v, v.plain(2, 33), 9), {**biased, "eps": 0.5}),
        OpCase(op, "half", lambda v: operands(v, v.plain(33, 64), 68), biased, "float16"),
        OpCase(op, "half-long", lambda v: operands(v, v.plain(3, 9000), 8), biased, "float16"),
        OpCase(op, "half-tiles", lambda v: operands(v, v.plain(193, 1056), 136), biased, "float16"),
        OpCase(op, "half-far-from-0", lambda v: operands(v, v.plain(65, 128) + 20, 72), biased, "float16"),
        OpCase(op, "half-outliers", lambda v: operands(v, v.outliers(65, 128), 72, bias=False), {}, "float16"),
        OpCase(op, "half-not-finite", lambda v: operands(v, v.not_finite(5, 64), 8), biased, "float16"),
        OpCase(
            op,
            "half-gelu",
            lambda v: operands(v, v.plain(70, 96), 72),
            {**biased, "activation": "gelu_erf", "eps": 0.5},
            "float16",
        ),
        OpCase(op, "half-odd", lambda v: operands(v, v.plain(33, 65), 31), biased, "float16"),
        OpCase(op, "half-odd-result", lambda v: operands(v, v.plain(33, 64), 31), biased, "float16"),
    ]


def twice(v: Values, *shape: int) -> list[np.ndarray]:
    return [v.plain(*shape), v.plain(*shape)]


def rotary() -> list[OpCase]:
    found = []
    for b, s, h, d in (*HEADS, (0, 5, 2, 4), (2, 0, 2, 4)):
        for each in (False, True):
            table = (b, s, d // 2) if each else (s, d // 2)
            name = f"{shape_name(b, s, h, d)}-{'each' if each else 'all'}"
            width = d if each else h * d
            found.append(
                OpCase(
                    "rms_norm_rope",
                    name,
                    lambda v, x=(b, s, h, d), w=width, t=table: [v.plain(*x), v.plain(w), *circle(v, t)],
                )
            )
    rest = lambda v: [v.plain(32), *circle(v, (5, 8))]  # noqa: E731
    return found + [
        OpCase("rms_norm_rope", "outliers", lambda v: [v.outliers(1, 5, 2, 16), *rest(v)]),
        OpCase("rms_norm_rope", "not-finite", lambda v: [v.not_finite(1, 5, 2, 16), *rest(v)]),
        OpCase("rms_norm_rope", "eps", lambda v: [v.plain(1, 5, 2, 16), *rest(v)], {"eps": 0.5}),
        OpCase("rms_norm_rope", "half", lambda v: [v.plain(3, 5, 2, 16), *rest(v)], dtype="float16"),
        OpCase(
            "rms_norm_rope",
            "half-odd",
            lambda v: [v.plain(1, 5, 2, 6), v.plain(12), *circle(v, (5, 3))],
            dtype="float16",
        ),
    ]
