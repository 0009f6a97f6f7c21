"""Softmax, norms, reductions and losses: what works along an axis."""

import numpy as np

from cases.table import HALF_WIDTHS, OpCase, Values, rows_and_widths


def cases() -> list[OpCase]:
    return softmaxes() + norms() + reductions() + losses()


def softmaxes() -> list[OpCase]:
    found = []
    for rows, width in rows_and_widths():
        name = f"{rows}x{width}"
        found += [
            OpCase("softmax", name, lambda v, r=rows, w=width: [v.plain(r, w)], gradient="softmax_backward"),
            OpCase("softmax", f"keep-{name}", lambda v, r=rows, w=width: [v.plain(r, w), v.bits(r, w)]),
            OpCase("softmax", f"causal-{name}", lambda v, r=rows, w=width: [v.plain(r, w)], {"causal": True}),
            OpCase("softmax_backward", name, lambda v, r=rows, w=width: [v.plain(r, w), probabilities(v, r, w)]),
        ]
    for width in HALF_WIDTHS:
        name, masked = f"half-{width}", lambda v, w=width: [v.plain(3, w), v.bits(3, w)]
        found += [
            OpCase("softmax", name, lambda v, w=width: [v.plain(3, w)], dtype="float16"),
            OpCase("softmax", f"keep-{name}", masked, dtype="float16"),
            OpCase("softmax", f"causal-{name}", masked, {"causal": True}, "float16"),
        ]
    for keep in ((2, 1, 1, 64), (3, 1, 64), (4, 1)):
        name = f"half-broadcast-{'x'.join(map(str, keep))}"
        found.append(OpCase("softmax", name, lambda v, k=keep: [v.plain(2, 3, 4, 64), v.bits(*k)], dtype="float16"))
    keeps = (
        ((2, 3, 4, 65), (2, 1, 1, 65)),
        ((2, 3, 4, 65), (4, 65)),
        ((2, 3, 4, 65), (3, 1, 65)),
        ((2, 1, 5, 7), (1,)),
    )
    for x, keep in keeps:
        name = f"broadcast-{'x'.join(map(str, keep))}"
        found.append(OpCase("softmax", name, lambda v, x=x, keep=keep: [v.plain(*x), v.bits(*keep)]))
        found.append(
            OpCase("softmax", f"causal-{name}", lambda v, x=x, k=keep: [v.plain(*x), v.bits(*k)], {"causal": True})
        )
    return found + [
        OpCase("softmax", "outliers", lambda v: [v.outliers(5, 129)]),
        OpCase("softmax", "far-below", lambda v: [v.plain(3, 33) - np.float32(1e4)]),
        OpCase("softmax", "not-finite", lambda v: [v.not_finite(5, 65)]),
        OpCase("softmax", "row-of-minus-infinity", lambda v: [np.full((2, 5), -np.inf, np.float32)]),
        OpCase("softmax", "no-key-left", lambda v: [v.plain(3, 65), np.zeros((3, 65), np.int32)]),
        OpCase(
            "softmax",
            "not-a-number-is-masked",
            lambda v: [np.array([[1, np.nan, 2]], np.float32), np.array([[1, 0, 1]], np.int32)],
        ),
        OpCase("softmax", "half", lambda v: [v.plain(4, 65)], dtype="float16"),
        OpCase("softmax", "half-not-finite", lambda v: [v.not_finite(5, 64)], dtype="float16"),
        OpCase("softmax", "half-outliers", lambda v: [v.outliers(5, 128)], dtype="float16"),
        OpCase("softmax", "width-0", lambda v: [v.plain(4, 0)]),
        OpCase("softmax_backward", "half", lambda v: [v.plain(4, 65), probabilities(v, 4, 65)], dtype="float16"),
    ]


def probabilities(v: Values, rows: int, width: int) -> np.ndarray:
    powers = np.exp(v.plain(rows, width).astype(np.float64))
    return (powers / powers.sum(axis=-1, keepdims=True)).astype(v.dtype)


