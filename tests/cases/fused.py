"""Fused operations, written out, not by their definitions in the package.

A bound carries what each step may be off by through those after it.
"""

from __future__ import annotations

import numpy as np

from cases.activations import of_activation
from cases.attention_parts import circle, rope
from cases.bounds import TINY, U, bounded
from cases.elementwise import dropout, dropout_bound
from cases.functions import activate
from cases.reference import Attributes, Operands, reference
from cases.rows import layer_norm_bound, rms_norm_bound
from cases.softmaxes import softmax, softmax_bound
from cases.table import OpCase, Values, rows_and_widths, shape_name


def normed(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, attributes: Attributes) -> np.ndarray:
    columns = max(x.shape[-1], 1)
    centred = x - x.sum(axis=-1, keepdims=True) / columns
    deviation = np.sqrt(np.square(centred).sum(axis=-1, keepdims=True) / columns + attributes.get("eps", 1e-5))
    return centred / deviation * weight + bias


@reference
def residual_layer_norm(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, residual, weight, bias = operands
    return normed(x + residual, weight, bias, attributes)


@reference
def residual_rms_norm(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, residual, weight = operands
    total = x + residual
    return total / np.sqrt(np.square(total).mean(axis=-1, keepdims=True) + attributes.get("eps", 1e-6)) * weight


@reference
def rms_norm_rope(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, weight, cos, sin = operands
    axes = (-2, -1) if len(weight) != x.shape[-1] else (-1,)
    mean = np.square(x).mean(axis=axes, keepdims=True)
    heads = weight.reshape(-1, x.shape[-1])
    return rope([x / np.sqrt(mean + attributes.get("eps", 1e-6)) * heads, cos, sin], {})


@reference
def bias_gelu(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, bias = operands
    return activate(x + bias, gelu_kind(attributes))


def gelu_kind(attributes: Attributes) -> str:
    return "gelu_erf" if attributes.get("approximate", "tanh") == "none" else "gelu_tanh"


@reference
def softmax_dropout(operands: Operands, attributes: Attributes) -> np.ndarray:
    weights = softmax(operands, {"causal": attributes.get("causal", False)})
    return dropout([weights], {key: value for key, value in attributes.items() if key != "causal"})


@bounded
def residual_layer_norm_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """The norm of a sum, each element of which is off by half a unit of its own."""
    total, (weight, bias) = operands[0] + operands[1], operands[2:]
    n = max(total.shape[-1], 1)
    centred = np.abs(total - total.sum(axis=-1, keepdims=True) / n)
    deviation = np.sqrt(np.square(centred).sum(axis=-1, keepdims=True) / n + attributes.get("eps", 1e-5))
    # The element, the mean and the deviation move by at most half a unit of the largest element.
    moved = U * np.abs(total).max(axis=-1, keepdims=True, initial=0) / deviation
    of_norm = layer_norm_bound([total, weight, bias], attributes, y)
    return of_norm + moved * (2 + centred / deviation) * np.abs(weight)


@bounded
def residual_rms_norm_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """As above; here the element and the root of the squares' mean move by half a unit of their own."""
    return rms_norm_bound([operands[0] + operands[1], operands[2]], attributes, y) + 2 * U * np.abs(y)


@bounded
def rms_norm_rope_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """Both elements of a pair are off as the norm is, and the turn by two roundings of each product."""
    x, weight, cos, sin = operands
    whole = x.reshape(-1, len(weight))
    eps = attributes.get("eps", 1e-6)
    mean = np.square(whole).sum(axis=-1, keepdims=True) / max(whole.shape[-1], 1)
    normal = whole / np.sqrt(mean + eps) * weight
    off = (rms_norm_bound([whole, weight], attributes, normal) + 4 * U * np.abs(normal)).reshape(x.shape)
    cos, sin = np.abs(cos)[..., None, :], np.abs(sin)[..., None, :]
    first, second = np.split(off, 2, axis=-1)
    return np.concatenate([first * cos + second * sin, second * cos + first * sin], axis=-1) + TINY


@bounded
def bias_gelu_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """GELU's slope is at most 1.13 in magnitude."""
    kind, total = gelu_kind(attributes), operands[0] + operands[1]
    size = np.where(np.isfinite(total), np.abs(total), 0)
    return of_activation(total, activate(total, kind), kind) + 1.13 * U * size


@bounded
def softmax_dropout_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """What is kept is off as the weight is, divided by 1 - p, and as the division is."""
    kept = max(1 - attributes["p"], U)
    return softmax_bound(operands, attributes, y * kept) / kept + dropout_bound(operands, attributes, y)


#: Texts, places, heads and columns of a head: around groups of four columns, and rows that no registers hold.
HEADS = ((1, 1, 1, 2), (2, 5, 3, 4), (1, 33, 2, 64), (2, 65, 1, 66), (1, 7, 12, 32), (2, 3, 16, 24), (1, 2, 65, 128))


def cases() -> list[OpCase]:
    return residuals() + biases() + softmaxes() + rotary()


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
