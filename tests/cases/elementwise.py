"""Activations, gated halves, arithmetic, dropout and conversion."""

import numpy as np

from cases.table import HALF_WIDTHS, OpCase, Values, rows_and_widths, shape_name

KINDS = (
    "identity",
    "gelu_erf",
    "gelu_tanh",
    "relu",
    "silu",
    "tanh",
    "sigmoid",
    "quick_gelu",
    "softplus",
    "gcu",
    "leaky_relu",
    "roswish",
    "sqrt",
    "exp",
    "log",
)
EXTRA = {"leaky_relu": {"a": 0.01}, "roswish": {"a": 0.7, "b": 1.3}}
SPECIAL = np.array([0.0, -0.0, 1e-30, -1e-30, 0.5, 1, -1, 9, -9, 20, -20, 60, -60, np.inf, -np.inf, np.nan], np.float32)
GATES = ("silu", "gelu_erf", "gelu_tanh", "sigmoid", "relu")


def domain(kind: str, x: np.ndarray) -> np.ndarray:
    """Where the function is defined and float32 can hold it."""
    return np.abs(x) + x.dtype.type(0.01) if kind in ("sqrt", "log") else x


def special(kind: str, dtype: str = "float32") -> np.ndarray:
    if kind == "log":
        return np.array([0.0, 0.5, 1, 2, 1e-30, np.finfo(dtype).max, np.inf, np.nan, -1], dtype)
    if kind == "sqrt":
        return np.array([0.0, 1e-30, 4, np.inf, np.nan, -1], dtype)
    return (SPECIAL[np.abs(SPECIAL) < np.inf] if kind in ("gcu", "roswish") else SPECIAL).astype(dtype)


def cases() -> list[OpCase]:
    found = []
    for kind in KINDS:
        given = {"kind": kind, **EXTRA.get(kind, {})}
        for shape in ((0,), (1,), (255,), (257,), (3, 1023), (2, 3, 5, 7), (5, 0, 3)):
            found.append(
                OpCase(
                    "activation",
                    f"{kind}-{shape_name(*shape)}",
                    lambda v, kind=kind, shape=shape: [domain(kind, v.plain(*shape))],
                    given,
                    gradient="activation_backward",
                )
            )
        found += [
            OpCase("activation", f"{kind}-special", lambda v, kind=kind: [special(kind)], given),
            OpCase("activation", f"{kind}-half", lambda v, kind=kind: [domain(kind, v.plain(3, 65))], given, "float16"),
            OpCase(
                "activation", f"{kind}-half-quads", lambda v, k=kind: [domain(k, v.plain(3, 1028))], given, "float16"
            ),
            OpCase(
                "activation",
                f"{kind}-half-special",
                lambda v, kind=kind: [special(kind, v.dtype)],
                given,
                "float16",
            ),
            OpCase(
                "activation_backward",
                f"{kind}-half",
                lambda v, kind=kind: [v.plain(3, 65), domain(kind, v.plain(3, 65))],
                given,
                "float16",
            ),
        ]
        for shape in ((0,), (1,), (257,), (3, 1023)):
            found.append(
                OpCase(
                    "activation_backward",
                    f"{kind}-{shape_name(*shape)}",
                    lambda v, kind=kind, shape=shape: [v.plain(*shape), domain(kind, v.plain(*shape))],
                    given,
                )
            )
    found += [
        OpCase("activation", "gelu_tanh-outliers", lambda v: [v.outliers(5, 129)], {"kind": "gelu_tanh"}),
        OpCase("activation", "silu-outliers", lambda v: [v.outliers(5, 129)], {"kind": "silu"}),
        OpCase(
            "activation_backward",
            "relu-at-0",
            lambda v: [np.ones(3, np.float32), np.array([-1, 0, 1], np.float32)],
            {"kind": "relu"},
        ),
    ]
    for width in HALF_WIDTHS:
        name = f"silu-half-{width}"
        found.append(OpCase("activation", name, lambda v, w=width: [v.plain(3, w)], {"kind": "silu"}, "float16"))
    return found + gates() + arithmetic() + others()


