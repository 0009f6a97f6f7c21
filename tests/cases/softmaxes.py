"""Softmax and the losses of classes and of probabilities."""

from __future__ import annotations

import numpy as np

from cases.bounds import TINY, U, bounded, summed
from cases.reference import Attributes, Operands, reference
from cases.table import HALF_WIDTHS, LONG_WIDTHS, OpCase, Values, rows_and_widths

IGNORED = -1  # 0xFFFFFFFF as int32: a target that cross_entropy leaves out


@reference
def softmax(operands: Operands, attributes: Attributes) -> np.ndarray:
    x = operands[0]
    keep = np.ones(x.shape, dtype=bool)
    masked = len(operands) > 1 or attributes.get("causal", False) or attributes.get("masked", False)
    if attributes.get("masked", False):
        keep = keep & (x != -np.inf)
    if len(operands) > 1:
        keep = keep & (operands[1] != 0)
    if attributes.get("causal", False):
        keep = keep & np.tri(x.shape[-2], x.shape[-1], dtype=bool)
    if x.shape[-1] == 0:
        return x.copy()
    if not masked:
        powers = np.exp(x - x.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)
    largest = np.where(keep, x, -np.inf).max(axis=-1, keepdims=True)
    empty = ~keep.any(axis=-1, keepdims=True)
    powers = np.where(keep, np.exp(np.where(keep, x, 0) - np.where(empty, 0, largest)), 0)
    return powers / np.where(empty, 1, powers.sum(axis=-1, keepdims=True))


@reference
def softmax_backward(operands: Operands, attributes: Attributes) -> np.ndarray:
    g, y = operands
    return y * (g - (g * y).sum(axis=-1, keepdims=True))


