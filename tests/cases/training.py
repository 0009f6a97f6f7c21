"""Steps of training in place, and rows of 8-bit integers."""

import numpy as np

from cases.table import OpCase, Values, shape_name


def moments(v: Values, *shape: int) -> list[np.ndarray]:
    """Parameter, mean and mean square, in float32 whatever the gradient is stored as."""
    return [value.astype(np.float32) for value in (v.plain(*shape), 0.1 * v.plain(*shape), v.positive(*shape))]


def rates(step: int) -> np.ndarray:
    return np.float32([1e-3, 1 - 0.9**step, 1 - 0.999**step])


def bytes_of(v: Values, *shape: int) -> np.ndarray:
    return v.rng.integers(-128, 128, shape).astype(np.int8)


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
        OpCase("adam", "half", lambda v: [*moments(v, 3, 8), v.plain(3, 8), rates(2)], dtype="float16"),
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
    for shape in ((0, 3), (1,), (3, 1), (2, 3, 5), (3, 255), (3, 257), (65, 64), (2, 1030)):
        found.append(OpCase("quantize_rows", shape_name(*shape), lambda v, s=shape: [v.plain(*s)]))
    found += [
        OpCase("quantize_rows", "zeros", lambda v: [np.zeros((2, 5), np.float32)]),
        OpCase("quantize_rows", "outliers", lambda v: [v.outliers(5, 129)]),
        OpCase("quantize_rows", "half", lambda v: [v.plain(3, 8)], dtype="float16"),
    ]
    for m, k, n in ((0, 3, 4), (1, 1, 1), (3, 7, 5), (33, 64, 31), (2, 1030, 3), (5, 4, 0)):
        found.append(
            OpCase(
                "integer_linear",
                shape_name(m, k, n),
                lambda v, m=m, k=k, n=n: [bytes_of(v, m, k), bytes_of(v, n, k)],
            )
        )
        found.append(
            OpCase(
                "dequantize_rows",
                shape_name(m, n),
                lambda v, m=m, n=n: [v.ids(99999, m, n) - np.int32(50000), v.positive(m), v.positive(n)],
            )
        )
    return found + [
        OpCase(
            "integer_linear", "least", lambda v: [np.full((2, 300), -128, np.int8), np.full((1, 300), -128, np.int8)]
        ),
        OpCase(
            "dequantize_rows",
            "half",
            lambda v: [v.ids(9, 3, 4), v.positive(3), v.positive(4)],
            dtype="float16",
        ),
    ]