def gates() -> list[OpCase]:
    found = []
    for kind in GATES:
        for rows, width in ((3, 2), (1, 64), (3, 66), (2, 2050), (0, 8), (3, 0)):
            name, given = f"{kind}-{rows}x{width}", {"kind": kind}
            found += [
                OpCase("gated", name, lambda v, r=rows, w=width: [v.plain(r, w)], given, gradient="gated_backward"),
                OpCase("gated_backward", name, lambda v, r=rows, w=width: [v.plain(r, w // 2), v.plain(r, w)], given),
            ]
    for width in (*HALF_WIDTHS, 12):
        name = f"silu-half-{width}"
        found.append(OpCase("gated", name, lambda v, w=width: [v.plain(3, w)], {"kind": "silu"}, "float16"))
    return found + [
        OpCase("gated", "sigmoid-half-not-finite", lambda v: [v.not_finite(4, 64)], {"kind": "sigmoid"}, "float16"),
        OpCase("gated", "silu-half", lambda v: [v.plain(2, 3, 130)], {"kind": "silu"}, "float16"),
        OpCase("gated_backward", "silu-half", lambda v: [v.plain(3, 65), v.plain(3, 130)], {"kind": "silu"}, "float16"),
        OpCase("gated", "sigmoid-not-finite", lambda v: [v.not_finite(4, 66)], {"kind": "sigmoid"}),
    ]


BROADCAST = (
    ((), ()),
    ((5,), ()),
    ((3, 65), (3, 65)),
    ((3, 65), (65,)),
    ((3, 65), (3, 1)),
    ((3, 65), (1, 1)),
    ((2, 3, 4), (3, 1)),
    ((2, 3, 4, 5), (2, 1, 4, 1)),
    ((2, 3, 4, 5), (3, 1, 5)),
    ((0, 5), (5,)),
    ((1, 1023), (1023,)),
    ((257,), (257,)),
)
# In float16: four elements of either at a time, along up to three axes; then what is widened, as b repeats its columns.
HALF_BROADCAST = (
    ((4,), (4,)),
    ((3, 1000), (3, 1000)),
    ((3, 1028), (1028,)),
    ((2, 3, 8), (3, 8)),
    ((2, 3, 5, 8), (2, 1, 5, 8)),
    ((2, 3, 5, 8), (3, 1, 8)),
    ((3, 64), (3, 1)),
    ((3, 64), ()),
    ((2, 3, 4, 8), (2, 1, 4, 1)),
)


def arithmetic() -> list[OpCase]:
    found = []
    for kind in ("add", "subtract", "multiply", "divide"):
        second = Values.positive if kind == "divide" else Values.plain
        for dtype, half, shapes in (("float32", "", BROADCAST), ("float16", "half-", HALF_BROADCAST)):
            for a, b in shapes:
                found.append(
                    OpCase(
                        "binary",
                        f"{kind}-{half}{shape_name(*a)}-{shape_name(*b)}",
                        lambda v, a=a, b=b, second=second: [v.plain(*a), second(v, *b)],
                        {"kind": kind},
                        dtype,
                    )
                )
        found += [
            OpCase(
                "binary",
                f"{kind}-half-not-finite",
                lambda v: [v.not_finite(4, 8), v.not_finite(4, 8)[::-1].copy()],
                {"kind": kind},
                "float16",
            ),
            OpCase(
                "binary",
                f"{kind}-half-and-float32",
                lambda v, second=second: [v.plain(3, 64), second(v, 64).astype(np.float32)],
                {"kind": kind},
                "float16",
            ),
            OpCase(
                "binary",
                f"{kind}-not-finite",
                lambda v: [v.not_finite(4, 9), v.not_finite(4, 9)[::-1].copy()],
                {"kind": kind},
            ),
            OpCase(
                "binary",
                f"{kind}-half",
                lambda v, second=second: [v.plain(3, 65), second(v, 65)],
                {"kind": kind},
                "float16",
            ),
        ]
    zero = np.array([1, -1, 0, np.inf, np.nan], np.float32)
    return found + [OpCase("binary", "divide-by-0", lambda v: [zero, np.zeros(5, np.float32)], {"kind": "divide"})]


def others() -> list[OpCase]:
    found = []
    for p in (0.0, 0.1, 0.5, 0.9, 1.0):
        for shape in ((0,), (1,), (3,), (4,), (5,), (3, 65), (1023,)):
            found.append(
                OpCase("dropout", f"{p}-{shape_name(*shape)}", lambda v, s=shape: [v.plain(*s)], {"p": p, "seed": 7})
            )
    for width in HALF_WIDTHS:
        given = {"p": 0.3, "seed": 7, "offset": 2**32 - 3}
        found.append(OpCase("dropout", f"half-{width}", lambda v, w=width: [v.plain(3, w)], given, "float16"))
    found += [
        OpCase("dropout", "large-seed", lambda v: [v.plain(257)], {"p": 0.3, "seed": 2**63 + 12345}),
        OpCase("dropout", "offset", lambda v: [v.plain(257)], {"p": 0.3, "seed": 11, "offset": 5}),
        OpCase("dropout", "half", lambda v: [v.plain(33, 3)], {"p": 0.5, "seed": 3}, "float16"),
        OpCase(
            "cast",
            "down",
            lambda v: [np.r_[v.plain(257), [65504, 1e6, 1e-7, np.inf, np.nan]].astype(np.float32)],
            {"to": "float16"},
        ),
        OpCase("cast", "up", lambda v: [v.not_finite(3, 65)], {"to": "float32"}, "float16"),
        OpCase("cast", "same", lambda v: [v.plain(3, 5)], {"to": "float32"}),
    ]
    found += [
        OpCase("cast", f"{r}x{w}", lambda v, r=r, w=w: [v.plain(r, w)], {"to": "float16"}) for r, w in rows_and_widths()
    ]
    return found
