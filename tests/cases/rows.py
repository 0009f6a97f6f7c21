"""Norms and reductions: what works along an axis."""

from __future__ import annotations

import math

import numpy as np

from cases.bounds import BOUNDS, TINY, Bound, U, bounded, summed
from cases.reference import Attributes, Operands, evaluate, reference
from cases.table import HALF_WIDTHS, LONG_WIDTHS, OpCase, Values, rows_and_widths


@reference
def layer_norm(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, weight, bias = operands
    centred = x - x.mean(axis=-1, keepdims=True)
    return (
        centred / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + attributes.get("eps", 1e-5)) * weight + bias
    )


@reference
def layer_norm_backward(operands: Operands, attributes: Attributes) -> np.ndarray:
    g, x, weight = operands
    centred = x - x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + attributes.get("eps", 1e-5))
    unit, h = centred / deviation, g * weight
    return (h - h.mean(axis=-1, keepdims=True) - unit * (h * unit).mean(axis=-1, keepdims=True)) / deviation


@reference
def layer_norm_weight_backward(operands: Operands, attributes: Attributes) -> tuple[np.ndarray, ...]:
    g, x = (value.reshape(math.prod(value.shape[:-1]), value.shape[-1]) for value in operands)
    return (g * moments(x, attributes.get("eps", 1e-5), True)[0]).sum(axis=0), g.sum(axis=0)


@reference
def rms_norm(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, weight = operands
    return x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + attributes.get("eps", 1e-6)) * weight


@reference
def rms_norm_backward(operands: Operands, attributes: Attributes) -> np.ndarray:
    g, x, weight = operands
    root = np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + attributes.get("eps", 1e-6))
    unit, h = x / root, g * weight
    return (h - unit * (h * unit).mean(axis=-1, keepdims=True)) / root


