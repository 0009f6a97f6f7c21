"""Linear layers and matrix products."""

from __future__ import annotations

import numpy as np

from cases.activations import of_activation
from cases.bounds import TINY, U, bounded, summed
from cases.functions import activate
from cases.reference import Attributes, Operands, evaluate, reference
from cases.table import OpCase, shape_name


@reference
def linear(operands: Operands, attributes: Attributes) -> np.ndarray:
    rest = operands[2:]
    y = operands[0] @ operands[1].T
    if attributes.get("bias", False):
        y = y + rest.pop(0)
    if attributes.get("activation"):
        y = activate(y, attributes["activation"])
    return y + rest.pop(0) if attributes.get("residual", "none") == "added" else y


@reference
def matmul(operands: Operands, attributes: Attributes) -> np.ndarray:
    a, b = operands
    a = np.swapaxes(a, -1, -2) if attributes.get("transpose_a", False) else a
    b = np.swapaxes(b, -1, -2) if attributes.get("transpose_b", False) else b
    return attributes.get("scale", 1.0) * (a @ b)


@bounded
def linear_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    plain = {**attributes, "activation": None, "residual": "none"}
    count = 3 if attributes.get("bias") else 2
    magnitude = evaluate("linear", [np.abs(value) for value in operands[:count]], plain)
    bound = summed(operands[0].shape[-1], magnitude)
    kind = attributes.get("activation")
    if kind:
        before = evaluate("linear", operands[:count], plain)
        bound = 1.2 * bound + of_activation(before, activate(before, kind), kind)
    if attributes.get("residual") == "added":
        bound = bound + 4 * U * (np.abs(y) + np.abs(operands[-1]))
    return bound + TINY


@bounded
def matmul_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    wide = {**attributes, "scale": abs(attributes.get("scale", 1.0))}
    terms = operands[0].shape[-2 if attributes.get("transpose_a") else -1]
    return summed(terms, evaluate("matmul", [np.abs(value) for value in operands], wide)) + TINY


# rows, columns of the result, terms
SIZES = (
    (1, 1, 1),
    (1, 33, 31),
    (3, 31, 32),
    (31, 32, 33),
    (32, 33, 63),
    (33, 63, 64),
    (63, 64, 65),
    (64, 65, 127),
    (65, 127, 128),
    (127, 129, 129),
    (129, 255, 16),
    (257, 17, 257),
    (2, 1025, 8),
    (5, 3, 1023),
    (0, 5, 7),
    (5, 0, 7),
    (5, 7, 0),
)
#: Of float16 on matrix cores: around their tiles, at every step along the terms.
MATRIX_SIZES = ((65, 40, 16), (193, 136, 48), (7, 64, 80), (200, 72, 192), (33, 264, 1056))
#: The same where the last step is not whole, and where rows start at multiples of 4, 2 elements or 1.
MATRIX_WIDTHS = ((33, 1000, 312), (9, 1018, 384), (7, 34, 1002), (65, 7, 1000), (9, 1001, 34), (3, 1, 18), (9, 12, 20))
FUSED = ("identity", "gelu_erf", "gelu_tanh", "relu", "silu", "tanh", "sigmoid", "quick_gelu")