def log_softmax(x: np.ndarray) -> np.ndarray:
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def target_weights(operands: Operands, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The class of every row (0 where ignored), its weight (0 where ignored), and a one-hot matrix."""
    targets = operands[1].astype(np.int64)
    ignored = targets == IGNORED
    clean = np.where(ignored, 0, targets)
    weight = operands[2] if len(operands) > 2 else np.ones(classes)
    return clean, np.where(ignored, 0.0, weight[clean]), np.eye(classes)[clean]


@reference
def cross_entropy(operands: Operands, attributes: Attributes) -> np.ndarray:
    """With label smoothing s the target is `(1 - s) onehot + s / C`, every class by its own weight, as torch has it."""
    logits, s = operands[0], attributes.get("label_smoothing", 0.0)
    classes = logits.shape[-1]
    clean, picked, _ = target_weights(operands, classes)
    weight = operands[2] if len(operands) > 2 else np.ones(classes)
    logs = log_softmax(logits)
    loss = -(1 - s) * picked * np.take_along_axis(logs, clean[..., None], axis=-1)[..., 0]
    kept = operands[1].astype(np.int64) != IGNORED
    loss = loss - (s / classes * (logs * weight).sum(axis=-1) if s else 0.0)
    return np.where(kept, loss, 0.0)


@reference
def cross_entropy_backward(operands: Operands, attributes: Attributes) -> np.ndarray:
    g, rest, s = operands[0], operands[1:], attributes.get("label_smoothing", 0.0)
    classes = rest[0].shape[-1]
    _, picked, onehot = target_weights(rest, classes)
    weight = rest[2] if len(rest) > 2 else np.ones(classes)
    kept = (rest[1].astype(np.int64) != IGNORED)[..., None]
    p = np.exp(log_softmax(rest[0]))
    gradient = (1 - s) * picked[..., None] * (p - onehot) + s / classes * (p * weight.sum() - weight)
    return np.where(kept, g[..., None] * gradient, 0.0)


@reference
def binary_cross_entropy(operands: Operands, attributes: Attributes) -> np.ndarray:
    p, t = operands
    return -(t * np.maximum(np.log(p), -100) + (1 - t) * np.maximum(np.log(1 - p), -100))


@bounded
def softmax_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """exp of a difference d that is itself off by a unit of d: 3 + 2 |d| + |d| units; then the sum and a division."""
    most = -np.log(np.maximum(y, 1e-45))  # at least |d|
    return y * (2 * U * (5 + 3 * most) + summed(y.shape[-1], np.ones(1))) + TINY


@bounded
def softmax_backward_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    g, p = operands
    products = np.abs(g * p).sum(axis=-1, keepdims=True)
    return np.abs(p) * (summed(g.shape[-1], products) + 4 * U * (np.abs(g) + products)) + 4 * U * np.abs(y) + TINY


@bounded
def cross_entropy_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    logits = operands[0]
    classes = logits.shape[-1]
    size = np.abs(logits).max(axis=-1, initial=0)
    _, picked, _ = target_weights(operands, classes)
    weights = np.abs(picked)
    if attributes.get("label_smoothing"):
        weights = weights + attributes["label_smoothing"] * (np.abs(operands[2]).max() if len(operands) > 2 else 1)
    return weights * (summed(classes, np.ones(1)) + 8 * U * (2 * size + np.log(max(classes, 1)))) + 2.0**-21 * weights


@bounded
def cross_entropy_backward_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    g, logits = operands[:2]
    classes = logits.shape[-1]
    _, picked, _ = target_weights(operands[1:], classes)
    factor = np.abs(picked) + attributes.get("label_smoothing", 0.0) * (
        np.abs(operands[3]).max() if len(operands) > 3 else 1
    )
    spread = np.minimum(np.abs(logits).max(axis=-1, initial=0), 50)
    return ((np.abs(g) * factor) * (summed(classes, np.ones(1)) + 2 * U * (8 + 8 * spread)))[..., None] + 0 * y + TINY


@bounded
def binary_cross_entropy_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """Two logarithms, the second of 1 - p; each 2^-21 absolute near 1."""
    return 2.0**-20 + 8 * U * np.abs(y)


def cases() -> list[OpCase]:
    return softmaxes() + losses()


def hidden(v: Values, rows: int, columns: int) -> np.ndarray:
    """Scores of which a mask made some negative infinity, and of one row all."""
    x = np.where(v.bits(rows, columns) != 0, v.plain(rows, columns), -np.inf)
    x[rows // 2] = -np.inf
    return x.astype(np.float32)


def softmaxes() -> list[OpCase]:
    found = []
    for rows, width in rows_and_widths():
        name = f"{rows}x{width}"
        found += [
            OpCase("softmax", name, lambda v, r=rows, w=width: [v.plain(r, w)]),
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
    for rows, width in ((3, 1), (3, 65), (5, 64), (3, 4099)):
        name, given = f"{rows}x{width}", lambda v, r=rows, w=width: [hidden(v, r, w)]
        kept = lambda v, r=rows, w=width: [hidden(v, r, w), v.bits(r, w)]  # noqa: E731
        found += [
            OpCase("softmax", f"masked-{name}", given, {"masked": True}, smooth=False),
            OpCase("softmax", f"masked-causal-{name}", given, {"masked": True, "causal": True}, smooth=False),
            OpCase("softmax", f"masked-keep-{name}", kept, {"masked": True}, smooth=False),
        ]
    for width in LONG_WIDTHS:
        found += [
            OpCase("softmax", f"long-{width}", lambda v, w=width: [v.plain(2, w)]),
            OpCase("softmax", f"long-keep-{width}", lambda v, w=width: [v.outliers(2, w), v.bits(2, w)]),
        ]
    masked = lambda v: [hidden(v, 3, 20_000), kept_in_parts(v, 3, 20_000)]  # noqa: E731
    return found + [
        # As many as are a workgroup each.
        OpCase("softmax", "long-and-many", lambda v: [v.plain(520, 12_289)], smooth=False),
        OpCase("softmax", "long-masked", masked, {"masked": True}, smooth=False),
        OpCase("softmax", "long-not-finite", lambda v: [v.not_finite(5, 13_001)]),
        OpCase("softmax", "long-minus-infinity", lambda v: [np.full((2, 13_000), -np.inf, np.float32)]),
        OpCase("softmax", "masked-half", lambda v: [hidden(v, 5, 64)], {"masked": True}, "float16", smooth=False),
        OpCase("softmax", "masked-not-finite", lambda v: [v.not_finite(5, 65)], {"masked": True}, smooth=False),
        OpCase("softmax", "outliers", lambda v: [v.outliers(5, 129)], function="softmax"),
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


def kept_in_parts(v: Values, rows: int, width: int) -> np.ndarray:
    """Ones and zeros: whole parts of rows are masked, and the last row."""
    keep = v.bits(rows, width)
    keep[0, : width // 2], keep[1, width // 2 :], keep[-1] = 0, 0, 0
    return keep


def probabilities(v: Values, rows: int, width: int) -> np.ndarray:
    powers = np.exp(v.plain(rows, width).astype(np.float64))
    return (powers / powers.sum(axis=-1, keepdims=True)).astype(v.dtype)


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
        OpCase("binary_cross_entropy", "edges", lambda v: list(edge), smooth=False),
        OpCase("binary_cross_entropy", "half", lambda v: [np.float16([0.25, 0.5, 0.75]), np.float16([0, 1, 0.5])]),
    ]


def loss_operands(v: Values, rows: int, width: int, weighted: bool) -> list[np.ndarray]:
    """Logits, targets of which every third is ignored, and weights of the classes."""
    targets = v.ids(width, rows)
    targets[2::3] = -1
    return [v.plain(rows, width), targets] + ([v.positive(width)] if weighted else [])