def norms() -> list[OpCase]:
    found = []
    for rows, width in rows_and_widths():
        name = f"{rows}x{width}"
        layer = lambda v, r=rows, w=width: [v.plain(r, w), v.plain(w), v.plain(w)]  # noqa: E731
        found += [
            OpCase("layer_norm", name, layer, gradient="layer_norm_backward"),
            OpCase("layer_norm_backward", name, lambda v, r=rows, w=width: [v.plain(r, w), v.plain(r, w), v.plain(w)]),
            OpCase(
                "rms_norm", name, lambda v, r=rows, w=width: [v.plain(r, w), v.plain(w)], gradient="rms_norm_backward"
            ),
            OpCase("rms_norm_backward", name, lambda v, r=rows, w=width: [v.plain(r, w), v.plain(r, w), v.plain(w)]),
            OpCase("normalize", name, lambda v, r=rows, w=width: [v.plain(r, w)]),
            OpCase(
                "normalize", f"add-{name}", lambda v, r=rows, w=width: [v.plain(r, w)], {"eps": 1e-8, "floor": "add"}
            ),
        ]
    for op, weights in (("layer_norm", 2), ("rms_norm", 1)):
        for width in HALF_WIDTHS:
            of = lambda v, w=width, n=weights: [v.plain(3, w)] + [v.plain(w) for _ in range(n)]  # noqa: E731
            found.append(OpCase(op, f"half-{width}", of, dtype="float16"))
        found += [
            OpCase(
                op,
                "half-not-finite",
                lambda v, n=weights: [v.not_finite(5, 64)] + [v.plain(64) for _ in range(n)],
                dtype="float16",
            ),
            OpCase(op, "outliers", lambda v, n=weights: [v.outliers(5, 257)] + [v.plain(257) for _ in range(n)]),
            OpCase(op, "not-finite", lambda v, n=weights: [v.not_finite(5, 65)] + [v.plain(65) for _ in range(n)]),
            OpCase(op, "far-from-0", lambda v, n=weights: [v.plain(3, 129) + 100] + [v.plain(129) for _ in range(n)]),
            OpCase(op, "eps", lambda v, n=weights: [v.plain(2, 2, 33)] + [v.plain(33) for _ in range(n)], {"eps": 0.5}),
            OpCase(
                op, "half", lambda v, n=weights: [v.plain(4, 65)] + [v.plain(65) for _ in range(n)], dtype="float16"
            ),
            OpCase(f"{op}_backward", "half", lambda v: [v.plain(4, 65), v.plain(4, 65), v.plain(65)], dtype="float16"),
            OpCase(f"{op}_backward", "eps", lambda v: [v.plain(4, 65), v.plain(4, 65), v.plain(65)], {"eps": 0.5}),
        ]
    return found + [
        OpCase("normalize", "zeros", lambda v: [np.zeros((2, 33), np.float32)]),
        OpCase("normalize", "add-zeros", lambda v: [np.zeros((2, 33), np.float32)], {"eps": 1e-8, "floor": "add"}),
        OpCase("normalize", "outliers", lambda v: [v.outliers(5, 129)]),
        OpCase("normalize", "not-finite", lambda v: [v.not_finite(5, 129)]),
        OpCase("normalize", "half", lambda v: [v.plain(2, 3, 65)], dtype="float16"),
    ]


SHAPES = (
    (1,),
    (257,),
    (3, 65),
    (65, 3),
    (2, 33, 5),
    (3, 1, 1023),
    (2, 3, 4, 5),
    (1025, 2),
    (7, 129, 65),
    (0, 5),
    (5, 0, 3),
)