def cases() -> list[OpCase]:
    found = []
    for m, n, k in SIZES:
        name = shape_name(m, n, k)
        found.append(OpCase("linear", name, lambda v, m=m, n=n, k=k: [v.plain(m, k), v.plain(n, k)]))
        found.append(
            OpCase(
                "linear",
                f"bias-{name}",
                lambda v, m=m, n=n, k=k: [v.plain(m, k), v.plain(n, k), v.plain(n)],
                {"bias": True},
            )
        )
        found.append(
            OpCase(
                "linear",
                f"residual-{name}",
                lambda v, m=m, n=n, k=k: [v.plain(m, k), v.plain(n, k), v.plain(n), v.plain(m, n)],
                {"bias": True, "residual": "added"},
            )
        )
        for first in (False, True):
            for second in (False, True):
                a, b = (k, m) if first else (m, k), (n, k) if second else (k, n)
                given = {"transpose_a": first, "transpose_b": second}
                label = f"{'T' if first else 'N'}{'T' if second else 'N'}-{name}"
                found.append(OpCase("matmul", label, lambda v, a=a, b=b: [v.plain(*a), v.plain(*b)], given))
    for m, n, k in MATRIX_SIZES + MATRIX_WIDTHS:
        operands = lambda v, m=m, n=n, k=k: [v.plain(m, k), v.plain(n, k) / 8, v.plain(n), v.plain(m, n)]  # noqa: E731
        given = {"bias": True, "residual": "added", "activation": "gelu_erf"}
        found += [
            OpCase("linear", f"half-{shape_name(m, n, k)}", operands, given, "float16"),
            OpCase("linear", f"half-plain-{shape_name(m, n, k)}", lambda v, of=operands: of(v)[:2], dtype="float16"),
        ]
    for kind in FUSED:
        found.append(
            OpCase(
                "linear",
                f"{kind}",
                lambda v: [v.plain(33, 65), v.plain(63, 65) / 8, v.plain(63)],
                {"bias": True, "activation": kind},
            )
        )
    not_finite = lambda v: [v.not_finite(5, 33), v.plain(7, 33)]  # noqa: E731
    first, second, wide = {"transpose_a": True}, {"transpose_b": True}, {"wide": True}
    return found + [
        OpCase("linear", "one-vector", lambda v: [v.plain(65), v.plain(33, 65), v.plain(33)], {"bias": True}),
        OpCase("linear", "four-axes", lambda v: [v.plain(2, 3, 5, 65), v.plain(33, 65)]),
        OpCase("linear", "outliers", lambda v: [v.outliers(33, 129), v.plain(65, 129)]),
        OpCase("linear", "not-finite", not_finite),
        OpCase("linear", "half", lambda v: [v.plain(33, 65), v.plain(31, 65), v.plain(31)], {"bias": True}, "float16"),
        OpCase(
            "linear", "half-weight", lambda v: [v.plain(33, 65).astype(np.float32), v.plain(31, 65)], dtype="float16"
        ),
        OpCase("matmul", "scale", lambda v: [v.plain(5, 33), v.plain(33, 7)], {"scale": 0.125}),
        OpCase("matmul", "batch", lambda v: [v.plain(2, 3, 17, 33), v.plain(2, 3, 33, 15)]),
        # Cut in eight, and not cut.
        OpCase("matmul", "long-TN", lambda v: [v.plain(4608, 33), v.plain(4608, 52)], {"transpose_a": True}),
        OpCase("matmul", "longer-TN", lambda v: [v.plain(4609, 33), v.plain(4609, 52)], {"transpose_a": True}),
        OpCase("matmul", "batch-TN", lambda v: [v.plain(3, 33, 17), v.plain(3, 33, 15)], {"transpose_a": True}),
        OpCase("matmul", "batch-NT", lambda v: [v.plain(3, 17, 33), v.plain(3, 15, 33)], {"transpose_b": True}),
        OpCase("matmul", "shared-b", lambda v: [v.plain(2, 3, 17, 33), v.plain(33, 15)]),
        OpCase("matmul", "empty-batch", lambda v: [v.plain(0, 3, 4), v.plain(0, 4, 5)]),
        OpCase("matmul", "outliers", lambda v: [v.outliers(33, 129), v.plain(129, 65)]),
        OpCase("matmul", "not-finite", lambda v: [v.not_finite(5, 33), v.plain(33, 7)]),
        OpCase("matmul", "half", lambda v: [v.plain(3, 33, 17), v.plain(3, 17, 9)], dtype="float16"),
        # On matrix cores: either layout of each operand, parts of tiles and of steps, batches, long sums.
        OpCase("matmul", "half-NN", lambda v: [v.plain(3, 200, 72), v.plain(3, 72, 136)], dtype="float16"),
        OpCase("matmul", "half-TT", lambda v: [v.plain(40, 72), v.plain(136, 40)], first | second, "float16"),
        OpCase("matmul", "half-NT", lambda v: [v.plain(65, 1056), v.plain(200, 1056)], second, "float16"),
        OpCase("matmul", "half-odd-NN", lambda v: [v.plain(2, 33, 34), v.plain(2, 34, 7)], dtype="float16"),
        OpCase("matmul", "half-even-NT", lambda v: [v.plain(33, 1002), v.plain(34, 1002)], second, "float16"),
        OpCase("matmul", "half-even-TN", lambda v: [v.plain(50, 38), v.plain(50, 18)], first, "float16"),
        OpCase("matmul", "half-wide-NN", lambda v: [v.plain(33, 64), v.plain(64, 264)], wide, "float16"),
        OpCase("matmul", "half-long-TN", lambda v: [v.plain(4608, 40), v.plain(4608, 24)], first | wide, "float16"),
    ]
