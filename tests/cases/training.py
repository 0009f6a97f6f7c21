"""Steps of training in place."""

from __future__ import annotations

import numpy as np

from cases.bounds import BOUNDS, TINY, U, bounded, exact
from cases.reference import Attributes, Operands, reference
from cases.table import OpCase, Values, shape_name


@reference
def adam(operands: Operands, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """The decays are those of float32. A factor of NaN changes nothing."""
    parameter, m, v, g, (rate, c1, c2), *factor = operands
    if np.isnan(factor).any():
        return parameter, m, v
    g = g * np.prod(factor)
    named = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "decay": 0.0, "coupled": 0.0} | attributes
    beta1, beta2, eps, decay, coupled = (np.float64(np.float32(number)) for number in named.values())
    g = g + coupled * parameter
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    return parameter - rate * (m / c1 / (np.sqrt(v / c2) + eps) + decay * parameter), m, v


@reference
def sgd(operands: Operands, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """The settings are those of float32. A factor of NaN changes nothing."""
    parameter, m, g, rate, *factor = operands
    if np.isnan(factor).any():
        return parameter, m
    named = {"momentum": 0.9, "decay": 0.0} | attributes
    momentum, decay = (np.float64(np.float32(number)) for number in named.values())
    m = momentum * m + g * np.prod(factor) + decay * parameter
    return parameter - rate * m, m


@reference
def clip_norm(operands: Operands, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """A norm that is not finite has a factor of NaN."""
    squares, most, *unscale = operands
    norm = np.sqrt(squares) * np.prod(unscale)
    factor = np.prod(unscale) / np.maximum(1.0, (norm + np.float64(np.float32(1e-6))) / most)
    return norm, np.where(np.isfinite(norm), factor, np.nan)


@reference
def set_rows(operands: Operands, attributes: Attributes) -> np.ndarray:
    table, x, index = operands
    table = table.copy()
    table[index] = x
    return table


@bounded
def adam_bound(operands: Operands, attributes: Attributes, y: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Two products and a sum each for the means; factors are powers of two, so exact. The change has two divisions, a
    root of a mean that is off itself, and three more roundings. Vulkan allows a division 2.5 units in the last place, a
    root a division and an inverse root.
    """
    parameter, m, v, g, (rate, c1, c2), *factor = operands
    if np.isnan(factor).any():
        return tuple(np.zeros_like(state) for state in y)
    g = g * np.prod(factor)
    named = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "decay": 0.0, "coupled": 0.0} | attributes
    # A sum and a product more, whose terms may cancel.
    given = np.abs(g) + 2 * named["coupled"] * np.abs(parameter)
    means = 4 * U * (named["beta1"] * np.abs(m) + (1 - named["beta1"]) * given) + TINY
    squares = 5 * U * y[2] + TINY
    if named["coupled"]:
        squares += 4 * U * (1 - named["beta2"]) * given**2
    divisor = np.sqrt(y[2] / c2) + named["eps"]
    # What is below the smallest normal number may be taken for zero.
    step = means / c1 / divisor + np.abs(y[1]) / c1 / divisor * (30 * U + TINY / np.maximum(y[2], TINY))
    change = rate * (step + 4 * U * named["decay"] * np.abs(parameter))
    return 2 * U * (np.abs(parameter) + np.abs(y[0])) + change + TINY, means, squares


@bounded
def sgd_bound(operands: Operands, attributes: Attributes, y: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Three products and two sums, and for the parameter a product and a sum more."""
    parameter, m, g, rate, *factor = operands
    if np.isnan(factor).any():
        return tuple(np.zeros_like(state) for state in y)
    named = {"momentum": 0.9, "decay": 0.0} | attributes
    terms = named["momentum"] * np.abs(m) + np.abs(g * np.prod(factor)) + named["decay"] * np.abs(parameter)
    sums = 4 * U * terms + TINY
    return 2 * U * (np.abs(parameter) + np.abs(y[0])) + rate * (sums + 2 * U * np.abs(y[1])) + TINY, sums


@bounded
def clip_norm_bound(operands: Operands, attributes: Attributes, y: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """A root, for which Vulkan allows a division and an inverse root, then a sum and two divisions."""
    return 8 * U * y[0] + TINY, 20 * U * np.abs(y[1]) + TINY


BOUNDS.update(set_rows=exact)


def moments(v: Values, *shape: int) -> list[np.ndarray]:
    """Parameter, mean and mean square, in float32 whatever the gradient is stored as."""
    return [value.astype(np.float32) for value in (v.plain(*shape), 0.1 * v.plain(*shape), v.positive(*shape))]


def rates(step: int) -> np.ndarray:
    return np.float32([1e-3, 1 - 0.9**step, 1 - 0.999**step])


def cases() -> list[OpCase]:
    found = []
    for shape in ((0,), (1,), (3, 5), (33, 65), (2, 3, 343)):
        found.append(OpCase("adam", shape_name(*shape), lambda v, s=shape: [*moments(v, *s), v.plain(*s), rates(1)]))
    found += [
        OpCase("adam", "decay", lambda v: [*moments(v, 4099), v.plain(4099), rates(1000)], {"decay": 0.1}),
        OpCase(
            "adam",
            "settings",
            lambda v: [*moments(v, 7, 9), v.outliers(7, 9), rates(3)],
            {"beta1": 0.5, "beta2": 0.75, "eps": 1e-3},
        ),
        OpCase("adam", "first", lambda v: [v.plain(65), *np.zeros((2, 65), np.float32), v.plain(65), rates(1)]),
        OpCase("adam", "factor", lambda v: [*moments(v, 65), v.plain(65), rates(3), np.float32(0.5)]),
        OpCase("adam", "nothing", lambda v: [*moments(v, 65), v.not_finite(65), rates(3), np.float32(np.nan)]),
        OpCase("adam", "coupled", lambda v: [*moments(v, 65), v.plain(65), rates(3)], {"coupled": 0.25}),
        OpCase("adam", "half", lambda v: [*moments(v, 3, 8), v.plain(3, 8), rates(2)], dtype="float16"),
    ]
    for shape in ((0,), (33, 65)):
        found.append(
            OpCase("sgd", shape_name(*shape), lambda v, s=shape: [*moments(v, *s)[:2], v.plain(*s), np.float32(0.01)])
        )
    found += [
        OpCase(
            "sgd",
            "plain",
            lambda v: [v.plain(7), np.zeros(7, np.float32), v.plain(7), np.float32(0.1)],
            {"momentum": 0.0},
        ),
        OpCase(
            "sgd",
            "factor",
            lambda v: [*moments(v, 65)[:2], v.plain(65), np.float32(0.1), np.float32(0.5)],
            {"momentum": 0.75, "decay": 0.1},
        ),
        OpCase(
            "sgd", "nothing", lambda v: [*moments(v, 65)[:2], v.not_finite(65), np.float32(0.1), np.float32(np.nan)]
        ),
        OpCase("sgd", "half", lambda v: [*moments(v, 3, 8)[:2], v.plain(3, 8), np.float32(0.1)], dtype="float16"),
    ]
    infinite = np.float32(np.inf)
    for shape in ((0,), (1,), (33, 65)):
        found.append(OpCase("clip_norm", shape_name(*shape), lambda v, s=shape: [v.positive(*s), np.float32(0.7)]))
    found += [
        OpCase("clip_norm", "none", lambda v: [v.positive(65), infinite]),
        OpCase("clip_norm", "unscale", lambda v: [65536 * v.positive(65), np.float32(2), np.float32(2**-7)]),
        OpCase("clip_norm", "not-finite", lambda v: [np.float32([0, np.inf, np.nan, 1e38]), np.float32(1)]),
        OpCase("clip_norm", "half", lambda v: [v.positive(8), np.float32(0.5)], dtype="float16"),
    ]
    for rows, places, width in ((0, 3, 4), (1, 1, 1), (5, 33, 31), (33, 65, 64), (3, 3, 1025), (2, 4, 0)):
        found.append(
            OpCase(
                "set_rows",
                f"{rows}-{places}x{width}",
                lambda v, r=rows, p=places, w=width: [
                    v.plain(p, w), v.plain(r, w), v.rng.permutation(p)[:r].astype(np.int32)
                ],
            )
        )  # fmt: skip
    found += [
        OpCase("set_rows", "not-finite", lambda v: [v.not_finite(4, 33), v.not_finite(2, 33), np.int32([3, 0])]),
        OpCase(
            "set_rows",
            "half",
            lambda v: [v.plain(4, 8).astype(np.float32), v.plain(2, 8), np.int32([1, 2])],
            dtype="float16",
        ),
    ]
    return found