def reductions() -> list[OpCase]:
    found = []
    for shape in SHAPES:
        name = "x".join(map(str, shape))
        for axis in range(len(shape)):
            for kind in ("sum", "mean", "max", "deviation"):
                if shape[axis] == 0 and kind != "sum":
                    continue
                given = {"axis": axis, "kind": kind}
                found.append(OpCase("reduce", f"{kind}-{name}-{axis}", lambda v, s=shape: [v.plain(*s)], given))
                if kind != "deviation" and len(shape) > 1:
                    found.append(
                        OpCase(
                            "reduce",
                            f"weighted-{kind}-{name}-{axis}",
                            lambda v, s=shape, a=axis: [v.plain(*s), weights(v, *s[: a + 1])],
                            given,
                        )
                    )
    for kind in ("sum", "mean", "max", "deviation"):
        found += [
            OpCase("reduce", f"{kind}-not-finite", lambda v: [v.not_finite(5, 65)], {"axis": 1, "kind": kind}),
            OpCase("reduce", f"{kind}-outliers", lambda v: [v.outliers(33, 5)], {"axis": 0, "kind": kind}),
            OpCase("reduce", f"{kind}-half", lambda v: [v.plain(3, 65, 2)], {"axis": 1, "kind": kind}, "float16"),
        ]
        if kind != "deviation":
            found.append(
                OpCase(
                    "reduce",
                    f"no-weight-{kind}",
                    lambda v: [v.plain(3, 5, 7), np.zeros((3, 5), np.float32)],
                    {"axis": 1, "kind": kind},
                )
            )
    return found


def weights(v: Values, *shape: int) -> np.ndarray:
    """Zeros, ones and halves."""
    return (v.rng.integers(0, 3, shape) / 2).astype(v.dtype)


def losses() -> list[OpCase]:
    found = []
    for rows, width in rows_and_widths():
        name = f"{rows}x{width}"
        for smoothing in (0.0, 0.1):
            for weighted in (False, True):
                label = name + ("-smooth" if smoothing else "") + ("-weighted" if weighted else "")
                given = {"label_smoothing": smoothing} if smoothing else {}
                make = lambda v, r=rows, w=width, weighted=weighted: loss_operands(v, r, w, weighted)  # noqa: E731
                both = lambda v, r=rows, w=width, t=weighted: [v.plain(r), *loss_operands(v, r, w, t)]  # noqa: E731
                found += [
                    OpCase("cross_entropy", label, make, given),
                    OpCase("cross_entropy_backward", label, both, given),
                ]
    for shape in ((0,), (1,), (257,), (3, 1023)):
        found.append(
            OpCase(
                "binary_cross_entropy",
                "x".join(map(str, shape)),
                lambda v, s=shape: [v.rng.random(s).astype(np.float32), v.bits(*s).astype(np.float32)],
            )
        )
    edge = np.array([0, 0, 1, 1, 0.5, np.nan], np.float32), np.array([0, 1, 0, 1, 0.25, 1], np.float32)
    return found + [
        OpCase("cross_entropy", "outliers", lambda v: [v.outliers(5, 129), v.ids(129, 5)]),
        OpCase("cross_entropy", "not-finite", lambda v: [v.not_finite(5, 33), v.ids(33, 5)]),
        OpCase("cross_entropy", "half", lambda v: [v.plain(5, 33), v.ids(33, 5)], dtype="float16"),
        OpCase("cross_entropy", "two-axes", lambda v: [v.plain(2, 5, 33), v.ids(33, 2, 5)]),
        OpCase("cross_entropy_backward", "two-axes", lambda v: [v.plain(2, 5), v.plain(2, 5, 33), v.ids(33, 2, 5)]),
        OpCase("cross_entropy_backward", "half", lambda v: [v.plain(5), v.plain(5, 33), v.ids(33, 5)], dtype="float16"),
        OpCase("binary_cross_entropy", "edges", lambda v: list(edge)),
        OpCase("binary_cross_entropy", "half", lambda v: [np.float16([0.25, 0.5, 0.75]), np.float16([0, 1, 0.5])]),
    ]


def loss_operands(v: Values, rows: int, width: int, weighted: bool) -> list[np.ndarray]:
    """Logits, targets of which every third is ignored, and weights of the classes."""
    targets = v.ids(width, rows)
    targets[2::3] = -1
    return [v.plain(rows, width), targets] + ([v.positive(width)] if weighted else [])