@reference
def normalize(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, eps = operands[0], attributes.get("eps", 1e-12)
    norm = np.sqrt(np.square(x).sum(axis=-1, keepdims=True))
    return x / (norm + eps if attributes.get("floor", "max") == "add" else np.maximum(norm, eps))


@reference
def reduce(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, axis, kind = operands[0], attributes["axis"], attributes["kind"]
    if len(operands) == 1:
        functions = {"sum": np.sum, "mean": np.mean, "max": np.max, "deviation": np.std}
        return np.asarray(functions[kind](x, axis=axis))
    weights = operands[1].reshape(x.shape[: axis + 1] + (1,) * (x.ndim - axis - 1))
    if kind == "max":
        kept = np.where(weights > 0, x, -np.inf).max(axis=axis, initial=-np.inf)
        return np.where((weights > 0).any(axis=axis), kept, 0.0)
    total = (weights * x).sum(axis=axis)
    return total if kind == "sum" else total / np.maximum(weights.sum(axis=axis), 1e-9)


def moments(x: np.ndarray, eps: float, centred: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The normalised x, its divisor, and the error of its mean in units of the divisor."""
    n = max(x.shape[-1], 1)
    mean = x.sum(axis=-1, keepdims=True) / n if centred else np.zeros(x.shape[:-1] + (1,))
    deviation = np.sqrt(np.square(x - mean).sum(axis=-1, keepdims=True) / n + eps)
    shift = summed(n, np.abs(x).sum(axis=-1, keepdims=True) / n) / deviation if centred else np.zeros_like(deviation)
    return (x - mean) / deviation, deviation, shift


def norm(centred: bool, eps: float) -> Bound:
    def bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
        x, weight = operands[:2]
        bias = np.abs(operands[2]) if len(operands) > 2 else 0.0
        unit, deviation, shift = moments(x, attributes.get("eps", eps), centred)
        relative = summed(x.shape[-1], np.ones(1)) + shift
        return (
            shift * np.abs(weight)
            + relative * np.abs(unit * weight)
            + 2 * U * np.abs(x / deviation * weight)
            + 4 * U * bias
            + TINY
        )

    return bound


def norm_backward(centred: bool, eps: float) -> Bound:
    def bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
        g, x, weight = operands
        n = max(x.shape[-1], 1)
        unit, deviation, shift = moments(x, attributes.get("eps", eps), centred)
        h = np.abs(g * weight)
        parts = h + h.sum(axis=-1, keepdims=True) / n
        dots = (h * np.abs(unit)).sum(axis=-1, keepdims=True) / n
        relative = summed(n, np.ones(1)) + shift + 2 * U * np.abs(x / deviation).max(axis=-1, keepdims=True, initial=0)
        return 2 * relative * (parts + (1 + np.abs(unit)) * (dots + parts * shift)) / deviation + TINY

    return bound


@bounded
def layer_norm_weight_backward_bound(
    operands: Operands, attributes: Attributes, y: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, ...]:
    """Sums over rows, of normalised elements that are off as those of layer_norm are."""
    g, x = (value.reshape(math.prod(value.shape[:-1]), value.shape[-1]) for value in operands)
    unit, deviation, shift = moments(x, attributes.get("eps", 1e-5), True)
    off = shift + (summed(x.shape[-1], np.ones(1)) + shift) * np.abs(unit) + 2 * U * np.abs(x / deviation)
    by_weight = summed(len(x), np.abs(g * unit).sum(axis=0)) + (np.abs(g) * off).sum(axis=0)
    return by_weight + TINY, summed(len(x), np.abs(g).sum(axis=0)) + TINY


layer_norm_bound = BOUNDS["layer_norm"] = norm(True, 1e-5)
BOUNDS["layer_norm_backward"] = norm_backward(True, 1e-5)
rms_norm_bound = BOUNDS["rms_norm"] = norm(False, 1e-6)
BOUNDS["rms_norm_backward"] = norm_backward(False, 1e-6)


@bounded
def normalize_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    return summed(y.shape[-1], np.abs(y)) + TINY


@bounded
def reduce_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    x, axis, kind = operands[0], attributes["axis"], attributes["kind"]
    n = x.shape[axis]
    if kind == "max":
        return np.zeros_like(y)
    if kind == "deviation":  # the mean's error adds to every difference
        shift = summed(n, np.abs(x).sum(axis=axis) / max(n, 1))
        return summed(n, np.abs(y)) + shift + TINY
    wide = [np.abs(x)] + ([np.abs(operands[1])] if len(operands) > 1 else [])
    return summed(2 * n, evaluate("reduce", wide, attributes)) + TINY


def cases() -> list[OpCase]:
    return norms() + reductions()


def norms() -> list[OpCase]:
    found = []
    for rows, width in rows_and_widths():
        name = f"{rows}x{width}"
        layer = lambda v, r=rows, w=width: [v.plain(r, w), v.plain(w), v.plain(w)]  # noqa: E731
        found += [
            OpCase("layer_norm", name, layer),
            OpCase("layer_norm_backward", name, lambda v, r=rows, w=width: [v.plain(r, w), v.plain(r, w), v.plain(w)]),
            OpCase("rms_norm", name, lambda v, r=rows, w=width: [v.plain(r, w), v.plain(w)]),
            OpCase("rms_norm_backward", name, lambda v, r=rows, w=width: [v.plain(r, w), v.plain(r, w), v.plain(w)]),
            OpCase("normalize", name, lambda v, r=rows, w=width: [v.plain(r, w)]),
            OpCase(
                "normalize", f"add-{name}", lambda v, r=rows, w=width: [v.plain(r, w)], {"eps": 1e-8, "floor": "add"}
            ),
        ]
    for shape in ((0, 5), (1, 1), (63, 63), (64, 65), (65, 64), (2, 33, 130), (1025, 7), (3, 1025), (3, 0)):
        name = "x".join(map(str, shape))
        found.append(OpCase("layer_norm_weight_backward", name, lambda v, s=shape: [v.plain(*s), v.plain(*s)]))
    found += [
        OpCase("layer_norm_weight_backward", "eps", lambda v: [v.plain(9, 5), v.plain(9, 5)], {"eps": 0.5}),
        OpCase("layer_norm_weight_backward", "outliers", lambda v: [v.plain(70, 65), v.outliers(70, 65)]),
        OpCase("layer_norm_weight_backward", "not-finite", lambda v: [v.plain(70, 65), v.not_finite(70, 65)]),
        OpCase("layer_norm_weight_backward", "half", lambda v: [v.plain(5, 64), v.plain(5, 64)], dtype="float16"),
        OpCase(
            "layer_norm_backward", "half-68", lambda v: [v.plain(5, 68), v.plain(5, 68), v.plain(68)], dtype="float16"
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
            *(
                OpCase(op, f"long-{w}", lambda v, w=w, n=weights: [v.plain(2, w)] + [v.plain(w) for _ in range(n)])
                for w in LONG_WIDTHS
            ),
            OpCase(f"{op}_backward", "half", lambda v: [v.plain(4, 65), v.plain(4, 65), v.plain(65)], dtype="float16"),
            OpCase(f"{op}_backward", "eps", lambda v: [v.plain(4, 65), v.plain(4, 65), v.plain(65)], {"eps": 0.5}),
        ]
    return found + [
        OpCase("normalize", "zeros", lambda v: [np.zeros((2, 33), np.float32)], smooth=False),
        OpCase(
            "normalize",
            "add-zeros",
            lambda v: [np.zeros((2, 33), np.float32)],
            {"eps": 1e-8, "floor": "add"},
            smooth=False,
        ),
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
                            # A sum of weights may be 0, where the mean jumps.
                            smooth=kind != "mean",
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
                    smooth=kind != "mean",
                )
            )
    for axis, shape in ((0, (5,)), (1, (3, 65)), (1, (2, 33, 5)), (2, (2, 3, 7, 5))):
        name, of = "x".join(map(str, shape)), lambda v, s=shape, a=axis: [v.plain(*s), v.positive(*s[: a + 1])]
        found.append(OpCase("reduce", f"positive-mean-{name}-{axis}", of, {"axis": axis, "kind": "mean"}))
    return found


def weights(v: Values, *shape: int) -> np.ndarray:
    """Zeros, ones and halves."""
    return (v.rng.integers(0, 3, shape) / 2).astype(v.dtype)
