"""Arithmetic, dropout and conversion."""

from __future__ import annotations

import numpy as np

from cases.bounds import BOUNDS, TINY, U, bounded, exact
from cases.reference import Attributes, Operands, reference
from cases.table import HALF_WIDTHS, OpCase, Values, rows_and_widths, shape_name


@reference
def binary(operands: Operands, attributes: Attributes) -> np.ndarray:
    a, b = operands
    functions = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide}
    return np.asarray(functions[attributes["kind"]](a, b))


def philox(seed: int, blocks: np.ndarray, *upper: np.ndarray | int) -> np.ndarray:
    """Philox4x32-10 (Salmon et al., 2011) with counter `(block, *upper)` and key `seed`: `[*blocks, 4]` words."""
    mask = np.uint64(0xFFFFFFFF)
    counter = [blocks.astype(np.uint64) & mask, blocks.astype(np.uint64) >> np.uint64(32)]
    counter += [np.broadcast_to(np.asarray(word, np.uint64), blocks.shape) for word in upper or (0, 0)]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        product0, product1 = np.uint64(0xD2511F53) * counter[0], np.uint64(0xCD9E8D57) * counter[2]
        counter = [
            (product1 >> np.uint64(32)) ^ counter[1] ^ np.uint64(key[0]),
            product1 & mask,
            (product0 >> np.uint64(32)) ^ counter[3] ^ np.uint64(key[1]),
            product0 & mask,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(counter, axis=-1)


@reference
def dropout(operands: Operands, attributes: Attributes) -> np.ndarray:
    x, p = operands[0], attributes["p"]
    seed, offset = attributes["seed"], attributes.get("offset", 0)
    if len(operands) > 1:
        seed, offset = operands[1].astype("<u4").view("<u8").tolist()
    blocks = np.arange((x.size + 3) // 4, dtype=np.uint64) + np.uint64(offset)
    words = philox(seed, blocks, attributes.get("stream", 0), 0).reshape(-1)[: x.size].reshape(x.shape)
    keep = (words >> np.uint64(8)).astype(np.float64) * 2.0**-24 >= np.float32(p)
    return np.where(keep, x / (1 - p) if p < 1 else x, 0.0)


@reference
def cast(operands: Operands, attributes: Attributes) -> np.ndarray:
    return operands[0].astype(attributes["to"]).astype(np.float64)


@bounded
def binary_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """Correctly rounded; Vulkan allows a division 2.5 units."""
    return (6 if attributes["kind"] == "divide" else 1) * U * np.abs(y) + TINY


@bounded
def dropout_bound(operands: Operands, attributes: Attributes, y: np.ndarray) -> np.ndarray:
    """1 - p is rounded, then a division."""
    p = attributes["p"]
    return (8 + 2 / max(1 - p, U)) * U * np.abs(y) + TINY


BOUNDS["cast"] = exact


def cases() -> list[OpCase]:
    return arithmetic() + others()


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
    for shape, dtype in (((0,), "float32"), ((5,), "float32"), ((3, 65), "float32"), ((3, 1000), "float16")):
        found.append(
            OpCase(
                "dropout",
                f"keyed-{shape_name(*shape)}",
                lambda v, s=shape: [v.plain(*s), np.uint64([2**63 + 12345, 2**64 - 1]).view(np.uint32)],
                {"p": 0.3, "seed": 0, "stream": shape[0]},
                dtype,
            )
        )
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
        OpCase("cast", "same", lambda v: [v.plain(3, 5)], {"to": "float32"}, smooth=False),
    ]
    found += [
        OpCase("cast", f"{r}x{w}", lambda v, r=r, w=w: [v.plain(r, w)], {"to": "float16"}, smooth=False)
        for r, w in rows_and_widths()
    ]
    # Numbers around which differences are exact.
    few = lambda v: [(v.ids(400, 33) * 2.0**-20).astype(np.float32)]  # noqa: E731
    return found + [OpCase("cast", f"few-to-{to}", few, {"to": to}) for to in ("float16", "float32")]
